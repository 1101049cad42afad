"""The code in a cluster's worker process. It opens a run's job once, in an event loop in a separate thread.

A worker must have the same medagent sources and the same files as the driver, by their digests. A missing file is made
again if the job can do that; otherwise it is fetched from the driver. A mismatch is refused with a message, which the
driver prints with the worker's name.

Units are coroutines of that loop, as many as the driver sends, for any number of worker threads. Dask's own loop is not
used, because the record's queries, or an agent that blocks, would delay the worker's heartbeat. The driver calls
`exchange_here` repeatedly: it sends units and receives rows, many at a time.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import platform
import threading
from collections.abc import Callable, Coroutine, Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, TypeVar

from medagent.core.errors import MedagentError, StopRunError, UserError
from medagent.core.installed import installed_digest
from medagent.core.paths import cache_dir
from medagent.core.plugins import check_module, local_files
from medagent.core.version import __version__
from medagent.engine._unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.engine.boundary import perform
from medagent.engine.files import file_digest
from medagent.engine.job import JobWithFiles, Worker
from medagent.engine.lane import Lane, Strays, WornError
from medagent.models.limiter import EndpointStats

T = TypeVar("T")
POLL_S = 10.0
"""An exchange ends after this time even without news, so that a longer silence means a failure."""
GATHER_S = 0.01
"""Seconds that a finished row waits for others while units are running."""
CLOSED_WITHIN_S = 2.0
"""Seconds for cancelled units to end and for connections to close."""


@dataclass(frozen=True, slots=True)
class DriverFile:
    """A file of the driver. `make`, if set, makes the same file on another machine."""

    path: Path
    sha256: str
    make: Callable[[], Path] | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """The versions that must be equal in all processes of a run."""

    medagent: str
    sources: str
    """SHA-256 of the sources of medagent's packages, because a version does not identify a checkout."""
    python: str
    dask: str

    def differs(self, run: Installed) -> str:
        """How this process's packages differ from those of the run, and what to do; empty if they do not differ."""
        for name, here, there in (
            ("medagent", self.medagent, run.medagent),
            ("Python", self.python, run.python),
            ("distributed", self.dask, run.dask),
        ):
            if here != there:
                return f"has {name} {here}, but the run has {there}; install the same version there"
        if self.sources != run.sources:
            return f"has other sources of medagent {self.medagent} than the run; install the same sources there"
        return ""


@dataclass(frozen=True, slots=True)
class Opening:
    """The data that a worker needs for a run: the packed job and its files."""

    run: str
    installed: Installed
    job: bytes
    files: tuple[DriverFile, ...] = ()
    limits: UnitLimits = UNIT_UNLIMITED
    modules: Mapping[str, str] = field(default_factory=dict)
    """The installed modules of a user's benchmark, with the digests of their sources."""


@dataclass(frozen=True, slots=True)
class Opened:
    """The result of opening a job. `fix` is a problem that the user must fix, `lacking` are missing files."""

    fix: str | None = None
    lacking: tuple[DriverFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """The result of a unit: its row (None if the run ended before it started), and why the run must stop (`stop`), or
    what the user must fix (`fix`). These are texts, because some exceptions cannot be sent.
    """

    unit: str
    row: Any = None
    stop: str | None = None
    fix: str | None = None

    @property
    def error(self) -> StopRunError | UserError | None:
        """The error that must stop the run."""
        if self.fix is not None:
            return UserError(self.fix)
        return StopRunError(self.stop) if self.stop is not None else None


@dataclass(frozen=True, slots=True)
class Exchange:
    """A worker's reply: finished units, and the statistics of its endpoints. `worn` is the reason if it should get no
    more units.
    """

    carried: Sequence[Carried] = ()
    stats: Sequence[EndpointStats] = ()
    worn: str = ""


def pack(value: Any) -> bytes:
    """Pickle a value for a worker, with the local plug-ins whose classes it may use, which must be loaded first."""
    return pickle.dumps((local_files(), pickle.dumps(value)))


def _unpack(blob: bytes) -> Any:
    plugins, value = pickle.loads(blob)
    for plugin in plugins:
        plugin.load()
    return pickle.loads(value)


class _Lacking(MedagentError):
    """Files of the job are missing on this machine."""

    def __init__(self, files: tuple[DriverFile, ...]) -> None:
        super().__init__(", ".join(str(file.path) for file in files))
        self.files = files


class _Home:
    """A job that is open in this process, in the event loop of its own thread."""

    def __init__(self, opening: Opening) -> None:
        self._job = _job_here(opening)
        self._limits = opening.limits
        self._running: set[asyncio.Task[None]] = set()
        self._carried: list[Carried] = []
        self._news: asyncio.Future[None] | None = None
        self._strays = Strays(self._job.concurrency)
        self._lanes: list[Lane] = []
        self._worn = ""
        self._ending = self._over = False
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._serve, daemon=True, name="medagent-units")
        self._thread.start()
        self._context = self._job.open()
        try:
            self._worker: Worker[Any, Any] = self._do(self._context.__aenter__()).result()
        except BaseException:
            self._end_loop()
            raise

    async def exchange(self, units: Sequence[Any]) -> Exchange:
        """Start units; when a unit has ended, return all that have. A later exchange ends an earlier one."""
        return await asyncio.wrap_future(self._do(self._exchange(units)))

    async def close(self) -> Exchange:
        """Cancel the running units and close the job. Returns the rows that were not yet fetched."""
        ending = self._do(self._end())
        try:
            await asyncio.wait_for(asyncio.wrap_future(ending), CLOSED_WITHIN_S)
            self._end_loop()
        except TimeoutError:  # something blocks the loop; its thread is a daemon
            pass
        return self._taken()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._over:  # an agent can stop the loop
            try:
                self._loop.run_forever()
            except OSError:  # an agent closed the loop's files and this process's connections
                os._exit(1)

    async def _exchange(self, units: Sequence[Any]) -> Exchange:
        for unit in units:
            task = asyncio.create_task(self._carry_out(unit))
            self._running.add(task)
            task.add_done_callback(self._running.discard)
        self._tell()
        if not self._carried and not self._ending:
            self._news = news = self._loop.create_future()
            await asyncio.wait([news], timeout=POLL_S)
        return Exchange() if self._ending else self._taken()

    def _taken(self) -> Exchange:
        carried, self._carried = self._carried, []
        return Exchange(carried, list(self._worker.stats), self._worn)

    async def _carry_out(self, unit: Any) -> None:
        lane = self._lanes.pop() if self._lanes else Lane(self._strays)
        performed = await perform(self._worker, unit, self._job.row.begin(unit), lane, self._limits)
        self._lanes.append(lane)
        stop = fix = None
        if isinstance(performed.stop, WornError):
            self._worn = str(performed.stop)
        elif isinstance(performed.stop, UserError):
            fix = str(performed.stop)
        elif performed.stop is not None:
            stop = str(performed.stop)
        self._carried.append(Carried(unit.key, performed.row, stop, fix))
        if len(self._running) == 1 or performed.stop is not None:
            self._tell()
        elif len(self._carried) == 1:
            self._loop.call_later(GATHER_S, self._tell)

    def _tell(self) -> None:
        if self._news is not None and not self._news.done():
            self._news.set_result(None)

    async def _end(self) -> None:
        self._ending = True  # the reply to this call has the remaining rows
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        self._tell()
        for lane in self._lanes:
            lane.close()
        await self._context.__aexit__(None, None, None)

    def _do(self, work: Coroutine[Any, Any, T]) -> Future[T]:
        return asyncio.run_coroutine_threadsafe(work, self._loop)

    def _end_loop(self) -> None:
        self._over = True
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_homes: dict[str, _Home | None] = {}
"""The open jobs by run; None if the run has ended."""
_opening = threading.Lock()


@cache
def installed_here() -> Installed:
    """The versions in this process."""
    from importlib.metadata import version

    return Installed(__version__, installed_digest(), platform.python_version(), version("distributed"))


async def open_here(opening: Opening) -> Opened:
    """Open a run's job in this worker process, before it gets units."""
    return await asyncio.to_thread(_open, opening)


async def exchange_here(run: str, units: bytes) -> Exchange:
    """Start units of a run in this worker process. Returns the results of units that have ended."""
    home = _homes.get(run)
    if home is None:
        return Exchange()
    return await home.exchange(_unpack(units) if units else ())


async def close_here(run: str) -> Exchange:
    """End a run in this worker process. Returns the results of its last units."""
    home, _homes[run] = _homes.get(run), None
    return await home.close() if home is not None else Exchange()


def take_here(file: DriverFile, start: int, content: bytes) -> None:
    """Write a part of a file that this machine lacks. An empty part completes the file."""
    place = _fetched(file)
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    aside.parent.mkdir(parents=True, exist_ok=True)
    with aside.open("r+b" if start else "wb") as written:
        written.seek(start)
        written.write(content)
    if not content:
        aside.replace(place)


def _open(opening: Opening) -> Opened:
    try:
        with _opening:
            if opening.run not in _homes:
                _homes[opening.run] = _Home(opening)
    except _Lacking as lacking:
        return Opened(lacking=lacking.files)
    except (UserError, StopRunError, OSError) as error:
        return Opened(fix=str(error))
    return Opened()


def _job_here(opening: Opening) -> Any:
    """The job, with the paths of its files on this machine. Raises UserError, _Lacking."""
    if difference := installed_here().differs(opening.installed):
        raise UserError(difference)
    for module, digest in opening.modules.items():
        check_module(module, digest)
    job = _unpack(opening.job)
    places: dict[Path, Path] = {}
    lacking: list[DriverFile] = []
    for file in opening.files:
        if (place := _place(file)) is None:
            lacking.append(file)
        else:
            places[file.path] = place
    if lacking:
        raise _Lacking(tuple(lacking))
    return job.moved(places) if isinstance(job, JobWithFiles) else job


def _place(file: DriverFile) -> Path | None:
    """The path of a file with this content on this machine: its own path, a fetched copy, or a newly made file. None if
    there is no such file.
    """
    for path in (file.path, _fetched(file)):
        if path.is_file() and file_digest(path) == file.sha256:
            return path
    made = file.make() if file.make is not None else None
    return made if made is not None and file_digest(made) == file.sha256 else None


def _fetched(file: DriverFile) -> Path:
    return cache_dir() / f"fetched-{file.sha256[:16]}{file.path.suffix}"
