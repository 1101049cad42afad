"""The helper: a process that answers long requests, so that the server can answer other requests at the same time.

A thread would share the interpreter lock, and each statement of a read would wait for it. The helper opens the same
file. Readers see its writes after the commit. Other writes wait until it is done. The helper starts with the first long
request and ends after `IDLE` seconds without one, which also releases its memory.

The two processes send each other pickled messages over pipes, each after its length in eight bytes.
"""

from __future__ import annotations

import asyncio
import os
import pickle
import socket
import struct
import sys
import threading
import time
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import Any, BinaryIO, Self

from fhir_server.access import Access
from fhir_server.episodes import ServerWithEpisodes
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.processes import http
from fhir_server.processes._hooks import Courier
from fhir_server.search.paging import Search
from fhir_server.server import Server
from fhir_server.store import Version
from fhir_server.wire.http import Request, Response

LARGE = 1 << 20
"""Requests with a body of at least this many bytes go to the helper."""
IDLE = 60.0
"""Seconds without a request after which a helper ends."""
CPU_S = 120.0
"""The maximum CPU seconds of one request. Indexing 2,000,000 small resources again takes about half of it."""
_OVER = 75
"""The exit status of a helper that ended because a request took more than its CPU seconds."""
_LENGTH = struct.Struct("!Q")


def takes_long(request: Request) -> bool:
    """Whether a request goes to the helper: its body is large, or it may index all resources of a type again."""
    if request.method in ("GET", "HEAD"):
        return False
    path = request.target.partition("?")[0]
    return len(request.body) >= LARGE or "/SearchParameter" in path or b"SearchParameter" in request.body


class HelpedServer:
    """A server that sends long requests to a helper and answers all others itself. For one event loop."""

    def __init__(self, server: Server, cpu_s: float = CPU_S) -> None:
        self._server = server
        self._courier = Courier(server)
        self._cpu_s = cpu_s
        self._writing = asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None
        """The helper; None before the first long request."""
        self._end: asyncio.TimerHandle | None = None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers one request. Returns an awaitable if it waits for the helper."""
        if takes_long(request):
            return self._helped(request)
        try:
            return self._courier.handle(request)
        except WritesElsewhere:
            return self._later(request)

    async def _later(self, request: Request) -> Response:
        """Answers a small write after the helper has finished writing."""
        async with self._writing:
            return self._courier.handle(request)

    async def _helped(self, request: Request) -> Response:
        async with self._writing:
            self._server.store.writes_elsewhere = True
            try:
                response, searches, changes = await self._exchange(request)
            except (OSError, EOFError):
                if self.process is not None and await self.process.wait() == _OVER:
                    problem = f"The request takes more than {self._cpu_s:g} s of CPU; nothing of it was stored"
                    raise FhirError(400, problem, "too-costly") from None
                self._kill()
                problem = "The process that should answer this request died (out of memory?)"
                raise FhirError(503, f"{problem}; it is not known whether its writes are stored", "transient") from None
            except BaseException:
                self._kill()
                raise
            finally:
                self._server.store.writes_elsewhere = False
        for search in searches:
            self._server.context.searches.keep(search)
        self._courier.notify(changes)
        return response

    async def _exchange(self, request: Request) -> tuple[Response, list[Search], list[Version]]:
        helper = self.process if self.process and self.process.returncode is None else await self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        if self._end is not None:
            self._end.cancel()
        await _send(helper.stdin, request)
        (length,) = _LENGTH.unpack(await helper.stdout.readexactly(_LENGTH.size))
        answer: tuple[Response, list[Search], list[Version]] = pickle.loads(await helper.stdout.readexactly(length))
        self._end = asyncio.get_running_loop().call_later(IDLE, self._kill)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        words = [sys.executable, "-m", "fhir_server.processes.helper"]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=1 << 20)
        assert self.process.stdin is not None
        await _send(self.process.stdin, (self._server.settings, self._server.context.hooks, self._cpu_s))
        return self.process

    def _kill(self) -> None:
        """Kills the helper. Uncommitted writes are lost."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        self.process = None

    async def __aenter__(self) -> Self:
        await self._courier.__aenter__()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self._courier.__aexit__()
        process = self.process
        self._kill()
        if process is not None:
            await process.wait()


def _packed(message: object) -> bytes:
    data = pickle.dumps(message, pickle.HIGHEST_PROTOCOL)
    return _LENGTH.pack(len(data)) + data


async def _send(writer: asyncio.StreamWriter, message: object) -> None:
    """Sends a message. Raises OSError if the helper has ended."""
    writer.write(_packed(message))
    await writer.drain()


def _read(source: BinaryIO) -> Any:
    """Waits for a message. Raises EOFError if the server has ended."""
    head = source.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        raise EOFError
    return pickle.loads(source.read(_LENGTH.unpack(head)[0]))


def run(server: Server, listener: socket.socket, access: Access) -> None:
    """Serves on the socket until a signal comes."""
    if access.episodes:
        http.run(access, ServerWithEpisodes(server), listener, nullcontext())
        return
    helped = HelpedServer(server)
    http.run(access, helped, listener, helped)


def work(source: BinaryIO, target: BinaryIO) -> None:
    """The loop of a helper: reads the settings of a server and then requests from `source`.

    For each request, it writes to `target`: the response, the searches to store, and the written versions.
    """
    settings, hosts, cpu_s = _read(source)
    limit = _CpuLimit(cpu_s)
    with Server.open(**settings) as server:
        server.deliver_to(hosts)
        while True:
            try:
                request = _read(source)
            except EOFError:
                return
            limit.begin()
            response = server.handle(request)
            limit.end()
            target.write(_packed((response, server.context.searches.take_all(), server.store.take_changes())))
            target.flush()


class _CpuLimit:
    """Ends this process if a request takes too much CPU. SQLite then drops uncommitted writes."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self) -> None:
        self._until = time.process_time() + self._seconds

    def end(self) -> None:
        self._until = None

    def _look(self) -> None:
        while True:
            time.sleep(min(self._seconds / 10, 1.0))
            until = self._until
            if until is not None and time.process_time() > until:
                os._exit(_OVER)


if __name__ == "__main__":
    from fhir_server.processes import helper as module

    module.work(sys.stdin.buffer, sys.stdout.buffer)
