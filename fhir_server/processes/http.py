"""An ASGI application on a listening socket, by uvicorn, until a signal comes.

uvicorn waits for ever for the rest of a request's head; here the connection is closed after 30 s.
"""

from __future__ import annotations

import asyncio
import gc
import re
import socket
import threading
from collections.abc import Iterator, Sequence
from contextlib import AbstractAsyncContextManager, contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol

from fhir_server.access import Access
from fhir_server.app import App, Handler, encode_head
from fhir_server.wire.http import Response, leave_out_reason_phrases

_ORDINARY = re.compile(rb'/(?!/)[!-"$-~]*')
"""A target that is a path with or without a query, in ASCII and without a fragment."""
HEAD_S = 30.0
"""Seconds in which the head of a request must have come."""


class Connection(HttpToolsProtocol):
    """A connection that is closed where it does not come to a request.

    Plain GETs are answered by `at_once` where they arrive, head and body in one write: a scope, a task, an event and
    two writes take uvicorn longer than such an answer takes.
    """

    _end: asyncio.TimerHandle | None = None
    _plain = False
    """Whether the request at hand is answered at once."""
    _idle: asyncio.TimerHandle | None = None
    """Looks whether requests still come: one timer for many answers, as making one takes a tenth of an answer."""
    _used = False
    """Whether something has come since that was last looked at."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        self._used = True
        super().data_received(data)
        if self._plain or (self.cycle is not None and not self.cycle.response_complete):  # it came to a request
            self._stop()
            self._plain = False
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)

    def on_message_begin(self) -> None:
        """See httptools: a request begins. uvicorn's part of it waits until it is known that uvicorn answers it."""
        self.url, self.headers, self.expect_100_continue = b"", [], False

    def on_headers_complete(self) -> None:
        """See httptools: the head of a request has come."""
        self._plain = (
            self.parser.get_method() == b"GET"
            and self.parser.get_http_version() == "1.1"
            and self.parser.should_keep_alive()
            and not self.parser.should_upgrade()
            and (self.cycle is None or self.cycle.response_complete)
            and not self.flow.write_paused
            and _ORDINARY.fullmatch(self.url) is not None
            and self._answered()
        )
        if not self._plain:
            url, headers, expects = self.url, self.headers, self.expect_100_continue
            super().on_message_begin()
            self.url, self.expect_100_continue = url, expects
            self.headers += headers
            super().on_headers_complete()

    def on_message_complete(self) -> None:
        """See httptools: the request is whole."""
        if not self._plain:
            super().on_message_complete()

    def at_once(self, target: str, headers: Sequence[tuple[bytes, bytes]]) -> Response | None:
        """The answer to a plain GET, None where the application has to find it (see `Access.at_once`)."""
        return None

    def _answered(self) -> bool:
        """Answers the request, where that can be done at once."""
        try:
            response = self.at_once(self.url.decode("ascii"), self.headers)
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

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol.connection_lost`."""
        self._stop()
        if self._idle is not None:
            self._idle.cancel()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def connection_class(access: Access, server: Handler) -> type[Connection]:
    """Connections whose plain GETs the server answers at once."""
    at_once = access.at_once(server)

    class ServerConnection(Connection):
        def at_once(self, target: str, headers: Sequence[tuple[bytes, bytes]]) -> Response | None:
            return at_once(target, headers) if at_once else None

    return ServerConnection


def look_seldom_for_cycles() -> None:
    """A request makes many small objects and no cycles: looking for them less often spares a fifth of its time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)
    gc.enable()


def run(access: Access, server: Handler, listener: socket.socket, beside: AbstractAsyncContextManager[object]) -> None:
    """Answers on the socket in this thread, inside of `beside`, which shares the event loop."""
    leave_out_reason_phrases()

    config = _config(access.application(server), connection_class(access, server))
    look_seldom_for_cycles()

    async def serve() -> None:
        async with beside:
            await uvicorn.Server(config).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())


@contextmanager
def serving(app: App, listener: socket.socket) -> Iterator[None]:
    """Answers on the socket in a thread of its own while the block runs."""
    server = uvicorn.Server(_config(app, Connection))
    thread = threading.Thread(target=server.run, args=([listener],), name="fhir-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _config(app: App, connection: type[Connection]) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
    )
