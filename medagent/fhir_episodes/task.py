"""What an agent is asked on a FHIR server: the task as agents see it, and the item of a benchmark that has it."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Protocol

from medagent.engine.scores import Item


@dataclass(frozen=True)
class FhirTask:
    """A task as an agent sees it, `vars(task)` too. It has no answer, and `mrn` only as far as the words state it."""

    id: str
    type: str
    instruction: str
    context: str = ""
    mrn: str = ""
    now: datetime | None = None
    """The moment at which it is asked, if that is not the same for all tasks."""


class TaskWords(Protocol):
    """What a session needs of a task."""

    @property
    def id(self) -> str:
        """Unique in its data set."""
        ...

    @property
    def instruction(self) -> str:
        """What the agent is asked."""
        ...

    @property
    def context(self) -> str:
        """What the agent is told beside it."""
        ...


@dataclass(frozen=True, kw_only=True)
class FhirItem(Item):
    """An item of a benchmark with a FHIR session: `question` is the instruction, `group` the type of the task."""

    context: str = ""
    mrn: str = ""
    """The patient, as far as the words state it."""
    now: datetime | None = None
    """See `FhirTask.now`."""

    @property
    def task(self) -> FhirTask:
        """The task as agents see it."""
        return FhirTask(self.id, self.group, self.question, self.context, self.mrn, self.now)

    @property
    def words(self) -> str:
        """What the agent is told and asked, in one text."""
        return f"{self.context}\n\n{self.question}" if self.context else self.question

    @property
    def record(self) -> Any:
        """The task as its data set has it, for programs that write tests."""
        return self.task
