"""Requests that take long, answered by a process of their own: meanwhile the server answers the others.

A thread would not do: it shares the interpreter's lock, so each statement of a read would wait for it. The helper opens
the same file; until it has committed, readers see the file as it was. Other writes wait their turn. The process starts
with the first such request and ends once none has come for a while, which also gives back the memory that it took.
"""

from __future__ import annotations

import asyncio
import gc
import os
import socket
import sys
import threading
import time
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import BinaryIO, Self

from fhir_server.access import Access
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.processes import _frames as frames
from fhir_server.processes import http
from fhir_server.processes._episodes import ServerWithEpisodes
from fhir_server.processes._hooks import Courier
from fhir_server.search.paging import Search
from fhir_server.server import Server
from fhir_server.store import Version
from fhir_server.wire.http import Request, Response

LARGE = 1 << 20
"""From this size on a body is answered by the helper: it keeps a process busy for a quarter of a second."""
IDLE = 60.0
"""Seconds after which a helper that has nothing to do ends."""
CPU_S = 120.0
"""Seconds of CPU that one request may take a helper: 2,000,000 small resources are indexed again in half of that."""
_OVER = 75
"""The exit status of a helper that ended because a request took longer."""


def takes_long(request: Request) -> bool:
    """Whether a request is one for the helper: its body is large, or all resources of a type may have to be indexed."""
    if request.method in ("GET", "HEAD"):
        return False
    path = request.target.partition("?")[0]
    return len(request.body) >= LARGE or "/SearchParameter" in path or b"SearchParameter" in request.body


class HelpedServer:
    """A server that answers what takes long by a helper, and everything else itself. For one event loop."""

    def __init__(self, server: Server, cpu_s: float = CPU_S) -> None:
        self._server, self._courier, self._cpu_s = server, Courier(server), cpu_s
        self._writing = asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None
        """The helper, once one was needed."""
        self._end: asyncio.TimerHandle | None = None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers one request, at once where that takes no long time."""
        if takes_long(request):
            return self._helped(request)
        try:
            return self._courier.handle(request)
        except WritesElsewhere:
            return self._later(request)

    async def _later(self, request: Request) -> Response:
        """A small write that came while the helper was writing."""
        async with self._writing:
            return self._courier.handle(request)

    async def _helped(self, request: Request) -> Response:
        async with self._writing:
            self._server.store.writes_elsewhere = True
            try:
                response, searches, changes = await self._exchange(request)
            except (OSError, EOFError):
                if self.process is not None and await self.process.wait() == _OVER:
                    problem = f"The request takes more than {self._cpu_s:g} s; nothing of it was stored"
                    raise FhirError(400, problem, "too-costly") from None
                self._kill()
                problem = "The process that should answer this request died (is there enough memory?)"
                raise FhirError(503, f"{problem}; whether it was carried out is not known", "transient") from None
            except BaseException:
                self._kill()
                raise
            finally:
                self._server.store.writes_elsewhere = False
        for search in searches:
            self._server.context.searches.keep(search)
        self._courier.tell(changes)
        return response

    async def _exchange(self, request: Request) -> tuple[Response, list[Search], list[Version]]:
        helper = self.process if self.process and self.process.returncode is None else await self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        if self._end is not None:
            self._end.cancel()
        await frames.send(helper.stdin, request)
        answer: tuple[Response, list[Search], list[Version]] = await frames.receive(helper.stdout)
        self._end = asyncio.get_running_loop().call_later(IDLE, self._kill)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        words = [sys.executable, "-m", "fhir_server.processes.helper"]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=frames.LIMIT)
        assert self.process.stdin is not None
        await frames.send(self.process.stdin, (self._server.settings, self._server.context.hooks, self._cpu_s))
        return self.process

    def _kill(self) -> None:
        """Ends the helper; what it has not committed is not stored."""
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


def run(server: Server, listener: socket.socket, access: Access) -> None:
    """Answers on the socket until a signal comes."""
    if access.episodes:
        http.run(access, ServerWithEpisodes(server), listener, nullcontext())
        return
    helped = HelpedServer(server)
    http.run(access, helped, listener, helped)


def work(source: BinaryIO, target: BinaryIO) -> None:
    """The loop of a helper: reads the settings of a server, then requests.

    It writes answers, each with the searches to keep and the versions that were written.
    """
    gc.disable()  # the many objects of a request would be looked through again and again
    settings, hosts, cpu_s = frames.read(source)
    limit = _CpuLimit(cpu_s)
    with Server.open(**settings) as server:
        server.deliver_to(hosts)
        while True:
            try:
                request = frames.read(source)
            except EOFError:
                return
            limit.begin()
            response = server.handle(request)
            limit.end()
            frames.write(target, (response, server.context.searches.take_all(), server.store.take_changes()))
            del request, response
            gc.collect()


class _CpuLimit:
    """Ends this process where a request takes it too much CPU; SQLite then has nothing of what was not committed."""

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._until: float | None = None
        threading.Thread(target=self._look, daemon=True).start()

    def begin(self) -> None:
        """A request begins."""
        self._until = time.process_time() + self._seconds

    def end(self) -> None:
        """It is done."""
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
