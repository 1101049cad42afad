"""Serves a function of requests on a loopback port, in its own threads, and implements the faults of its replies."""

from __future__ import annotations

import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

from medagent.testing._faults import Answer, Handler

POLL_S = 0.01
MAX_EXTRAS = 64 * 1024
"""Bytes of the chunk extensions and trailers of one body."""


@contextmanager
def serving(handler: Handler) -> Iterator[str]:
    """Answer requests while the block runs; yields `http://127.0.0.1:PORT`."""
    server = _LoopbackServer(handler)
    thread = threading.Thread(target=server.serve_forever, args=(POLL_S,), name="medagent-testing", daemon=True)
    thread.start()
    try:
        yield server.address
    finally:
        server.shutdown()
        thread.join()
        server.end()


class _LoopbackServer(ThreadingHTTPServer):
    daemon_threads = False  # so that closing waits for them

    def __init__(self, handler: Handler) -> None:
        super().__init__(("127.0.0.1", 0), _Connection)
        self.address = f"http://127.0.0.1:{self.server_port}"
        self.handler = handler
        self.ended = threading.Event()
        self.open: set[socket.socket] = set()

    def end(self) -> None:
        """Close connections that clients left open, and wait for the threads."""
        self.ended.set()
        for connection in list(self.open):
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
        self.server_close()

    def handle_error(self, request: object, client_address: object) -> None:
        """Ignores clients that have closed the connection; an error of the handler was already answered with 500."""


class _Connection(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    server: _LoopbackServer

    def setup(self) -> None:
        super().setup()
        self.server.open.add(self.connection)

    def finish(self) -> None:
        self.server.open.discard(self.connection)
        super().finish()

    def log_message(self, format: str, *args: object) -> None:
        """Prints nothing, so that the tests' output stays clean."""

    def _answer(self) -> None:
        url = self.server.address + self.path
        try:
            body = self._body()
        except ValueError as error:
            self.close_connection = True
            self.send_error(400, str(error))
            return
        try:
            answer = self.server.handler(self.command, url, self.headers.items(), body)
        except Exception as error:
            answer = Answer(500, [("Content-Type", "text/plain")], f"the double failed: {error!r}".encode())
        if answer.delay:
            self.server.ended.wait(answer.delay)
        if answer.lost == "dropped":
            self.close_connection = True
            return
        self.send_response_only(answer.status)
        for name, value in answer.headers:
            self.send_header(name, value)
        self.send_header("Content-Length", str(len(answer.body)))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(answer.body[: len(answer.body) // 2] if answer.lost else answer.body)
        self.close_connection = self.close_connection or bool(answer.lost)

    do_GET = do_HEAD = do_POST = do_PUT = do_PATCH = do_DELETE = do_OPTIONS = _answer

    def _body(self) -> bytes:
        """The whole body. Raises ValueError if it is malformed."""
        if self.headers.get("Transfer-Encoding", "").lower() != "chunked":
            return self.rfile.read(int(self.headers.get("Content-Length", 0)))
        parts = []
        left = MAX_EXTRAS
        while True:
            size, _, extension = self._line(left).partition(b";")
            left -= len(extension)
            if not int(size, 16):
                break
            parts.append(self.rfile.read(int(size, 16)))
            self._line(left)
        while trailer := self._line(left).strip():
            left -= len(trailer)
        return b"".join(parts)

    def _line(self, longest: int) -> bytes:
        line = self.rfile.readline(max(longest, 0) + 20)
        if longest < 0 or not line.endswith(b"\n"):
            raise ValueError("the chunk extensions and trailers of the body are too long, or it is cut off")
        return line
