"""Runs units on a Dask cluster. Only the driver writes the journal.

Dask starts the worker processes and carries messages. The driver assigns units to workers (`_crew.py`), because the
limits depend on it, and because a unit that kills its worker must not affect other units. Each worker process opens the
job once (`_cluster_worker.py`). Each run has its own id, so several runs can share a cluster.
"""

from __future__ import annotations

import asyncio
import logging
import os
import signal
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import replace
from typing import Any, cast
from uuid import uuid4

from medagent.core.errors import ExecutorLostError, UserError
from medagent.core.plugins import module_digest
from medagent.core.scrub import error_text, remember
from medagent.core.wire import split_credentials, without_password
from medagent.engine._cluster_demand import Demand, WorkerWait
from medagent.engine._cluster_worker import DriverFile, Opening, installed_here, pack
from medagent.engine._crew import Crew
from medagent.engine._local import work_off
from medagent.engine._unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.boundary import Performed
from medagent.engine.files import file_digest
from medagent.engine.job import Done, Job, JobWithFiles, Take, U
from medagent.engine.progress import Progress
from medagent.engine.rows import R

CANCELLED_WITHIN_S = 10.0
"""Seconds within which the rows of cancelled units must be saved."""
WORKERS_WITHIN_S = 4.0
"""Seconds to wait for a scheduler and its first worker before the run fails."""

IN_WORKER = (
    "import signal\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
    "import logging; logging.getLogger('distributed').setLevel(logging.CRITICAL)"
)
"""The code that a local worker runs first. It ignores signals, which a terminal sends to the whole process group,
because only the driver ends a run. It hides Dask's log of connections that close at the end.
"""


class ClusterExecutor:
    """Runs units on the scheduler at `address`; if that is None, on a local cluster of `workers` processes.

    The workers share `concurrency`, the number of calls at once at the model's endpoint. `limits` are those of each
    unit. `wait` is the number of a scheduler's workers to wait for.
    """

    def __init__(
        self,
        address: str | None,
        workers: int | None,
        concurrency: int,
        limits: UnitLimits = UNIT_UNLIMITED,
        wait: WorkerWait | None = None,
    ) -> None:
        self._address = address
        if address and (credentials := split_credentials(address)[1]):
            remember(credentials[1])  # Dask's messages have the address without `//`
        self._workers = workers or 2
        self._concurrency = concurrency
        self._limits = limits
        self._wait = wait

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        """See `Executor.run`. Raises UserError if the cluster cannot be reached or has no suitable worker, or if the
        extra is not installed.
        """
        async with self._client() as (client, replace), self._workers_of(client, progress) as count:
            opening = self._opening(job, count)
            crew = Crew(client, opening, job.row, replace, progress, self._wait if self._address else None)

            async def carry_out(unit: U) -> Performed[R]:
                carried = await crew.carry_out(unit)
                return Performed(carried.row, carried.error, carried.row is None or crew.ending)

            crew.begin()
            lanes = [asyncio.create_task(work_off(take, done, carry_out)) for _ in range(self._concurrency)]
            whole: asyncio.Future[Any] = asyncio.gather(*lanes)
            try:
                await asyncio.wait([whole, crew.over], return_when=asyncio.FIRST_COMPLETED)
            finally:
                await crew.close()
                await asyncio.wait(lanes, timeout=CANCELLED_WITHIN_S)
                for task in lanes:
                    task.cancel()
                await asyncio.gather(*lanes, whole, return_exceptions=True)
            if (why := crew.over.exception() if crew.over.done() else None) is not None:
                raise ExecutorLostError(f"{self._shown}: {why}") if isinstance(why, ExecutorLostError) else why
            whole.result()

    @property
    def _shown(self) -> str:
        return f"--cluster {without_password(self._address)}" if self._address else f"--workers {self._workers}"

    def _opening(self, job: Job[U, R], workers: int) -> Opening:
        share = -(-self._concurrency // max(1, workers))
        files = job.files if isinstance(job, JobWithFiles) else ()
        driver_files = tuple(DriverFile(file.path, file_digest(file.path), file.make) for file in files)
        packed = pack(replace(cast(Any, job), concurrency=share))
        return Opening(uuid4().hex, installed_here(), packed, driver_files, self._limits, _modules(job))

    @asynccontextmanager
    async def _workers_of(self, client: Any, progress: Progress) -> AsyncIterator[int]:
        """The number of workers. Until the block ends, missing workers are requested. Raises UserError if there is no
        worker.
        """
        if self._address and self._wait is not None:
            demand = Demand(client, self._wait)
            demand.begin()
            try:
                yield await demand.arrived(self._shown, progress)
            finally:
                await demand.end()
            return
        with suppress(TimeoutError):
            await client.wait_for_workers(1, timeout=WORKERS_WITHIN_S)
        count = len(await client.nthreads())
        if not count:
            start = self._shown.removeprefix("--cluster ")
            raise UserError(
                f"{self._shown}: the scheduler has no workers; start some (dask worker {start}), or wait for them with "
                "--wait-for-workers 1"
            )
        yield count

    @asynccontextmanager
    async def _client(self) -> AsyncIterator[tuple[Any, Callable[[str], None]]]:
        """A client, and a function that replaces the worker process at an address."""
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError("a cluster needs the extra: pip install 'medagent[cluster]'") from None
        logging.getLogger("distributed").setLevel(logging.CRITICAL)  # errors are reported below, in one line
        if self._address is None:
            async with (
                LocalCluster(
                    n_workers=self._workers,
                    threads_per_worker=1,
                    asynchronous=True,
                    dashboard_address="127.0.0.1:0",  # another run may use the default port
                    preload=[IN_WORKER],
                ) as cluster,
                Client(cluster, asynchronous=True) as client,
            ):
                yield client, lambda address: _kill(cluster, address)
            return
        # Certificates and other options of a scheduler are in Dask's own configuration.
        connection = Client(self._address, asynchronous=True, timeout=f"{WORKERS_WITHIN_S}s")
        try:
            await connection
        except (OSError, ValueError, TypeError) as error:
            await connection.close()
            raise UserError(f"{self._shown}: cannot be reached: {error_text(str(error))}") from None
        async with connection as client:
            yield client, lambda _: None  # do not replace its workers: other runs may use them


def _modules(job: Job[U, R]) -> dict[str, str]:
    """The digests of the installed modules of a user's benchmark that define the job and its rows."""
    classes = [cls for cls in (type(job), job.row) if not cls.__module__.startswith(("medagent.", "__main__"))]
    return {cls.__module__: module_digest(cls) for cls in classes}


def _kill(cluster: Any, address: str) -> None:
    """Kill a worker process of a local cluster; its nanny starts a new one."""
    for nanny in cluster.workers.values():
        if nanny.worker_address == address and nanny.pid is not None:
            with suppress(ProcessLookupError):
                os.kill(nanny.pid, signal.SIGKILL)
