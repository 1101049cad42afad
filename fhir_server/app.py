"""The ASGI application over a server: limits bodies, checks the bearer token, compresses with gzip on request.

It is raw ASGI without a framework: the work is synchronous and mostly short, so a request is answered in the event
loop, unless the server returns an awaitable.

A body that is too long is refused by its Content-Length, before it is read. A body of more than a megabyte is stored on
disk until it is complete. If a body stops arriving, its request is ended.
"""

from __future__ import annotations

import asyncio
import re
import tempfile
import zlib
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, Protocol, TypeVar

from fhir_server.episodes import is_record
from fhir_server.errors import FhirError
from fhir_server.interactions.context import MAX_BODY
from fhir_server.wire.http import Request, Response, carries_token
from fhir_server.wire.outcome import refused

Message = MutableMapping[str, Any]
Receive = Callable[[], Awaitable[Message]]
Send = Callable[[Message], Awaitable[None]]
App = Callable[[Message, Receive, Send], Awaitable[None]]

Bytes = TypeVar("Bytes", bytes, bytes | None)

GZIP_FROM = 500
"""Bytes; shorter bodies are not compressed."""
GZIP_LEVEL = 3
"""A page of 14 kB takes 33 µs and becomes 1.0 kB; level 5 takes 60 µs and makes 50 bytes less of it."""
LONG = 256 * 1024
"""Bytes from which a body is compressed and decompressed in a thread, because that takes some milliseconds."""


CHUNK = 256 * 1024
"""A long answer is sent in chunks of this many bytes, so that it is not in memory twice while its client reads."""
MAX_UNREAD = 256 * 1024 * 1024
"""The most unread bytes of long answers, over all clients; above this, a long answer is replaced by 503."""
SPOOLED = 1 << 20
"""Bytes; longer bodies are stored on disk while they arrive."""
BODY_S = 30.0
"""Seconds in which a body must be complete, or another megabyte of it must arrive."""


class Handler(Protocol):
    """Answers requests: a `Server`, an `Overlay`, or an object that sends them to another process."""

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        """Answers one request, directly or by an awaitable, which may raise FhirError."""


def create_app(server: Handler, *, token: str | None = None, episodes: bool = False) -> App:
    """An ASGI application over a server. If there is a token, every request must carry it. With `episodes`, requests
    to an episode carry the episode's own token instead.
    """

    unread = _Unread()

    async def app(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            await _lifespan(receive, send)
        elif scope["type"] == "http":
            required = None if episodes and is_record(_target(scope)) else token
            await _answer(server, required, unread, scope, receive, send)

    return app


async def _lifespan(receive: Receive, send: Send) -> None:
    while True:
        message = await receive()
        await send({"type": f"{message['type']}.complete"})
        if message["type"] == "lifespan.shutdown":
            return


class _Unread:
    """The number of unread bytes of long answers, over all clients."""

    size = 0


async def _answer(
    server: Handler, token: str | None, unread: _Unread, scope: Message, receive: Receive, send: Send
) -> None:
    headers = [(name.decode("latin-1"), value.decode("latin-1")) for name, value in scope["headers"]]
    fields = {name: value for name, value in headers if name in _READ_HERE}
    if token is not None and not carries_token(fields.get("authorization", ""), token):
        response = refused(FhirError(401, "This server requires its token: Authorization: Bearer …", "login"))
    elif (odd := _UNESCAPED.search(_target(scope))) is not None:
        problem = f"The address contains a character that must be escaped: {odd[0]} is %{ord(odd[0]):02X}"
        await refuse(FhirError(400, problem, "invalid"), scope, send)
        return
    else:
        try:
            body = None if _length(fields) > MAX_BODY else await _body(receive)
        except TimeoutError:
            await refuse(FhirError(408, "The body of the request stopped arriving", "timeout"), scope, send)
            return
        except _Gone:
            return
        except OSError as error:
            problem = f"A long body cannot be stored: {error}; the server needs a folder for temporary files (TMPDIR)"
            await refuse(FhirError(503, problem, "no-store"), scope, send)
            return
        if body is not None and fields.get("content-encoding", "").lower() == "gzip":
            body = await _beside(_unpacked, body)
        if body is None:
            response = refused(FhirError(413, f"The body is larger than {MAX_BODY} bytes", "too-long"))
        else:
            response = await _answered(server.handle(Request(scope["method"], _target(scope), headers, body)))
    if _is_packed(response, fields.get("accept-encoding")):
        body = await _beside(_packed, response.body)
        response = Response(response.status, [*response.headers, ("Content-Encoding", "gzip")], body)
    size = len(response.body) if len(response.body) > LONG else 0
    if size and unread.size + size > MAX_UNREAD:
        await refuse(
            FhirError(503, "Too many bytes of answers wait for clients that do not read them", "throttled"), scope, send
        )
        return
    unread.size += size
    try:
        await _send(send, response, head=scope["method"] == "HEAD")
    finally:
        unread.size -= size


def _target(scope: Message) -> str:
    """The path as sent by the client, with its query."""
    path: bytes = scope.get("raw_path") or scope["path"].encode("utf-8")
    query: bytes = b"?" + scope["query_string"] if scope["query_string"] else b""
    return (path.partition(b"?")[0] + query).decode("latin-1")


async def _answered(response: Response | Awaitable[Response]) -> Response:
    if isinstance(response, Response):
        return response
    try:
        return await response
    except FhirError as error:
        return refused(error)


async def _beside(action: Callable[[bytes], Bytes], content: bytes) -> Bytes:
    """The result of `action`; for long content it runs in a thread, since zlib releases Python's lock."""
    return action(content) if len(content) < LONG else await asyncio.to_thread(action, content)


_UNESCAPED = re.compile(r'["<>\[\]\\^`{|}]')
"""Characters that an address must escape (RFC 3986); HAPI's servlet container refuses them too."""
_READ_HERE = frozenset({"authorization", "accept-encoding", "content-encoding", "content-length"})


class _Gone(Exception):
    """The client has closed its connection before its request was complete."""


async def refuse(error: FhirError, scope: Message, send: Send) -> None:
    """Answers with an error, and ends the connection."""
    response = refused(error)
    response.headers.append(("Connection", "close"))
    await _send(send, response, head=scope["method"] == "HEAD")


def _length(fields: dict[str, str]) -> int:
    length = fields.get("content-length", "")
    return int(length) if length.isdecimal() else 0


async def _body(receive: Receive) -> bytes | None:
    """The whole body, or None if it is too long. Raises TimeoutError and _Gone."""
    loop = asyncio.get_running_loop()
    async with asyncio.timeout(BODY_S) as limit:
        message = await receive()
        if not message.get("more_body"):
            return _part(message)
        with tempfile.SpooledTemporaryFile(SPOOLED) as file:
            size = renewed = 0
            while True:
                size += file.write(_part(message))
                if size > MAX_BODY:
                    return None
                if not message.get("more_body"):
                    file.seek(0)
                    return file.read()
                if size - renewed >= SPOOLED:
                    renewed = size
                    limit.reschedule(loop.time() + BODY_S)
                message = await receive()


def _part(message: Message) -> bytes:
    if message["type"] == "http.disconnect":
        raise _Gone
    part: bytes = message.get("body", b"")
    return part


def _unpacked(body: bytes) -> bytes | None:
    """A decompressed body, or the body itself if it is not gzip; None if the decompressed body is too long."""
    unpacker = zlib.decompressobj(wbits=31)
    try:
        unpacked = unpacker.decompress(body, MAX_BODY + 1)
    except zlib.error:
        return body
    return unpacked if len(unpacked) <= MAX_BODY else None


async def _send(send: Send, response: Response, *, head: bool) -> None:
    headers = [(name.lower().encode("latin-1"), _encode_value(value)) for name, value in response.headers]
    if not head and response.status not in (204, 304):
        headers.append((b"content-length", b"%d" % len(response.body)))
    await send({"type": "http.response.start", "status": response.status, "headers": headers})
    body = memoryview(response.body)
    for start in range(0, max(len(body), 1), CHUNK):
        end = start + CHUNK
        await send({"type": "http.response.body", "body": bytes(body[start:end]), "more_body": end < len(body)})


def _encode_value(value: str) -> bytes:
    """A header value; characters that a header cannot carry become question marks."""
    return value.encode("latin-1", "replace").translate(_CONTROLS)


_CONTROLS = bytes(63 if code < 32 or code == 127 else code for code in range(256))


def _is_packed(response: Response, accepted: str | None) -> bool:
    """Whether a response is to be compressed for a client that accepts these encodings."""
    if accepted is None or "gzip" not in accepted or len(response.body) < GZIP_FROM:
        return False
    return all(name != "Content-Encoding" for name, _ in response.headers)


def _packed(content: bytes) -> bytes:
    """The content as gzip."""
    return zlib.compress(content, GZIP_LEVEL, wbits=31)
