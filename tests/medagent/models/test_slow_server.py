"""A server of one slot, as people have on their own machine: how many requests it gets, and how many go away."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from medagent.models.endpoint import ChatEndpoint
from medagent.models.limiter import START
from tests.loopback import chat_json
from tests.medagent.models.asking import QUESTION, settings, with_model


class OneSlot:
    """Answers one request after the other. `gone` are the clients that went away before their reply; `waiting` is the
    number of requests in the queue at each arrival after the second of them.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self.answered = self.gone = self._open = 0
        self.waiting: list[int] = []
        self.url = ""

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        try:
            while head := await reader.readuntil(b"\r\n\r\n"):
                length = next(
                    (int(line[15:]) for line in head.lower().split(b"\r\n") if line.startswith(b"content-length:")), 0
                )
                await reader.readexactly(length)
                if not await self._answered(reader, writer):
                    return
        except (asyncio.IncompleteReadError, ConnectionError, asyncio.CancelledError):
            pass  # the client went away, or the server ends
        finally:
            writer.close()

    async def _answered(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> bool:
        self._open += 1
        if self.gone >= 2:
            self.waiting.append(self._open - 1)
        leaving = asyncio.ensure_future(reader.read(1))
        work = asyncio.ensure_future(self._work())
        try:
            await asyncio.wait({leaving, work}, return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                self.gone += 1
                return False
            body = json.dumps(chat_json("FINISH([])", {})).encode()
            writer.write(b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nConnection: close\r\n")
            writer.write(b"Content-Length: %d\r\n\r\n" % len(body) + body)
            await writer.drain()
            self.answered += 1
            return False
        finally:
            self._open -= 1
            leaving.cancel()
            work.cancel()
            await asyncio.gather(leaving, work, return_exceptions=True)

    async def _work(self) -> None:
        async with self._slot:
            await asyncio.sleep(self._seconds)

    @contextmanager
    def serve(self) -> Iterator[OneSlot]:
        """Serve on a free port, in a thread."""
        loop, begun = asyncio.new_event_loop(), threading.Event()

        async def start() -> None:
            self._slot = asyncio.Lock()
            self._server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
            self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"
            begun.set()

        async def stop() -> None:
            self._server.close()
            tasks = asyncio.all_tasks() - {asyncio.current_task()}
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)

        thread = threading.Thread(target=loop.run_forever, daemon=True)
        thread.start()
        asyncio.run_coroutine_threadsafe(start(), loop).result()
        try:
            yield self
        finally:
            asyncio.run_coroutine_threadsafe(stop(), loop).result()
            loop.call_soon_threadsafe(loop.stop)
            thread.join()
            loop.close()


def test_a_server_of_one_slot_answers_ten_items() -> None:
    async def use(model: ChatEndpoint) -> list[str]:
        completions = await asyncio.gather(*(model.complete(QUESTION, session=str(n)) for n in range(10)))
        return [completion.text for completion in completions]

    with OneSlot(0.3).serve() as server:
        texts, _ = with_model(settings(server.url, timeout_s=1), use, concurrency=16, start=START)
    assert texts == ["FINISH([])"] * 10
    assert server.gone <= 2
    assert max(server.waiting, default=0) <= 1
