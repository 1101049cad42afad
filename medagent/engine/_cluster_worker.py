"""What runs in a cluster's worker process: a run's job, opened once, in an event loop of its own thread.

A worker opens nothing that it was not given: medagent's sources and the digests of the job's files must be those of the
run. A file that is not there is made again where the job knows how, or fetched from the driver; what does not fit is
refused in words, for the driver to print beside the worker's name.

Units are coroutines of that loop, as many as the driver sends, whatever the worker's number of threads is. Dask's own
loop would not do: the record's queries and an agent that blocks would hold up the worker's heartbeat. The driver calls
`exchange_here` again and again: it brings units and takes rows, many at a time.
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
"""An exchange without news ends after this, so that silence means that something is wrong."""
GATHER_S = 0.01
"""How long a finished row waits for others while units are running."""
CLOSED_WITHIN_S = 2.0
"""How long units that are cancelled have to end, and connections to close."""


@dataclass(frozen=True, slots=True)
class DriverFile:
    """A file as the driver has it; `make` makes it again on another machine, where that can be done."""

    path: Path
    sha256: str
    make: Callable[[], Path] | None = None


@dataclass(frozen=True, slots=True)
class Installed:
    """What must be the same in every process of a run."""

    medagent: str
    sources: str
    """SHA-256 of the sources of medagent's packages: a version says little of a checkout."""
    python: str
    dask: str

    def differs(self, run: Installed) -> str:
        """In which way this process's packages are not those of the run, and what to do; empty if they are the same."""
        for name, here, there in (
            ("medagent", self.medagent, run.medagent),
            ("Python", self.python, run.python),
            ("distributed", self.dask, run.dask),
        ):
            if here != there:
                return f"has {name} {here}, the run {there}: install the same there"
        if self.sources != run.sources:
            return f"has other sources of medagent {self.medagent} than the run: install the same there"
        return ""


@dataclass(frozen=True, slots=True)
class Opening:
    """What a worker opens for a run: the packed job and its files."""

    run: str
    installed: Installed
    job: bytes
    files: tuple[DriverFile, ...] = ()
    limits: UnitLimits = UNIT_UNLIMITED
    modules: Mapping[str, str] = field(default_factory=dict)
    """Installed modules of a user's benchmark, and the digests of their sources."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of it: nothing is missing, or a person must fix something first, or these files are not here."""

    fix: str | None = None
    lacking: tuple[DriverFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What a worker made of a unit: its row, None if the run had ended before it began, and why the run must stop, or
    what a person must fix first. These are texts, since not every exception that caused them can be sent.
    """

    unit: str
    row: Any = None
    stop: str | None = None
    fix: str | None = None

    @property
    def error(self) -> StopRunError | UserError | None:
        """What must stop the run."""
        if self.fix is not None:
            return UserError(self.fix)
        return StopRunError(self.stop) if self.stop is not None else None


@dataclass(frozen=True, slots=True)
class Exchange:
    """What a worker gives for what it was sent: what it made of units, and what goes on at its endpoints. `worn` says
    why it should get no more units.
    """

    carried: Sequence[Carried] = ()
    stats: Sequence[EndpointStats] = ()
    worn: str = ""


def pack(value: Any) -> bytes:
    """A value for a worker, with the local plug-ins whose classes it may hold: they must be loaded before it."""
    return pickle.dumps((local_files(), pickle.dumps(value)))


def _unpack(blob: bytes) -> Any:
    plugins, value = pickle.loads(blob)
    for plugin in plugins:
        plugin.load()
    return pickle.loads(value)


class _Lacking(MedagentError):
    """Files of the job are not on this machine."""

    def __init__(self, files: tuple[DriverFile, ...]) -> None:
        super().__init__(", ".join(str(file.path) for file in files))
        self.files = files


class _Home:
    """A job opened in this process, living in the event loop of a thread of its own."""

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
        """Begin units; once there is news of any unit, all that has ended. A later exchange ends an earlier one."""
        return await asyncio.wrap_future(self._do(self._exchange(units)))

    async def close(self) -> Exchange:
        """Cancel what is under way, whose rows say so, and close the job; what was not taken yet."""
        ending = self._do(self._end())
        try:
            await asyncio.wait_for(asyncio.wrap_future(ending), CLOSED_WITHIN_S)
            self._end_loop()
        except TimeoutError:  # something holds up the loop; its thread is a daemon
            pass
        return self._taken()

    def _serve(self) -> None:
        asyncio.set_event_loop(self._loop)
        while not self._over:  # an agent can stop the loop
            try:
                self._loop.run_forever()
            except OSError:  # an agent closed the loop's files, and with them this process's connections
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
        self._ending = True  # what is left goes with the answer to this
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
"""By run; None where the run has ended."""
_opening = threading.Lock()


@cache
def installed_here() -> Installed:
    """What is installed in this process."""
    from importlib.metadata import version

    return Installed(__version__, installed_digest(), platform.python_version(), version("distributed"))


async def open_here(opening: Opening) -> Opened:
    """Open a run's job in this worker process, before any unit comes."""
    return await asyncio.to_thread(_open, opening)


async def exchange_here(run: str, units: bytes) -> Exchange:
    """Begin units of a run in this worker process; what became of units that have ended."""
    home = _homes.get(run)
    if home is None:
        return Exchange()
    return await home.exchange(_unpack(units) if units else ())


async def close_here(run: str) -> Exchange:
    """End a run in this worker process; what became of its last units."""
    home, _homes[run] = _homes.get(run), None
    return await home.close() if home is not None else Exchange()


def take_here(file: DriverFile, start: int, content: bytes) -> None:
    """Write a part of a file that this machine lacks; the last part, which is empty, makes it whole."""
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
    """The job, with its files where they lie on this machine. Raises UserError, _Lacking."""
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
    """Where a file with this content lies here: at its own path, fetched before, or made again; None: nowhere."""
    for path in (file.path, _fetched(file)):
        if path.is_file() and file_digest(path) == file.sha256:
            return path
    made = file.make() if file.make is not None else None
    return made if made is not None and file_digest(made) == file.sha256 else None


def _fetched(file: DriverFile) -> Path:
    return cache_dir() / f"fetched-{file.sha256[:16]}{file.path.suffix}"
