"""Waits for workers, and requests them from an adaptive cluster.

Dask's adaptive clusters (`cluster.adapt`) start workers for waiting tasks, and stop workers without tasks. The units of
a run are not Dask tasks. So until the run ends, a number of tasks for which such a cluster has N workers wait at the
scheduler. They do nothing, and no worker can take them.
"""

from __future__ import annotations

import asyncio
import time
from dataclasses import dataclass
from typing import Any, Self

from medagent.core.errors import ExecutorLostError, UserError
from medagent.engine.progress import Progress

LOOKED_EVERY_S = 0.5
AWAITED_S = 3600.0
"""The default seconds of `--wait-for-workers N`."""
TASKS_A_THREAD = 10
"""Dask assumes 0.5 s for an unknown task, and provides one thread for each 5 s of waiting tasks."""
MOST_TASKS = 5_000
_RESOURCE = "medagent-worker-that-is-missing"
"""A resource that no worker has, so tasks that need it wait."""


@dataclass(frozen=True, slots=True)
class WorkerWait:
    """The number of workers to wait for before the run starts, and the longest time in seconds. Later workers join."""

    workers: int
    seconds: float = AWAITED_S

    @classmethod
    def of(cls, text: str) -> Self:
        """`N` or `N,SECONDS`."""
        workers, _, seconds = text.partition(",")
        return cls(int(workers), float(seconds)) if seconds else cls(int(workers))


class Demand:
    """Requests the workers of `wait` from the scheduler of `client`, from `begin` to `end`."""

    def __init__(self, client: Any, wait: WorkerWait) -> None:
        self._client = client
        self._wait = wait
        self._waiting: list[Any] = []
        self._task: asyncio.Task[None] | None = None

    def begin(self) -> None:
        """Start requesting workers."""
        self._task = asyncio.create_task(self._ask())

    async def arrived(self, shown: str, progress: Progress) -> int:
        """Wait for enough workers, or until the time is over. Returns their number. Raises UserError if there is none,
        ExecutorLostError if the scheduler is lost.
        """
        until = time.monotonic() + self._wait.seconds
        try:
            while (count := len(await self._client.nthreads())) < self._wait.workers and time.monotonic() < until:
                progress.wait(f"{count} of {self._wait.workers} workers are ready")
                await asyncio.sleep(LOOKED_EVERY_S)
        except OSError as error:  # Dask's connection errors are OSErrors
            raise ExecutorLostError(f"{shown}: the connection to the scheduler is lost: {error}") from None
        progress.wait("")
        if not count:
            raise UserError(f"{shown}: no worker within {self._wait.seconds:g} s (--wait-for-workers)")
        return count

    async def end(self) -> None:
        """Stop requesting workers."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        self._submit(0)

    async def _ask(self) -> None:
        while True:
            threads = list((await self._client.nthreads()).values())
            each = -(-sum(threads) // len(threads)) if threads else 1
            self._submit(min(MOST_TASKS, TASKS_A_THREAD * each * self._wait.workers))
            await asyncio.sleep(LOOKED_EVERY_S)

    def _submit(self, count: int) -> None:
        """Make `count` tasks wait at the scheduler."""
        if count == len(self._waiting):
            return
        for future in self._waiting:
            future.release()
        self._waiting = self._client.map(_nothing, range(count), pure=False, resources={_RESOURCE: 1}) if count else []


def _nothing(_: int) -> None:
    pass
