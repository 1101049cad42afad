"""The protocols between a benchmark and the engine: units, a job that opens a worker, and executors."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from medagent.engine.progress import Progress
from medagent.engine.rows import R, Row
from medagent.models.limiter import EndpointStats


class Unit(Protocol):
    """One piece of work. Its `key` names it in the journal, and determines it together with the run's settings."""

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
