"""An HTTP transport for many requests at once: each request in flight has a connection, and a pool, to itself.

httpcore's pool looks at every connection it holds whenever a request begins or ends, a system call for each idle one:
12 ms of CPU a call at 64 connections, 12 to 23 at 500 (two cores, loopback). Pools of one connection, handed out last
in first out, took 1 to 2 ms at both.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Callable
from functools import partial
from urllib.request import getproxies, proxy_bypass

import httpx

ONE_CONNECTION = httpx.Limits(max_connections=1, max_keepalive_connections=1, keepalive_expiry=5.0)


class LeasingTransport(httpx.AsyncBaseTransport):
    """Leases one-connection transports to requests; it sets no bound of its own. Proxies come from the environment."""

    def __init__(self) -> None:
        self._tls = httpx.create_ssl_context()
        self._lanes: list[httpx.AsyncHTTPTransport] = []
        self._idle: dict[tuple[str, str, int | None], list[httpx.AsyncHTTPTransport]] = defaultdict(list)

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """Send one request; its lane is free again when the response is closed."""
        url = request.url
        idle = self._idle[url.scheme, url.host, url.port]
        lane = idle.pop() if idle else self._open(url)
        try:
            response = await lane.handle_async_request(request)
        except BaseException:
            idle.append(lane)  # the lane has dropped its connection and opens another next time
            raise
        assert isinstance(response.stream, httpx.AsyncByteStream)
        response.stream = _LeasedStream(response.stream, partial(idle.append, lane))
        return response

    async def aclose(self) -> None:
        """Close every connection."""
        for lane in self._lanes:
            await lane.aclose()

    def _open(self, url: httpx.URL) -> httpx.AsyncHTTPTransport:
        proxies = {} if proxy_bypass(url.host) else getproxies()
        proxy = proxies.get(url.scheme) or proxies.get("all")
        lane = httpx.AsyncHTTPTransport(verify=self._tls, limits=ONE_CONNECTION, proxy=proxy)
        self._lanes.append(lane)
        return lane


class _LeasedStream(httpx.AsyncByteStream):
    """A response's bytes; `give_back` is called once, when it is closed."""

    def __init__(self, stream: httpx.AsyncByteStream, give_back: Callable[[], None]) -> None:
        self._stream = stream
        self._give_back: Callable[[], None] | None = give_back

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for part in self._stream:
            yield part

    async def aclose(self) -> None:
        try:
            await self._stream.aclose()
        finally:
            if self._give_back is not None:
                self._give_back()
                self._give_back = None
