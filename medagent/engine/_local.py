"""Runs units in this process: one event loop, at most `concurrency` units at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import TypeVar

from medagent.engine._unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.boundary import Performed, perform
from medagent.engine.job import Job, Unit, Worker
from medagent.engine.lane import Lane, Strays
from medagent.engine.progress import Progress
from medagent.engine.rows import Row

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)


class LocalExecutor:
    """The default executor; each unit is held to `limits`."""

    def __init__(self, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED) -> None:
        self._concurrency = concurrency
        self._limits = limits

    async def run(
        self,
        job: Job[U, R],
        take: Callable[[], Awaitable[U | None]],
        done: Callable[[R], Awaitable[None]],
        progress: Progress,
    ) -> None:
        """See `Executor.run`. At most one row of each lane waits for the disk."""
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


async def work_off(
    take: Callable[[], Awaitable[U | None]],
    done: Callable[[R], Awaitable[None]],
    carry_out: Callable[[U], Awaitable[Performed[R]]],
) -> None:
    """Carry out one unit after the other, and save a row while the next unit is under way."""
    saving = asyncio.ensure_future(asyncio.sleep(0))  # nothing yet
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
    """Wait for a row to be saved, also when the run is being cancelled around it."""
    try:
        await asyncio.shield(saving)
    except asyncio.CancelledError:
        await saving
        raise
