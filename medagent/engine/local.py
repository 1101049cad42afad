"""Runs the owed units in this process, as the run's limits allow.

A budget is reserved before a unit starts: each unit in progress counts as the mean of the paid units. At first, few
units run at once: four, then as many as have ended. So at any concurrency, the spending above a limit is at most the
difference of the units in progress from that mean.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Sequence
from contextlib import asynccontextmanager
from typing import Generic

from medagent.engine.boundary import Abandoned, Lane, Performed, perform
from medagent.engine.journal import Journal
from medagent.engine.limits import UNIT_UNLIMITED, UNKNOWN, RunLimits, Stop, UnitLimits
from medagent.engine.plan import Done, Job, Take, U, Worker
from medagent.engine.progress import Progress
from medagent.engine.rows import FAILED, R

FIRST_GROUP = 4
"""The number of units that start before the cost of any unit is known."""
FEWEST = 10
"""`--fail-after` applies once this number of units has ended."""


class Feed(Generic[U, R]):
    """The units of one stage, in groups. `stopped` is the reason if it ended early: a limit, or the text of `stop`.

    A group starts only if the budget allows all of it, and is then handed out whole.
    """

    def __init__(self, groups: Iterable[Sequence[U]], journal: Journal[R], limits: RunLimits) -> None:
        self._groups = deque(groups)
        self._begun = deque[U]()
        self._journal = journal
        self._limits = limits
        self._running = 0
        self._ended = 0
        self._failed = 0
        self._last_failure = ""
        self._changed = asyncio.Event()
        self.stopped: Stop | None = None

    async def take(self) -> U | None:
        """The next unit, when the budget allows it; None if there is none or a limit is reached."""
        while not self._begun and self._groups and self.stopped is None:
            self.stopped = self._reached()
            if self.stopped is not None:
                break
            if why_not := self._no_room(len(self._groups[0])):
                if not self._running:
                    self.stopped = why_not
                    break
                self._changed.clear()
                await self._changed.wait()
                continue
            self._begun.extend(self._groups.popleft())
        if self._begun:
            self._running += 1
            return self._begun.popleft()
        self._changed.set()  # wakes waiting lanes, which end as well
        return None

    def stop(self, why: str) -> None:
        """Hand out no more units. `why` is the reason."""
        self.stopped = self.stopped or Stop(why)
        self._begun.clear()
        self._changed.set()

    def end(self, row: R) -> None:
        """Count a unit that has ended with this row, which is already in the journal."""
        self._running -= 1
        self._ended += row.status != "cancelled"
        if row.status == FAILED or (row.owed and row.status != "cancelled"):
            self._failed += 1
            self._last_failure = f"{row.unit}: {row.status}: {row.error}"
        self._changed.set()

    def _reached(self) -> Stop | None:
        share = self._limits.fail_after
        if share is not None and self._ended >= FEWEST and self._failed > share * self._ended:
            failed = f"{self._failed} of {self._ended} failed, last {self._last_failure}"
            return Stop(f"--fail-after {share:g} is reached ({failed})", "--fail-after")
        return self._limits.reached(self._limits.before + self._journal.account)

    def _no_room(self, more: int) -> Stop | None:
        """The reason to wait, or to stop, if this number of further units might exceed a budget; otherwise None."""
        if not self._limits.any_budget:
            return None
        paid, account = self._journal.paid, self._journal.account
        spent = self._limits.before + account
        running = self._running + more - 1
        if running >= max(FIRST_GROUP, paid):
            return Stop("too few units have ended to estimate the cost of a unit")
        if (
            self._limits.cost is not None
            and account.unknown
            and not account.cost
            and running + account.unknown >= UNKNOWN
        ):
            return Stop("the cost of calls is unknown")
        if self._limits.tokens is not None and account.uncounted and running + account.uncounted >= UNKNOWN:
            return Stop("the tokens of calls are unknown")
        if not paid:
            return None
        units = running + 1
        if self._limits.cost is not None:
            mean = account.cost / paid
            if spent.cost + units * mean > self._limits.cost * (1 + 1e-9):
                text = f"--max-cost {self._limits.cost:g} is reached (${spent.cost:.4f} spent, ${mean:.4f} a unit)"
                return Stop(text, "--max-cost")
        if self._limits.tokens is not None:
            tokens = account.tokens / paid
            if spent.tokens + units * tokens > self._limits.tokens:
                limit = f"--max-tokens-total {self._limits.tokens}"
                return Stop(f"{limit} is reached ({spent.tokens} spent, {tokens:.0f} a unit)", "--max-tokens-total")
        return None


CarryOut = Callable[[U], Awaitable[Performed[R]]]
"""Runs a unit. If the call is cancelled, it cancels the unit and returns its row; see `perform`."""


class LocalExecutor:
    """The default executor. `limits` apply to each unit."""

    def __init__(self, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED) -> None:
        self._concurrency = concurrency
        self._limits = limits

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        async with opened(job, self._concurrency, self._limits) as (worker, carry_out):
            progress.watch(worker.stats)
            await run_lanes(self._concurrency, take, done, carry_out)


@asynccontextmanager
async def opened(
    job: Job[U, R], concurrency: int, limits: UnitLimits
) -> AsyncIterator[tuple[Worker[U, R], CarryOut[U, R]]]:
    """Open a job. Yields its worker, and the function that runs units on it, `concurrency` at once."""
    abandoned, lanes = Abandoned(concurrency), list[Lane]()
    async with job.open() as worker:

        async def carry_out(unit: U) -> Performed[R]:
            lane = lanes.pop() if lanes else Lane(abandoned)
            performed = await perform(worker, unit, job.row.begin(unit), lane, limits)
            lanes.append(lane)
            return performed

        try:
            yield worker, carry_out
        finally:
            for lane in lanes:
                lane.close()


async def run_lanes(concurrency: int, take: Take[U], done: Done[R], carry_out: CarryOut[U, R]) -> None:
    """Run units, `concurrency` at once. If a unit stops the run, or it is cancelled, units in progress are too."""
    lanes = [asyncio.create_task(_lane(take, done, carry_out)) for _ in range(concurrency)]
    try:
        await asyncio.gather(*lanes)
    finally:
        for task in lanes:
            task.cancel()
        await asyncio.gather(*lanes, return_exceptions=True)


async def _lane(take: Take[U], done: Done[R], carry_out: CarryOut[U, R]) -> None:
    """Run one unit after the other. A row is saved while the next unit runs."""
    saving = asyncio.ensure_future(asyncio.sleep(0))  # no row yet
    try:
        while (unit := await take()) is not None:
            performed = await carry_out(unit)
            if performed.row is not None:
                saved, saving = saving, asyncio.ensure_future(done(performed.row))
                await _wait_saved(saved)
            if performed.stop is not None:
                raise performed.stop
            if performed.cancelled:
                return
    finally:
        await _wait_saved(saving)


async def _wait_saved(saving: asyncio.Future[None]) -> None:
    """Wait until a row is saved, even if the run is cancelled meanwhile."""
    try:
        await asyncio.shield(saving)
    except asyncio.CancelledError:
        await saving
        raise
