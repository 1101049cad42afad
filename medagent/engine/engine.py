"""Runs the units that are owed, keeps a row of each, and stops when told to.

The queue is never stored: it is what the journal does not hold. An executor carries units out; the engine alone writes
the journal. `Job` and `Worker` are what a benchmark gives: a job is a small picklable description, a worker is what it
opens to, once a process.
"""

from __future__ import annotations

import asyncio
import gc
import sys
from collections.abc import Awaitable, Callable, Coroutine, Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from medagent.engine.journal import Journal
from medagent.engine.progress import Progress
from medagent.engine.rows import Row, Spent
from medagent.errors import StopRunError
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
R_co = TypeVar("R_co", bound=Row, covariant=True)


class Worker(Protocol[U_contra, R_co]):
    """Carries out units, many at a time, in one event loop."""

    @property
    def stats(self) -> Sequence[EndpointStats]:
        """What goes on at the model endpoints, for the progress display."""
        ...

    async def run(self, unit: U_contra) -> R_co:
        """Carry one unit out. Failures that are data (EpisodeError) become a row with their status, and so does a
        cancellation (`cancelled`); StopRunError passes through and ends the run.
        """
        ...


class Job(Protocol[U_contra, R_co]):
    """A picklable description of the work, which opens to a worker; a dataclass."""

    @property
    def concurrency(self) -> int:
        """How many calls it may have at an endpoint at once."""
        ...

    def open(self) -> AbstractAsyncContextManager[Worker[U_contra, R_co]]:
        """Open connections and files; they close with the context."""
        ...


class Executor(Protocol):
    """Where units run: this process (`LocalExecutor`) or a cluster."""

    async def run(
        self, job: Job[U, R], units: Iterator[U], done: Callable[[R], Awaitable[None]], progress: Progress
    ) -> None:
        """Carry out all units, taking the next one only when there is room and the last one's row was given to `done`,
        which counts what it spent at once; what `done` returns is awaited until the row is durable.

        When cancelled, or when a unit raises, what is in flight is cancelled and its rows are still handed to `done`.
        """
        ...


@dataclass(frozen=True, slots=True)
class Limits:
    """When to take no new units. `cost` in US dollars, `tokens` prompt and completion; None is no limit."""

    cost: float | None = None
    tokens: int | None = None

    def reached(self, spent: Spent) -> str | None:
        """Which limit `spent` has reached, in words, or None."""
        if self.cost is not None and spent.calls and spent.cost is None:
            return (
                "--max-cost cannot be kept: a model has no price (your own price table can name it, see docs/models.md)"
            )
        if self.cost is not None and spent.cost is not None and spent.cost >= self.cost:
            return f"--max-cost {self.cost:g} is reached (${spent.cost:.4f} spent)"
        if self.tokens is not None and spent.usage.total >= self.tokens:
            return f"--max-tokens-total {self.tokens} is reached ({spent.usage.total} spent)"
        return None


@dataclass(slots=True)
class Summary:
    """How a run's units stand afterwards. `stopped` says which limit ended it early."""

    total: int
    done: int
    owed: list[str]
    stopped: str | None = None


async def run_units(
    job: Job[U, R],
    units: Sequence[U],
    journal: Journal[R],
    executor: Executor,
    progress: Progress,
    limits: Limits = Limits(),
    finished: Callable[[R], Awaitable[None]] | None = None,
) -> Summary:
    """Run every unit that the journal does not hold as done; `finished` is awaited for each durable row.

    Raises StopRunError when the endpoint refuses the run as a whole, UserError when the journal cannot be written.
    What is finished stays finished in every case.
    """
    owed = [unit for unit in units if not _is_done(journal, unit)]
    stopped: str | None = None

    def wanted() -> Iterator[U]:
        nonlocal stopped
        for unit in owed:
            stopped = limits.reached(journal.spent)
            if stopped:
                return
            yield unit

    async def durable(appended: Awaitable[None], row: R) -> None:
        await appended
        if finished is not None:
            await finished(row)
        progress.add(row, journal.spent)

    def done(row: R) -> Awaitable[None]:
        return durable(journal.append(row), row)

    with _few_collections(), progress:
        progress.begin(len(units), len(units) - len(owed))
        if owed:
            await executor.run(job, wanted(), done, progress)
    left = [unit.key for unit in units if not _is_done(journal, unit)]
    return Summary(len(units), len(units) - len(left), left, stopped)


def carry_out(running: Coroutine[Any, Any, Summary], command: str) -> Summary:
    """Wait for `run_units`; `command` continues the run, which whoever interrupts it is told.

    Raises StopRunError and UserError as `run_units`, and KeyboardInterrupt.
    """
    try:
        return asyncio.run(running)
    except StopRunError as error:
        raise StopRunError(f"{error} (the run stopped; what was finished is kept)") from None
    except KeyboardInterrupt:
        print(f"Interrupted. What was finished is kept. Continue: {command}", file=sys.stderr, flush=True)
        raise


@contextmanager
def _few_collections() -> Iterator[None]:
    """Cycles are sought less often: episodes make few, and seeking them takes a quarter of a run's CPU."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()


def _is_done(journal: Journal[R], unit: Unit) -> bool:
    from medagent.engine.rows import OWED

    status = journal.status(unit.key)
    return status is not None and status not in OWED
