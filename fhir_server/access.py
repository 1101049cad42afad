"""Access control of a server on a port: by token, by the origin of a web page, and by the Host header.

A web page can make its own host name resolve to 127.0.0.1 (DNS rebinding), and then use a server without a token as if
it were the page's own server. The Host header of its requests still has its name. Therefore requests are answered only
if they name loopback or a host that the user has allowed.
"""

from __future__ import annotations

from collections.abc import Coroutine, Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from fhir_server._cors import with_cors
from fhir_server.app import (
    App,
    Handler,
    Message,
    Receive,
    Send,
    create_app,
    is_packed,
    packed,
    refuse,
    with_packed,
)
from fhir_server.errors import FhirError
from fhir_server.wire.http import Pairs, Request, Response


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules of a server.

    If `token` is set, every request must carry it. If not, `hosts` are the allowed host names beside loopback ones.
    `origins` are the origins of web pages that may use the server. With `episodes`, each episode has its own token, and
    `token` is needed to open one. With `export`, every client with access may also start bulk exports.
    """

    token: str | None = None
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    episodes: bool = False
    export: bool = False

    def at_once(self, server: Handler) -> AtOnce | None:
        """A fast path for plain GETs, which are most requests and take longer in ASGI than in the server. None if
        `application` must answer every request.
        """
        if self.token is not None:
            return None
        return AtOnce(server, frozenset(map(_plain, self.hosts)))

    def application(self, server: Handler) -> App:
        """The ASGI application over a server."""
        app = with_cors(create_app(server, token=self.token, episodes=self.episodes), self.origins)
        return app if self.token is not None else with_hosts(app, frozenset(map(_plain, self.hosts)))


VERY_LONG = 4 << 20
"""Bytes from which a body is not compressed on the fast path: other requests would wait about 50 ms if the body
does not repeat itself.
"""
_NOT_AT_ONCE = frozenset(
    (b"content-length", b"transfer-encoding", b"content-encoding", b"expect", b"origin", b"upgrade")
)


@dataclass(frozen=True, slots=True)
class AtOnce:
    """Answers plain GETs whose Host header is loopback or one of `names`."""

    server: Handler
    names: frozenset[str]

    def plain(self, headers: Sequence[tuple[bytes, bytes]]) -> Pairs | None:
        """The headers of a request, decoded; None if the fast path cannot answer it or access is refused."""
        host = ""
        for name, value in headers:
            if name == b"host":
                host = host or value.decode("latin-1")
            elif name in _NOT_AT_ONCE:
                return None
        if not _is_allowed(host, self.names):
            return None
        return tuple([(name.decode("latin-1"), value.decode("latin-1")) for name, value in headers])

    def answer(self, target: str, headers: Pairs) -> Response | None:
        """The answer to a GET, compressed unless it is very long; None if the application must answer it."""
        request = Request("GET", target, headers)
        response = self.server.handle(request)
        if isinstance(response, Response):
            if is_packed(response, request.header("accept-encoding")) and len(response.body) < VERY_LONG:
                response = with_packed(response, packed(response.body))
            return response
        if isinstance(response, Coroutine):
            response.close()
        return None


def is_loopback(host: str) -> bool:
    """Whether an address is reachable from this machine only."""
    if host == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def with_hosts(app: App, names: frozenset[str] = frozenset()) -> App:
    """The application, restricted to requests whose Host header is loopback or one of `names`."""

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        if scope["type"] == "http":
            host = next((value.decode("latin-1") for name, value in scope["headers"] if name == b"host"), "")
            if not _is_allowed(host, names):
                words = f"This server answers requests to localhost only, not to {host[:100]!r}"
                error = FhirError(403, f"{words}: start it with --allow-host NAME, or with a token", "forbidden")
                await refuse(error, scope, send)
                return
        await app(scope, receive, send)

    return wrapped


@lru_cache(maxsize=256)
def _is_allowed(host: str, names: frozenset[str]) -> bool:
    """Whether a Host header is a loopback name or one of the names."""
    name = _plain(host)
    return name in names or is_loopback(name)


def _plain(host: str) -> str:
    """The name or address in a Host header, without its port."""
    name, _, rest = host.partition("]") if host.startswith("[") else host.rpartition(":")
    if host.startswith("["):
        name = name[1:]
    elif not rest.isdecimal():
        name = host
    return name.rstrip(".").lower()
