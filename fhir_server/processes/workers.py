"""Several processes answer reads of one file: `--workers`.

The main process opens the file, does all writes and starts the workers. The workers share its listening socket and
answer reads, each with its own SQLite connection. In WAL mode, a read that begins after a commit sees it, and no read
waits for a write. Workers forward writes to the main process. The next page of a search is answered by the process that
began the search: the search's id ends with the number of that process. Requests are forwarded over Unix sockets in a
folder that only this user can enter.
"""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import sys
import threading
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any
from urllib.parse import unquote

from fhir_server._cycles import look_seldom_for_cycles
from fhir_server.access import Access
from fhir_server.episodes import ROOT
from fhir_server.errors import FhirError, ServerError, WritesElsewhere
from fhir_server.ids import IdSource
from fhir_server.processes import _frames as frames
from fhir_server.processes import http
from fhir_server.processes._episodes import ServerWithEpisodes
from fhir_server.processes._hooks import Courier
from fhir_server.processes._log import say
from fhir_server.server import Server
from fhir_server.store.temporary import TemporaryFolder
from fhir_server.wire.http import Request, Response, parse_query, split_target

WRITER = 0
"""The number of the main process. Workers have numbers from 1."""
PATIENCE = 5.0
"""Seconds that a worker may take to finish its requests when the server ends."""

Stream = tuple[asyncio.StreamReader, asyncio.StreamWriter]


@dataclass(frozen=True, slots=True)
class WorkerSettings:
    """The settings of a worker. `server` has the arguments of `Server.open`."""

    server: dict[str, Any]
    number: int
    count: int
    folder: Path
    listener: int
    """The file descriptor of the listening socket."""
    access: Access


class Peers:
    """The other processes. Connections to them are reused."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._idle: dict[int, list[Stream]] = {}

    async def ask(self, number: int, request: Request) -> Response:
        """The response of process `number`. Raises FhirError, 503, if that process ends."""
        idle = self._idle.setdefault(number, [])
        stream = None
        try:
            stream = await self._connection(number, idle)
            await frames.send(stream[1], request)
            response: Response = await frames.receive(stream[0])
        except (OSError, EOFError):
            if stream is not None:
                stream[1].close()
            problem = "The process that should answer this request ended; it is not known whether its writes are stored"
            raise FhirError(503, problem, "transient") from None
        idle.append(stream)
        return response

    async def _connection(self, number: int, idle: list[Stream]) -> Stream:
        while idle:
            stream = idle.pop()
            if not stream[0].at_eof():
                return stream
            stream[1].close()
        return await asyncio.open_unix_connection(self._folder / str(number), limit=frames.LIMIT)


@asynccontextmanager
async def listening(path: Path, handle: Callable[[Request], Response]) -> AsyncIterator[None]:
    """Answers requests that other processes forward, while the block runs."""

    async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with suppress(OSError, EOFError, asyncio.CancelledError):  # CancelledError: this process ends
            while True:
                await frames.send(writer, handle(await frames.receive(reader)))
        writer.close()

    try:
        server = await asyncio.start_unix_server(connected, path, limit=frames.LIMIT)
    except OSError as error:
        raise ServerError(f"{path}: cannot listen on this socket ({error}); set TMPDIR to a shorter path") from None
    async with server:
        yield


class Worker:
    """Answers reads itself and forwards all other requests."""

    def __init__(self, server: Server, number: int, count: int, peers: Peers) -> None:
        self._server, self._number, self._count, self._peers = server, number, count, peers
        server.store.writes_elsewhere = True
        server.context.ids = IdSource(number=number)

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers one request, or forwards it."""
        number = self._place(request)
        if number != self._number:
            return self._peers.ask(number, request)
        try:
            return self._server.handle(request)
        except WritesElsewhere:
            return self._peers.ask(WRITER, request)

    def _place(self, request: Request) -> int:
        """The number of the process for a request. An operation that turns out to write is forwarded later."""
        path, query = split_target(request.target)
        if path.startswith(ROOT) or "$export" in unquote(path):
            return WRITER
        if request.method in ("PUT", "PATCH", "DELETE"):
            return WRITER
        if request.method == "POST" and not path.rpartition("/")[2].startswith(("$", "_search", "%24")):
            return WRITER
        if "_getpages=" in query:
            search_id = dict(parse_query(query)).get("_getpages", "")
            with suppress(ValueError):
                number = int(search_id[-2:], 16)
                if number <= self._count:
                    return number
        return self._number


def work(settings: WorkerSettings) -> None:
    """The main function of a worker. It serves until a signal comes or the main process ends."""

    def end_with_parent() -> None:
        sys.stdin.buffer.read()
        os._exit(1)

    threading.Thread(target=end_with_parent, daemon=True).start()
    with Server.open(**settings.server) as server, socket.socket(fileno=settings.listener) as listener:
        if settings.access.export:
            server.offer_exports()  # so that /metadata lists them; the main process runs exports
        worker = Worker(server, settings.number, settings.count, Peers(settings.folder))
        http.run(
            settings.access,
            worker,
            listener,
            listening(settings.folder / str(settings.number), server.handle),
        )


def run(server: Server, listener: socket.socket, count: int, access: Access) -> None:
    """The main process: does all writes, and keeps `count` workers running until a signal comes.

    Raises:
        ServerError: a worker ended by itself, or the path of the temporary folder is too long.
    """
    look_seldom_for_cycles()
    server.context.ids = IdSource(number=WRITER)
    with TemporaryFolder(watched=True) as name:
        folder = Path(name)
        workers = [
            WorkerSettings(server.settings, number, count, folder, listener.fileno(), access)
            for number in range(1, count + 1)
        ]
        courier = Courier(server)
        handle = ServerWithEpisodes(server).handle if access.episodes else courier.handle
        with suppress(asyncio.CancelledError):
            asyncio.run(_main(workers, courier, listening(folder / str(WRITER), handle)))


async def _main(
    workers: Sequence[WorkerSettings], courier: Courier, beside: AbstractAsyncContextManager[object]
) -> None:
    task = asyncio.current_task()
    assert task is not None
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    async with courier, beside:
        try:
            async with asyncio.TaskGroup() as group:
                for settings in workers:
                    group.create_task(_keep_running(settings))
        except* ServerError as errors:
            raise errors.exceptions[0] from None


async def _keep_running(settings: WorkerSettings) -> None:
    words = [sys.executable, "-m", "fhir_server.processes.workers"]
    while True:
        # In a new session, so that Ctrl-C goes only to the main process, which then ends the workers.
        process = await asyncio.create_subprocess_exec(
            *words, stdin=asyncio.subprocess.PIPE, pass_fds=[settings.listener], start_new_session=True
        )
        try:
            assert process.stdin is not None
            with suppress(OSError):
                await frames.send(process.stdin, settings)
            status = await process.wait()
        finally:
            await _ended(process)
        if status >= 0:  # it ended by itself, and so would a new one
            raise ServerError(f"worker {settings.number} ended with status {status}; see its messages above")
        say(f"worker {settings.number} was ended by signal {-status}; another is started")


async def _ended(process: asyncio.subprocess.Process) -> None:
    with suppress(ProcessLookupError):
        process.terminate()
    try:
        async with asyncio.timeout(PATIENCE):
            await process.wait()
    except TimeoutError:
        process.kill()
        await process.wait()


if __name__ == "__main__":
    from fhir_server.processes import workers as module

    module.work(frames.read(sys.stdin.buffer))
