"""Serves another package's ASGI application on a port. A port that other machines can reach needs a token."""

from __future__ import annotations

import hmac
import socket
import sys
from typing import Any

from fhir_server.access import is_loopback, with_hosts
from medagent.core.errors import UserError


async def serve(app: Any, listener: socket.socket, address: str) -> None:
    """Serve on the socket until a signal comes. Prints the address on standard error."""
    import uvicorn

    print(f"medagent: {address}", file=sys.stderr, flush=True)
    config = uvicorn.Config(app, log_level="warning", access_log=False, ws="none")
    await uvicorn.Server(config).serve(sockets=[listener])


def address_of(host: str, listener: socket.socket) -> str:
    """The address of a listening socket."""
    return f"http://{f'[{host}]' if ':' in host else host}:{listener.getsockname()[1]}"


def listen(host: str, port: int, token: str | None, *, insecure: bool = False) -> socket.socket:
    """A listening socket. Raises UserError if the port is in use or, unless `insecure`, if other machines can reach the
    host and there is no token.
    """
    if not is_loopback(host) and not token and not insecure:
        raise UserError(f"other machines can reach {host}: set --token")
    try:
        return socket.create_server((host, port), family=socket.AF_INET6 if ":" in host else socket.AF_INET)
    except (OSError, OverflowError) as error:
        raise UserError(f"cannot listen on {host}:{port}: {error}; choose another --port") from None


def with_token(app: Any, token: str | None, *, insecure: bool = False) -> Any:
    """The application, which answers 401 without the token. If `token` is None, it serves requests to loopback names
    only, or all requests if `insecure`.
    """
    if token is None:
        return app if insecure else with_hosts(app)
    expected = f"Bearer {token}".encode()

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
