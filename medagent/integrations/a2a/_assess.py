"""One assessment: the request, the run that it starts, and the outcome. Nothing here depends on A2A.

A request is JSON such as `{"participants": {"agent": "http://…"}, "config": {"mode": "fhir", "limit": 10}}`, or only
the agent's address.
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError, field_validator

from medagent import _api as api
from medagent.agents.base import Agent
from medagent.core.errors import ModelError, UserError
from medagent.engine.progress import heard
from medagent.engine.report import Report
from medagent.engine.rows import Row
from medagent.engine.scores import Scored
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.http_episodes import HttpEpisodes
from medagent.fhir_episodes.session import clean
from medagent.models.base import Message
from refsol.schema import fault_text

MODEL = "medagent.integrations.a2a.model:A2AModel"
RUN_OPTIONS: dict[str, Any] = {"writes": "execute", "loop": "lenient", "max_rounds": 1_000_000}
"""The options of a run of `FhirAgent`: a refused write is refused again, and each URL is requested unchanged."""


class Config(BaseModel):
    """The options of the run that a request may set. The green agent sets all others."""

    model_config = ConfigDict(extra="forbid")

    mode: Literal["text", "fhir"] = "text"
    """`text`: turn by turn with the text protocol. `fhir`: with a private FHIR base."""
    types: tuple[str, ...] = ()
    ids: tuple[str, ...] = ()
    limit: Annotated[int | None, Field(ge=1)] = None
    per_type: Annotated[int | None, Field(ge=1)] = None
    trials: Annotated[int, Field(ge=1, le=100)] = 1


class Assessment(BaseModel):
    """A request. The role may be called anything, since there is one agent."""

    model_config = ConfigDict(extra="forbid")

    participants: Annotated[dict[str, str], Field(min_length=1, max_length=1)]
    config: Config = Config()

    @field_validator("participants")
    @classmethod
    def _are_addresses(cls, value: dict[str, str]) -> dict[str, str]:
        for address in value.values():
            if not address.startswith(("http://", "https://")):
                raise ValueError("not an address; use one that begins with http:// or https://")
        return value

    @property
    def address(self) -> str:
        """The address of the purple agent."""
        return next(iter(self.participants.values()))

    @classmethod
    def read(cls, text: str) -> Assessment:
        """Parse a message's text. Raises UserError, whose text is the answer to the sender, if it is not a request."""
        try:
            if text.strip().startswith(("http://", "https://")):
                return cls(participants={"agent": text.strip()})
            return cls.model_validate_json(text)
        except ValidationError as error:
            first = error.errors(include_url=False)[0]
            place = ".".join(map(str, first["loc"])) or "the message"
            example = '{"participants": {"agent": "http://…"}, "config": {"mode": "text", "limit": 10}}'
            raise UserError(f"{place}: {fault_text(first)}; send a request such as {example}") from None


class FhirAgent(Agent):
    """An agent whose model gets the URL of a private FHIR base, calls it itself, and answers once.

    Then its requests are repeated as actions in the run's own session, so that transcript, writes and verdict are the
    same as in any run. Subclasses define the `episodes` that open the bases.
    """

    episodes: ClassVar[HttpEpisodes]

    async def play(self, task: Any, prompt: str) -> AsyncIterator[str]:
        assert self.context.model is not None
        with self.episodes.open(task) as episode:
            completion = await self.context.model.complete([Message("user", episode.prompt)], session=episode.base)
            last = clean(completion.text)
            if last.startswith("FINISH("):
                episode.finish(last[len("FINISH(") : -1])
        actions = [turn.content for turn in episode.outcome().transcript if turn.role == "agent"]
        for action in actions if episode.done else [*actions, last]:
            yield action


@dataclass(frozen=True, slots=True)
class Assessor:
    """Runs assessments. `options` are used for every run; `episodes` opens the private FHIR bases."""

    benchmark: FhirBenchmark[Any]
    options: Mapping[str, Any]
    episodes: HttpEpisodes

    async def run(
        self, request: Assessment, label: str, model: str | type = MODEL, tell: Callable[[str], None] = lambda _: None
    ) -> Report:
        """Run one assessment. `label` is the run's round; `tell` gets a line for each finished task.

        Raises UserError, StopRunError; ModelError if the participant could not be reached for any task.
        """
        chosen = request.config.model_dump(exclude={"mode"}, exclude_defaults=True)
        mode: dict[str, Any] = {}
        if request.config.mode == "fhir":
            mode = {**RUN_OPTIONS, "agent": type("FhirAgent", (FhirAgent,), {"episodes": self.episodes})}
        options = {**self.options, **chosen, **mode, "model": model, "round": label, "base_url": [request.address]}
        heard.set(lambda row, scored: tell(_news(row, scored)))
        report = await api.run(self.benchmark.reference or self.benchmark.name, **options)
        if report.items and len(report.owed) == len(report.items):
            reason = next((row.error for row in api.load_run(report.folder).rows() if row.error), "")
            raise ModelError(f"{request.address}: the participant could not be reached for any task: {reason}")
        return report


def _news(row: Row, scored: Scored | None) -> str:
    """One line about a finished task."""
    verdict = {True: "right", False: "wrong", None: row.status}[scored.correct if scored else None]
    return f"{row.unit.removesuffix('#1')}: {verdict}"


def outcome(report: Report) -> dict[str, Any]:
    """The scores and verdicts of a run, as JSON."""
    items = report.model_dump(mode="json", include={"items"})["items"]
    names = ("item", "trial", "group", "status", "correct", "reason", "kind")
    return {
        "overall": report.model_dump(mode="json", include={"overall"})["overall"],
        "data": report.data.model_dump(mode="json"),
        "folder": report.folder,
        "owed": list(report.owed),
        "items": [{name: item[name] for name in names} for item in items],
    }


def summary(result: dict[str, Any]) -> str:
    """A line that sums up an outcome, then the outcome as JSON, for clients that read only text."""
    overall = result["overall"] or {"counts": {"right": 0}, "n": 0}
    owed = f"; {len(result['owed'])} owed" if result["owed"] else ""
    return f"{overall['counts']['right']} of {overall['n']} right{owed}\n{json.dumps(result)}"
