"""The options of every benchmark with a FHIR session: the patients' data, and how agents act."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, ClassVar, Literal, Self

from pydantic import Field, model_validator

from medagent.core.errors import UserError
from medagent.core.fhir_token import server_headers
from medagent.core.options import ALL_USES, Option, RunOption, Setting, options
from medagent.core.wire import without_password
from medagent.engine.settings import WHO, Count, Positive, RunSettings
from medagent.fhir_data.record import PAGE_SIZE, Order, Pages
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.session import MAX_ROUNDS, CarriedOut, Loop, SessionRules
from medagent.models.settings import ModelSettings
from medagent.sandbox.base import Limits, SandboxName

Writes = Literal["ack", "execute", "private"]
PAGE_MAX = 5000
RECORD = "The record"
CODE = "Agents that act in code"


class FhirSettings(RunSettings):
    """The options of a run, and of an episode."""

    ways: ClassVar[Mapping[str, str]] = {
        "acts_in_code": "--protocol code",
        "acts_by_text": "--protocol text: the published runner supports no other",
        "private": "--writes private",
        "acts_alone": "a model that acts by itself: --model NAME, without --agent",
    }
    """How a user sets a property that an option needs."""

    sandbox: Annotated[SandboxName, RunOption(CODE, kind="value", needs="acts_in_code")] = "auto"
    """The sandbox for programs: bwrap, monty, docker, or auto (the first of these that works)."""
    sandbox_image: Annotated[
        str | None, RunOption(CODE, metavar="NAME@sha256:…", kind="value", needs="acts_in_code")
    ] = None
    """With --sandbox docker: the image, which must contain python3 and is not pulled."""
    code_seconds: Annotated[Positive, RunOption(CODE, kind="value", needs="acts_in_code", part="code seconds")] = (
        Limits().seconds
    )
    """The most seconds per program, without the time spent waiting for replies."""
    code_memory: Annotated[
        int, RunOption(CODE, kind="value", needs="acts_in_code", part="code memory"), Field(ge=64)
    ] = Limits().memory
    """The most megabytes that programs may use."""
    code_requests: Annotated[Count, RunOption(CODE, kind="value", needs="acts_in_code", part="code requests")] = (
        Limits().requests
    )
    """The most requests by the programs of an episode; each page of a search is one."""
    code_output: Annotated[Count, RunOption(CODE, kind="value", needs="acts_in_code", part="code output")] = (
        Limits().output
    )
    """The most characters of a program's output shown to the agent."""
    code_tool: Annotated[bool, RunOption(CODE, kind="value", needs="acts_in_code")] = False
    """Offer the model one tool, python(code), instead of reading fenced blocks of its messages."""
    code_packages: Annotated[Path | None, RunOption(CODE, metavar="DIR", kind="path", needs="acts_in_code")] = None
    """A folder of packages that programs may import (default: only the standard library)."""

    ehr: Annotated[
        Path | None,
        Option(RECORD, "place", kind="path", for_=ALL_USES, without="fhir"),
    ] = None
    """FHIR data for the embedded server instead of the bundled hospital: NDJSON, or a file from medagent ehr import."""
    page_size: Annotated[int, Option(RECORD, kind="value", without="fhir", metavar="N"), Field(ge=1, le=PAGE_MAX)] = (
        PAGE_SIZE
    )
    """The size of a page of the embedded server, for requests without _count."""
    order: Annotated[Order, Option(RECORD, kind="value", without="fhir", metavar="NAME")] = "stored"
    """The order of unsorted results of the embedded server: stored, or shuffled (the same for both twins)."""
    fhir: Annotated[str | None, Option(RECORD, kind="address", for_=ALL_USES)] = None
    """The base URL of a FHIR server to use instead of the embedded one."""
    api_base: Annotated[
        str,
        Option(RECORD, kind="value", flag="shown-base", key="api-base"),
        Field(pattern=r"^https?://[^/]+/"),
    ] = API_BASE
    """The FHIR base shown to the agent."""

    protocol: Annotated[Literal["text", "tools", "code"], Option(WHO, kind="value", metavar="NAME")] = "text"
    """With --model: text (as published), tools (tool calling), or code (Python programs, run in a sandbox)."""
    loop: Annotated[Loop | None, Option(WHO, kind="value", for_=("run", "episode"), needs="acts_by_text")] = None
    """With --protocol text, how to reply to invalid actions: published (default), the published runner's texts, or
    lenient, with a hint how to correct the action; the third message in a row without one ends the episode.
    """
    max_rounds: Annotated[Count, Option(WHO, kind="value", for_=("run", "episode"))] = MAX_ROUNDS
    """The most messages that an agent may send; with --protocol code, programs."""
    writes: Annotated[Writes, Option(RECORD, kind="value", for_=("run", "episode"), metavar="HOW")] = "ack"
    """How to answer writes: ack (acknowledge a POST), execute, or private (execute, in this process only)."""
    allow_writes: Annotated[
        list[str], Option(RECORD, "place", kind="address", for_=("run", "episode"), needs="fhir", metavar="HOST")
    ] = Field(default_factory=list)
    """With --writes execute, a host of --fhir on which agents may carry out all writes; repeatable."""
    send_patient_data: Annotated[
        list[str], Option(RECORD, "place", kind="address", for_=("run", "episode"), needs="private", metavar="HOST")
    ] = Field(default_factory=list)
    """With --writes private, a host beyond this machine that may get patient data; repeatable."""
    prompt: Annotated[Path | None, RunOption(WHO, "place", metavar="FILE", kind="path")] = None
    """Your own first message: a text with {question} and, optionally, {context}, {api_base} and {functions}."""
    system: Annotated[Path | None, RunOption(WHO, "place", metavar="FILE", kind="path", needs="acts_alone")] = None
    """With --model: your own system prompt, sent before the first message."""
    skill: Annotated[list[Path], RunOption(WHO, "place", metavar="DIR", kind="path")] = Field(default_factory=list)
    """A folder with a skill for the agent (SKILL.md, as on agentskills.io); repeatable."""
    trial_seed: Annotated[int | None, RunOption(WHO, metavar="N", kind="value", needs="model")] = None
    """The sampling seed of the first trial, N + 1 of the second, and so on (default: none, then 2, 3 …)."""
    cache: Annotated[Path | None, RunOption(WHO, metavar="DIR", kind="path", needs="model")] = None
    """Reuse a model's reply to the same request from this folder, and store new replies there. Runs may share it."""
    fhir_header: Annotated[list[str], RunOption(RECORD, "effort", kind="secret", needs="fhir")] = Field(
        default_factory=list
    )
    """'Name: value', a header for the server of --fhir. For a bearer token, set MEDAGENT_FHIR_TOKEN."""
    insecure_http: Annotated[
        bool, Option(RECORD, "effort", kind="address", for_=("run", "episode", "grade"), needs="fhir")
    ] = False
    """Send a token over plain HTTP to another machine, where it can be read on the way."""
    ca_file: Annotated[Path | None, RunOption(RECORD, "place", kind="path", needs="fhir")] = None
    """Certificates to trust for the server of --fhir."""

    @model_validator(mode="after")
    def _private_writes_need_a_server(self) -> Self:
        if self.private and self.fhir is None:
            raise UserError("--writes private needs --fhir URL; without a server, use --writes execute")
        return self

    @property
    def prompt_file(self) -> Path | None:
        """The file of the user's own first message."""
        return self.prompt

    @property
    def pages(self) -> Pages:
        """How the embedded server pages results."""
        return Pages(self.page_size, self.order)

    @property
    def private(self) -> bool:
        """Whether writes stay in a private layer over a hospital's own server."""
        return self.writes == "private"

    @property
    def acts_in_code(self) -> bool:
        """Whether the agent acts in code."""
        return self.protocol == "code"

    @property
    def acts_by_text(self) -> bool:
        """Whether the agent acts by the text protocol."""
        return self.protocol == "text"

    @property
    def acts_alone(self) -> bool:
        """Whether a model acts without an agent."""
        return self.model is not None and self.agent in (None, "text")

    @property
    def code_limits(self) -> Limits:
        """The limits of programs."""
        return Limits(self.code_seconds, self.code_memory, self.code_output, self.code_requests)

    @property
    def loop_in_effect(self) -> Loop | None:
        """The loop of the text protocol; None for other protocols."""
        return self.loop or "published" if self.acts_by_text else None

    @property
    def carried_out(self) -> CarriedOut:
        """Which writes an episode carries out. On a server of others, all of them only if its host is named."""
        if self.writes == "ack":
            return "ack"
        foreign = self.writes == "execute" and self.fhir is not None and not self.allow_writes
        return "creates" if foreign else "execute"

    @property
    def session_rules(self) -> SessionRules:
        """The rules of every episode."""
        return SessionRules(
            self.api_base,
            self.max_rounds,
            self.carried_out,
            self.strip_thinking,
            loop=self.loop_in_effect or "published",
            hints=self.loop == "lenient",
        )

    @property
    def chat(self) -> ModelSettings | None:
        chat = super().chat
        return chat and chat.model_copy(update={"cache": self.cache})

    def seed(self, trial: int) -> int | None:
        """The sampling seed of a trial."""
        if self.trial_seed is not None:
            return self.trial_seed + trial - 1
        return None if trial == 1 else trial

    @property
    def fhir_headers(self) -> dict[str, str]:
        """The headers for the external server, including the token from the environment. Raises UserError."""
        return server_headers(self.fhir or "", self.fhir_header, self.insecure_http)

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`; for an external FHIR server, only its address is known."""
        decides = super().decides()
        if self.acts_alone:
            decides["agent"] = None
        elif self.protocol not in ("tools", "code"):
            decides["protocol"] = None
        return {
            **decides,
            "loop": self.loop_in_effect,
            **({"all-writes": True} if self.carried_out == "execute" else {}),
            "fhir": without_password(self.fhir) if self.fhir else None,
            "page-size": None if self.page_size == PAGE_SIZE else self.page_size,
            "order": None if self.order == "stored" else self.order,
        }


def own_options(model: type[FhirSettings]) -> list[str]:
    """The names of the options that select a benchmark's tasks, such as `dataset` and `version`."""
    return [option.name for option in options(model, "episode") if option.name not in FhirSettings.model_fields]
