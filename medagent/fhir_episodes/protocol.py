"""Reads a protocol file: the prompt, the replies, and the details of requests that differ between protocols.

The texts are templates with named fields, filled in one pass, so that a field's name inside a body is not replaced.
`text.toml`, `tools.toml` and `http.toml` are in this package; an imported data set may bring its own.
"""

from __future__ import annotations

import hashlib
import json
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, ValidationError

from medagent.agents.skills import Skill, skill_files
from medagent.core.errors import UserError
from medagent.fhir_episodes.terminology import terminology_functions
from medagent.models.wording import fill
from medagent.sandbox.base import FILES
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
    """A tool of a protocol whose tools are not its FHIR functions."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    description: str
    parameters: dict[str, Any]
    method: Literal["GET", "POST", "CALCULATE"]
    """The action of a call: a search, a creation, or arithmetic (the parameter `expression`)."""
    resource_type: str = ""
    fixed: dict[str, str] = {}
    """Parameters of the search, or fields of the resource, that every call contains by default."""


class Protocol(BaseModel):
    """A protocol file. The docstrings list in braces the fields that a template may contain."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    kind: Literal["text", "tools", "http", "code"]
    """The source of actions: a message's text, tool calls, the agent's own HTTP requests, or the requests of programs.
    """
    format_parameter: Literal["parameter", "append"] = "parameter"
    """How `_format=json` is added to a GET's URL if the loop is not the published one: as a parameter, or appended as
    `&_format=json` even if the URL is without a query.
    """
    system: str = ""
    """The system prompt of a model, if it gets one."""
    prompt: str
    """The first message: {api_base}, {functions}, {context}, {question}; over HTTP {token}."""
    get_reply: str
    """After a successful GET: {body}."""
    get_error: str
    """After a failed GET: {error}."""
    http_error: str
    """The {error} for an HTTP status if the loop is not the published one: {status}, {kind} (Client or Server),
    {reason}, {url}, {diagnostics}.
    """
    post_accepted: str
    """After an accepted POST: {id}."""
    post_invalid: str
    """After a refused POST; the reason follows if the protocol shows it."""
    tool_error: str = "{error}"
    """Tools only, after a refused call: {error}."""
    no_program: str = ""
    """Code only, after a message without a program."""
    functions: tuple[FhirFunction, ...] = ()
    functions_text: str = ""
    """The function list in the prompt; default: `json.dumps` of the list."""
    tools: tuple[ProtocolTool, ...] = ()
    """The protocol's tools; if empty, each function is a tool."""
    finish: str = "answers"
    """Tools only: the parameter of `finish`."""
    terminology: bool = False
    """Tools only: whether agents get the tool for value sets and code systems."""
    write_done: str = ""
    """After a write that only episodes with all writes carry out: {method}, {status}, {body}. Empty: there is none."""
    write_refused: str = ""
    """After a refused write of this kind: {method}, {error}."""
    skills: tuple[Skill, ...] = ()
    """The skills of the run. The system prompt contains their instructions."""

    @property
    def digest(self) -> str:
        """SHA-256 of all texts that the agent can read."""
        # The digest of a protocol without these texts is the same as before they were introduced.
        later = ("system", "no_program", "tools", "finish", "terminology", "write_done", "write_refused", "skills")
        left_out = {name for name in later if getattr(self, name) == Protocol.model_fields[name].default}
        read = self.model_dump_json(exclude=left_out)
        return hashlib.sha256(read.encode()).hexdigest()

    @property
    def tools_digest(self) -> str | None:
        """SHA-256 of the protocol's own tools; None if there is none."""
        if not self.tools:
            return None
        listed = [tool.model_dump() for tool in self.tools]
        return hashlib.sha256(json.dumps(listed, sort_keys=True).encode()).hexdigest()

    def with_writes(self) -> Protocol:
        """A copy for episodes that carry out all writes: the prompt lists them before the task."""
        words = tomllib.loads((_HERE / "writes.toml").read_text(encoding="utf-8"))
        more = words.pop("more")[self.kind].strip("\n")
        return self.model_copy(update={**words, "prompt": _before_task(self.prompt, more)})

    def with_terminology(self) -> Protocol:
        """A copy for episodes whose agents look up value sets and codes: with a tool, or as further functions."""
        if self.kind == "tools":
            return self.model_copy(update={"terminology": True})
        further = terminology_functions()
        functions = (*self.functions, *map(FhirFunction.model_validate, further))
        text = json.dumps([*json.loads(self.functions_text or "[]"), *further])
        return self.model_copy(update={"functions": functions, "functions_text": text})

    def worded(self, *, prompt: Path | None, system: Path | None) -> Protocol:
        """A copy with the user's prompt and system prompt, from text files.

        Raises UserError if a file is empty or cannot be read, or if the prompt lacks the question.
        """
        texts = {name: _text(path) for name, path in (("prompt", prompt), ("system", system)) if path is not None}
        if prompt is not None and "{question}" not in texts["prompt"]:
            raise UserError(
                f"{prompt}: lacks {{question}}, so agents would not see the task; fields: {{question}}, {{context}}, "
                "{api_base}, {functions}"
            )
        return self.model_copy(update=texts)

    def with_skills(self, skills: tuple[Skill, ...]) -> Protocol:
        """A copy with the instructions of skills after the system prompt, and a way to read their further files."""
        if not skills:
            return self
        words = [
            *([self.system] if self.system else []),
            *(f"# Skill {skill.name}\n\n{skill.body}" for skill in skills),
        ]
        files = skill_files(skills)
        if files:
            words.append({"code": _in_folder, "tools": _by_tool}.get(self.kind, _appended)(files))
        return self.model_copy(update={"system": "\n\n".join(words), "skills": skills})

    def first_message(self, api_base: str, context: str, question: str, token: str = "") -> str:
        """The prompt of one task; `token` is the FHIR base's if the agent uses its own HTTP client."""
        return fill(
            self.prompt,
            api_base=api_base,
            functions=self.functions_text,
            context=context,
            question=question,
            token=token,
        )


APPENDED = 20_000
"""The most characters of skills' further files that the system prompt contains if an agent acts by text."""


def _by_tool(files: Mapping[str, str]) -> str:
    return f"read_skill_file(path) shows a further file of the skills: {', '.join(files)}."


def _in_folder(files: Mapping[str, str]) -> str:
    return f"The read-only folder {FILES} contains further files of the skills: {', '.join(files)}."


def _appended(files: Mapping[str, str]) -> str:
    """The files, as many as fit, and the names of the others."""
    room, shown, left = APPENDED, list[str](), list[str]()
    for path, text in files.items():
        if len(text) > room:
            left.append(path)
            continue
        room -= len(text)
        shown.append(f"## File {path}\n\n{text.strip()}")
    if left:
        shown.append(f"These files of the skills are too long to be shown: {', '.join(left)}.")
    return "\n\n".join(shown)


def _before_task(prompt: str, paragraph: str) -> str:
    """A prompt with a paragraph before the first line of the task: its context, or the question."""
    lines = prompt.split("\n")
    place = next(number for number, line in enumerate(lines) if "{context}" in line or "{question}" in line)
    return "\n".join([*lines[:place], paragraph, "", *lines[place:]])


def _text(path: Path) -> str:
    text = read_text(path, error=UserError)
    if not text.strip():
        raise UserError(f"{path}: is empty")
    return text


def load_protocol(
    name: str, *, file: Path | None = None, functions: Path | None = None, tools: Path | None = None
) -> Protocol:
    """The protocol `text`, `tools` or `http`, or the one in `file`, with its function list, and with its own tools (a
    JSON list of `ProtocolTool`).

    Raises UserError with the file and place of the error.
    """
    path = file or _HERE / f"{name}.toml"
    source = functions or _HERE / "functions.json"
    try:
        fields: dict[str, Any] = tomllib.loads(path.read_text(encoding="utf-8"))
        listed = json.loads(source.read_text(encoding="utf-8"))
        stated_tools = json.loads(tools.read_text(encoding="utf-8")) if tools else []
        return Protocol.model_validate(
            {**fields, "functions": listed, "functions_text": json.dumps(listed), "tools": stated_tools}
        )
    except OSError as error:
        raise UserError(f"{error.filename}: cannot be read: {error.strerror}") from None
    except ValidationError as error:
        first = error.errors(include_url=False)[0]
        raise UserError(f"{path}: {'.'.join(map(str, first['loc']))}: {fault_text(first)}") from None
    except ValueError as error:
        raise UserError(f"{path} or {source}: {error}") from None
