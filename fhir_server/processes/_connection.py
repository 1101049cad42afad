"""An HTTP connection of uvicorn with a fast path for plain GETs, and with timeouts.

Most requests are plain GETs. For each request, uvicorn makes a scope, a task, an event, a timer and two writes, which
takes longer than answering a plain GET. So these are answered as soon as they arrive. A client repeats its headers with
each request of a connection: if they are the same bytes as before, they are not parsed again. uvicorn waits forever for
the rest of a request's head. This class waits 30 s.
"""

from __future__ import annotations

import asyncio
import re

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fhir_server.access import Access, AtOnce
from fhir_server.app import ANSWER, LONG, Handler, encode_head
from fhir_server.wire.http import Pairs, Response

_ORDINARY = re.compile(rb"/(?!/)[!$-;=?-Z_a-z~]*")
"""A target with a path and maybe a query, without a fragment, with only the characters that a URL allows."""
_GET, _VERSION = b"GET ", b" HTTP/1.1\r\n"
HEAD_S = 30.0
"""A connection is closed if the head of a request is not complete after this many seconds."""
STALLED_S = 30.0
"""A connection is closed if the client reads less than about 64 kB of a waiting response in this many seconds."""


class Connection(HttpToolsProtocol):
    """One connection. Without `at_once` the application answers all requests."""

    at_once: AtOnce | None = None
    _plain = False
    """Whether the current request was answered at once."""
    _midway = False
    """Whether a request has begun and is not complete."""
    _known: tuple[bytes, Pairs] = (b"", ())
    """The HTTP version and headers of the last plain GET, as bytes and as parsed headers."""
    _pairs: Pairs | None = None
    """The headers of the current request; None if it must not be answered at once."""
    _long: Response | None = None
    """The response to the current request, if it is long. The application sends it, since it waits for slow readers."""
    _end: asyncio.TimerHandle | None = None
    """Closes the connection after `HEAD_S`."""
    _idle: asyncio.TimerHandle | None = None
    """Closes the connection if no requests come. One timer serves many requests."""
    _stalled: asyncio.TimerHandle | None = None
    """Closes the connection if the client does not read."""
    _used = False
    """Whether data has arrived since `_close_if_idle` last ran."""

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
        if self._plain or (self.cycle is not None and not self.cycle.response_complete):  # a request has begun
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)
        if self._plain and data.startswith(_GET) and data.find(b"\r\n\r\n") == len(data) - 4:  # one complete request
            self._known = data[data.index(_VERSION) :], self._pairs or ()

    def _repeated(self, start: bytes, headers: Pairs) -> bool:
        """Answers a request with known headers, if it is a plain GET. `start` is the text before the HTTP version."""
        if not start.startswith(_GET):
            return False
        self._unset_keepalive_if_required()
        self._stop()
        return self._answered(start[len(_GET) :], headers)

    def on_message_begin(self) -> None:
        """See httptools: a request begins. uvicorn's method is called later, if uvicorn answers the request."""
        self._midway = True
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """See httptools: the head of a request is complete."""
        if self.transport.is_closing():  # the previous request was the last one
            self._plain = True
            return
        self._pairs = self.at_once.plain(self.headers) if self.at_once else None
        self._plain = (
            self._pairs is not None
            and self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and not self.parser.should_upgrade()
            and self._answered(self.url, self._pairs, last=not self.parser.should_keep_alive())
        )
        if not self._plain:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()
            if self._long is not None:
                self.scope.update({ANSWER: self._long})  # type: ignore[misc]  # a key of our application
                self._long = None

    def on_message_complete(self) -> None:
        """See httptools: the request is complete."""
        self._midway = False
        if not self._plain:
            super().on_message_complete()

    def _answered(self, target: bytes, headers: Pairs, *, last: bool = False) -> bool:
        """Answers a plain GET, with head and body in one write. Returns False if it cannot be answered at once.

        `last`: the client wants the connection closed after the answer.
        """
        if (
            self.at_once is None
            or self._long is not None
            or not (self.cycle is None or self.cycle.response_complete)
            or self.flow.write_paused
            or not _ORDINARY.fullmatch(target)
        ):
            return False
        try:
            response = self.at_once.answer(target.decode("ascii"), headers)
        except Exception:  # the application raises it again, and reports it
            return False
        if response is None:
            return False
        if len(response.body) > LONG:
            self._long = response
            return False
        self.server_state.total_requests += 1
        default = b"".join([b"%b: %b\r\n" % header for header in self.server_state.default_headers])
        head = encode_head(response, len(response.body)) + (b"connection: close\r\n" if last else b"")
        self.transport.write(b"%b%b%b\r\n%b" % (STATUS_LINE[response.status], default, head, response.body))
        if last:
            self.transport.close()
        elif self._idle is None:
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        return True

    def _close_if_idle(self) -> None:
        """Closes the connection if no data has arrived since the last call and no request is in progress."""
        self._idle = None
        if self._used:
            self._used = False
            self._idle = self.loop.call_later(self.timeout_keep_alive, self._close_if_idle)
        elif self._end is None and (self.cycle is None or self.cycle.response_complete):
            self.transport.close()

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol.pause_writing`: the client reads too slowly."""
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
    """A class of connections whose plain GETs are answered at once."""

    class ServerConnection(Connection):
        at_once = access.at_once(server)

    return ServerConnection
