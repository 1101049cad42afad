"""What a benchmark gives the engine: units of work, a job that opens to a worker, and where units are carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar, runtime_checkable

from medagent.core.lazy import LazySequence
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.models.limiter import EndpointStats


class Unit(Protocol):
    """One piece of work; `key` names it in the journal and, with the run's settings, fully determines it."""

    @property
    def key(self) -> str:
        """Unique within the run."""
        ...


U = TypeVar("U", bound=Unit)


class LazyUnits(LazySequence[U]):
    """Units that are made when their turn comes: what is asked about them before is their keys."""

    def __init__(self, keys: Sequence[str], make: Callable[[int], U]) -> None:
        super().__init__(len(keys), make)
        self.keys = keys


U_contra = TypeVar("U_contra", bound=Unit, contravariant=True)
R = TypeVar("R", bound=Row)
R_contra = TypeVar("R_contra", bound=Row, contravariant=True)


class Worker(Protocol[U_contra, R_contra]):
    """Carries out units, many at a time, in one event loop."""

    @property
    def stats(self) -> Sequence[EndpointStats]:
        """What goes on at the model endpoints, for the progress display."""
        ...

    async def run(self, unit: U_contra, row: R_contra) -> None:
        """Carry one unit out and fill its row in. Whatever it raises, the row is kept as far as it was filled: the
        engine puts the failure's status into it. Calls of foreign code name their owner by `blame`.
        """
        ...


class Job(Protocol[U_contra, R]):
    """A picklable description of the work, which opens to a worker; a dataclass."""

    @property
    def concurrency(self) -> int:
        """How many calls it may have at an endpoint at once."""
        ...

    @property
    def row(self) -> type[R]:
        """The type of its rows."""
        ...

    def open(self) -> AbstractAsyncContextManager[Worker[U_contra, R]]:
        """Open connections and files; they close with the context."""
        ...


@dataclass(frozen=True, slots=True)
class JobFile:
    """A file that a job opens; `make` makes the same file on another machine, where that can be done."""

    path: Path
    make: Callable[[], Path] | None = None


@runtime_checkable
class JobWithFiles(Protocol):
    """A job that opens files: workers on other machines get them."""

    @property
    def files(self) -> Sequence[JobFile]:
        """What it opens."""
        ...

    def moved(self, places: Mapping[Path, Path]) -> Any:
        """The job with its files at other places."""
        ...


class Executor(Protocol):
    """Where units run: this process (`LocalExecutor`) or a cluster."""

    async def run(
        self,
        job: Job[U, R],
        take: Callable[[], Awaitable[U | None]],
        done: Callable[[R], Awaitable[None]],
        progress: Progress,
    ) -> None:
        """Carry out units until `take` gives None, taking the next one only when there is room and the last one's row
        was given to `done`, which counts what it spent at once; what `done` returns is awaited until the row is
        durable.

        When cancelled, or when a unit stops the run, what is in flight is cancelled and its rows are still handed to
        `done`. Raises StopRunError or UserError when a unit stops the run, ExecutorLostError when what carries units
        out is gone.
        """
        ...
