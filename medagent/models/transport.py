"""The HTTP client of a model: httpx over aiohttp's transport.

httpcore's pool looks at every connection it holds whenever a request begins or ends (12 ms of CPU a call at 64
connections), and its many turns of the event loop a call keep concurrent episodes waiting for each other. What aiohttp
does otherwise than httpcore is mended here: whatever it raises leaves as an httpx error, a connection on which bytes
came while nothing was asked is not used again (they would be taken for the next answer), credentials in a URL are
httpx's alone, and long headers are read.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import contextmanager
from typing import Any
from urllib.request import getproxies, proxy_bypass

import aiohttp
import httpx
from aiohttp.http_exceptions import HttpProcessingError
from httpx_aiohttp import AiohttpTransport

from medagent.errors import UserError

CONNECT_TIMEOUT_S = 20.0
KEEP_ALIVE_S = 4.0
"""How long an idle connection is used again: less than the 5 s after which vLLM's server closes it."""
LONGEST_HEADER = 1 << 16


def http_client(base_urls: Sequence[str], timeout_s: float) -> httpx.AsyncClient:
    """The one HTTP client of a model, with the environment's proxies to these base URLs.

    The limiter bounds its connections; redirects are refused, as they take a key. Raises UserError for a proxy that
    cannot be used.
    """
    tls = httpx.create_ssl_context()

    def session() -> aiohttp.ClientSession:
        return aiohttp.ClientSession(
            connector=_Connector(limit=0, ssl=tls, keepalive_timeout=KEEP_ALIVE_S),
            cookie_jar=aiohttp.DummyCookieJar(),
            response_class=_Response,
            max_line_size=LONGEST_HEADER,
            max_field_size=LONGEST_HEADER,
        )

    proxies = {url: proxy for url in base_urls if (proxy := _proxy(httpx.URL(url)))}
    return httpx.AsyncClient(
        timeout=httpx.Timeout(timeout_s, connect=min(timeout_s, CONNECT_TIMEOUT_S), pool=None),
        transport=_Transport(verify=tls, client=session),
        mounts={url: _Transport(verify=tls, client=session, proxy=proxy) for url, proxy in proxies.items()},
        follow_redirects=False,
    )


def _proxy(url: httpx.URL) -> httpx.Proxy | None:
    """The environment's proxy for a URL; aiohttp itself would look it up anew, in a thread, at every request."""
    proxies = {} if proxy_bypass(url.host) else getproxies()
    address = proxies.get(url.scheme) or proxies.get("all")
    if not address:
        return None
    try:
        proxy = httpx.Proxy(address)
        "".join(proxy.auth or ()).encode("latin-1")
    except (ValueError, httpx.InvalidURL):
        raise UserError(f"the environment's proxy for {url.host} cannot be used: its URL is damaged") from None
    if proxy.url.scheme not in ("http", "https"):
        raise UserError(f"the environment's proxy for {url.host} is {proxy.url.scheme}://, and only http proxies work")
    return proxy


class _Connector(aiohttp.TCPConnector):
    async def connect(self, *arguments: Any, **named: Any) -> aiohttp.connector.Connection:
        """A connection on which no byte waits."""
        while True:
            connection = await super().connect(*arguments, **named)
            if connection.protocol is None or not connection.protocol.should_close:
                return connection
            connection.close()


class _Response(aiohttp.ClientResponse):
    async def start(self, connection: aiohttp.connector.Connection) -> aiohttp.ClientResponse:
        """Read the head; a reason in another charset than UTF-8 would fail later."""
        await super().start(connection)
        self.reason = (self.reason or "").encode(errors="replace").decode()
        return self


class _Transport(AiohttpTransport):
    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request. Raises httpx.TransportError."""
        if request.url.userinfo:  # httpx made a header of it; aiohttp would make a second one
            request.url = request.url.copy_with(username=None, password=None)
        with _errors_of_httpx():
            response = await super().handle_async_request(request)
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _Body(response.stream)
        return response


class _Body(httpx.AsyncByteStream):
    def __init__(self, stream: httpx.AsyncByteStream) -> None:
        self._stream = stream

    async def __aiter__(self) -> AsyncIterator[bytes]:
        with _errors_of_httpx():
            async for chunk in self._stream:
                yield chunk

    async def aclose(self) -> None:
        await self._stream.aclose()


@contextmanager
def _errors_of_httpx() -> Iterator[None]:
    """What the transport does not translate: answers that are no HTTP."""
    try:
        yield
    except (aiohttp.ClientError, HttpProcessingError) as error:
        said = getattr(error, "message", error)  # the whole text would repeat the request's headers, and so the key
        raise httpx.RemoteProtocolError(f"the answer is not HTTP: {said}") from error
