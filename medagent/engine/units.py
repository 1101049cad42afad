"""Runs the owed units and writes a row for each.

The queue is not stored: it consists of the units that the journal lacks. An executor runs the units. Only this process
writes the journal.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Collection, Sequence
from dataclasses import dataclass

from medagent.core.errors import ExecutorLostError, UserError
from medagent.engine._feed import Feed
from medagent.engine._limits import UNLIMITED, Limits
from medagent.engine.figures import some_are
from medagent.engine.job import Executor, Job, U
from medagent.engine.journal import Journal
from medagent.engine.progress import Progress
from medagent.engine.rows import R, Row
from medagent.engine.scores import Scored

HOPELESS = 10
"""A run stops if its first 10 units all fail in the same way, because the next ones would fail too."""


@dataclass(slots=True)
class Summary:
    """The state of a run's units at its end. `stopped` is the reason if it ended early: a limit, a lost cluster, or
    units that all fail.
    """

    total: int
    done: int
    owed: list[str]
    stopped: str | None = None


@dataclass(frozen=True, slots=True)
class Watch:
    """What happens with a row after it is on disk: it is scored and displayed."""

    progress: Progress
    score: Callable[[str], Awaitable[Scored | None]] | None = None
    pending: bool = False
    """Whether the executor has work although no unit is owed."""


async def run_units(
    job: Job[U, R],
    units: Sequence[U],
    journal: Journal[R],
    executor: Executor,
    watch: Watch,
    limits: Limits = UNLIMITED,
    retry: Collection[str] = (),
) -> Summary:
    """Run every unit that is owed, and every unit whose status is in `retry`.

    Raises StopRunError if the endpoint refuses the whole run, UserError if the journal cannot be written. Finished
    units stay finished in every case.
    """
    owed = [unit for unit in units if journal.is_owed(unit.key) or journal.status(unit.key) in retry]
    if owed and not journal.writable:
        raise UserError(f"{journal.path}: cannot be written, but {some_are(len(owed), len(units), 'units')} owed")
    feed = Feed(iter(owed), len(owed), journal, limits)
    progress, beginning = watch.progress, _Beginning()

    async def durable(appended: Awaitable[None], row: R) -> None:
        await appended
        scored = await watch.score(row.unit) if watch.score is not None else None
        progress.add(row, journal.spent, scored)
        if beginning.is_hopeless(row):
            feed.stop(f"the first {HOPELESS} units failed in the same way: {row.status}: {row.error}")

    def done(row: R) -> Awaitable[None]:
        appended = journal.append(row)
        feed.end(row)
        return durable(appended, row)

    lost: str | None = None
    with progress:
        progress.begin(len(units), len(units) - len(owed))
        if owed or watch.pending:
            try:
                await executor.run(job, feed.take, done, progress)
            except ExecutorLostError as error:
                lost = str(error)
    left = [unit.key for unit in units if journal.is_owed(unit.key)]
    return Summary(len(units), len(units) - len(left), left, lost or feed.stopped)


@dataclass(slots=True)
class _Beginning:
    """Watches the first rows of a run for user code that always fails."""

    failures: int = 0
    kind: str = ""
    over: bool = False

    def is_hopeless(self, row: Row) -> bool:
        """Whether this row is the `HOPELESS`th, and all rows so far have failed in the same way."""
        if self.over or row.status == "cancelled":
            return False
        kind = f"{row.status}: {(row.error or '').partition(':')[0]}" if row.traceback else ""
        if not kind or self.kind not in ("", kind):
            self.over = True
            return False
        self.kind = kind
        self.failures += 1
        self.over = self.failures >= HOPELESS
        return self.over
