"""Access control of a server on a port: by token, by the origin of a web page, and by the Host header.

A web page can make its own host name resolve to 127.0.0.1 (DNS rebinding), and then use a server without a token as if
it were the page's own server. The Host header of its requests still has its name. Therefore requests are answered only
if they name loopback or a host that the user has allowed.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from ipaddress import ip_address

from fhir_server._cors import with_cors
from fhir_server.app import App, Handler, Message, Receive, Send, create_app, refuse
from fhir_server.errors import FhirError


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
