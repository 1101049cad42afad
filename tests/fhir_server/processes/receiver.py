"""A web server on loopback that keeps what it is sent, and a Subscription that has notifications sent there."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

HOST = "127.0.0.1"


class Hook:
    """`came` is what it was sent: method, path, headers, body; `status` is what it answers."""

    def __init__(self) -> None:
        self.came: list[tuple[str, str, dict[str, str], str]] = []
        self.status = 200
        hook = self

        class Handler(BaseHTTPRequestHandler):
            def take(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length") or 0)).decode()
                hook.came.append((self.command, self.path, dict(self.headers), body))
                self.send_response(hook.status)
                self.send_header("Location", f"{hook.address}/elsewhere")
                self.send_header("Content-Length", "0")
                self.end_headers()

            do_POST = do_PUT = do_GET = take  # the names that http.server calls

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self.server = ThreadingHTTPServer((HOST, 0), Handler)
        self.address = f"http://{HOST}:{self.server.server_port}/hook"


@contextmanager
def receiving() -> Iterator[Hook]:
    """The server, running."""
    made = Hook()
    with made.server:
        thread = threading.Thread(target=made.server.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.server.shutdown()
        thread.join()


def subscription(endpoint: str, criteria: str = "Observation?status=final", **more: Any) -> dict[str, Any]:
    channel = {"type": "rest-hook", "endpoint": endpoint, "payload": "application/fhir+json", **more}
    channel = {key: value for key, value in channel.items() if value is not None}
    made = {"resourceType": "Subscription", "status": "requested", "reason": "r", "criteria": criteria}
    return {**made, "channel": channel}
