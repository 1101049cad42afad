"""Runs units in this process: one event loop, at most `concurrency` units at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable

from medagent.engine._unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.boundary import Performed, perform
from medagent.engine.job import Done, Job, Take, U, Worker
from medagent.engine.lane import Lane, Strays
from medagent.engine.progress import Progress
from medagent.engine.rows import R


class LocalExecutor:
    """The default executor. `limits` are those of each unit."""

    def __init__(self, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED) -> None:
        self._concurrency = concurrency
        self._limits = limits

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        """See `Executor.run`. Each lane has at most one row that is not yet on disk."""
        strays = Strays(self._concurrency)

        async def lane_of(worker: Worker[U, R]) -> None:
            lane = Lane(strays)
            try:
                await work_off(take, done, lambda unit: perform(worker, unit, job.row.begin(unit), lane, self._limits))
            finally:
                lane.close()

        async with job.open() as worker:
            progress.watch(worker.stats)
            lanes = [asyncio.create_task(lane_of(worker)) for _ in range(self._concurrency)]
            try:
                await asyncio.gather(*lanes)
            finally:
                for task in lanes:
                    task.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)


async def work_off(take: Take[U], done: Done[R], carry_out: Callable[[U], Awaitable[Performed[R]]]) -> None:
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
