"""Runs units in this process: one event loop, at most `concurrency` units at once."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager

from medagent.engine._unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.boundary import Performed, perform
from medagent.engine.job import Done, Job, Take, U, Worker
from medagent.engine.lane import Lane, Strays
from medagent.engine.progress import Progress
from medagent.engine.rows import R

CarryOut = Callable[[U], Awaitable[Performed[R]]]
"""Runs a unit. If the call is cancelled, it cancels the unit and returns its row; see `perform`."""


class LocalExecutor:
    """The default executor. `limits` are those of each unit."""

    def __init__(self, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED) -> None:
        self._concurrency = concurrency
        self._limits = limits

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        """See `Executor.run`."""
        async with opened(job, self._concurrency, self._limits) as (worker, carry_out):
            progress.watch(worker.stats)
            await run_lanes(self._concurrency, take, done, carry_out)


@asynccontextmanager
async def opened(
    job: Job[U, R], concurrency: int, limits: UnitLimits
) -> AsyncIterator[tuple[Worker[U, R], CarryOut[U, R]]]:
    """Open a job. Yields its worker, and the function that runs units on it, `concurrency` at once."""
    strays, lanes = Strays(concurrency), list[Lane]()
    async with job.open() as worker:

        async def carry_out(unit: U) -> Performed[R]:
            lane = lanes.pop() if lanes else Lane(strays)
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
