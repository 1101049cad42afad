"""Runs units in this process: one event loop, at most `concurrency` units at once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import TypeVar

from medagent.run.engine import Job, Unit, Worker
from medagent.run.progress import Progress
from medagent.run.rows import Row

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)


class LocalExecutor:
    """The default executor."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency

    async def run(
        self, job: Job[U, R], units: Iterator[U], done: Callable[[R], Awaitable[None]], progress: Progress
    ) -> None:
        """See `Executor.run`. Each of `concurrency` lanes takes the next unit when its last one is durable."""

        async def lane(worker: Worker[U, R]) -> None:
            for unit in units:
                row = await worker.run(unit)
                await _kept(done(row))
                if row.status == "cancelled":
                    return

        async with job.open() as worker:
            progress.watch(worker.stats)
            lanes = [asyncio.create_task(lane(worker)) for _ in range(self._concurrency)]
            try:
                await asyncio.gather(*lanes)
            finally:
                for task in lanes:
                    task.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)


async def _kept(saving: Awaitable[None]) -> None:
    """Wait for a row to be saved, also when the run is being cancelled around it."""
    task = asyncio.ensure_future(saving)
    try:
        await asyncio.shield(task)
    except asyncio.CancelledError:
        await task
        raise
