"""The server as a library: open a file, pass requests, get responses. It works without a socket.

`Server` answers from the file, an `Overlay` from a private copy of it. Neither raises an error for a bad request. Use a
server in one thread at a time; it can keep several overlays open.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, Self
from urllib.parse import urlsplit

from fhir_server._routes import answer
from fhir_server.bounds import OPEN, Meter, OverBoundsError, UnfinishedError
from fhir_server.clock import Clock, SteppingClock
from fhir_server.errors import FhirError, ServerError
from fhir_server.ids import IdSource
from fhir_server.interactions.context import ServerContext
from fhir_server.interactions.exports import Exports
from fhir_server.load.amend import Amendment, add, amend
from fhir_server.load.chart import ChartLoader
from fhir_server.load.importer import load
from fhir_server.search.paging import AS_HAPI, Paging
from fhir_server.store import BaseStore, OverlayStore
from fhir_server.store.custom_parameters import index_again
from fhir_server.store.overlay import Pool
from fhir_server.store.store import as_lines
from fhir_server.wire.http import Request, Response
from fhir_server.wire.outcome import refused

DEFAULT_BASE = "http://localhost:8080/fhir"


class Overlay:
    """A private copy of a server's data: its writes are visible only in it and are dropped when it is closed.

    All ids and times derive from its seed and its start time, so the same requests get the same bytes.
    """

    def __init__(self, server: Server, ids: IdSource, clock: Clock, amendment: Amendment = (), chart: str = "") -> None:
        self._store = OverlayStore(server.store, server.pool)
        try:
            if amendment:
                amend(self._store, amendment)
            if chart:
                server.charts.load(self._store, chart, clock.now())
        except BaseException:
            self._store.close()  # its connection would keep the server's file open
            raise
        base = server.context
        self._context = ServerContext(self._store, ids, clock, base.base, base.reference_check, paging=base.paging)

    def handle(self, request: Request, meter: Meter | None = None) -> Response:
        """Answers one request.

        Raises OverBoundsError or UnfinishedError if the meter ends the request, which then changes nothing.
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
        """The base address of links; the targets of requests are below its path."""
        return self._context.base

    @base.setter
    def base(self, address: str) -> None:
        self._context.base = checked_base(address)

    def add(self, resources: Iterable[Mapping[str, Any]]) -> None:
        """Adds resources with their own ids, as an import does: references are not checked.

        Raises FhirError if one is not an R4 resource.
        """
        add(self._store, resources, self._context.clock.now())

    def set_clock(self, now: datetime) -> None:
        """Sets the time of the next request; each later request is one millisecond later."""
        self._context.clock = SteppingClock(now)

    def expire_pages(self) -> None:
        """Drops the searches with further pages, as a server does after a while."""
        self._context.searches.take_all()

    @property
    def last(self) -> int:
        """The time of the last request, in milliseconds since 1970."""
        return self._context.clock.last

    def written(self, since: int) -> list[tuple[str, str, int, str | None]]:
        """The versions that requests wrote since a time (ms): type, id, version and stored text (None: deleted)."""
        return self._store.written(since)

    def replaced(self) -> list[tuple[str, str, str | None, str | None]]:
        """Each resource that requests wrote, in the order of the first writes: type, id, its stored text before all
        writes, and now (None: it does not exist).
        """
        return self._store.replaced()

    def created(self) -> list[tuple[str, str, str]]:
        """The resources created in this overlay, in order: type, id and stored text."""
        return self._store.created()

    def close(self) -> None:
        """Drops all writes."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class Server:
    """A FHIR server over one file. Use `Server.open`."""

    def __init__(self, store: BaseStore, base: str, *, reference_check: bool, paging: Paging) -> None:
        self.store = store
        self.pool = Pool(store)
        self.charts = ChartLoader(store)
        self.context = ServerContext(store, IdSource(), Clock(), base, reference_check, paging=paging)

    @classmethod
    def open(
        cls,
        path: Path | str | None,
        base: str = DEFAULT_BASE,
        *,
        reference_check: bool = True,
        durable: bool = False,
        large: bool = False,
        paging: Paging = AS_HAPI,
    ) -> Self:
        """Opens a file and creates it if absent; None is a private file that is removed when the server is closed.

        With `durable`, writes survive a power failure; without, only the death of the process.
        With `large`, a new file gets large pages: it is smaller, and its searches read less often from the disk.

        Raises:
            ServerError: the file is not a store of this server, or `base` is not an http address.
        """
        address = checked_base(base)
        store = BaseStore(path, durable=durable, large=large)
        index_again(store)
        return cls(store, address, reference_check=reference_check, paging=paging)

    def deliver_to(self, hosts: Iterable[str]) -> None:
        """Accepts Subscriptions whose endpoints are on these hosts, and records writes for `processes.hooks`."""
        self.context.hooks = frozenset(host.lower() for host in hosts)
        if self.context.hooks:
            self.store.changes = []

    def offer_exports(self) -> None:
        """Offers bulk exports (`$export`), each written by its own process."""
        self.context.exports = Exports(self.store.path)

    @property
    def settings(self) -> dict[str, Any]:
        """The arguments of `open` with which another process opens the same file."""
        return {
            "path": self.store.path,
            "base": self.context.base,
            "reference_check": self.context.reference_check,
            "durable": self.store.durable,
            "paging": self.context.paging,
        }

    def handle(self, request: Request) -> Response:
        """Answers one request, within `bounds.OPEN`: a request that is over them gets 413 and changes nothing."""
        self.store.watch(Meter(OPEN))
        try:
            return answer(self.context, request)
        except OverBoundsError as error:
            return refused(FhirError(413, str(error), "too-costly"))
        finally:
            self.store.watch(None)

    def overlay(self, seed: str, now: datetime, amendment: Amendment = (), chart: str = "") -> Overlay:
        """A private copy for one episode; `now` must include a time zone. The copy's data are amended (see
        `load.amend`), and contain the resources of a chart in addition, which is NDJSON (see `load.chart`).

        Raises ServerError or FhirError if the amendment does not fit the data, or if the chart cannot be loaded.
        """
        return Overlay(self, IdSource(seed), SteppingClock(now), amendment, chart)

    def load(
        self,
        lines: Iterable[str | bytes],
        *,
        refused: Callable[[int, str], None] | None = None,
        ids: IdSource | None = None,
        clock: Clock | None = None,
    ) -> int:
        """Imports resources, one per line, with their ids; returns their number. See `fhir_server.load.importer`."""
        return load(self.store, lines, refused, ids, clock)

    def export(self, resource_type: str) -> Iterator[str]:
        """The resources of a type as lines, in insertion order."""
        return as_lines(self.store.texts(resource_type))

    def stats(self) -> dict[str, int]:
        """The number of resources of each type."""
        return self.store.count()

    def close(self) -> None:
        """Closes the file. Overlays must be closed before."""
        if self.context.exports is not None:
            self.context.exports.close()
        self.pool.close()
        self.store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def checked_base(base: str) -> str:
    """The address without a slash at its end. Raises ServerError if it is not an http address."""
    parts = urlsplit(base)
    if parts.scheme not in ("http", "https") or not parts.netloc or parts.query or parts.fragment:
        raise ServerError(f"{base}: is not an http address; name one such as {DEFAULT_BASE}")
    return base.rstrip("/")
