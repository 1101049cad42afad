"""What a run of MedAgentBench is asked to do, beside what every run is asked."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated, Literal

from pydantic import Field, model_validator

from medagent.benchmarks.medagentbench.session import MAX_ROUNDS, Loop, Writes
from medagent.benchmarks.medagentbench.tasks.dataset import EARLIEST, named
from medagent.core.errors import UserError
from medagent.core.options import Names, Option, Setting
from medagent.core.plugins import is_import_path
from medagent.core.wire import without_password
from medagent.engine.settings import WHICH, WHO, RunSettings
from medagent.models.settings import ModelSettings
from medagent.sandbox.base import Limits, SandboxName
from refsol.medagentbench.constants import PUBLISHED

AGENTS = ("text", "reference", "nop", "constant", "replay")
RECORD = "The record"
CODE = "Agents that act in code"
_CODE_OPTIONS = (
    "sandbox",
    "sandbox-image",
    "code-seconds",
    "code-memory",
    "code-requests",
    "code-output",
    "code-tool",
    "code-packages",
)


def _header(text: str) -> tuple[str, str]:
    name, colon, value = text.partition(":")
    if not colon or not name.strip():
        # The text is not repeated: it may be a token without its name.
        raise UserError("--fhir-header: write it as 'Name: value'")
    return name.strip(), value.strip()


class MedAgentBenchSettings(RunSettings):
    """The options of `medagent run`."""

    version: Annotated[str, Option(WHICH)] = "v2"
    """v1 (100 tasks) or v2 (300 tasks)."""
    dataset: Annotated[str, Option(WHICH)] = "synthetic"
    """synthetic (that is synthetic@2); synthetic@1; official once it is imported; or a folder of medagent data new."""
    tasks_file: Annotated[Path | None, Option(WHICH, "place")] = None
    """Your own task file instead of a data set."""
    types: Annotated[Names, Option(WHICH, "place", flag="tasks", metavar="TYPE,TYPE")] = ()
    """Only these types, e.g. task1,task5."""
    agent: Annotated[str | None, Option(WHO)] = None
    """text (a model; the default with --model), reference, nop, constant, replay FILE; or a class of yours, e.g.
    my_agent.py:MyAgent.
    """
    replay: Annotated[Path | None, Option(WHO, "place", hidden=True)] = None
    """What the replay agent repeats."""
    protocol: Annotated[Literal["text", "tools", "code"], Option(WHO)] = "text"
    """With --model: text (as published), tools (tool calling), or code (Python programs, run in a sandbox)."""
    loop: Annotated[Loop | None, Option(WHO)] = None
    """With --protocol text, how what cannot be done is answered: published (default), in the published runner's words,
    or lenient, saying how to do better (for training).
    """
    max_rounds: Annotated[int, Option(WHO), Field(ge=1)] = MAX_ROUNDS
    """Messages an agent has; with --protocol code its programs."""
    prompt: Annotated[Path | None, Option(WHO, "place", metavar="FILE")] = None
    """Your own first message: a text with {question}, and {context}, {api_base} and {functions} where you want them."""
    system: Annotated[Path | None, Option(WHO, "place", metavar="FILE")] = None
    """With --model: a system prompt of your own, sent before the first message."""
    trial_seed: Annotated[int | None, Option(WHO, metavar="N")] = None
    """The sampling seed of the first trial, N + 1 of the second, and so on (default: none, then 2, 3 …)."""
    sandbox: Annotated[SandboxName, Option(CODE)] = "auto"
    """Where programs run: bwrap, monty, docker, or auto (the first of them that works)."""
    sandbox_image: Annotated[str | None, Option(CODE, metavar="NAME@sha256:…")] = None
    """With --sandbox docker: the image, which holds python3 and is not pulled."""
    code_seconds: Annotated[float, Option(CODE), Field(gt=0)] = Limits().seconds
    """Seconds that a program may take, without the time in which it waits for replies."""
    code_memory: Annotated[int, Option(CODE), Field(ge=64)] = Limits().memory
    """Megabytes that programs may use."""
    code_requests: Annotated[int, Option(CODE), Field(ge=1)] = Limits().requests
    """Requests that the programs of an episode may make; each page of a search is one."""
    code_output: Annotated[int, Option(CODE), Field(ge=1)] = Limits().output
    """Characters of a program's output that the agent is shown."""
    code_tool: Annotated[bool, Option(CODE)] = False
    """Offer the model one tool, python(code), instead of reading fenced blocks of its messages."""
    code_packages: Annotated[Path | None, Option(CODE, metavar="DIR")] = None
    """A folder of packages that programs may import; without it only the standard library."""
    cache: Annotated[Path | None, Option(WHO, metavar="DIR")] = None
    """Take a model's reply to the very same request from this folder, and keep new ones there, for all runs that name
    it.
    """
    ehr: Annotated[Path | None, Option(RECORD, "place")] = None
    """FHIR data for the embedded server instead of the bundled hospital: NDJSON, or a file of medagent ehr import."""
    fhir: Annotated[str | None, Option(RECORD)] = None
    """A FHIR server's base URL instead of the embedded one."""
    fhir_header: Annotated[list[str], Option(RECORD, "effort"), Field(default_factory=list)]
    """'Name: value' for that server; a bearer token: MEDAGENT_FHIR_TOKEN."""
    ca_file: Annotated[Path | None, Option(RECORD, "place")] = None
    """Certificates to trust for that server."""
    writes: Annotated[Writes, Option(RECORD)] = "ack"
    """What happens to a POST: ack (as published) or execute."""
    api_base: Annotated[str, Option(RECORD), Field(pattern=r"^https?://[^/]+/")] = PUBLISHED.base
    """The FHIR base that the agent is shown."""

    @model_validator(mode="after")
    def _idle_options(self) -> MedAgentBenchSettings:
        """An option that would do nothing beside another one is refused: the user meant something by it."""
        model_idle = self.model and self.agent not in (None, "text") and not is_import_path(self.agent)
        idle = {
            "--model has no use with --agent other than text": model_idle and self.agent in AGENTS,
            "--protocol tools needs --model": self.protocol == "tools" and self.model is None,
            "--code-tool needs --model": self.code_tool and self.model is None,
            f"{self._idle_code} needs --protocol code": self._idle_code,
            f"--loop has no meaning with --protocol {self.protocol}: the published runner has text alone": self.loop
            and self.protocol != "text",
            "--system needs a model that acts by itself: --model NAME, without --agent": self.system
            and (self.model is None or self.agent not in (None, "text")),
            "--cache and --trial-seed need --model": (self.cache or self.trial_seed is not None) and self.model is None,
            "--ehr and --fhir cannot both say where the patients are": self.ehr and self.fhir,
            "--dataset and --tasks-file cannot both name the tasks": self.tasks_file and self.dataset != "synthetic",
            "--cluster has workers of its own: leave --workers out": self.cluster and self.workers,
            "--fhir-header and --ca-file need --fhir": (self.fhir_header or self.ca_file) and not self.fhir,
            "--agent replay repeats requests, not programs: leave --protocol code out": self.agent == "replay"
            and self.protocol == "code",
            "--agent replay needs a file to repeat: --agent replay results.json": self.agent == "replay"
            and self.replay is None,
        }
        for problem, applies in idle.items():
            if applies:
                raise UserError(problem)
        return self

    @property
    def chat(self) -> ModelSettings | None:
        """See `RunSettings.chat`."""
        chat = super().chat
        return chat and chat.model_copy(update={"cache": self.cache})

    def seed(self, trial: int) -> int | None:
        """The sampling seed of a trial."""
        if self.trial_seed is not None:
            return self.trial_seed + trial - 1
        return None if trial == 1 else trial

    @property
    def loop_in_effect(self) -> Loop | None:
        """The loop of the text protocol; None for the others."""
        return self.loop or "published" if self.protocol == "text" else None

    @property
    def code_limits(self) -> Limits:
        """What programs may take."""
        return Limits(self.code_seconds, self.code_memory, self.code_output, self.code_requests)

    @property
    def _idle_code(self) -> str:
        """An option for agents that act in code, where none does; "": none."""
        if self.protocol == "code":
            return ""
        given = (name for name in _CODE_OPTIONS if name.replace("-", "_") in self.model_fields_set)
        return next((f"--{name}" for name in given), "")

    @property
    def fhir_headers(self) -> dict[str, str]:
        """The headers for the external server, the token of the environment among them. Raises UserError."""
        return server_headers(self.fhir_header)

    def decides(self) -> dict[str, Setting]:
        """See `RunSettings.decides`; of a FHIR server's patients nothing is known but its address."""
        found = super().decides()
        own = self.tasks_file is not None
        if self.model is not None and self.agent in (None, "text"):
            found["agent"] = None
        elif self.protocol != "code":
            found["protocol"] = None
        if self.protocol != "code":
            found.update(dict.fromkeys(_CODE_OPTIONS))
        found["loop"] = self.loop_in_effect
        first = {"version": None if own else self.version, "round": self.round}
        found.update(
            dataset=None if own else _place_or_name(self.dataset),
            fhir=without_password(self.fhir) if self.fhir else None,
        )
        return {**first, **{name: value for name, value in found.items() if name not in first}}


def _place_or_name(dataset: str) -> str | None:
    """A data set as `run.json` keeps it: a folder by its whole path, so that the run can be graded from elsewhere;
    nothing for the first edition, of which runs are where `run.json` names no data set.
    """
    name = named(dataset)
    return None if name == EARLIEST else name or str(Path(dataset).resolve())


def fhir_token() -> str | None:
    """The bearer token for an external FHIR server, from `MEDAGENT_FHIR_TOKEN`."""
    return os.environ.get("MEDAGENT_FHIR_TOKEN") or None


def server_headers(texts: list[str]) -> dict[str, str]:
    """The headers for a FHIR server as given, and the token of the environment. Raises UserError."""
    token = fhir_token()
    given = dict(_header(text) for text in texts)
    return {**given, **({"Authorization": f"Bearer {token}"} if token else {})}
