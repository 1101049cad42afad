"""A cheap HTTP client: requests in turn over connections that are kept alive."""

from __future__ import annotations

import re
import select
import socket
import statistics
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import cycle, islice, takewhile
from typing import NamedTuple
from urllib.parse import urlsplit


class Connection:
    """A kept-alive connection with at most one open request."""

    def __init__(self, base: str) -> None:
        parts = urlsplit(base)
        self.socket = socket.create_connection((parts.hostname or "", parts.port or 80))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.request, self.answers = b"", 0
        self._buffer = bytearray()
        self._started = 0.0

    def send(self, request: bytes) -> None:
        self.request, self._started = request, time.perf_counter()
        self.socket.sendall(request)

    def receive(self) -> float | None:
        """Takes what has arrived. Returns the seconds that the request took, once its answer is complete.

        Raises:
            ConnectionError: the server has closed the connection.
        """
        part = self.socket.recv(1 << 20)
        if not part:
            raise ConnectionResetError
        self._buffer += part
        head = self._buffer.find(b"\r\n\r\n")
        if head < 0:
            return None
        length = re.search(rb"content-length: (\d+)", self._buffer[:head], re.IGNORECASE)
        if not (len(self._buffer) >= head + 4 + int(length[1]) if length else self._buffer.endswith(b"0\r\n\r\n")):
            return None
        self._buffer.clear()
        self.answers += 1
        return time.perf_counter() - self._started


class Load(NamedTuple):
    """How many requests were answered, how many that is a second, and the times of one in milliseconds.

    `own` is the CPU that this client takes for a request.
    """

    requests: int
    rate: float
    median: float
    worst: float
    client: float


def get(base: str, path: str, headers: str = "") -> bytes:
    """A request for a path with further header lines."""
    return _head("GET", base, path, headers)


def post(base: str, path: str, body: str, headers: str = "") -> bytes:
    """A request that sends a resource as JSON."""
    content = body.encode()
    more = f"Content-Type: application/fhir+json\r\nContent-Length: {len(content)}\r\n"
    return _head("POST", base, path, headers + more) + content


def _head(method: str, base: str, path: str, headers: str) -> bytes:
    parts = urlsplit(base)
    lines = f"Host: {parts.netloc}\r\nAccept: application/fhir+json\r\n{headers}"
    return f"{method} {parts.path}{path} HTTP/1.1\r\n{lines}\r\n".encode()


def load(base: str, requests: Iterable[bytes], connections: int) -> Load:
    """Sends the requests over a number of connections, one at a time on each.

    If a server closes a connection between two answers, as Tomcat does after a hundred, a new one is opened.
    """
    left, poll, times = iter(requests), select.epoll(), []
    busy: dict[int, Connection] = {}

    def begin(request: bytes) -> None:
        connection = Connection(base)
        busy[connection.socket.fileno()] = connection
        poll.register(connection.socket, select.EPOLLIN)
        connection.send(request)

    start, spent = time.perf_counter(), time.process_time()
    for request in islice(left, connections):
        begin(request)
    while busy:
        for number, _ in poll.poll():
            ready = busy[number]
            try:
                taken = ready.receive()
                if taken is None:
                    continue
                times.append(taken)
                request = next(left, b"")
                if request:
                    ready.send(request)
                    continue
            except ConnectionError:
                if not ready.answers:
                    sys.exit(f"{base} closes connections without an answer")
                request = ready.request
            busy.pop(number).socket.close()
            if request:
                begin(request)
    rate = len(times) / (time.perf_counter() - start)
    cpu = (time.process_time() - spent) / len(times)
    return Load(len(times), rate, statistics.median(times) * 1000, max(times) * 1000, cpu * 1000)


def in_turn(requests: Iterable[bytes], goes_on: Callable[[], bool]) -> Iterator[bytes]:
    """The requests again and again for as long as it goes on."""
    return takewhile(lambda _: goes_on(), cycle(requests))


def lasting(seconds: float) -> Callable[[], bool]:
    end = time.perf_counter() + seconds
    return lambda: time.perf_counter() < end


def once(base: str, paths: Iterable[str], connections: int = 1, headers: str = "") -> Load:
    """Asks each once."""
    return load(base, [get(base, path, headers) for path in paths], connections)
