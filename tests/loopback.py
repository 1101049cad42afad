"""A real OpenAI-compatible server on the loopback interface, in a thread of its own, for tests and benchmarks.

    with ModelServer(reply="FINISH([60])") as server:
        settings = ModelSettings(name="any", base_urls=[server.url])
        ...
    assert len(server.calls) == 1

`reply` is a text, a `Completion`-like JSON object (sent as it is), or a function of the request's JSON that returns
either; a function runs on the server's thread and must not block. It is asked for `/chat/completions`, `/responses`
and Anthropic's `/messages` alike. A subprocess reaches the server by `server.url` (`OPENAI_BASE_URL`) until the `with`
block ends.

`faults` says what goes wrong: a list with one entry a call, in the order the calls arrive (None, and all calls after
the list's end, are answered properly), or a function of the `Call` that returns a `Fault` or None. The faults are
`status(429, retry_after=…)`, `refusal(…)`, `stall(…)`, `drip(…)`, `half_closed()`, `truncated_json()`,
`empty_choices()` and `wrong_content_type()`. A good answer is sent `latency` seconds after its request arrived.
`calls` records what arrived.

`stated` are the answers to GETs by path, such as `{"/props": {"total_slots": 1}}`; all others are answered 404, and no
GET is in `calls`.

`provider` makes the server as strict as a real one (`tests/providers.py`): it answers 400 to a conversation that lacks
what the provider wants back of its own messages. The reply function sees chat completions whatever the API.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Any

import httptools

from tests.providers import Provider

Json = dict[str, Any]
Answer = str | Json
STALL_S = 3600.0


@dataclass(frozen=True, slots=True)
class Call:
    """One request, numbered from 0 in the order of arrival; `at` is `time.monotonic()` when it had arrived."""

    number: int
    path: str
    headers: dict[str, str]
    body: Json
    at: float

    @property
    def messages(self) -> list[Json]:
        """The conversation sent, whichever the API."""
        sent: list[Json] = self.body.get("messages") or self.body.get("input") or []
        return sent


@dataclass(frozen=True, slots=True)
class Fault:
    """What goes wrong with one answer. Made by the functions below."""

    status: int = 200
    headers: dict[str, str] = field(default_factory=dict)
    body: bytes | None = None
    """Sent instead of the answer."""
    cut: bool = False
    """Send half of the JSON, as a whole HTTP message."""
    close: bool = False
    """Announce the whole body, send half of it, and close."""
    wait_s: float = 0.0
    """Say nothing for so long first."""
    drip_s: float = 0.0
    """Spread the answer's bytes over so long."""


def status(code: int, /, *, retry_after: str | float | None = None, message: str = "injected", **error: Any) -> Fault:
    """An error answer in OpenAI's form; `error` adds fields such as `code` and `param`."""
    headers = {} if retry_after is None else {"Retry-After": str(retry_after)}
    return Fault(status=code, headers=headers, body=json.dumps({"error": {"message": message, **error}}).encode())


def stall(seconds: float = STALL_S) -> Fault:
    """No byte of an answer for so long."""
    return Fault(wait_s=seconds)


def drip(seconds: float = STALL_S) -> Fault:
    """A proper answer, a few bytes at a time."""
    return Fault(drip_s=seconds)


def half_closed() -> Fault:
    """The connection is closed in the middle of the body."""
    return Fault(close=True)


def truncated_json() -> Fault:
    """Half of the JSON, with a Content-Length that fits it."""
    return Fault(cut=True)


def empty_choices() -> Fault:
    """JSON without a message."""
    return Fault(body=b'{"object": "chat.completion", "choices": [], "output": []}')


def wrong_content_type() -> Fault:
    """A web page, as a proxy or a wrong path would answer."""
    return Fault(headers={"Content-Type": "text/html"}, body=b"<!doctype html><title>Sign in</title>")


class ModelServer:
    """The server; a context manager. `url` is its base URL, `calls` what has arrived."""

    def __init__(
        self,
        reply: Answer | Callable[[Json], Answer] = "FINISH([])",
        *,
        faults: Sequence[Fault | None] | Callable[[Call], Fault | None] = (),
        latency: float = 0.0,
        provider: Provider | None = None,
        stated: dict[str, Json] | None = None,
    ) -> None:
        self.calls: list[Call] = []
        self.asked: list[str] = []
        """The paths of GETs: what the server was asked about itself."""
        self.stated = stated or {}
        self.url = ""
        self._reply = reply
        self._faults = faults
        self._latency = latency
        self._provider = provider
        self._loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self._loop.run_forever, name="model-server", daemon=True)
        self._connections: set[_Connection] = set()
        self._server: asyncio.Server | None = None

    def __enter__(self) -> ModelServer:
        self._thread.start()
        asyncio.run_coroutine_threadsafe(self._start(), self._loop).result()
        return self

    def __exit__(self, *_: object) -> None:
        asyncio.run_coroutine_threadsafe(self._stop(), self._loop).result()
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join()
        self._loop.close()

    async def _start(self) -> None:
        self._server = await self._loop.create_server(
            lambda: _Connection(self.answer, self._connections), "127.0.0.1", 0, backlog=4096
        )
        self.url = f"http://127.0.0.1:{self._server.sockets[0].getsockname()[1]}/v1"

    async def _stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for connection in list(self._connections):
            connection.abort()
        tasks = [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await asyncio.sleep(0)  # lets the aborted transports close

    async def answer(self, path: str, headers: dict[str, str], content: bytes, connection: _Connection) -> None:
        """Answer one request, or do to it what the faults say."""
        if connection.method == "GET":
            self.asked.append(path)
            known = self.stated.get(path)
            connection.send(404 if known is None else 200, {}, json.dumps(known or {}).encode())
            return
        call = Call(len(self.calls), path, headers, json.loads(content or b"{}"), connection.arrived)
        self.calls.append(call)
        try:
            fault = self._fault(call) or self._refusal(call)
            body = fault.body if fault and fault.body is not None else self._body(call)
        except Exception as error:  # a test's own mistake: no caller shall wait for it
            fault = status(404, message=f"the test's reply function failed: {error!r}")
            body = fault.body or b""
        if fault is None:
            if self._latency:
                await asyncio.sleep(call.at + self._latency - time.monotonic())
            connection.send(200, {}, body)
            return
        if fault.wait_s:
            await asyncio.sleep(fault.wait_s)
        if fault.cut:
            body = body[: len(body) // 2]
        if fault.close:
            connection.send(fault.status, fault.headers, body[: len(body) // 2], length=len(body))
            connection.close()
        elif fault.drip_s:
            connection.send(fault.status, fault.headers, b"", length=len(body))
            for start in range(0, len(body), 8):
                await asyncio.sleep(fault.drip_s * 8 / len(body))
                connection.write(body[start : start + 8])
        else:
            connection.send(fault.status, fault.headers, body)

    def _fault(self, call: Call) -> Fault | None:
        if callable(self._faults):
            return self._faults(call)
        return self._faults[call.number] if call.number < len(self._faults) else None

    def _refusal(self, call: Call) -> Fault | None:
        problem = self._provider.problem(call.path, call.headers, call.body) if self._provider else None
        if self._provider is None or problem is None:
            return None
        return Fault(status=400, body=json.dumps(self._provider.refusal(problem)).encode())

    def _body(self, call: Call) -> bytes:
        request = call.body if self._provider is None else self._provider.chat(call.body)
        answer = self._reply(request) if callable(self._reply) else self._reply
        if self._provider is not None:
            completion = chat_json(answer, request) if isinstance(answer, str) else answer
            answer = self._provider.reply(completion, call.body)
        elif isinstance(answer, str):
            answer = reply_json(answer, call)
        return json.dumps(answer).encode()


def reply_json(text: str, call: Call) -> Json:
    """A reply with this text, in the API that was called."""
    path = call.path.partition("?")[0]
    if path.endswith("/messages"):
        return anthropic_json(text)
    return responses_json(text) if path.endswith("/responses") else chat_json(text, call.body)


def chat_json(text: str, request: Json) -> Json:
    """A chat completion with this text; tokens are counted as four characters each."""
    prompt = sum(len(message.get("content") or "") for message in request.get("messages", [])) // 4 or 1
    usage = {"prompt_tokens": prompt, "completion_tokens": len(text) // 4, "total_tokens": prompt + len(text) // 4}
    message = {"role": "assistant", "content": text}
    return {
        "object": "chat.completion",
        "model": request.get("model"),
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": usage,
    }


def responses_json(text: str) -> Json:
    """A reply of the responses API with this text."""
    content = [{"type": "output_text", "text": text}]
    return {
        "object": "response",
        "status": "completed",
        "output": [{"type": "message", "role": "assistant", "content": content}],
        "usage": {"input_tokens": 8, "output_tokens": len(text) // 4},
    }


def anthropic_json(text: str) -> Json:
    """A reply of Anthropic's Messages API with this text."""
    return {
        "type": "message",
        "role": "assistant",
        "content": [{"type": "text", "text": text}],
        "stop_reason": "end_turn",
        "usage": {"input_tokens": 8, "output_tokens": len(text) // 4},
    }


class _Connection(asyncio.Protocol):
    """One keep-alive connection; a request is answered by a task of its own."""

    def __init__(
        self,
        answer: Callable[[str, dict[str, str], bytes, _Connection], Coroutine[Any, Any, None]],
        connections: set[_Connection],
    ) -> None:
        self._answer = answer
        self._connections = connections
        self._parser = httptools.HttpRequestParser(self)
        self._tasks: set[asyncio.Task[None]] = set()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._connections.add(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._connections.discard(self)
        for task in self._tasks:
            task.cancel()

    def data_received(self, data: bytes) -> None:
        try:
            self._parser.feed_data(data)
        except httptools.HttpParserError:
            self.close()

    def on_message_begin(self) -> None:
        self._path = ""
        self._headers: dict[str, str] = {}
        self._content = bytearray()

    def on_url(self, url: bytes) -> None:
        self._path += url.decode()

    def on_header(self, name: bytes, value: bytes) -> None:
        self._headers[name.decode().lower()] = value.decode()

    def on_body(self, body: bytes) -> None:
        self._content += body

    def on_message_complete(self) -> None:
        self.arrived = time.monotonic()
        self.method = self._parser.get_method().decode()
        task = asyncio.ensure_future(self._answer(self._path, self._headers, bytes(self._content), self))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    def send(self, code: int, headers: dict[str, str], body: bytes, *, length: int | None = None) -> None:
        """A whole answer, or the beginning of one of `length` bytes."""
        lines = {"Content-Type": "application/json", "Content-Length": len(body) if length is None else length}
        head = "".join(f"{name}: {value}\r\n" for name, value in (lines | headers).items())
        self.write(f"HTTP/1.1 {code} Injected\r\n{head}\r\n".encode() + body)

    def write(self, data: bytes) -> None:
        if not self._transport.is_closing():
            self._transport.write(data)

    def close(self) -> None:
        self._transport.close()

    def abort(self) -> None:
        with contextlib.suppress(OSError):
            self._transport.abort()
