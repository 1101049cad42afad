"""The embedded FHIR server in process: no socket, a private overlay per episode, the same bytes every time.

Requests are answered within limits (`fhir_server.bounds`). A short request is answered on the event loop. One that
takes longer is started again in a thread, one at a time, so that the loop is never blocked.

The hospital (or a user's own NDJSON) is imported once into an SQLite file in the cache folder, under the digest of
its sources; a damaged file is built again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import asynccontextmanager, contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import urlsplit

from medagent.core.errors import FhirUnavailableError, UserError
from medagent.core.paths import cache_dir, file_state
from medagent.core.waiting import LEFT_WITHIN_S
from medagent.core.writing import locked
from medagent.fhir_data.files import is_sqlite, read_resources
from medagent.fhir_data.record import EhrSession, FhirRequest, Pages, Reply, TooMuchError
from refsol.changes import Change, change_of
from refsol.clinical.sources import Amendment

if TYPE_CHECKING:
    from fhir_server import Request, Response, Server
    from fhir_server.server import Overlay

ON_THE_LOOP_S = 0.015
"""Seconds; a request that takes longer moves to the thread. The machine decides this, but not the answer."""
SHORT_TARGET, SHORT_BODY = 4_000, 16_000
"""Characters; longer requests start in the thread, since parsing them takes a while."""


class EmbeddedEhr:
    """An open embedded server. Its bodies name the FHIR base that it was opened with; `now` is its clock."""

    def __init__(self, server: Server, now: datetime | None = None) -> None:
        self.server = server
        self._thread = ThreadPoolExecutor(1, "fhir")  # it starts with the first job
        self._jobs: list[Future[Any]] = []
        self.now = now or hospital_clock()

    @classmethod
    def open(cls, path: Path, base: str, now: datetime | None = None, pages: Pages | None = None) -> EmbeddedEhr:
        """Open an SQLite file made by `bundled_file` or `imported_file`. Raises UserError if it cannot be used."""
        from fhir_server import Server
        from fhir_server.errors import ServerError
        from fhir_server.search.paging import AS_HAPI, Paging

        paging = AS_HAPI if pages is None else Paging(pages.size, pages.order == "shuffled")
        try:
            return cls(Server.open(path, base=base.rstrip("/"), paging=paging), now)
        except ServerError as error:
            raise UserError(str(error)) from None

    @contextmanager
    def overlay(self, seed: str, change: Amendment = (), chart: str = "") -> Iterator[EhrSession]:
        """A private overlay, dropped at the end. It belongs to no event loop: each call may come from another one."""
        record = _OverlaySession(self, seed, change, chart)
        try:
            yield record
        finally:
            record.close()

    @asynccontextmanager
    async def session(self, seed: str, change: Amendment = (), chart: str = "") -> AsyncIterator[EhrSession]:
        """See `Ehr.session`."""
        with self.overlay(seed, change, chart) as record:
            yield record

    def check_item(self, item: str, change: Amendment, chart: str) -> None:
        """Raises UserError if the change of an item does not fit the data, or if its chart cannot be loaded."""
        from fhir_server.errors import FhirError, ServerError

        try:
            self.server.overlay(item, self.now, change, chart).close()
        except (FhirError, ServerError) as error:
            problem = "its change does not fit the patients: " if change else ""
            raise UserError(f"{item}: {problem}{error}") from None

    async def check(self) -> None:
        """See `Ehr.check`; an open file can be read."""

    async def answer(self, overlay: Overlay, request: Request) -> Response:
        """The answer of an overlay. Raises OverBoundsError."""
        from fhir_server.bounds import Bounds, Meter, UnfinishedError

        self._jobs = [job for job in self._jobs if not job.done()]
        if not self._jobs and len(request.target) <= SHORT_TARGET and len(request.body) <= SHORT_BODY:
            try:
                return overlay.handle(request, Meter(Bounds(), ON_THE_LOOP_S))
            except UnfinishedError:
                pass
        meter = Meter(Bounds())
        job = self._thread.submit(overlay.handle, request, meter)
        self._jobs.append(job)
        try:
            return await asyncio.wrap_future(job)
        except asyncio.CancelledError:
            meter.stop()
            raise

    def drop(self, overlay: Overlay) -> None:
        """Close an overlay: at once, or in the thread, after its last request there has ended."""
        self._jobs = [job for job in self._jobs if not job.done()]
        if self._jobs:
            self._jobs.append(self._thread.submit(overlay.close))
        else:
            overlay.close()

    def close(self) -> None:
        """Close the file. If a request in the thread does not end soon, the file stays open until the process ends."""
        self._thread.shutdown(wait=False)
        if not wait(self._jobs, LEFT_WITHIN_S).not_done:
            self.server.close()


class _OverlaySession:
    """The episode's overlay, and a second overlay for previewed writes, opened at the first of them."""

    def __init__(self, ehr: EmbeddedEhr, seed: str, change: Amendment, chart: str) -> None:
        self._ehr = ehr
        self._seed = seed
        self._change = change
        self._chart = chart
        self._overlay = self._copy()
        self._shadow: Overlay | None = None
        self.fixed = self._is_shared

    def reset(self) -> None:
        self.close()
        self._overlay = self._copy()
        self._shadow = None
        self.fixed = self._is_shared

    def close(self) -> None:
        self._ehr.drop(self._overlay)
        if self._shadow is not None:
            self._ehr.drop(self._shadow)

    async def get(self, target: str) -> Reply:
        return await self._send(self._overlay, FhirRequest("GET", target))

    async def write(self, request: FhirRequest) -> Reply:
        self.fixed = False
        return await self._send(self._overlay, request)

    async def preview(self, target: str, body: str) -> Reply:
        if self._shadow is None:
            self._shadow = self._copy()
        return await self._send(self._shadow, FhirRequest("POST", target, body))

    def changes(self) -> list[Change]:
        return changes_of(self._overlay.replaced())

    @property
    def _is_shared(self) -> bool:
        """Whether it begins with the data of all episodes."""
        return not self._change and not self._chart

    def _copy(self) -> Overlay:
        return self._ehr.server.overlay(self._seed, self._ehr.now, self._change, self._chart)

    async def _send(self, overlay: Overlay, sent: FhirRequest) -> Reply:
        from fhir_server import Request
        from fhir_server.bounds import OverBoundsError

        request = Request(sent.method, urlsplit(overlay.base).path + sent.target, sent.headers, sent.body.encode())
        try:
            response = await self._ehr.answer(overlay, request)
        except OverBoundsError as error:
            raise TooMuchError(str(error)) from None
        except Exception as error:  # an error of the server ends this episode, not the run
            problem = f"{sent.method} {sent.target}: the embedded server failed: {error!r}"
            raise FhirUnavailableError(problem) from error
        return Reply(response.status, response.body.decode("utf-8", "replace"))


def changes_of(replaced: Iterable[tuple[str, str, str | None, str | None]]) -> list[Change]:
    """The state difference that `Overlay.replaced` lists."""
    changes = (
        change_of(_resource(kind, name, before), _resource(kind, name, after)) for kind, name, before, after in replaced
    )
    return [change for change in changes if change is not None]


def _resource(kind: str, name: str, text: str | None) -> dict[str, Any] | None:
    """A stored text as clients read it."""
    return None if text is None else {**json.loads(text), "resourceType": kind, "id": name}


def hospital_clock() -> datetime:
    """The time in which the bundled hospital is."""
    from fhir_server.synthetic.bundled import PROFILE  # late: few servers need it

    return PROFILE.now


def built_hospital() -> Path | None:
    """The bundled hospital's file; None if it has not been built yet."""
    target = _cached(_bundled_name())
    return target if _sound(target) else None


@dataclass(frozen=True, slots=True)
class EhrFile:
    """An SQLite file of the embedded server, and the digest of its data."""

    path: Path
    digest: str


def bundled_file(report: Callable[[str], None] = lambda _: None) -> EhrFile:
    """The bundled hospital as an SQLite file in the cache folder, built on first use."""
    from fhir_server.synthetic.bundled import DIGEST, hospital

    built = _built(_bundled_name(), hospital, "building the hospital (once; some seconds)", report)
    return EhrFile(built, DIGEST)


def empty_file() -> EhrFile:
    """An SQLite file without patients, for items that bring their charts."""
    return EhrFile(_built("empty", lambda: (), "building an empty store", lambda _: None), hashlib.sha256().hexdigest())


def imported_file(path: Path, report: Callable[[str], None] = lambda _: None) -> EhrFile:
    """A user's own FHIR data as an SQLite file: the file itself, or the cached import of any other format.

    Raises UserError if the file cannot be read or contains anything that is not a resource.
    """
    try:
        stored, digest = is_sqlite(path), _digest(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None

    def lines() -> Iterable[str]:
        return (read.line for read in read_resources([path]))

    built = path if stored else _built(f"ehr-{digest[:16]}", lines, f"importing {path}", report)
    return EhrFile(built, digest)


def _bundled_name() -> str:
    from fhir_server.synthetic.bundled import DIGEST

    return f"hospital-{DIGEST[:16]}"


def _cached(name: str) -> Path:
    """The path of a file in the cache folder, whose format this version reads."""
    from fhir_server.store.schema import FORMAT
    from medagent.core.version import __version__

    return cache_dir() / f"{name}-{__version__}-{FORMAT}.sqlite"


def _built(name: str, lines: Callable[[], Iterable[str]], work: str, report: Callable[[str], None]) -> Path:
    """The cached SQLite file of these lines. If it is missing, one process builds it; `work` says what it does."""
    from fhir_server import Server
    from fhir_server.clock import SteppingClock
    from fhir_server.errors import FhirError, ServerError
    from fhir_server.ids import IdSource

    target = _cached(name)
    folder = target.parent
    if _sound(target):
        return target
    aside = folder / f".{target.name}.{os.getpid()}"
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with locked(folder / f".{target.name}.lock", lambda: report(f"waiting for another process: {work}")):
            if _sound(target):  # another process built it meanwhile
                return target
            report(work)
            server = Server.open(aside)
            try:
                server.load(lines(), ids=IdSource(name), clock=SteppingClock(hospital_clock()))
            finally:
                server.close()
            _stamp(target).write_text(_digest(aside), encoding="ascii")
            aside.replace(target)
    except OSError as error:
        raise UserError(f"{error.filename or folder}: cannot be written: {error.strerror}") from None
    except (ServerError, FhirError) as error:
        raise UserError(str(error)) from None
    finally:
        for left in folder.glob(f".{target.name}.{os.getpid()}*"):
            left.unlink()
    return target


def _sound(path: Path) -> bool:
    """Whether a built file is undamaged: its digest is the one that was recorded when it was written."""
    try:
        return _stamp(path).read_text(encoding="ascii") == _digest(path)
    except (OSError, ValueError):
        return False


def _stamp(path: Path) -> Path:
    return path.with_name(path.name + ".sha256")


def _digest(path: Path) -> str:
    """The SHA-256 of a file. Raises OSError."""
    return _digest_of(path, file_state(path))


@lru_cache(maxsize=16)
def _digest_of(path: Path, state: tuple[int, ...]) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
