"""An ASGI application on a listening socket, by uvicorn, until a signal comes.

uvicorn waits for ever for the rest of a request's head; here the connection is closed after 30 s.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fhir_server.app import App
from fhir_server.wire.http import leave_out_reason_phrases

HEAD_S = 30.0
"""Seconds in which the head of a request must have come."""


class Connection(HttpToolsProtocol):
    """A connection that is closed where it does not come to a request."""

    _end: asyncio.TimerHandle | None = None

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        """See `asyncio.Protocol.connection_made`."""
        super().connection_made(transport)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        """See `asyncio.Protocol.data_received`."""
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request is being answered
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)

    def connection_lost(self, exc: Exception | None) -> None:
        """See `asyncio.Protocol.connection_lost`."""
        self._stop()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


def look_seldom_for_cycles() -> None:
    """A request makes many small objects and no cycles: looking for them less often spares a fifth of its time."""
    gc.freeze()
    gc.set_threshold(50_000, 20, 20)


def run(app: App, listener: socket.socket, beside: AbstractAsyncContextManager[object]) -> None:
    """Answers on the socket in this thread, inside of `beside`, which shares the event loop."""
    leave_out_reason_phrases()
    config = _config(app)
    look_seldom_for_cycles()

    async def serve() -> None:
        async with beside:
            await uvicorn.Server(config).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())


@contextmanager
def serving(app: App, listener: socket.socket) -> Iterator[None]:
    """Answers on the socket in a thread of its own while the block runs."""
    server = uvicorn.Server(_config(app))
    thread = threading.Thread(target=server.run, args=([listener],), name="fhir-server", daemon=True)
    thread.start()
    try:
        yield
    finally:
        server.should_exit = True
        thread.join()


def _config(app: App) -> uvicorn.Config:
    return uvicorn.Config(
        app,
        http=Connection,
        log_level="warning",
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
    )
