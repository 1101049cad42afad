"""Serves another package's ASGI application on a port. A port that other machines can reach needs a token."""

from __future__ import annotations

import hmac
import socket
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from fhir_server.access import is_loopback, with_hosts
from medagent.core.errors import UserError
from medagent.core.wire import secret_for_header


@dataclass(frozen=True, slots=True)
class Port:
    """Where an application is served, and to whom. `url` is the address that clients use (None: the socket's). Without
    a token, requests to loopback names are answered only, or all requests if `insecure`.
    """

    host: str
    number: int
    url: str | None = None
    token: str | None = None
    insecure: bool = False

    @contextmanager
    def opened(self) -> Iterator[tuple[socket.socket, str]]:
        """The listening socket, and its address. Raises UserError if the port is in use or, unless `insecure`, if other
        machines can reach the host and the token is missing.
        """
        if not is_loopback(self.host) and not self.token and not self.insecure:
            raise UserError(f"other machines can reach {self.host}: set --token")
        if self.token:
            secret_for_header("the token (--token or MEDAGENT_SERVE_TOKEN)", self.token)
        is_v6 = ":" in self.host
        try:
            listener = socket.create_server(
                (self.host, self.number), family=socket.AF_INET6 if is_v6 else socket.AF_INET
            )
        except (OSError, OverflowError) as error:
            raise UserError(f"cannot listen on {self.host}:{self.number}: {error}; choose another --port") from None
        host = f"[{self.host}]" if is_v6 else self.host
        with listener:
            yield listener, (self.url or f"http://{host}:{listener.getsockname()[1]}").rstrip("/")

    def guarded(self, app: Any) -> Any:
        """The application, which answers 401 to clients without the token."""
        if self.token is None:
            return app if self.insecure else with_hosts(app)
        expected = f"Bearer {self.token.strip()}".encode()

        async def guarded(scope: Any, receive: Any, send: Any) -> None:
            if scope["type"] == "http":
                header = next((value for name, value in scope["headers"] if name == b"authorization"), b"")
                if not hmac.compare_digest(header, expected):
                    headers = [(b"www-authenticate", b"Bearer"), (b"content-length", b"0")]
                    await send({"type": "http.response.start", "status": 401, "headers": headers})
                    await send({"type": "http.response.body", "body": b""})
                    return
            await app(scope, receive, send)

        return guarded


async def serve(app: Any, listener: socket.socket, address: str) -> None:
    """Serve on the socket until a signal comes. Prints the address on standard error."""
    import uvicorn

    from fhir_server.processes.http import Connection

    print(f"medagent: {address}", file=sys.stderr, flush=True)
    config = uvicorn.Config(app, http=Connection, log_level="warning", access_log=False, ws="none")
    await uvicorn.Server(config).serve(sockets=[listener])
