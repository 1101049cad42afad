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
from collections import deque
from collections.abc import Iterator
from contextlib import AbstractAsyncContextManager, contextmanager, suppress
from queue import Full, Queue
from weakref import WeakKeyDictionary

import uvicorn
from uvicorn.protocols.http.httptools_impl import STATUS_LINE, HttpToolsProtocol
from uvicorn.server import ServerState

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
"""A connection is closed if the client reads less than `STALLED_BYTES` of a waiting response in this many seconds."""
STALLED_BYTES = 64 * 1024
HEAD_BYTES = 64 * 1024
"""The request line and all header lines together; also the chunk extensions and trailers of one body."""
HEAD_LINES = 200
"""Header lines of one request."""
UNSENT = 16 * 1024
"""Bytes that the operating system takes without sending them. The rest waits here, so that it is known to be unread."""
HELD = 64 * 1024
"""Bytes of further requests that are received while one is answered."""
LINGER_S = 2.0
"""Seconds in which a client can read why its connection is closed; what it sends meanwhile is dropped."""
LINGER_BYTES = 1024 * 1024
"""A client that sends more than this many bytes after a refusal is cut off."""
PASSES = 5
"""Passes of the event loop between two requests that waited: enough to accept a connection and to read its request."""


class _Refused(Exception):
    """Raised in a callback of the parser, which then ends the request."""


class _Turns:
    """The requests that came before the answer to an earlier one of their connection was read.

    They begin one at a time, and after the requests of other connections that have arrived.
    """

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._waiting: deque[Connection] = deque()

    def add(self, connection: Connection) -> None:
        self._waiting.append(connection)
        if len(self._waiting) == 1:
            self._loop.call_soon(self._pass, PASSES)

    def _pass(self, left: int) -> None:
        if left:
            self._loop.call_soon(self._pass, left - 1)
            return
        self._waiting.popleft().take_turn()
        if self._waiting:
            self._loop.call_soon(self._pass, PASSES)


_TURNS: WeakKeyDictionary[ServerState, _Turns] = WeakKeyDictionary()
"""One for all connections of a server."""


class Connection(HttpToolsProtocol):
    """One connection. At most one of its requests is worked on, and the next begins after its client has read the
    answer.

    The parser gets whole bodies, but heads, chunk sizes and trailers line by line: so each byte of them is counted as
    it arrives, and a request ends where a piece ends.
    """

    _end: asyncio.TimerHandle | None = None
    """Closes the connection after `HEAD_S`."""
    _stalled: asyncio.TimerHandle | None = None
    """Closes the connection if the client does not read."""
    _in_body = False
    """Whether the head of a request is complete, and its body is not."""
    _body_left = 0
    """Bytes of the body, or of its current chunk, that have not arrived."""
    _framing = 0
    """Bytes of the head so far; in a body, bytes of chunk extensions and trailers so far."""
    _lines = 0
    """Complete lines of the head so far."""
    _has_turn = True
    """Whether the next request may begin: the client has read the answer to the one before."""
    _queued = False
    """Whether the connection waits in `_turns`."""
    _problem: tuple[int, str] | None = None
    """Why the request is refused: status and text."""
    _lingering: int | None = None
    """After a refusal, the bytes that the client has sent since."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]  # as in uvicorn
        super().connection_made(transport)
        self._held = bytearray()
        self._line = bytearray()
        self._turns = _TURNS.setdefault(self.server_state, _Turns(self.loop))
        transport.set_write_buffer_limits(high=0)  # so that the client is known to have read all of an answer
        connected = transport.get_extra_info("socket")
        if connected.family in (socket.AF_INET, socket.AF_INET6) and hasattr(socket, "TCP_NOTSENT_LOWAT"):
            connected.setsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT, UNSENT)
        self._end = self.loop.call_later(HEAD_S, transport.close)

    def data_received(self, data: bytes) -> None:
        if self._lingering is not None:
            self._lingering += len(data)
            if self._lingering > LINGER_BYTES:
                self.transport.abort()
            return
        self._unset_keepalive_if_required()
        self._held += data
        self._parse()

    def on_header(self, name: bytes, value: bytes) -> None:
        """See `HttpToolsProtocol.on_header`. Trailers are dropped: they would be taken for headers of the request."""
        if not self._in_body:
            super().on_header(name, value)

    def on_headers_complete(self) -> None:
        hosts = sum(name == b"host" for name, _ in self.headers)
        if hosts > 1 or (hosts == 0 and self.parser.get_http_version() != "1.0"):
            self._problem = 400, f"A request needs one Host header, not {hosts}"
            raise _Refused
        self._in_body = True
        self._framing = 0
        fields = dict(self.headers)
        if b"transfer-encoding" not in fields:
            self._body_left = int(fields.get(b"content-length", 0))
        super().on_headers_complete()

    def on_chunk_header(self) -> None:
        """The parser calls this with the complete line of a chunk's size in `_line`."""
        self._body_left = int(self._line.split(b";")[0], 16)
        self._framing -= len(b"%x\r\n\r\n" % self._body_left)  # these bytes are no extension

    def on_message_complete(self) -> None:
        super().on_message_complete()
        self._in_body = False
        self._has_turn = False
        self._body_left = self._framing = self._lines = 0
        self._next()

    def on_response_complete(self) -> None:
        super().on_response_complete()
        self._next()

    def pause_writing(self) -> None:
        """See `asyncio.BaseProtocol.pause_writing`: a part of the answer waits for the client."""
        super().pause_writing()
        self._watch_reader()

    def resume_writing(self) -> None:
        super().resume_writing()
        if self._stalled is not None:
            self._stalled.cancel()
        self._next()

    def connection_lost(self, exc: Exception | None) -> None:
        self._stop()
        if self._stalled is not None:
            self._stalled.cancel()
        super().connection_lost(exc)

    def take_turn(self) -> None:
        """Begins the next request, of which a part at least has arrived."""
        self._queued = False
        if not self.transport.is_closing():
            self._has_turn = True
            self.flow.resume_reading()
            self._parse()

    def _next(self) -> None:
        """Lets the next request begin, if the client has read the answer to the one before."""
        if self._has_turn or self._queued or self._is_answering() or self.flow.write_paused:
            return
        if self._held:
            self._unset_keepalive_if_required()
            self._queued = True
            self._turns.add(self)
        else:
            self._has_turn = True

    def _is_answering(self) -> bool:
        return self.cycle is not None and not self.cycle.response_complete

    def _parse(self) -> None:
        """Passes what has arrived to the parser, up to the end of the request."""
        start = 0
        while start < len(self._held) and self._has_turn:
            end = self._end_of_piece(start)
            piece = bytes(self._held[start:end])
            start = end
            if self._body_left:
                self._body_left -= len(piece)
            else:
                self._count(piece)
            if self._lingering is None:
                super().data_received(piece)
            if self._lingering is not None:
                return
            if piece.endswith(b"\n"):
                self._line.clear()
        del self._held[:start]
        if len(self._held) > HELD:
            self.flow.pause_reading()
        if self._is_answering():
            self._stop()
        elif self._end is None:
            self._end = self.loop.call_later(HEAD_S, self.transport.close)

    def _end_of_piece(self, start: int) -> int:
        """Where the line, or what is left of the body, ends in the held bytes."""
        if self._body_left:
            return min(start + self._body_left, len(self._held))
        return self._held.find(b"\n", start) + 1 or len(self._held)

    def _count(self, piece: bytes) -> None:
        """Counts a line, or a part of one. Refuses the request if it is over the limits."""
        self._framing += len(piece)
        self._line += piece
        if self._framing > HEAD_BYTES:
            if self._in_body:
                self._refuse(400, f"The chunk extensions and trailers of a body may have {HEAD_BYTES:,} bytes")
            elif self._lines:
                self._refuse(431, f"The request line and the headers may have {HEAD_BYTES:,} bytes")
            else:
                self._refuse(414, f"The request line may have {HEAD_BYTES:,} bytes")
        elif piece.endswith(b"\n") and not self._in_body:
            self._lines += 1
            if self._lines > HEAD_LINES + 1 and self._line.strip():
                self._refuse(431, f"A request may have {HEAD_LINES} header lines")

    def send_400_response(self, msg: str) -> None:
        """See `HttpToolsProtocol.send_400_response`, which is called when the parser fails."""
        self._refuse(*(self._problem or (400, msg)))

    def _refuse(self, status: int, text: str) -> None:
        """Answers with an error, unless an answer has begun, and closes the connection."""
        self._held.clear()
        self._lingering = 0
        if self._is_answering():
            self.cycle.disconnected = True
            self.cycle.message_event.set()
            if self.cycle.response_started:
                self.transport.abort()
                return
        head = b"content-type: text/plain; charset=utf-8\r\ncontent-length: %d\r\nconnection: close\r\n\r\n" % len(text)
        self.transport.write(STATUS_LINE[status] + head + text.encode("ascii"))
        self.transport.write_eof()
        self._stop()
        self._end = self.loop.call_later(LINGER_S, self.transport.abort)

    def _watch_reader(self) -> None:
        """Closes the connection after `STALLED_S`, unless the client has read `STALLED_BYTES` until then."""
        self._stalled = self.loop.call_later(STALLED_S, self._check_reader, self.transport.get_write_buffer_size())

    def _check_reader(self, unread: int) -> None:
        if self.transport.get_write_buffer_size() > unread - STALLED_BYTES:
            self.transport.abort()
        else:
            self._watch_reader()

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
    """Queues one line for the log, without characters that could steer a terminal. Never blocks."""
    line = " ".join(text.split())
    _WRITER.add(f"fhir_server: {''.join(letter if letter.isprintable() else '�' for letter in line)}")


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
