"""Runs units on a Dask cluster: a unit is a task there; the driver stays the only writer of the journal.

Each worker process opens the job once, in an event loop of its own thread, and keeps it until the run ends. At most
`concurrency` units are in flight; when a worker is lost, Dask gives its units to another. What workers and scheduler
hold is named by the run, so that several runs can share a cluster.
"""

from __future__ import annotations

import asyncio
import pickle
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from concurrent.futures import CancelledError, Future
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from typing import Any, TypeVar, cast
from uuid import uuid4

from medagent.engine.boundary import perform
from medagent.engine.job import Job, Unit, Worker
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.errors import StopRunError, UserError
from medagent.models.limiter import EndpointStats
from medagent.plugins import local_files

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)

CANCELLED_WITHIN_S = 10.0
"""How long workers have to hand over the rows of what is cancelled."""

IN_WORKER = (
    "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    "import logging; logging.getLogger('distributed').setLevel(logging.CRITICAL)"
)
"""What a local worker runs first: a terminal's Ctrl-C reaches it too, but the driver alone ends a run; and what Dask
logs of a connection that closes at the end is no news to anybody.
"""


LOOK_EVERY_S = 2.0
"""How often the workers are asked what goes on at the endpoints."""


@dataclass(frozen=True, slots=True)
class Carried:
    """What a worker gives for a unit: its row, None where the run had ended before it began, and why the run must stop.
    An exception would be logged by Dask with its traceback.
    """

    row: Any
    stop: str | None = None
    mend: str | None = None
    """The text of a UserError: what a person must mend first."""


class ClusterExecutor:
    """Runs on the scheduler at `address`, or on a local cluster of `workers` processes where that is None.

    Each worker may have its share of `concurrency` at the model's endpoint.
    """

    def __init__(self, address: str | None, workers: int | None, concurrency: int) -> None:
        self._address = address
        self._workers = workers or 2
        self._concurrency = concurrency

    async def run(
        self, job: Job[U, R], units: Iterator[U], done: Callable[[R], Awaitable[None]], progress: Progress
    ) -> None:
        """See `Executor.run`. Raises UserError where the cluster cannot be reached or the extra is not installed."""
        run, ending = uuid4().hex, False

        async def lane(client: Any, blob: bytes) -> None:
            for unit in units:
                if ending:
                    return
                carried = await _submitted(client, run, blob, unit)
                if carried.row is not None:
                    await done(carried.row)
                if carried.mend is not None:
                    raise UserError(carried.mend)
                if carried.stop is not None:
                    raise StopRunError(carried.stop)
                if carried.row is None:
                    return

        async def watch(client: Any) -> None:
            while True:
                await asyncio.sleep(LOOK_EVERY_S)
                progress.watch(_stats(await client.run(stats_here, run, on_error="ignore")))

        async with self._client() as client:
            share = -(-self._concurrency // max(1, len(await client.nthreads())))
            blob = _packed(replace(cast(Any, job), concurrency=share))
            lanes = [asyncio.create_task(lane(client, blob)) for _ in range(self._concurrency)]
            watching = asyncio.create_task(watch(client))
            try:
                await asyncio.wait(lanes, return_when=asyncio.FIRST_EXCEPTION)
            finally:
                ending = True
                watching.cancel()
                await asyncio.gather(watching, return_exceptions=True)
                progress.watch(_stats(await client.run(close_here, run, on_error="ignore")))
                _, late = await asyncio.wait(lanes, timeout=CANCELLED_WITHIN_S)
                for task in late:
                    task.cancel()
            await asyncio.gather(*lanes)

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
                    n_workers=self._workers,
                    threads_per_worker=threads,
                    asynchronous=True,
                    dashboard_address="127.0.0.1:0",  # the default port is taken where another run has one
                    preload=[IN_WORKER],
                ) as cluster,
                Client(cluster, asynchronous=True) as client,
            ):
                yield client
            return
        connection = Client(self._address, asynchronous=True, timeout="5s")
        try:
            await connection
        except (OSError, ValueError) as error:
            await connection.close()
            raise UserError(f"--cluster {self._address}: cannot be reached: {error}") from None
        async with connection as client:
            yield client


def _packed(value: Any) -> bytes:
    """A value for a worker, with the local plug-ins whose classes it may hold: they must be loaded before it."""
    return pickle.dumps((local_files(), pickle.dumps(value)))


def _unpacked(blob: bytes) -> Any:
    plugins, value = pickle.loads(blob)
    for plugin in plugins:
        plugin.load()
    return pickle.loads(value)


async def _submitted(client: Any, run: str, blob: bytes, unit: Unit) -> Carried:
    """What some worker made of a unit."""
    from distributed import KilledWorker

    name = f"medagent-{run}-{unit.key}"
    try:
        return cast(Carried, await client.submit(run_here, run, blob, _packed(unit), key=name, pure=False))
    except KilledWorker as error:
        raise StopRunError(f"{unit.key} lost its worker again and again: {error}") from None


def _stats(by_worker: Mapping[str, Any]) -> list[EndpointStats]:
    """What goes on at the endpoints, of every worker that answered."""
    return [stats for found in by_worker.values() if isinstance(found, list) for stats in found]


class _Home:
    """A job opened in this process, living in the event loop of a thread of its own."""

    def __init__(self, blob: bytes) -> None:
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="medagent-units")
        self._thread.start()
        self._running: set[asyncio.Task[Any]] = set()
        self._job = _unpacked(blob)
        self._context = self._job.open()
        self._worker: Worker[Any, Any] = self._do(self._context.__aenter__())

    @property
    def stats(self) -> list[EndpointStats]:
        """What goes on at the endpoints."""
        return list(self._worker.stats)

    def begin(self, unit: Any) -> Future[Carried]:
        """Begin a unit; what becomes of it is waited for elsewhere."""
        return asyncio.run_coroutine_threadsafe(self._carry_out(unit, self._job.row.begin(unit)), self._loop)

    def close(self) -> None:
        """Cancel what is under way, whose rows say so, and close the job."""
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _carry_out(self, unit: Any, row: Row) -> Carried:
        task = asyncio.create_task(perform(self._worker, unit, row))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        stop = await task
        return Carried(row, None if stop is None else str(stop))

    async def _end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._context.__aexit__(None, None, None)

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()


_homes: dict[str, _Home | None] = {}
"""By run; None where the run has ended."""
_opening = threading.Lock()


def run_here(run: str, blob: bytes, unit: bytes) -> Carried:
    """Carry a unit of the packed job out in this worker process."""
    try:
        with _opening:  # a unit that has begun is known to whoever ends the run
            if run not in _homes:
                _homes[run] = _Home(blob)
            home = _homes[run]
            if home is None:
                return Carried(None)
            begun = home.begin(_unpacked(unit))
        return begun.result()
    except StopRunError as error:
        return Carried(None, stop=str(error))
    except UserError as error:
        return Carried(None, mend=str(error))
    except CancelledError:  # before it began
        return Carried(None)


def stats_here(run: str) -> list[EndpointStats]:
    """What goes on at the endpoints of this worker process."""
    home = _homes.get(run)
    return home.stats if home else []


def close_here(run: str) -> list[EndpointStats]:
    """End a run in this worker process; returns what went on at its endpoints."""
    with _opening:
        home, _homes[run] = _homes.get(run), None
    if home is None:
        return []
    home.close()
    return home.stats
