"""What runs in a cluster's worker process: a run's job, opened once, in an event loop of its own thread.

A worker opens nothing that it was not given: medagent's version and the digests of the job's files must be those of
the run. A file that is not there is made again where the job knows how, or fetched from the driver; what does not fit
is refused in words, for the driver to print beside the worker's name.

Dask runs a task in a thread, or in the worker's own event loop. Neither will do: units share one HTTP pool and one open
record, and the record's queries would hold up the worker's heartbeat. So each unit's thread waits for its coroutine in
a loop of ours.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import threading
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import CancelledError, Future
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from medagent.core.errors import MedagentError, StopRunError, UserError
from medagent.core.paths import cache_dir
from medagent.core.plugins import check_module, local_files
from medagent.core.version import __version__
from medagent.engine.boundary import perform
from medagent.engine.files import file_digest
from medagent.engine.job import JobWithFiles, Worker
from medagent.engine.lane import Lane, Strays
from medagent.engine.rows import Row
from medagent.engine.unit_limits import UNIT_UNLIMITED, UnitLimits
from medagent.models.limiter import EndpointStats


@dataclass(frozen=True, slots=True)
class GivenFile:
    """A file as the driver has it; `make` makes it again on another machine, where that can be done."""

    path: Path
    sha256: str
    make: Callable[[], Path] | None = None


@dataclass(frozen=True, slots=True)
class Opening:
    """What a worker opens for a run: the packed job and its files."""

    run: str
    version: str
    job: bytes
    files: tuple[GivenFile, ...] = ()
    limits: UnitLimits = UNIT_UNLIMITED
    modules: Mapping[str, str] = field(default_factory=dict)
    """Installed modules of a benchmark of somebody's, and the digests of their sources."""


@dataclass(frozen=True, slots=True)
class Opened:
    """What became of it: nothing is missing, or a person must mend something first, or these files are not here."""

    mend: str | None = None
    lacking: tuple[GivenFile, ...] = ()


@dataclass(frozen=True, slots=True)
class Carried:
    """What a worker gives for a unit: its row, None where the run had ended before it began, and why the run must stop.
    An exception would be logged by Dask with its traceback.
    """

    row: Any = None
    stop: str | None = None
    mend: str | None = None
    """The text of a UserError: what a person must mend first."""
    lacking: tuple[GivenFile, ...] = ()
    worker: str = ""
    stats: Sequence[EndpointStats] = ()
    """What goes on at the endpoints of this worker."""


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

    def __init__(self, files: tuple[GivenFile, ...]) -> None:
        super().__init__(", ".join(str(file.path) for file in files))
        self.files = files


class _Home:
    """A job opened in this process, living in the event loop of a thread of its own."""

    def __init__(self, opening: Opening) -> None:
        self._job = _job_here(opening)
        self._limits = opening.limits
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, daemon=True, name="medagent-units")
        self._thread.start()
        self._running: set[asyncio.Task[Any]] = set()
        self._strays = Strays(self._job.concurrency)
        self._lanes: list[Lane] = []
        self._context = self._job.open()
        try:
            self._worker: Worker[Any, Any] = self._do(self._context.__aenter__())
        except BaseException:
            self._end_loop()
            raise

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
        self._end_loop()

    async def _carry_out(self, unit: Any, row: Row) -> Carried:
        lane = self._lanes.pop() if self._lanes else Lane(self._strays)
        task = asyncio.create_task(perform(self._worker, unit, row, lane, self._limits))
        self._running.add(task)
        task.add_done_callback(self._running.discard)
        performed = await task
        self._lanes.append(lane)
        row, stop = performed.row, performed.stop
        text = None if stop is None else str(stop)
        mend = isinstance(stop, UserError)
        return Carried(row, None if mend else text, text if mend else None, stats=self.stats)

    async def _end(self) -> None:
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._context.__aexit__(None, None, None)

    def _do(self, work: Any) -> Any:
        return asyncio.run_coroutine_threadsafe(work, self._loop).result()

    def _end_loop(self) -> None:
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()


_homes: dict[str, _Home | None] = {}
"""By run; None where the run has ended."""
_opening = threading.Lock()


def version_here() -> str:
    """The version of medagent in this process."""
    return __version__


def open_here(opening: Opening) -> Opened:
    """Open a run's job in this worker process, before any unit comes."""
    try:
        with _opening:
            _home(opening)
    except _Lacking as lacking:
        return Opened(lacking=lacking.files)
    except (UserError, StopRunError) as error:
        return Opened(mend=str(error))
    return Opened()


def run_here(opening: Opening, unit: bytes) -> Carried:
    """Carry a unit of the packed job out in this worker process."""
    from distributed import get_worker

    name = str(get_worker().address)
    try:
        with _opening:  # a unit that has begun is known to whoever ends the run
            home = _home(opening)
            if home is None:
                return Carried()
            begun = home.begin(_unpack(unit))
        return replace(begun.result(), worker=name)
    except _Lacking as lacking:
        return Carried(lacking=lacking.files, worker=name)
    except StopRunError as error:
        return Carried(stop=str(error))
    except UserError as error:
        return Carried(mend=f"worker {name}: {error}")
    except CancelledError:  # before it began
        return Carried()


def close_here(run: str) -> list[EndpointStats]:
    """End a run in this worker process; returns what went on at its endpoints."""
    with _opening:
        home, _homes[run] = _homes.get(run), None
    if home is None:
        return []
    home.close()
    return home.stats


def take_here(file: GivenFile, start: int, content: bytes) -> None:
    """Write a part of a file that this machine lacks; the last part, which is empty, makes it whole."""
    place = _fetched(file)
    aside = place.with_name(f".{place.name}.{os.getpid()}")
    aside.parent.mkdir(parents=True, exist_ok=True)
    with aside.open("r+b" if start else "wb") as written:
        written.seek(start)
        written.write(content)
    if not content:
        aside.replace(place)


def _home(opening: Opening) -> _Home | None:
    if opening.run not in _homes:
        _homes[opening.run] = _Home(opening)
    return _homes[opening.run]


def _job_here(opening: Opening) -> Any:
    """The job, with its files where they lie on this machine. Raises UserError, _Lacking."""
    if opening.version != __version__:
        raise UserError(f"has medagent {__version__}, the run {opening.version}: install the same there")
    for module, digest in opening.modules.items():
        check_module(module, digest)
    job = _unpack(opening.job)
    places: dict[Path, Path] = {}
    lacking: list[GivenFile] = []
    for file in opening.files:
        if (place := _place(file)) is None:
            lacking.append(file)
        else:
            places[file.path] = place
    if lacking:
        raise _Lacking(tuple(lacking))
    return job.moved(places) if isinstance(job, JobWithFiles) else job


def _place(file: GivenFile) -> Path | None:
    """Where a file with this content lies here: at its own path, fetched before, or made again; None: nowhere."""
    for path in (file.path, _fetched(file)):
        if path.is_file() and file_digest(path) == file.sha256:
            return path
    made = file.make() if file.make is not None else None
    return made if made is not None and file_digest(made) == file.sha256 else None


def _fetched(file: GivenFile) -> Path:
    return cache_dir() / f"fetched-{file.sha256[:16]}{file.path.suffix}"
