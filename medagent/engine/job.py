"""What a benchmark gives the engine: units of work, a job that opens to a worker, and where units are carried out."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Iterator, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Protocol, TypeVar

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


class Executor(Protocol):
    """Where units run: this process (`LocalExecutor`) or a cluster."""

    async def run(
        self, job: Job[U, R], units: Iterator[U], done: Callable[[R], Awaitable[None]], progress: Progress
    ) -> None:
        """Carry out all units, taking the next one only when there is room and the last one's row was given to `done`,
        which counts what it spent at once; what `done` returns is awaited until the row is durable.

        When cancelled, or when a unit stops the run, what is in flight is cancelled and its rows are still handed to
        `done`. Raises StopRunError when a unit stops the run.
        """
        ...
