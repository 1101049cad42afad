"""Access control of a server on a port: by token, by the origin of a web page, and by the Host header.

A web page can make its own host name resolve to 127.0.0.1 (DNS rebinding), and then use a server without a token as if
it were the page's own server. The Host header of its requests still contains its name. Therefore requests are answered
only if their host is loopback or one that the user has allowed.

HAPI allows every origin by default. Here the user must name each allowed origin (CORS): otherwise any page in a browser
could read and change the patients of a server on the same machine.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from fhir_server.app import App, Handler, Message, Receive, Send, create_app, refuse
from fhir_server.errors import FhirError

METHODS = b"GET,POST,PUT,DELETE,OPTIONS,PATCH,HEAD"
_ALWAYS = [
    (b"access-control-expose-headers", b"Location, Content-Location"),
    (b"vary", b"Origin"),
    (b"vary", b"Access-Control-Request-Method"),
    (b"vary", b"Access-Control-Request-Headers"),
]


def with_cors(app: App, origins: Sequence[str]) -> App:
    """The application with HAPI's headers for these origins; `*` allows all origins, without credentials."""
    allowed = {origin.encode("latin-1") for origin in origins}

    async def wrapped(scope: Message, receive: Receive, send: Send) -> None:
        headers = dict(scope["headers"]) if scope["type"] == "http" else {}
        origin = headers.get(b"origin")
        if origin is None or not (origin in allowed or b"*" in allowed):
            await app(scope, receive, send)
            return
        if b"*" in allowed:  # without credentials: otherwise any page could use its reader's credentials
            extra = [(b"access-control-allow-origin", b"*"), *_ALWAYS]
        else:
            named = [(b"access-control-allow-origin", origin), (b"access-control-allow-credentials", b"true")]
            extra = [*named, *_ALWAYS]
        if scope["method"] == "OPTIONS" and b"access-control-request-method" in headers:
            extra.append((b"access-control-allow-methods", METHODS))
            if b"access-control-request-headers" in headers:
                extra.append((b"access-control-allow-headers", headers[b"access-control-request-headers"]))
            await send({"type": "http.response.start", "status": 200, "headers": [*extra, (b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return

        async def send_with(message: Message) -> None:
            if message["type"] == "http.response.start":
                message["headers"] = [*message["headers"], *extra]
            await send(message)

        await app(scope, receive, send_with)

    return wrapped


@dataclass(frozen=True, slots=True)
class Access:
    """The access rules of a server.

    If `token` is set, every request must carry it. If not, `hosts` are the allowed host names next to loopback ones.
    `origins` are the origins of web pages that may use the server. With `episodes`, each episode gets its own token,
    and `token` is needed to open one. With `export`, every client with access may also start bulk exports.
    """

    token: str | None = None
    origins: Sequence[str] = ()
    hosts: Sequence[str] = ()
    episodes: bool = False
    export: bool = False

    def application(self, server: Handler) -> App:
        """The ASGI application over a server."""
        app = with_cors(create_app(server, token=self.token, episodes=self.episodes), self.origins)
        return app if self.token is not None else with_hosts(app, frozenset(map(_plain, self.hosts)))


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
