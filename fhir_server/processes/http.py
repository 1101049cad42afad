"""Runs an ASGI application on a listening socket, with uvicorn.

Time limits end the connections of slow clients: uvicorn waits forever for the rest of a request's head, and for a
client that does not read its answer. The log is one line per message on stderr, written by a separate thread, so
requests never wait for it: if the reader of stderr stops reading, lines wait in a queue, and if the queue is full,
lines are dropped.
"""

from __future__ import annotations

import asyncio
import logging
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from queue import Full, Queue

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from fhir_server.access import Access
from fhir_server.app import App, Handler
from fhir_server.wire.http import leave_out_reason_phrases


def run(access: Access, server: Handler, listener: socket.socket, beside: AbstractAsyncContextManager[object]) -> None:
    """Serves on the socket in this thread until a signal comes. `beside` runs in the same event loop."""
    leave_out_reason_phrases()
    one_line_each()
    config = _config(access.application(server))

    async def serve() -> None:
        async with beside:
            await uvicorn.Server(config).serve(sockets=[listener])

    with asyncio.Runner(loop_factory=config.get_loop_factory()) as runner:
        runner.run(serve())
    flush()


@contextmanager
def serving(app: App, listener: socket.socket) -> Iterator[None]:
    """Serves on the socket in another thread while the block runs."""
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
        log_config=None,
        access_log=False,
        server_header=False,
        lifespan="off",
        proxy_headers=False,
        ws="none",
    )


HEAD_S = 30.0
"""A connection is closed if the head of a request is not complete after this many seconds."""
STALLED_S = 30.0
"""A connection is closed if the client reads less than about 64 kB of a waiting response in this many seconds."""


class Connection(HttpToolsProtocol):
    """One connection."""

    _end: asyncio.TimerHandle | None = None
    """Closes the connection after `HEAD_S`."""
    _stalled: asyncio.TimerHandle | None = None
    """Closes the connection if the client does not read."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        super().data_received(data)
        if self.cycle is not None and not self.cycle.response_complete:  # a request has begun
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol.pause_writing`: the client reads too slowly."""
        super().pause_writing()
        self._stalled = self.loop.call_later(STALLED_S, self.transport.abort)

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def _stop(self) -> None:
        if self._end is not None:
            self._end.cancel()
            self._end = None


WAITING = 1000
"""The maximum number of waiting lines. Further lines are dropped."""
END_S = 1.0
"""The maximum number of seconds for writing the last lines when the process ends."""


class _Writer:
    def __init__(self) -> None:
        self._lines: Queue[str] = Queue(WAITING)
        self._lock = threading.Lock()
        self._thread: threading.Thread | None = None

    def add(self, line: str) -> None:
        with self._lock:
            if self._thread is None:
                self._thread = threading.Thread(target=self._work, name="fhir-server-log", daemon=True)
                self._thread.start()
        with suppress(Full):
            self._lines.put_nowait(line)

    def _work(self) -> None:
        while True:
            line = self._lines.get()
            with suppress(OSError, ValueError):  # stderr is closed
                print(line, file=sys.stderr, flush=True)
            self._lines.task_done()

    def flush(self) -> None:
        """Waits up to `END_S` for the lines to be written."""
        with self._lines.all_tasks_done:
            self._lines.all_tasks_done.wait_for(lambda: not self._lines.unfinished_tasks, END_S)


_WRITER = _Writer()
flush = _WRITER.flush


def say(text: str) -> None:
    """Queues one line for the log. Never blocks."""
    _WRITER.add(f"fhir_server: {' '.join(text.split())}")


class _OneLine(logging.Handler):
    """Formats a log record as one line: message, type and text of the error, and the place that raised it."""

    def emit(self, record: logging.LogRecord) -> None:
        text = record.getMessage()
        error = record.exc_info[1] if record.exc_info else None
        if error is not None:
            trace = error.__traceback__
            while trace is not None and trace.tb_next is not None:
                trace = trace.tb_next
            place = f" ({trace.tb_frame.f_code.co_filename}:{trace.tb_lineno})" if trace is not None else ""
            text = f"{text.splitlines()[0]}: {type(error).__name__}: {error}{place}"
        say(text)


def one_line_each() -> None:
    """Sends the log records of uvicorn and asyncio to `say`, one line each."""
    for name in ("uvicorn.error", "asyncio"):
        logger = logging.getLogger(name)
        logger.handlers = [_OneLine()]
        logger.propagate = False
        logger.setLevel(logging.WARNING)
