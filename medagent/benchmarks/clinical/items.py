"""The tasks of a set as items of a run, and the set with the facts by which they are graded."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from functools import cached_property, lru_cache
from typing import Any

from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.clinical.tasks import Task
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.floor import Baselines
from refsol.clinical.neighbours import Examples
from refsol.clinical.recorded import RecordedSource
from refsol.clinical.sources import Source


@dataclass(frozen=True, slots=True)
class Situation:
    """What agents read before the text of a task, and the clock of its episode (None: that of the set)."""

    context: str
    now: datetime | None


@dataclass(frozen=True, kw_only=True)
class TaskItem(FhirItem):
    """A task of a set."""

    stored: Task
    tasks: TaskSet = field(repr=False, compare=False)
    source: Any = field(repr=False, compare=False)
    """The settings that name the set."""

    @property
    def record(self) -> Task:
        return self.stored


@dataclass(frozen=True, slots=True)
class Facts:
    """The source of the charts. `notes` are for a reader of the scores."""

    source: Source
    notes: tuple[str, ...] = ()
    details: Any = None
    """What a benchmark has found out about the source."""


@dataclass(frozen=True, slots=True)
class FactsPlace:
    """Where the facts of a set are: a function that returns the digest of the place, and one that opens the facts.

    Both raise UserError.
    """

    digest: Callable[[], str]
    read: Callable[[], Facts]
    decides: Mapping[str, str] = field(default_factory=dict)
    """What else a stored score depends on."""


@dataclass(frozen=True)
class OpenSet:
    """A set with its facts, which are opened when they are needed, and with what was computed for all its tasks.

    `base` is the FHIR base of right orders.
    """

    tasks: TaskSet = field(compare=False)
    base: str
    place: FactsPlace = field(compare=False)
    read_whole: Callable[[], Source | None] = field(default=lambda: None, compare=False)
    """Opens the whole charts, if the facts are recorded searches and the patients are there."""
    identity: tuple[Any, ...] = ()
    """What decides the charts and the rulings. Two sets with the same one are graded alike."""
    baselines: dict[str, Baselines] = field(default_factory=dict, compare=False)
    """The scores of agents that read nothing, by rule set, as far as they were computed."""
    learned: dict[tuple[str, str], Examples] = field(default_factory=dict, compare=False)
    """Examples by type and rule set, of a set that does not contain any."""

    @cached_property
    def digest(self) -> str:
        """The digest of the place of the facts. Raises UserError."""
        return self.place.digest()

    @cached_property
    def facts(self) -> Facts:
        """The facts. Raises UserError, FactsError."""
        return self.place.read()

    @cached_property
    def whole_charts(self) -> Source:
        """A source of all resources of a patient, for pictures: recorded searches may have fewer.

        Raises UserError, FactsError.
        """
        whole = self.read_whole()
        return self.facts.source if whole is None else whole

    @cached_property
    def examples(self) -> Examples:
        """The examples that the set contains; empty without any. Raises UserError."""
        source, reads = self.facts.source, self.tasks.reads
        if isinstance(source, RecordedSource) and source.examples:
            return source.examples
        return RecordedSource.of_file(reads).examples if reads is not None else {}


@lru_cache(maxsize=4)
def opened_once(opened: OpenSet) -> OpenSet:
    """The set as it was first opened in this process, with what was computed for it."""
    return opened
