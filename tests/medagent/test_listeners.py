"""Every port that medagent opens limits what a connection may send before anybody is asked for a token."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import uvicorn

import medagent
from medagent.cli._view import view_server
from medagent.integrations.web import Port, serve
from medagent.testing._faults import Answer
from medagent.testing._loopback import serving as loopback
from tests.medagent.fhir_data.people import patient
from tests.medagent.test_serve import served
from tests.raw_requests import repeated, status

GET = b"GET / HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
POST = b"POST / HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\n"
MANY = 1_000_000


@contextmanager
def fhir(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """`medagent serve`, which is `python -m fhir_server` with data."""
    data = folder / "patients.ndjson"
    data.write_text(f"{patient('a')}\n")
    with served(folder, "--data", data, "--token", "t") as server:
        yield server.url


@contextmanager
def episodes(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with medagent.serve_episodes() as server, server.open("task1_1") as episode:
        yield episode.base


@contextmanager
def other_package(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """How MCP over HTTP and A2A serve the application of their package."""
    servers: list[uvicorn.Server] = []
    made = uvicorn.Server.__init__

    def remembered(server: uvicorn.Server, config: uvicorn.Config) -> None:
        made(server, config)
        servers.append(server)

    monkeypatch.setattr(uvicorn.Server, "__init__", remembered)

    async def application(scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http":
            while (await receive()).get("more_body"):
                pass
            await send({"type": "http.response.start", "status": 204, "headers": []})
            await send({"type": "http.response.body"})

    with Port("127.0.0.1", 0, token="t").opened() as (listener, address):
        thread = threading.Thread(target=lambda: asyncio.run(serve(application, listener, address)))
        thread.start()
        try:
            yield address
        finally:
            servers[0].should_exit = True
            thread.join()


LISTENERS = [fhir, episodes, other_package]


@pytest.mark.parametrize("listener", LISTENERS)
def test_no_head_and_no_extension_takes_memory(listener: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with listener(tmp_path, monkeypatch) as url:
        assert status(url, GET, b"Host:\r\n", repeated(b"X000000: a\r\n", MANY)) == 431
        assert status(url, GET, HOST, b"X: ", repeated(b"a", MANY)) == 431
        assert status(url, b"GET /", repeated(b"a", MANY)) == 414
        assert status(url, GET, b"\r\n") == 400
        assert status(url, GET, HOST, HOST, b"\r\n") == 400
        if listener is other_package:  # the others answer 401 or 404 before the body
            assert status(url, POST, b"1;", repeated(b"a", MANY)) == 400
            assert status(url, POST, b"0\r\n", repeated(b"X: a\r\n", MANY)) == 400


@contextmanager
def view(folder: Path) -> Iterator[str]:
    """`medagent view`."""
    with view_server(folder) as server:
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


@contextmanager
def double(folder: Path) -> Iterator[str]:
    """The servers of the pytest plugin."""
    with loopback(lambda *_: Answer(200, [], b"")) as url:
        yield url


@pytest.mark.parametrize("listener", [view, double])
def test_ports_on_pythons_server_have_its_limits(listener: Any, tmp_path: Path) -> None:
    with listener(tmp_path) as url:
        assert status(url, GET, HOST, repeated(b"X000000: a\r\n", MANY)) == 431  # 100 lines
        assert status(url, GET, HOST, b"X: ", repeated(b"a", MANY)) == 431  # 65,536 bytes in a line
        assert status(url, b"GET /", repeated(b"a", MANY)) == 414


def test_the_plugins_servers_read_chunks_within_limits() -> None:
    with loopback(lambda method, url, headers, body: Answer(200, [], body)) as url:
        chunked = POST.replace(HOST, HOST + b"Connection: close\r\n")
        assert status(url, chunked, b"5;a=b\r\nhello\r\n0\r\nX: a\r\n\r\n") == 200
        assert status(url, chunked, b"1;", repeated(b"a", MANY)) == 400
        assert status(url, chunked, b"0\r\n", repeated(b"X: a\r\n", MANY)) == 400
        assert status(url, chunked, b"zz\r\n") == 400
