"""Reads a protocol file: the prompt, the replies and the few facts of wire behaviour that differ between wordings.

The texts are templates with named fields, filled in one pass, so that a body which happens to contain a field's name
is left alone. `text.toml`, `tools.toml` and `http.toml` lie beside this module; an imported data set may bring its own.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from medagent.core.errors import UserError
from medagent.models.wording import fill
from refsol.files import read_text
from refsol.schema import fault_text

_HERE = Path(__file__).parent / "prompts"


class FhirFunction(BaseModel):
    """One FHIR function shown to the agent; `name` is `GET {api_base}/Type` or `POST {api_base}/Type`."""

    model_config = ConfigDict(frozen=True)

    name: str
    description: str
    parameters: dict[str, Any]

    @property
    def method(self) -> str:
        """`GET` or `POST`."""
        return self.name.partition(" ")[0]

    @property
    def resource_type(self) -> str:
        """The FHIR resource type the function reads or creates."""
        return self.name.rpartition("/")[2]


class ProtocolTool(BaseModel):
    """A tool of a protocol that does not offer one tool a FHIR function."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    parameters: dict[str, Any]
    method: Literal["GET", "POST", "CALCULATE"]
    """What a call of it is: a search, a creation, or arithmetic (the parameter `expression`)."""
    resource_type: str = ""
    fixed: dict[str, str] = {}
    """Parameters of the search, or fields of the resource, that every call has unless it states others."""


class Protocol(BaseModel):
    """A protocol file. Fields in braces are what the template may hold."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["text", "tools", "http", "code"]
    """How an action is read: from the message's text, from tool calls, from the agent's own HTTP requests, or from the
    requests of programs.
    """
    format_parameter: Literal["parameter", "append"] = "parameter"
    """How `_format=json` gets into a GET's URL where the loop is not the published one: as a parameter, or appended as
    `&_format=json` whatever is there.
    """
    system: str = ""
    """A system prompt, where a model gets one."""
    prompt: str
    """The first message: {api_base}, {functions}, {context}, {question}; over HTTP {token}."""
    get_reply: str
    """After a GET that worked: {body}."""
    get_error: str
    """After a GET that did not: {error}."""
    http_error: str
    """The {error} of an HTTP status where the loop is not the published one: {status}, {kind} (Client or Server),
    {reason}, {url}, {diagnostics}.
    """
    post_accepted: str
    """After a POST that was accepted: {id}."""
    post_invalid: str
    """After a POST that was not; the reason follows where it is told."""
    tool_error: str = "{error}"
    """Tools only, after a call that cannot be carried out: {error}."""
    no_program: str = ""
    """Code only, after a message without a program."""
    functions: tuple[FhirFunction, ...] = ()
    functions_text: str = ""
    """The function list as the prompt shows it; by default `json.dumps` of the list."""
    tools: tuple[ProtocolTool, ...] = ()
    """Tools of its own; without them each function is a tool."""
    finish: str = "answers"
    """Tools only: the parameter of `finish`."""

    @property
    def digest(self) -> str:
        """SHA-256 over everything the agent can read of it."""
        # A protocol without these texts has the digest that it had before there could be any.
        later = ("system", "no_program", "tools", "finish")
        read = self.model_dump_json(
            exclude={name for name in later if getattr(self, name) == Protocol.model_fields[name].default}
        )
        return hashlib.sha256(read.encode()).hexdigest()

    @property
    def tools_digest(self) -> str | None:
        """SHA-256 of its own tools; None if it has none."""
        if not self.tools:
            return None
        listed = [tool.model_dump() for tool in self.tools]
        return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()

    def worded(self, *, prompt: Path | None, system: Path | None) -> Protocol:
        """With a user's own prompt and system prompt, from text files.

        Raises UserError for one that is empty or cannot be read, and for a prompt without the question.
        """
        own = {name: _text(path) for name, path in (("prompt", prompt), ("system", system)) if path is not None}
        if prompt is not None and "{question}" not in own["prompt"]:
            raise UserError(
                f"{prompt}: has no {{question}}, so no agent would know its task; fields: {{question}}, {{context}}, "
                "{api_base}, {functions}"
            )
        return self.model_copy(update=own)

    def first_message(self, api_base: str, context: str, question: str, token: str = "") -> str:
        """The prompt of one task; `token` is that of a FHIR base that the agent asks itself."""
        return fill(
            self.prompt,
            api_base=api_base,
            functions=self.functions_text,
            context=context,
            question=question,
            token=token,
        )


def _text(path: Path) -> str:
    text = read_text(path, error=UserError)
    if not text.strip():
        raise UserError(f"{path}: is empty")
    return text


def load_protocol(
    name: str, *, file: Path | None = None, functions: Path | None = None, tools: Path | None = None
) -> Protocol:
    """The protocol `text`, `tools` or `http`, or the one in `file`, with its function list, and with tools of its own
    (a JSON list of `ProtocolTool`).

    Raises UserError naming file and place of what is wrong.
    """
    path = file or _HERE / f"{name}.toml"
    source = functions or _HERE / "functions.json"
    try:
        fields: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        listed = json.loads(source.read_text(encoding="utf-8"))
        own = json.loads(tools.read_text(encoding="utf-8")) if tools else []
        return Protocol.model_validate(
            {**fields, "functions": listed, "functions_text": json.dumps(listed), "tools": own}
        )
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {fault_text(first)}") from None
    except ValueError as error:
        raise UserError(f"{path} or {source}: {error}") from None
