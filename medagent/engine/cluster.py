"""Runs units on a Dask cluster: a unit is a Dask task. Only the driver writes the journal.

Dask chooses the workers, notices dead ones, and moves tasks that are not running yet. A unit that started is paid for,
so Dask must not run it again by itself, whatever the scheduler's `allowed-failures`: a task sets an event at the
scheduler before its unit begins, and does nothing if the event is already set. If a worker dies, any of its units may
be the cause. The driver submits each of them once more, one after the other, and it runs alone in its process. If that
dies too, the unit becomes an `agent_error`. The next one starts only when the driver has the result of the one before:
a result that is still on its way when the process dies would look like a unit in progress, and be blamed.

A worker process opens a run's job once, in an event loop of its own thread, so that what blocks it does not delay the
worker's heartbeat. A task waits for its unit in a thread that has seceded from Dask's thread pool, so a process runs
any number of units at once.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pickle
import platform
import threading
import time
from collections.abc import AsyncIterator, Coroutine, Mapping, Sequence
from concurrent import futures
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager, nullcontext, suppress
from dataclasses import dataclass, field, replace
from enum import Enum, auto
from functools import cache
from pathlib import Path
from typing import Any, Self, TypeVar, cast
from uuid import uuid4

from medagent.core.clock import wall_clock
from medagent.core.errors import ExecutorLostError, MedagentError, StopRunError, UserError
from medagent.core.installed import installed_digest
from medagent.core.paths import cache_dir
from medagent.core.plugins import Plugin, local_files, module_digest
from medagent.core.scrub import error_text, remember
from medagent.core.version import __version__
from medagent.core.wire import split_credentials, without_password
from medagent.core.writing import file_digest
from medagent.engine.boundary import Performed, PluginError, TooManyAbandonedError, fail
from medagent.engine.limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.local import CarryOut, opened, run_lanes
from medagent.engine.plan import Done, Job, JobWithFiles, Take, U
from medagent.engine.progress import Progress
from medagent.engine.rows import R
from medagent.models.limiter import EndpointStats

T = TypeVar("T")

WORKERS_WITHIN_S = 4.0
"""Seconds to wait for a scheduler and its first worker before the run fails."""
AWAITED_S = 3600.0
"""The default seconds of `--wait-for-workers N`."""
OPENED_WITHIN_S = 600.0
"""Seconds for a worker to open the job; it may have to build a hospital."""
NONE_LEFT_S = 120.0
"""Seconds that a run without workers waits for one."""
CLOSED_WITHIN_S = 3.0
"""Seconds for the workers to cancel their units and close the job."""
ANSWERS_WITHIN_S = 60.0
"""Seconds without an answer after which an event loop in a worker is blocked, and its process ends."""
WATCHED_EVERY_S = 0.5
PART_BYTES = 8 << 20
"""The size of the parts in which a missing file is sent to a worker."""
WAITING_PER_THREAD = 10
"""Waiting tasks for which an adaptive cluster provides a thread: it assumes 0.5 s for each, and wants them done in 5 s.
"""
_MISSING = "medagent-worker-that-is-missing"
"""A resource that no worker offers, so tasks that need it wait."""

DIED = "its worker died"
_CHECKED = ("medagent.", "medagent_plugin_", "__main__")
"""The modules of a job that are checked otherwise: ours, modules of local files, and a program's own."""

IN_WORKER = (
    "import signal\n"
    "for name in ('SIGINT', 'SIGTERM', 'SIGHUP'): signal.signal(getattr(signal, name), signal.SIG_IGN)\n"
    "import logging; logging.getLogger('distributed').setLevel(logging.CRITICAL)"
)
"""The code that a local worker runs first. It ignores signals, which a terminal sends to the whole process group,
because only the driver ends a run. It hides Dask's log of connections that close at the end.
"""


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


@dataclass
class ClusterExecutor:
    """Runs units on the scheduler at `address`; if that is None, on a local cluster of `workers` processes.

    The workers share `concurrency`, the number of units at once. `limits` apply to each unit. `wait` is the number of a
    scheduler's workers to wait for. An executor runs one job.
    """

    address: str | None
    workers: int | None
    concurrency: int
    limits: UnitLimits = UNIT_UNLIMITED
    wait: WorkerWait | None = None
    _run: str = field(default_factory=lambda: uuid4().hex)
    _is_over: bool = False
    _stats: dict[str, Sequence[EndpointStats]] = field(default_factory=dict)
    _killed: set[str] = field(default_factory=set)
    """The tasks that were in progress on workers that died."""
    _demand: Sequence[Any] = ()
    _sending: asyncio.Lock = field(default_factory=asyncio.Lock)
    _alone: asyncio.Lock = field(default_factory=asyncio.Lock)
    """Held by the unit that runs alone, until the driver has its result."""
    _job: Any = None
    _client: Any = None
    _progress: Progress = field(init=False)
    _opening: Opening = field(init=False)

    async def run(self, job: Job[U, R], take: Take[U], done: Done[R], progress: Progress) -> None:
        """See `Executor.run`. Raises UserError if the cluster cannot be reached, if no worker is suitable, or if the
        extra is not installed.
        """
        self._job = job
        self._progress = progress
        async with self._connected() as self._client:
            self._client.subscribe_topic("all", self._notice)
            try:
                count = await self._arrived()
                self._opening = Opening.of(job, self._run, -(-self.concurrency // count), self.limits)
                async with asyncio.TaskGroup() as group:
                    watching = group.create_task(self._watch())
                    await self._check()
                    await run_lanes(self.concurrency, take, done, self._carry_out)
                    watching.cancel()
            except BaseExceptionGroup as errors:
                raise errors.exceptions[0] from None
            finally:
                self._client.unsubscribe_topic("all")
                await self._end()

    @property
    def _shown(self) -> str:
        return f"--cluster {without_password(self.address)}" if self.address else f"--workers {self.workers}"

    @asynccontextmanager
    async def _connected(self) -> AsyncIterator[Any]:
        """A client of the cluster."""
        try:
            from distributed import Client, LocalCluster
        except ImportError:
            raise UserError("a cluster needs the extra: pip install 'medagent[cluster]'") from None
        for name in ("distributed", "distributed.client"):  # errors are reported below, in one line
            logging.getLogger(name).setLevel(logging.CRITICAL)
        async with AsyncExitStack() as stack:
            where: Any = self.address
            if where is None:
                cluster = LocalCluster(
                    n_workers=self.workers,
                    threads_per_worker=1,
                    asynchronous=True,
                    dashboard_address="127.0.0.1:0",  # another run may use the default port
                    preload=[IN_WORKER],
                    config={"distributed.worker.memory.pause": False},  # a pause does not free an agent's memory
                )
                try:
                    where = await stack.enter_async_context(cluster)
                except (OSError, RuntimeError) as error:
                    raise UserError(
                        f"{self._shown}: a worker process ended while it started ({error_text(str(error))}); start the "
                        "run again, with fewer workers if the machine lacks memory"
                    ) from None
            elif credentials := split_credentials(where)[1]:
                remember(credentials[1])  # Dask's messages show the address without `//`
            # Certificates and other options of a scheduler are in Dask's own configuration.
            client = Client(where, asynchronous=True, timeout=f"{WORKERS_WITHIN_S}s", set_as_default=False)
            stack.push_async_callback(client.close)
            try:
                await client
            except (OSError, ValueError, TypeError) as error:
                raise UserError(f"{self._shown}: cannot be reached: {error_text(str(error))}") from None
            yield client

    async def _arrived(self) -> int:
        """Wait for the first workers. Returns their number. Raises UserError if there is none in time.

        With `wait`, tasks that no worker can take are at the scheduler until the run ends: as many as an adaptive
        cluster needs to start the workers, and to keep them while they are idle.
        """
        count, seconds = (self.wait.workers, self.wait.seconds) if self.wait else (1, WORKERS_WITHIN_S)
        until = time.monotonic() + seconds
        while len(threads := await self._threads()) < count and time.monotonic() < until:
            self._progress.wait(f"{len(threads)} of {count} workers are ready")
            await asyncio.sleep(WATCHED_EVERY_S)
        self._progress.wait("")
        if not threads:
            raise UserError(
                f"{self._shown}: no worker within {seconds:g} s; start some (dask worker {self._shown.split()[1]}), or "
                "wait longer with --wait-for-workers N,SECONDS"
            )
        return len(threads)

    async def _watch(self) -> None:
        """Raises ExecutorLostError if the scheduler or all workers are lost."""
        patience = max(NONE_LEFT_S, self.wait.seconds if self.wait else 0)
        last_seen = time.monotonic()
        while time.monotonic() - last_seen < patience:
            if await self._threads():
                last_seen = time.monotonic()
            await asyncio.sleep(WATCHED_EVERY_S)
        raise ExecutorLostError(f"{self._shown}: no worker is left")

    async def _threads(self) -> Mapping[str, int]:
        """The workers' addresses and numbers of threads. Raises ExecutorLostError."""
        try:
            async with asyncio.timeout(NONE_LEFT_S):
                threads: Mapping[str, int] = await self._client.nthreads()
        except (OSError, RuntimeError):  # RuntimeError if the client gave up
            raise self._lost() from None
        if self.wait is not None:
            tasks = WAITING_PER_THREAD * max(threads.values(), default=1) * self.wait.workers
            if tasks != len(self._demand):
                self._demand = self._client.map(str, range(tasks), pure=False, resources={_MISSING: 1})
        return threads

    def _lost(self) -> ExecutorLostError:
        return ExecutorLostError(f"{self._shown}: the connection to the scheduler is lost")

    def _notice(self, event: tuple[float, Mapping[str, Any]]) -> None:
        """Note a worker that the scheduler has removed. Adaptive clusters and `--lifetime` make workers leave."""
        what = event[1]
        if what.get("action") == "remove-worker":
            self._progress.note(f"worker {what['worker']} {'left' if what['expected'] else 'died'}")
            if not what["expected"]:
                self._killed.update(what["processing-tasks"])

    async def _check(self) -> None:
        """Make the workers open the job. Raises UserError if one cannot."""
        opened = await self._client.run(open_here, self._opening, on_error="return")
        for address, problem in opened.items():
            if isinstance(problem, Exception) and not isinstance(problem, LackingError | OSError):
                raise _readable(f"worker {address}", problem)

    async def _send(self, worker: str, digest: str) -> None:
        """Send a file of the job to a worker, unless one of the same machine got it meanwhile."""
        path = self._opening.files[digest]
        async with self._sending:
            if (await self._client.run(place_here, digest, path, workers=[worker]))[worker] is not None:
                return
            with path.open("rb") as content:
                start, part = 0, b"-"
                while part:
                    part = content.read(PART_BYTES)
                    await self._client.run(take_here, digest, path, start, part, workers=[worker])
                    start += len(part)

    async def _carry_out(self, unit: Any) -> Performed[Any]:
        """See `CarryOut`. A unit whose worker was lost runs again."""
        alone = False
        while True:
            try:
                async with self._alone if alone else nullcontext():
                    outcome = await self._attempt(unit, alone=alone)
            except asyncio.CancelledError:  # while it waited for others to run alone
                return Performed(None, cancelled=True)
            if isinstance(outcome, Performed):
                return outcome
            was_in_progress = outcome is _Lost.IN_PROGRESS
            if was_in_progress and alone:
                row = self._job.row.begin(unit)
                row.started = row.timestamp = wall_clock()
                fail(row, PluginError("agent", MedagentError(DIED), DIED))
                return Performed(row)
            alone = alone or was_in_progress

    async def _attempt(self, unit: Any, *, alone: bool) -> Performed[Any] | _Lost:
        """Submit a unit once, and wait for its result."""
        from distributed import Event, KilledWorker

        key = f"medagent-unit-{uuid4().hex}"
        task = self._client.submit(
            run_here, self._opening, pickle.dumps(unit), key, alone, key=key, pure=False, retries=0
        )
        begun, result = Event(key, self._client), asyncio.ensure_future(task.result())
        ended: Ended | None = None
        try:
            try:
                ended = await asyncio.shield(result)
            except KilledWorker:
                pass
            except LackingError as lacking:
                with suppress(OSError):  # the worker left
                    await self._send(*lacking.args)
            was_in_progress = key in self._killed and await begun.is_set()
            await begun.clear()
        except asyncio.CancelledError:
            return Performed(await self._last_row(result), cancelled=True)
        except (OSError, futures.CancelledError):
            raise self._lost() from None
        except Exception as error:
            raise _readable(self._shown, error) from None
        if ended is not None:
            return await self._performed(ended)
        return _Lost.IN_PROGRESS if was_in_progress else _Lost.OTHERWISE

    async def _performed(self, ended: Ended) -> Performed[Any]:
        self._stats[ended.worker] = ended.stats
        self._progress.watch([stats for of_pool in self._stats.values() for stats in of_pool])
        performed = ended.performed
        if isinstance(performed.stop, TooManyAbandonedError):  # Dask starts a new process
            self._progress.note(f"worker {ended.worker} is replaced: {performed.stop}")
            await self._client.run(os._exit, 1, workers=[ended.worker], on_error="ignore")
            performed = replace(performed, stop=None)
        return performed

    async def _last_row(self, result: asyncio.Future[Ended | None]) -> Any:
        """The row of a unit when the run is cancelled; None if the unit did not begin."""
        await self._end()
        await asyncio.wait([result], timeout=2 * CLOSED_WITHIN_S)
        result.cancel()
        (ended,) = await asyncio.gather(result, return_exceptions=True)
        return ended.performed.row if isinstance(ended, Ended) else None

    async def _end(self) -> None:
        """Cancel the units in progress and close the job on all workers, once."""
        if not self._is_over:
            self._is_over = True
            with suppress(OSError, RuntimeError):  # the scheduler is lost
                async with asyncio.timeout(CLOSED_WITHIN_S):
                    await self._client.run(close_here, self._run, on_error="ignore")


def _readable(where: str, error: Exception) -> MedagentError:
    """The error for the user. Others than medagent's are from a process that cannot unpickle medagent's objects."""
    if isinstance(error, MedagentError):
        return error
    reason = f"{type(error).__name__}: {error}".splitlines()[0]
    return UserError(f"{where}: cannot import this medagent ({reason}); install medagent {__version__} there")


class _Lost(Enum):
    """Why the driver has no result of a unit's task."""

    IN_PROGRESS = auto()
    """Its worker died while the unit was in progress."""
    OTHERWISE = auto()
    """The unit did not begin, or it ended and its result was lost with its worker."""


@dataclass(frozen=True, slots=True)
class Opening:
    """The data that a worker needs for a run: the packed job, and the digests of what must be the same there."""

    run: str
    installed: str
    job: bytes
    files: Mapping[str, Path]
    """The files that the job opens, by their SHA-256."""
    limits: UnitLimits

    @classmethod
    def of(cls, job: Job[U, R], run: str, concurrency: int, limits: UnitLimits = UNIT_UNLIMITED) -> Self:
        """The job of a run, for workers that make `concurrency` calls at an endpoint at once."""
        classes = [kind for kind in (type(job), job.row) if not kind.__module__.startswith(_CHECKED)]
        plugins = [Plugin(f"{kind.__module__}:{kind.__qualname__}", module_digest(kind)) for kind in classes]
        packed = pickle.dumps(replace(cast(Any, job), concurrency=concurrency))
        files = job.files if isinstance(job, JobWithFiles) else ()
        return cls(
            run,
            installed_here(),
            pickle.dumps(([*local_files(), *plugins], packed)),
            {file_digest(path): path for path in files},
            limits,
        )

    def job_here(self, worker: str) -> Any:
        """The job, with the paths of its files on this machine. Raises UserError, LackingError."""
        if (here := installed_here()) != self.installed:
            raise UserError(f"runs {here}, but the run needs {self.installed}; install the same there")
        plugins, packed = pickle.loads(self.job)
        for plugin in plugins:
            plugin.load()
        job = pickle.loads(packed)
        places = {path: place_here(digest, path) for digest, path in self.files.items()}
        for digest, path in self.files.items():
            if places[path] is None:
                raise LackingError(worker, digest)
        return job.moved(places) if places else job


class LackingError(MedagentError):
    """A worker (its address) lacks a file of the job (its digest). Both are `args`, so that it can be pickled."""

    def __init__(self, worker: str, digest: str) -> None:
        super().__init__(f"{worker} lacks the file {digest}")
        self.args = (worker, digest)


@cache
def installed_here() -> str:
    """The versions in this process, which must be the same in all processes of a run."""
    from importlib.metadata import version

    sources = f"sources {installed_digest()[:12]}"  # a version does not identify a checkout
    return f"medagent {__version__} ({sources}), Python {platform.python_version()}, Dask {version('distributed')}"


def place_here(digest: str, path: Path) -> Path | None:
    """The path of a file with this digest on this machine: its path in the driver, or a copy. None if there is none."""
    places = (place for place in (path, _copy(digest, path)) if place.is_file() and file_digest(place) == digest)
    return next(places, None)


def take_here(digest: str, path: Path, start: int, content: bytes) -> None:
    """Write a part of a file that this machine lacks. An empty part completes the file."""
    place = _copy(digest, path)
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    aside.parent.mkdir(parents=True, exist_ok=True)
    with aside.open("ab" if start else "wb") as written:
        written.write(content)
    if not content:
        if file_digest(aside) != digest:
            raise UserError(f"{path}: changed during the run; start the run again")
        aside.replace(place)


def _copy(digest: str, path: Path) -> Path:
    return cache_dir() / f"fetched-{digest[:16]}{path.suffix}"


@dataclass(frozen=True, slots=True)
class Ended:
    """The result of a unit's task, and the statistics of its worker's model endpoints."""

    performed: Performed[Any]
    worker: str
    stats: Sequence[EndpointStats]


class _Home:
    """A run's job that is open in this process, in an event loop of its own thread."""

    def __init__(self, opening: Opening, worker: str) -> None:
        job = opening.job_here(worker)
        self._turn = threading.Lock()
        """Units start one after the other; a unit that runs alone keeps its turn."""
        self._begun = set[futures.Future[Ended | None]]()
        self._units = set[asyncio.Future[Performed[Any]]]()
        self._is_over = False
        self._address = worker
        self._loop = asyncio.new_event_loop()
        threading.Thread(target=self._serve, daemon=True, name="medagent-units").start()
        self._work = opened(job, job.concurrency, opening.limits)
        try:
            self._worker, self._carry_out = self._do(self._open()).result()
        except BaseException:
            self._stop()
            raise

    def run(self, unit: bytes, begun: Any, *, alone: bool) -> Ended | None:
        """Run a unit, unless its task began before, or the run ended."""
        with ExitStack() as turn:
            turn.enter_context(self._turn)
            if alone:
                futures.wait(self._begun)
            if self._is_over or begun.is_set():
                return None
            begun.set()
            ended = self._do(self._run(pickle.loads(unit)))
            self._begun.add(ended)
            ended.add_done_callback(self._begun.discard)
            if not alone:
                turn.close()
            while not futures.wait([ended], ANSWERS_WITHIN_S).done:
                if not futures.wait([self._do(asyncio.sleep(0))], ANSWERS_WITHIN_S).done:
                    os._exit(1)  # something blocks the loop, which this process cannot stop
            return ended.result()

    def close(self) -> None:
        """Cancel the units in progress and close the job."""
        self._is_over = True
        with suppress(TimeoutError):  # something blocks the loop
            self._do(self._close()).result(CLOSED_WITHIN_S)
        with self._turn:  # no unit starts now
            futures.wait(self._begun, CLOSED_WITHIN_S)  # those that began meanwhile end in the open loop
            self._stop()

    async def _open(self) -> tuple[Any, CarryOut[Any, Any]]:
        async with asyncio.timeout(OPENED_WITHIN_S):
            return await self._work.__aenter__()

    async def _run(self, unit: Any) -> Ended | None:
        if self._is_over:
            return None
        task = asyncio.ensure_future(self._carry_out(unit))
        self._units.add(task)
        performed = await task
        self._units.remove(task)
        stop = performed.stop
        if stop is not None:  # its cause may not be picklable
            kinds = (TooManyAbandonedError, UserError, StopRunError)
            stop = next(kind(str(stop)) for kind in kinds if isinstance(stop, kind))
        return Ended(replace(performed, stop=stop), self._address, list(self._worker.stats))

    async def _close(self) -> None:
        for task in self._units:
            task.cancel()
        await asyncio.gather(*self._units)
        await self._work.__aexit__(None, None, None)

    def _do(self, work: Coroutine[Any, Any, T]) -> futures.Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _serve(self) -> None:
        try:
            while not self._is_over:  # an agent can stop the loop
                self._loop.run_forever()
        except OSError:  # an agent closed the files of this process
            os._exit(1)
        self._loop.close()

    def _stop(self) -> None:
        self._is_over = True
        self._loop.call_soon_threadsafe(self._loop.stop)


_homes: dict[str, _Home | None] = {}
"""The open jobs by run; None if the run has ended."""
_opening = threading.Lock()


def _home(opening: Opening, worker: str) -> _Home | None:
    """A run's job in this process. None if the run has ended. Raises UserError, LackingError."""
    with _opening:
        if opening.run not in _homes:
            try:
                _homes[opening.run] = _Home(opening, worker)
            except (UserError, StopRunError, OSError) as error:
                why = str(error) or f"did not open the job within {OPENED_WITHIN_S:g} s"
                raise UserError(f"worker {worker}: {why}") from None
        return _homes[opening.run]


async def open_here(opening: Opening, dask_worker: Any) -> None:
    """Open a run's job in this worker process. Raises UserError, LackingError."""
    await asyncio.to_thread(_home, opening, dask_worker.address)


def run_here(opening: Opening, unit: bytes, key: str, alone: bool) -> Ended | None:
    """The Dask task of a unit. Returns None if the unit does not run."""
    from distributed import Event, get_client, get_worker, secede

    secede()
    home = _home(opening, get_worker().address)
    return home.run(unit, Event(key, get_client()), alone=alone) if home is not None else None


async def close_here(run: str) -> None:
    """Cancel a run's units in this worker process, and close its job."""
    await asyncio.to_thread(_close, run)


def _close(run: str) -> None:
    with _opening:
        home, _homes[run] = _homes.get(run), None
    if home is not None:
        home.close()
