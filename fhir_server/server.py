"""The server as a value: open a file, hand it requests, get responses; no socket is needed.

`Server` answers from the file, an `Overlay` from a private copy of it. Neither raises for a bad request. A server is
for one thread at a time; its overlays may be open side by side.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from datetime import datetime
from pathlib import Path
from types import TracebackType
from typing import Any, Self
from urllib.parse import urlsplit

from fhir_server.bounds import Meter, OverBoundsError, UnfinishedError
from fhir_server.clock import Clock, SteppingClock
from fhir_server.errors import ServerError
from fhir_server.ids import IdSource
from fhir_server.interactions.context import ServerContext
from fhir_server.interactions.exports import Exports
from fhir_server.routes import answer
from fhir_server.store import BaseStore, OverlayStore
from fhir_server.store.overlay import Pool
from fhir_server.store.store import as_lines
from fhir_server.wire.http import Request, Response

DEFAULT_BASE = "http://localhost:8080/fhir"


class Overlay:
    """A private copy of a server's data: what is written here is seen here only, and gone when it is closed.

    All ids and times derive from the seed and the moment it was opened with, so the same requests get the same bytes.
    """

    def __init__(self, server: Server, ids: IdSource, clock: Clock) -> None:
        self._store = OverlayStore(server.store, server.pool)
        base = server.context
        self._context = ServerContext(
            self._store, ids, clock, base.base, base.reference_check, remembered=base.remembered
        )

    def handle(self, request: Request, meter: Meter | None = None) -> Response:
        """Answers one request.

        Raises OverBoundsError or UnfinishedError where the meter says so; it is then as if the request had not come.
        """
        if meter is None:
            return answer(self._context, request)
        number = self._store.next_number
        self._context.ids.mark()
        self._store.watch(meter)
        try:
            return answer(self._context, request)
        except (OverBoundsError, UnfinishedError):
            self._context.ids.rewind()
            self._context.clock.rewind()
            self._store.rewind(number)
            raise
        finally:
            self._store.watch(None)

    @property
    def base(self) -> str:
        """The address that links begin with; requests name paths below its own path."""
        return self._context.base

    @base.setter
    def base(self, address: str) -> None:
        self._context.base = checked_base(address)

    def set_clock(self, now: datetime) -> None:
        """The next request comes at this moment, each later one a millisecond after the one before it."""
        self._context.clock = SteppingClock(now)

    def expire_pages(self) -> None:
        """Forgets the searches that have further pages, as a server does after a while."""
        self._context.searches.take_all()

    @property
    def last(self) -> int:
        """The time of the last request, in milliseconds since 1970."""
        return self._context.clock.last

    def written(self, since: int) -> list[tuple[str, str, int, str | None]]:
        """What was written by requests from a moment on (ms): type, id, version and stored text (None: deleted)."""
        return self._store.written(since)

    def created(self) -> list[tuple[str, str, str]]:
        """What was really created here, in order: type, id and stored text."""
        return self._store.created()

    def close(self) -> None:
        """Drops everything that was written here."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class Server:
    """A FHIR server over one file. Use `Server.open`."""

    def __init__(self, store: BaseStore, base: str, *, reference_check: bool) -> None:
        self.store = store
        self.pool = Pool(store)
        self.context = ServerContext(store, IdSource(), Clock(), base, reference_check)

    @classmethod
    def open(
        cls,
        path: Path | str | None,
        base: str = DEFAULT_BASE,
        *,
        reference_check: bool = True,
        durable: bool = False,
    ) -> Self:
        """Opens a file, created if absent; None is a private one that goes when the server is closed.

        With `durable`, what was written survives a power failure too, not only the death of the process.

        Raises:
            ServerError: the file is not a store of this server, or `base` is no http address.
        """
        return cls(BaseStore(path, durable=durable), checked_base(base), reference_check=reference_check)

    def deliver_to(self, hosts: Iterable[str]) -> None:
        """Takes Subscriptions whose endpoints are on these hosts, and keeps what is written for `processes.hooks`."""
        self.context.hooks = frozenset(host.lower() for host in hosts)
        if self.context.hooks:
            self.store.changes = []

    def offer_exports(self) -> None:
        """Offers bulk exports (`$export`), each written by a process of its own."""
        self.context.exports = Exports(self.store.path)

    @property
    def settings(self) -> dict[str, Any]:
        """What `open` takes to open the same file for another process."""
        return {
            "path": self.store.path,
            "base": self.context.base,
            "reference_check": self.context.reference_check,
            "durable": self.store.durable,
        }

    def handle(self, request: Request) -> Response:
        """Answers one request."""
        return answer(self.context, request)

    def overlay(self, seed: str, now: datetime) -> Overlay:
        """A private copy for one episode; `now` must have a time zone."""
        return Overlay(self, IdSource(seed), SteppingClock(now))

    def load(
        self,
        lines: Iterable[str | bytes],
        *,
        refused: Callable[[int, str], None] | None = None,
        ids: IdSource | None = None,
        clock: Clock | None = None,
    ) -> int:
        """Imports resources, one a line, and says how many; ids are kept. See `fhir_server.load.importer`."""
        from fhir_server.load.importer import load  # late: a server that starts over a file does not import

        return load(self.store, lines, refused, ids, clock)

    def export(self, resource_type: str) -> Iterator[str]:
        """The resources of a type as lines, in insertion order."""
        return as_lines(self.store.texts(resource_type))

    def stats(self) -> dict[str, int]:
        """How many resources of each type there are."""
        return self.store.count()

    def close(self) -> None:
        """Closes the file. Overlays must be closed before."""
        if self.context.exports is not None:
            self.context.exports.close()
        self.pool.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def checked_base(base: str) -> str:
    """The address without a slash at its end; ServerError where it is none."""
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ServerError(f"{base}: not an address such as {DEFAULT_BASE}")
    return base.rstrip("/")
