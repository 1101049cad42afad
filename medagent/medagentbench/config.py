"""What a run of MedAgentBench is asked to do: the command line, validated."""

from __future__ import annotations

import hashlib
import os
from pathlib import Path
from typing import Literal

from pydantic import BaseModel, ConfigDict, Field

from medagent.errors import UserError
from medagent.models.settings import ModelSettings
from medagent.prompts.protocol import Protocol
from medagent.run.folder import Place, Setting
from medagent.session import DEFAULT_API_BASE, MAX_ROUNDS, Writes
from medagent.tasks.dataset import Dataset

AGENTS = ("text", "reference", "nop", "constant", "replay")


class RunConfig(BaseModel):
    """One `medagent run`. What decides the episodes is in `settings()`; the rest may change between two tries."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    version: str = "v2"
    """`v1` (100 tasks) or `v2` (300)."""
    round: str = Field(default="r1", pattern=r"^[\w.-]+$")
    """A label of the user's, part of the folder's name."""
    dataset: str = "synthetic"
    """`synthetic` or `official`."""
    tasks_file: Path | None = None
    """A user's own task file instead of a data set."""
    ehr: Path | None = None
    """FHIR data for the embedded server instead of the bundled hospital: NDJSON, or an SQLite file of the server's."""
    fhir: str | None = None
    """The base URL of a FHIR server to use instead of the embedded one."""
    fhir_headers: tuple[tuple[str, str], ...] = ()
    """Headers for that server."""
    ca_file: Path | None = None
    """Certificates to trust for that server."""
    agent: str | None = None
    """One of `AGENTS`; `text` where a model is given."""
    replay: Path | None = None
    """What the `replay` agent repeats."""
    model: ModelSettings | None = None
    """The model behind `text`."""
    protocol: Literal["text", "tools"] = "text"
    """How a model acts: by the text of its messages, or by tool calls."""
    types: tuple[str, ...] = ()
    """Only these task types."""
    ids: tuple[str, ...] = ()
    """Only these tasks."""
    limit: int | None = Field(default=None, ge=1)
    """Only the first so many."""
    trials: int = Field(default=1, ge=1)
    """Episodes a task."""
    concurrency: int = Field(default=16, ge=1)
    """Episodes at once."""
    max_rounds: int = Field(default=MAX_ROUNDS, ge=1)
    """Messages an agent has."""
    writes: Writes = "ack"
    """What happens to a POST."""
    api_base: str = Field(default=DEFAULT_API_BASE, pattern=r"^https?://[^/]+/")
    """The FHIR base shown to the agent."""
    strip_thinking: bool = False
    """Whether a leading `<think>` block is cut before a message is read."""
    max_cost: float | None = Field(default=None, gt=0)
    """US dollars after which no new episode starts."""
    max_tokens_total: int | None = Field(default=None, gt=0)
    """Tokens after which no new episode starts."""
    cluster: str | None = None
    """The scheduler of a Dask cluster to run on."""
    workers: int | None = Field(default=None, ge=1)
    """Worker processes of a local cluster."""
    results_dir: Path = Path("results")
    """Where runs land."""
    overwrite: bool = False
    """Start anew in a folder that holds a run."""

    @property
    def acting(self) -> str:
        """The agent in effect. Raises UserError, with the ways on, where nothing says who acts."""
        agent = self.agent or ("text" if self.model else None)
        if agent is None or (agent == "text" and self.model is None):
            raise UserError(
                "no model is given. Three ways on: set a key (export OPENAI_API_KEY=…) and pass --model NAME; "
                "set a base URL (export OPENAI_BASE_URL=http://localhost:8000/v1, or --base-url URL) "
                "and pass --model NAME; "
                "or run without a model: --agent reference"
            )
        if agent not in AGENTS:
            raise UserError(f"unknown agent {agent!r}; known: {', '.join(AGENTS)}")
        if agent == "replay" and self.replay is None:
            raise UserError("--agent replay needs a file to repeat: --agent replay results.json")
        return agent

    @property
    def label(self) -> str:
        """The agent or model in the folder's name."""
        return self.chat.name.replace("/", "--") if self.chat else self.acting

    @property
    def chat(self) -> ModelSettings | None:
        """The model in effect: None for the agents that need none."""
        return self.model if self.acting == "text" else None

    def folder(self, dataset: Dataset) -> Path:
        """Where this run lands: `results/{version}_{round}_{agent-or-model}`."""
        return self.results_dir / f"{dataset.version}_{self.round}_{self.label}"

    def settings(self, dataset: Dataset, protocol: Protocol, ehr_digest: str) -> dict[str, Setting]:
        """What decides the episodes, keyed by option name, or by a name in `digest` for what no option states."""
        model = self.chat
        own = self.tasks_file is not None
        return {
            "version": None if own else self.version,
            "round": self.round,
            "dataset": None if own or self.dataset == "synthetic" else self.dataset,
            "tasks-digest": dataset.digest,
            "ehr-digest": ehr_digest,
            "prompts-digest": protocol.digest,
            "agent": None if model else self.acting,
            "replay-digest": _digest(self.replay) if self.replay else None,
            "model": model.name if model else None,
            "protocol": protocol.kind if model else None,
            "api": model.api if model else None,
            "temperature": model.temperature if model else None,
            "max-tokens": model.max_tokens if model else None,
            "extra-digest": _text_digest(str(sorted(model.extra.items()))) if model and model.extra else None,
            "max-rounds": self.max_rounds,
            "writes": self.writes,
            "api-base": self.api_base,
            "strip-thinking": self.strip_thinking,
        }

    def places(self) -> dict[str, Place]:
        """Options that say where things are: no part of the settings, but of a command that is to be copied."""
        return {
            "tasks-file": str(self.tasks_file) if self.tasks_file else None,
            "ehr": str(self.ehr) if self.ehr else None,
            "fhir": self.fhir,
            "replay": str(self.replay) if self.replay else None,
            "base-url": self.model.base_urls if self.model else None,
            "results-dir": None if self.results_dir == Path("results") else str(self.results_dir),
        }


def fhir_token() -> str | None:
    """The bearer token for an external FHIR server, from `MEDAGENT_FHIR_TOKEN`."""
    return os.environ.get("MEDAGENT_FHIR_TOKEN") or None


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None


def _text_digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
