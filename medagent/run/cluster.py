"""Runs units on a Dask cluster: a unit is a task there; the driver stays the only writer of the journal.

Each worker process opens the job once, in an event loop of its own thread, and keeps it. At most `concurrency` units
are in flight; when a worker is lost, Dask gives its units to another.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from medagent.errors import StopRunError, UserError
from medagent.run.engine import Job, Unit, Worker
from medagent.run.progress import Progress
from medagent.run.rows import Row

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)


class ClusterExecutor:
    """Runs on the scheduler at `address`, or on a local cluster of `workers` processes where that is None."""

    def __init__(self, address: str | None, workers: int | None, concurrency: int) -> None:
        self._address = address
        self._workers = workers or 2
        self._concurrency = concurrency

    async def run(
        self, job: Job[U, R], units: Iterator[U], done: Callable[[R], Awaitable[None]], progress: Progress
    ) -> None:
        """See `Executor.run`. Raises UserError where the cluster cannot be reached or the extra is not installed."""
        blob = pickle.dumps(job)

        async def lane(client: Any) -> None:
            from distributed import KilledWorker

            for unit in units:
                try:
                    row = await client.submit(run_here, blob, unit, key=f"medagent-{unit.key}", pure=False)
                except KilledWorker as error:
                    raise StopRunError(f"{unit.key} lost its worker again and again: {error}") from None
                await done(row)

        async with self._client() as client:
            lanes = [asyncio.create_task(lane(client)) for _ in range(self._concurrency)]
            try:
                await asyncio.gather(*lanes)
            finally:
                for task in lanes:
                    task.cancel()
                await asyncio.gather(*lanes, return_exceptions=True)

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError("a cluster needs the extra: pip install 'medagent[cluster]'") from None
        threads = -(-self._concurrency // self._workers)
        if self._address is None:
            async with (
                LocalCluster(
                    n_workers=self._workers, threads_per_worker=threads, asynchronous=True, dashboard_address=None
                ) as cluster,
                Client(cluster, asynchronous=True) as client,
            ):
                yield client
            return
        try:
            connection = await Client(self._address, asynchronous=True, timeout="10s")
        except OSError as error:
            raise UserError(f"--cluster {self._address}: cannot be reached: {error}") from None
        async with connection as client:
            yield client


class _Home:
    """A job opened in this process, living in the event loop of a thread that ends with the process."""

    def __init__(self, blob: bytes) -> None:
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._loop.run_forever, daemon=True, name="medagent-episodes").start()
        self._context = pickle.loads(blob).open()
        self._worker: Worker[Any, Any] = self._do(self._context.__aenter__())

    def run(self, unit: Any) -> Any:
        return self._do(self._worker.run(unit))

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_homes: dict[bytes, _Home] = {}
_opening = threading.Lock()


def run_here(blob: bytes, unit: Any) -> Any:
    """Carry a unit of the pickled job out in this worker process; returns its row."""
    with _opening:
        home = _homes.get(blob)
        if home is None:
            home = _homes[blob] = _Home(blob)
    return home.run(unit)
