"""A `Plan` describes a run: fixed settings, data, and stages of units. A stage contains a `Job`, which workers open.

Errors in these are raised while the plan is made, before the first paid call.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Generic, Protocol, TypeVar, runtime_checkable

from medagent.core.options import Setting
from medagent.engine.progress import Progress
from medagent.engine.report import DataRef
from medagent.engine.rows import R, Row
from medagent.engine.scores import Item
from medagent.engine.settings import RunSettings
from medagent.models.limiter import EndpointStats


class Unit(Protocol):
    """One piece of work. Its `key` identifies it in the journal, and determines it together with the run's settings."""

    @property
    def key(self) -> str:
        """Unique within the run."""


U = TypeVar("U", bound=Unit)


U_contra = TypeVar("U_contra", bound=Unit, contravariant=True)
R_contra = TypeVar("R_contra", bound=Row, contravariant=True)


class Worker(Protocol[U_contra, R_contra]):
    """Runs units, many at a time, in one event loop."""

    @property
    def stats(self) -> Sequence[EndpointStats]:
        """The statistics of the model endpoints, for the progress display."""

    async def run(self, unit: U_contra, row: R_contra) -> None:
        """Run one unit and fill in its row. If it raises, the engine sets the failure's status and keeps the rest of
        the row. Wrap calls of user code in `blame` to name their owner.
        """


class Job(Protocol[U_contra, R]):
    """A picklable description of the work, which opens a worker; a dataclass."""

    @property
    def concurrency(self) -> int:
        """The most calls at an endpoint at once."""

    @property
    def row(self) -> type[R]:
        """The type of its rows."""

    def open(self) -> AbstractAsyncContextManager[Worker[U_contra, R]]:
        """Open connections and files; they close with the context."""


@runtime_checkable
class JobWithFiles(Protocol):
    """A job that opens files, which workers on other machines get too."""

    @property
    def files(self) -> Sequence[Path]:
        """The files that the job opens."""

    def moved(self, places: Mapping[Path, Path]) -> Any:
        """The job with its files at other paths."""


Take = Callable[[], Awaitable[U | None]]
"""Returns the next unit, or None at the end."""
Done = Callable[[R], Awaitable[None]]
"""Takes the row of a unit that has ended."""


class Executor(Protocol):
    """Runs units in this process (`LocalExecutor`) or on a cluster."""

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        """Run units until `take` returns None. A lane takes its next unit after the last one's row was passed to
        `done`, which counts its cost at once. The awaitable of `done` ends when the row is on disk.

        If the run is cancelled, or a unit stops it, units in progress are cancelled, and their rows are passed to
        `done` too. Raises StopRunError or UserError if a unit stops the run, ExecutorLostError if the executor is lost.
        """


JOURNAL = "episodes.jsonl"


@dataclass(frozen=True, slots=True)
class Stage(Generic[U, R]):
    """Units that one job runs, with their rows in one journal. `units` is called when the stage starts, so a stage can
    depend on the files of an earlier one.
    """

    job: Job[U, R]
    units: Callable[[], Sequence[U]]
    journal: str = JOURNAL
    title: str = ""
    """The message at its start."""


@dataclass(frozen=True, slots=True)
class Plan:
    """One run. `decides` are the settings that cannot change in its folder. `prepare` writes the files that the stages
    need there.
    """

    settings: RunSettings
    folder: Path
    data: DataRef
    stages: Sequence[Stage[Any, Any]]
    items: Sequence[Item]
    """All items of the benchmark, selected or not."""
    source: Any = None
    """The object that points to the data for grading, if the settings do not."""
    decides: dict[str, Setting] = field(default_factory=dict)
    command: str = "medagent run"
    repeat: str = ""
    """The command that continues the run, if it is not `command` with the settings."""
    prepare: Callable[[], None] = lambda: None
    notes: Sequence[str] = ()
    """What is said before the run unless it is quiet. The notes of the report contain it."""
    warnings: Sequence[str] = ()
    turn: Callable[[], Awaitable[None]] | None = None
    """Is awaited before each unit starts, if the run takes turns with another one."""
    owner_only: bool = False
    """Whether only the owner may read what the run writes, because it contains a hospital's data."""
