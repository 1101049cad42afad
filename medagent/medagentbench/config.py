"""What a run of MedAgentBench is asked to do: the command line, validated."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Literal

from pydantic import Field, model_validator

from medagent.errors import UserError
from medagent.models.settings import ModelSettings
from medagent.prompts.protocol import Protocol
from medagent.run.config import Effort, Landing, file_digest, model_settings
from medagent.run.folder import Setting
from medagent.session import MAX_ROUNDS, Writes
from medagent.tasks.dataset import Dataset
from medagent.wire import without_password
from refsol.medagentbench.constants import PUBLISHED

AGENTS = ("text", "reference", "nop", "constant", "replay")


class RunConfig(Landing, Effort):
    """One `medagent run`. What decides the episodes is in `settings()`; the rest may change between two tries."""

    version: str = "v2"
    """`v1` (100 tasks) or `v2` (300)."""
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
    max_rounds: int = Field(default=MAX_ROUNDS, ge=1)
    """Messages an agent has."""
    writes: Writes = "ack"
    """What happens to a POST."""
    api_base: str = Field(default=PUBLISHED.base, pattern=r"^https?://[^/]+/")
    """The FHIR base shown to the agent."""
    strip_thinking: bool = False
    """Whether a leading `<think>` block is cut before a message is read."""
    cluster: str | None = None
    """The scheduler of a Dask cluster to run on."""
    workers: int | None = Field(default=None, ge=1)
    """Worker processes of a local cluster."""

    @model_validator(mode="after")
    def _idle_options(self) -> RunConfig:
        """An option that would do nothing beside another one is refused: the user meant something by it."""
        idle = {
            "--model has no use with --agent other than text": self.model and self.agent not in (None, "text"),
            "--protocol tools needs --model": self.protocol == "tools" and self.model is None,
            "--ehr and --fhir cannot both say where the patients are": self.ehr and self.fhir,
            "--dataset and --tasks-file cannot both name the tasks": self.tasks_file and self.dataset != "synthetic",
            "--cluster has workers of its own: leave --workers out": self.cluster and self.workers,
            "--fhir-header and --ca-file need --fhir": (self.fhir_headers or self.ca_file) and not self.fhir,
        }
        for problem, applies in idle.items():
            if applies:
                raise UserError(problem)
        return self

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
        return self.chat.name if self.chat else self.acting

    @property
    def chat(self) -> ModelSettings | None:
        """The model in effect: None for the agents that need none."""
        return self.model if self.acting == "text" else None

    def folder(self, dataset: Dataset) -> Path:
        """Where this run lands: `results/{version}_{round}_{agent-or-model}`."""
        return self.run_folder(dataset.version, self.label)

    def settings(self, dataset: Dataset, protocol: Protocol, ehr_digest: str | None) -> dict[str, Setting]:
        """What decides the episodes, keyed by option name, or by a name in `digest` for what no option states. Of a
        FHIR server's patients nothing is known but its address.
        """
        model = self.chat
        own = self.tasks_file is not None
        return {
            "version": None if own else self.version,
            "round": self.round,
            "dataset": None if own or self.dataset == "synthetic" else self.dataset,
            "tasks-digest": dataset.digest,
            "ehr-digest": ehr_digest,
            "fhir": without_password(self.fhir) if self.fhir else None,
            "prompts-digest": protocol.digest,
            "agent": None if model else self.acting,
            "replay-digest": file_digest(self.replay) if self.replay else None,
            **model_settings(model),
            "protocol": protocol.kind if model else None,
            "max-rounds": self.max_rounds,
            "writes": self.writes,
            "api-base": self.api_base,
            "strip-thinking": self.strip_thinking,
        }

    def places(self) -> dict[str, Setting]:
        """Options that are no settings but part of a command that is to be copied: places, and the selection."""
        return {
            "tasks-file": str(self.tasks_file) if self.tasks_file else None,
            "ehr": str(self.ehr) if self.ehr else None,
            "ca-file": str(self.ca_file) if self.ca_file else None,
            "replay": str(self.replay) if self.replay else None,
            "tasks": ",".join(self.types) or None,
            "ids": ",".join(self.ids) or None,
            "limit": self.limit,
            "trials": self.trials if self.trials > 1 else None,
            "cluster": self.cluster,
            "workers": self.workers,
            **self.run_places(self.model),
        }


def fhir_token() -> str | None:
    """The bearer token for an external FHIR server, from `MEDAGENT_FHIR_TOKEN`."""
    return os.environ.get("MEDAGENT_FHIR_TOKEN") or None
