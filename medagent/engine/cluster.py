"""Runs units on a Dask cluster: a unit is a task there; the driver stays the only writer of the journal.

Dask finds a worker for each unit, and another one where a worker is lost. Ours is what it cannot do: at most
`concurrency` units are given to it at once (it would take all, and limits would come too late), and each worker process
opens the job once (`cluster_worker.py`). Tasks and open jobs are named by the run, so that several runs can share a
cluster. Before the first unit every worker says whether it has what the run needs.
"""

from __future__ import annotations

import asyncio
import logging
from collections import defaultdict
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, TypeVar, cast
from uuid import uuid4

from medagent.core.errors import ExecutorLostError, StopRunError, UserError
from medagent.core.plugins import module_digest
from medagent.core.scrub import error_text, remember
from medagent.core.version import __version__
from medagent.core.wire import split_credentials, without_password
from medagent.engine.cluster_worker import (
    Carried,
    GivenFile,
    Opened,
    Opening,
    close_here,
    open_here,
    pack,
    run_here,
    take_here,
    version_here,
)
from medagent.engine.files import file_digest
from medagent.engine.job import Job, JobWithFiles, Unit
from medagent.engine.progress import Progress
from medagent.engine.rows import Row
from medagent.engine.unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.models.limiter import EndpointStats

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)

CANCELLED_WITHIN_S = 10.0
"""How long workers have to hand over the rows of what is cancelled."""
WORKERS_WITHIN_S = 4.0
"""How long a scheduler may be without a worker, or away, before a run says so."""
PART_BYTES = 8 << 20
"""A file that a worker lacks is sent in parts of this size."""

IN_WORKER = (
    "import signal\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
    "import logging; logging.getLogger('distributed').setLevel(logging.CRITICAL)"
)
"""What a local worker runs first: signals to a terminal's whole group reach it too, but the driver alone ends a run;
and what Dask logs of a connection that closes at the end is no news to anybody.
"""


class ClusterExecutor:
    """Runs on the scheduler at `address`, or on a local cluster of `workers` processes where that is None.

    Each worker may have its share of `concurrency` at the model's endpoint; each unit is held to `limits`.
    """

    def __init__(
        self, address: str | None, workers: int | None, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED
    ) -> None:
        self._address = address
        if address and (credentials := split_credentials(address)[1]):
            remember(credentials[1])  # Dask repeats an address without its `//`
        self._workers = workers or 2
        self._concurrency = concurrency
        self._limits = limits

    async def run(
        self,
        job: Job[U, R],
        take: Callable[[], Awaitable[U | None]],
        done: Callable[[R], Awaitable[None]],
        progress: Progress,
    ) -> None:
        """See `Executor.run`. Raises UserError where the cluster cannot be reached, has no worker that can do the work,
        or the extra is not installed.
        """
        async with self._client() as client:
            crew = _Crew(client, self._shown, self._opening(job, await self._present(client)))
            try:
                await crew.open()
            except OSError:
                raise self._lost() from None
            lanes = [asyncio.create_task(_lane(crew, take, done, progress)) for _ in range(self._concurrency)]
            whole: asyncio.Future[Any] = asyncio.gather(*lanes)
            lost: asyncio.Future[Any] = asyncio.create_task(crew.lost())
            try:
                await asyncio.wait([whole, lost], return_when=asyncio.FIRST_COMPLETED)
            finally:
                gone = await crew.close(progress)
                if not gone:
                    await asyncio.wait(lanes, timeout=CANCELLED_WITHIN_S)
                for task in (*lanes, lost):
                    task.cancel()
                await asyncio.gather(*lanes, whole, lost, return_exceptions=True)
            if gone:
                raise self._lost()
            whole.result()

    @property
    def _shown(self) -> str:
        return f"--cluster {without_password(self._address)}" if self._address else f"--workers {self._workers}"

    def _lost(self) -> ExecutorLostError:
        return ExecutorLostError(f"{self._shown}: the connection to the scheduler is lost")

    def _opening(self, job: Job[U, R], workers: int) -> Opening:
        share = -(-self._concurrency // max(1, workers))
        files = job.files if isinstance(job, JobWithFiles) else ()
        given = tuple(GivenFile(file.path, file_digest(file.path), file.make) for file in files)
        packed = pack(replace(cast(Any, job), concurrency=share))
        return Opening(uuid4().hex, __version__, packed, given, self._limits, _modules(job))

    async def _present(self, client: Any) -> int:
        """How many workers there are. Raises UserError where there is none."""
        with suppress(TimeoutError):
            await client.wait_for_workers(1, timeout=WORKERS_WITHIN_S)
        count = len(await client.nthreads())
        if not count:
            start = self._shown.removeprefix("--cluster ")
            raise UserError(f"{self._shown}: the scheduler has no workers; start some: dask worker {start}")
        return count

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[Any]:
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError("a cluster needs the extra: pip install 'medagent[cluster]'") from None
        logging.getLogger("distributed.client").setLevel(logging.CRITICAL)  # what goes wrong is said here, in one line
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
        # Certificates, and whatever else a scheduler asks for, are Dask's own configuration.
        connection = Client(self._address, asynchronous=True, timeout=f"{WORKERS_WITHIN_S}s")
        try:
            await connection
        except (OSError, ValueError, TypeError) as error:
            await connection.close()
            raise UserError(f"{self._shown}: cannot be reached: {error_text(str(error))}") from None
        async with connection as client:
            yield client


def _modules(job: Job[U, R]) -> dict[str, str]:
    """The installed modules of somebody's that a job is of, with their digests; medagent's own have its version."""
    classes = [cls for cls in (type(job), job.row) if not cls.__module__.startswith(("medagent.", "__main__"))]
    return {cls.__module__: module_digest(cls) for cls in classes}


async def _lane(
    crew: _Crew,
    take: Callable[[], Awaitable[U | None]],
    done: Callable[[R], Awaitable[None]],
    progress: Progress,
) -> None:
    """One unit after the other."""
    while not crew.ending and (unit := await take()) is not None:
        carried = await crew.carry_out(unit)
        if carried.stats:
            progress.watch(crew.stats_with(carried))
        if carried.row is not None:
            await done(carried.row)
        if carried.mend is not None:
            raise UserError(carried.mend)
        if carried.stop is not None:
            raise StopRunError(carried.stop)
        if carried.row is None:
            return


class _Crew:
    """The workers of a cluster, as one run has them."""

    def __init__(self, client: Any, shown: str, opening: Opening) -> None:
        self._client = client
        self._shown = shown
        self._opening = opening
        self._sending: defaultdict[tuple[str, str], asyncio.Lock] = defaultdict(asyncio.Lock)
        self._stats: dict[str, list[EndpointStats]] = {}
        self.ending = False

    async def open(self) -> None:
        """Have every worker open the job. Raises UserError naming one that cannot, and what to do; OSError where the
        scheduler is gone.
        """
        try:
            await self._client.run_on_scheduler(version_here)
        except OSError:
            raise
        except Exception as error:
            raise UserError(f"{self._shown}: the scheduler {_no_medagent(error)}") from None
        found = await self._client.run(open_here, self._opening, on_error="return")
        for worker, opened in found.items():
            if isinstance(opened, Opened) and opened.lacking:
                await self._send(worker, opened.lacking)
                again = await self._client.run(open_here, self._opening, on_error="return", workers=[worker])
                opened = again[worker]
            if isinstance(opened, Exception):
                raise UserError(f"worker {worker}: {_no_medagent(opened)}")
            if opened.mend is not None:
                raise UserError(f"worker {worker}: {opened.mend}")
            if opened.lacking:
                raise UserError(f"worker {worker}: {opened.lacking[0].path} did not arrive there whole")

    async def carry_out(self, unit: Unit) -> Carried:
        """What some worker made of a unit."""
        from distributed import KilledWorker

        while True:
            name = f"medagent-{self._opening.run}-{unit.key}"
            try:
                future = self._client.submit(run_here, self._opening, pack(unit), key=name, pure=False)
                carried = cast(Carried, await future)
            except KilledWorker as error:
                raise StopRunError(f"{unit.key} lost its worker again and again: {error}") from None
            if not carried.lacking:
                return carried
            await self._send(carried.worker, carried.lacking)  # one that came later
            del future  # so that the scheduler forgets the task, and takes it again

    async def close(self, progress: Progress) -> bool:
        """End the run everywhere, and show what went on at the endpoints. Returns whether the scheduler is gone."""
        self.ending = True
        try:
            found: Mapping[str, Any] = await self._client.run(close_here, self._opening.run, on_error="ignore")
        except OSError:
            return True
        progress.watch([stats for several in found.values() if isinstance(several, list) for stats in several])
        return False

    async def lost(self) -> None:
        """Wait until the scheduler is gone."""
        while self._client.status == "running":  # noqa: ASYNC110  # Dask sets no event for it
            await asyncio.sleep(0.5)

    def stats_with(self, carried: Carried) -> list[EndpointStats]:
        """What went on at the endpoints of every worker when it was heard of last."""
        self._stats[carried.worker] = list(carried.stats)
        return [stats for several in self._stats.values() for stats in several]

    async def _send(self, worker: str, files: tuple[GivenFile, ...]) -> None:
        for file in files:
            async with self._sending[worker, file.sha256]:
                with file.path.open("rb") as content:
                    start, part = 0, b"-"
                    while part:
                        part = content.read(PART_BYTES)
                        await self._client.run(take_here, file, start, part, workers=[worker])
                        start += len(part)


def _no_medagent(error: Exception) -> str:
    """What is wrong with a process that cannot unpack what is medagent's."""
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return f"cannot import this medagent ({reason}); install medagent {__version__} there"
