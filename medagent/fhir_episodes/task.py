"""The task of an episode as agents see it, and the item of a benchmark with that task."""

from __future__ import annotations

from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, Protocol

from medagent.engine.scores import Item
from refsol.clinical.sources import Amendment
from refsol.injection import Injected


@dataclass(frozen=True)
class FhirTask:
    """A task as an agent sees it, `vars(task)` included. It has no answer, and `mrn` only if the text states it."""

    id: str
    type: str
    instruction: str
    context: str = ""
    mrn: str = ""
    now: datetime | None = None
    """The current time of the task, if it is not the same for all tasks."""


class TaskWords(Protocol):
    """The parts of a task that a session needs."""

    @property
    def id(self) -> str:
        """Unique in its data set."""

    @property
    def instruction(self) -> str:
        """The question."""

    @property
    def context(self) -> str:
        """Further information for the agent."""


@dataclass(frozen=True, kw_only=True)
class FhirItem(Item):
    """An item of a benchmark with a FHIR session: `question` is the instruction, `group` the type of the task."""

    context: str = ""
    mrn: str = ""
    """The patient's record number, if the text states it."""
    now: datetime | None = None
    """The current time of the task, if it is not the same for all tasks."""
    change: Amendment = field(default=(), repr=False, compare=False)
    """What its chart has instead of the data, if it is a twin or has an instruction. Agents do not see it."""
    chart: str = field(default="", repr=False)
    """Its own chart: a Bundle or NDJSON, as text. Its episodes have these resources in addition to the patients of the
    benchmark. A resource of these patients with the same type and id is replaced.
    """
    injected: Injected | None = field(default=None, repr=False, compare=False)
    """An instruction for agents in its chart."""

    def __post_init__(self) -> None:
        """Split a Bundle. Raises UserError if it cannot be read."""
        if '"Bundle"' in self.chart:
            from medagent.fhir_data.files import chart_lines  # late: it imports the server

            object.__setattr__(self, "chart", chart_lines(self.chart, f"the chart of {self.id}"))

    @property
    def task(self) -> FhirTask:
        """The task as agents see it."""
        return FhirTask(self.id, self.group, self.question, self.context, self.mrn, self.now)

    @property
    def words(self) -> str:
        """Context and question as one text."""
        return f"{self.context}\n\n{self.question}" if self.context else self.question

    @property
    def record(self) -> Any:
        """The task in the form of its data set, for programs that write tests."""
        return self.task
