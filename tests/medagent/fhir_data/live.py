"""The embedded FHIR server on a loopback port, in a thread: a real server for what speaks HTTP.

`answers` may say that a request goes wrong: it is asked with the number of the request (from 0) and its target, and
returns None, a status, or a status and a body.
"""

from __future__ import annotations

import socket
import threading
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Self

import uvicorn

from fhir_server import Request, Response, Server
from fhir_server.app import create_app

Fault = int | tuple[int, bytes] | None


class LiveServer:
    """Use as a context manager. `requests` are the methods and targets that arrived."""

    def __init__(
        self,
        lines: Iterable[str] = (),
        *,
        data: Path | None = None,
        token: str | None = None,
        answers: Callable[[int, str], Fault] = lambda number, target: None,
        base: str | None = None,
    ) -> None:
        self.requests: list[tuple[str, str]] = []
        self.answers = answers
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.url = f"http://127.0.0.1:{self._socket.getsockname()[1]}/fhir"
        self.server = Server.open(data, base=base or self.url)
        self.server.load(lines)
        config = uvicorn.Config(create_app(self, token=token), log_level="warning", lifespan="off")
        self._uvicorn = uvicorn.Server(config)
        self._thread = threading.Thread(target=self._uvicorn.run, kwargs={"sockets": [self._socket]})

    def handle(self, request: Request) -> Response:
        """Answer, or fail as `answers` says."""
        number = len(self.requests)
        self.requests.append((request.method, request.target))
        fault = self.answers(number, request.target)
        if fault is None:
            return self.server.handle(request)
        status, body = fault if isinstance(fault, tuple) else (fault, b"")
        return Response(status, [("Content-Type", "application/fhir+json")], body)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._uvicorn.should_exit = True
        self._thread.join()
        self._socket.close()
        self.server.close()
