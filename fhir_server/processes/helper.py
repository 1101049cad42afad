"""Requests with large bodies, answered by a process of their own: meanwhile the server answers the others.

A thread would not do: it shares the interpreter's lock, so each statement of a read would wait for it. The helper opens
the same file; until it has committed, readers see the file as it was. Other writes wait their turn. The process starts
with the first large body and ends once none has come for a while, which also gives back the memory that it took.
"""

from __future__ import annotations

import asyncio
import gc
import socket
import sys
from collections.abc import Awaitable
from contextlib import nullcontext
from typing import BinaryIO, Self

from fhir_server.access import Access
from fhir_server.errors import FhirError, WritesElsewhere
from fhir_server.processes import frames, http
from fhir_server.processes.episodes import ServerWithEpisodes
from fhir_server.search.paging import Search
from fhir_server.server import Server
from fhir_server.wire.http import Request, Response

LARGE = 1 << 20
"""From this size on a body is answered by the helper: it keeps a process busy for a quarter of a second."""
IDLE = 60.0
"""Seconds after which a helper that has nothing to do ends."""


class HelpedServer:
    """A server that answers large bodies by a helper, and everything else itself. For one event loop."""

    def __init__(self, server: Server) -> None:
        self._server = server
        self._writing = asyncio.Lock()
        self.process: asyncio.subprocess.Process | None = None
        """The helper, once one was needed."""
        self._end: asyncio.TimerHandle | None = None

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers one request, at once where that takes no long time."""
        if len(request.body) >= LARGE:
            return self._helped(request)
        try:
            return self._server.handle(request)
        except WritesElsewhere:
            return self._later(request)

    async def _later(self, request: Request) -> Response:
        """A small write that came while the helper was writing."""
        async with self._writing:
            return self._server.handle(request)

    async def _helped(self, request: Request) -> Response:
        async with self._writing:
            self._server.store.writes_elsewhere = True
            try:
                response, searches = await self._asked(request)
            except (OSError, EOFError):
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
        return response

    async def _asked(self, request: Request) -> tuple[Response, list[Search]]:
        helper = self.process if self.process and self.process.returncode is None else await self._start()
        assert helper.stdin is not None
        assert helper.stdout is not None
        if self._end is not None:
            self._end.cancel()
        await frames.send(helper.stdin, request)
        answer: tuple[Response, list[Search]] = await frames.receive(helper.stdout)
        self._end = asyncio.get_running_loop().call_later(IDLE, self._kill)
        return answer

    async def _start(self) -> asyncio.subprocess.Process:
        words = [sys.executable, "-m", "fhir_server.processes.helper"]
        pipe = asyncio.subprocess.PIPE
        self.process = await asyncio.create_subprocess_exec(*words, stdin=pipe, stdout=pipe, limit=frames.LIMIT)
        assert self.process.stdin is not None
        await frames.send(self.process.stdin, self._server.settings)
        return self.process

    def _kill(self) -> None:
        """Ends the helper; what it has not committed is not stored."""
        if self.process is not None and self.process.returncode is None:
            self.process.kill()
        self.process = None

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        process = self.process
        self._kill()
        if process is not None:
            await process.wait()


def run(server: Server, listener: socket.socket, access: Access) -> None:
    """Answers on the socket until a signal comes."""
    if access.episodes:
        http.run(access.application(ServerWithEpisodes(server)), listener, nullcontext())
        return
    helped = HelpedServer(server)
    http.run(access.application(helped), listener, helped)


def work(source: BinaryIO, target: BinaryIO) -> None:
    """The loop of a helper: reads the settings of a server, then requests, and writes answers with what they keep."""
    gc.disable()  # the many objects of a request would be looked through again and again
    with Server.open(**frames.read(source)) as server:
        while True:
            try:
                request = frames.read(source)
            except EOFError:
                return
            response = server.handle(request)
            frames.write(target, (response, server.context.searches.take_all()))
            del request, response
            gc.collect()


if __name__ == "__main__":
    from fhir_server.processes import helper as module

    module.work(sys.stdin.buffer, sys.stdout.buffer)
