"""A connection of uvicorn's that answers plain GETs where they arrive, and is closed where no request comes.

Most requests are plain GETs, and a scope, a task, an event, a timer and two writes take uvicorn longer than the answer
to one. A client repeats its headers with each request of a connection: those that have come before, byte for byte, are
not read again. uvicorn waits for ever for the rest of a request's head; here that is 30 s.
"""

from __future__ import annotations

import asyncio
import re

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fhir_server.access import Access, AtOnce
from fhir_server.app import Handler, encode_head
from fhir_server.wire.http import Pairs

_ORDINARY = re.compile(rb"/(?!/)[!$-;=?-Z_a-z~]*")
"""A target that is a path with or without a query, of characters that an address may have, and without a fragment."""
_GET, _VERSION = b"GET ", b" HTTP/1.1\r\n"
HEAD_S = 30.0
"""Seconds in which the head of a request must have come."""
STALLED_S = 30.0
"""Seconds in which a client must read on: some 64 kB of what waits for it."""


class Connection(HttpToolsProtocol):
    """One connection; without `at_once` the application answers everything."""

    at_once: AtOnce | None = None
    _plain = False
    """Whether the request at hand was answered at once."""
    _midway = False
    """Whether a request has begun and is not whole."""
    _known: tuple[bytes, Pairs] = (b"", ())
    """The version and the headers of a plain GET as they came, and the headers as they were read."""
    _pairs: Pairs | None = None
    """The headers of the request at hand, where it may be answered at once."""
    _end: asyncio.TimerHandle | None = None
    _idle: asyncio.TimerHandle | None = None
    """Looks whether requests still come: one timer for many answers."""
    _stalled: asyncio.TimerHandle | None = None
    """Ends the connection of a client that does not read."""
    _used = False
    """Whether something has come since that was last looked at."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        if self.transport.is_closing():
            return
        self._used = True
        known, headers = self._known
        if known and data.endswith(known) and not self._midway and self._repeated(data[: -len(known)], headers):
            return
        self._plain = False
        super().data_received(data)
        if self._plain or (self.cycle is not None and not self.cycle.response_complete):  # it came to a request
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)
        if self._plain and data.startswith(_GET) and data.find(b"\r\n\r\n") == len(data) - 4:  # one request, whole
            self._known = data[data.index(_VERSION) :], self._pairs or ()

    def _repeated(self, start: bytes, headers: Pairs) -> bool:
        """Answers a request whose headers are known, where what stands before its version is that of a plain GET."""
        if not start.startswith(_GET):
            return False
        self._unset_keepalive_if_required()
        self._stop()
        return self._answered(start[len(_GET) :], headers)

    def on_message_begin(self) -> None:
        """See httptools: a request begins. uvicorn's part of it waits until it is known that uvicorn answers it."""
        self._midway = True
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """See httptools: the head of a request has come."""
        self._pairs = self.at_once.plain(self.headers) if self.at_once else None
        self._plain = (
            self._pairs is not None
            and self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and self._answered(self.url, self._pairs)
        )
        if not self._plain:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools: the request is whole."""
        self._midway = False
        if not self._plain:
            super().on_message_complete()

    def _answered(self, target: bytes, headers: Pairs) -> bool:
        """Answers a plain GET with these headers, where that can be done at once: head and body in one write."""
        if (
            self.at_once is None
            or not (self.cycle is None or self.cycle.response_complete)
            or self.flow.write_paused
            or not _ORDINARY.fullmatch(target)
        ):
            return False
        try:
            response = self.at_once.answer(target.decode("ascii"), headers)
        except Exception:  # the application meets it again, and says what it is
            return False
        if response is None:
            return False
        self.server_state.total_requests += 1
        default = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        head = encode_head(response, len(response.body))
        self.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[response.status], default, head, response.body))
        if self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        return True

    def _close_if_idle(self) -> None:
        """Closes the connection where nothing has come since this was last called, and nothing is under way."""
        self._idle = None
        if self._used:
            self._used = False
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        elif self._end is None and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol.pause_writing`: the client is behind with its reading."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        """See `asyncio.BaseProtocol.resume_writing`."""
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol.connection_lost`."""
        self._stop()
        for timer in (self._idle, self._stalled):
            if timer is not None:
                timer.cancel()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def connection_class(access: Access, server: Handler) -> type[Connection]:
    """Connections whose plain GETs the server answers at once."""

    class ServerConnection(Connection):
        at_once = access.at_once(server)

    return ServerConnection
