"""The server over HTTP: ASGI in process, the command line, and what survives kill -9."""

from __future__ import annotations

import asyncio
import gzip
import json
import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import httpx
import pytest

from fhir_server import Server
from fhir_server.__main__ import main
from fhir_server.access import with_cors
from fhir_server.app import create_app
from fhir_server.interactions.context import MAX_BODY

PATIENT = {"resourceType": "Patient", "id": "a", "name": [{"family": "Smith"}]}


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None, "http://testserver/fhir") as server:
        server.load([json.dumps(PATIENT)])
        yield server


def fetch(server: Server, method: str, path: str, token: str | None = None, **options: object) -> httpx.Response:
    async def run() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(server, token=token))
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            return await client.request(method, path, **options)

    return asyncio.run(run())


def test_a_read_over_asgi(server: Server) -> None:
    answer = fetch(server, "GET", "/fhir/Patient/a", headers={"Accept-Encoding": "identity"})
    assert answer.status_code == 200
    assert answer.headers["content-type"] == "application/fhir+json;charset=UTF-8"
    assert answer.headers["etag"] == 'W/"1"'
    assert answer.json()["name"] == PATIENT["name"]


def test_gzip_where_it_is_asked_for(server: Server) -> None:
    answer = fetch(server, "GET", "/fhir/metadata", headers={"Accept-Encoding": "gzip"})
    assert answer.headers["content-encoding"] == "gzip"
    assert answer.json()["resourceType"] == "CapabilityStatement"


def test_head_has_no_body(server: Server) -> None:
    answer = fetch(server, "HEAD", "/fhir/Patient/a")
    assert (answer.status_code, answer.content) == (200, b"")
    assert answer.headers["etag"] == 'W/"1"'


@pytest.mark.parametrize("given", [{}, {"Authorization": "Bearer wrong"}, {"Authorization": "secret"}])
def test_a_token_is_asked_for(server: Server, given: dict[str, str]) -> None:
    answer = fetch(server, "GET", "/fhir/Patient/a", token="secret", headers=given)
    assert answer.status_code == 401
    assert answer.json()["resourceType"] == "OperationOutcome"


def test_the_token_opens(server: Server) -> None:
    headers = {"Authorization": "Bearer secret"}
    assert fetch(server, "GET", "/fhir/Patient/a", token="secret", headers=headers).status_code == 200


def test_a_long_body_is_refused_while_it_comes(server: Server) -> None:
    async def parts():
        for _ in range(51):
            yield b"x" * (1024 * 1024)

    answer = fetch(server, "POST", "/fhir/Patient", content=parts())
    assert answer.status_code == 413
    assert answer.json()["resourceType"] == "OperationOutcome"


@pytest.mark.parametrize("accept", ["text/turtle", "text/html"])
def test_other_formats_are_406(server: Server, accept: str) -> None:
    answer = fetch(server, "GET", "/fhir/Patient/a", headers={"Accept": accept})
    assert answer.status_code == 406
    assert answer.json()["resourceType"] == "OperationOutcome"


def test_the_capability_statement_lists_what_is_served(server: Server) -> None:
    statement = fetch(server, "GET", "/fhir/metadata").json()
    patient = next(item for item in statement["rest"][0]["resource"] if item["type"] == "Patient")
    for parameter in patient["searchParam"]:
        values = {"date": "2020", "number": "1", "quantity": "1", "special": "1|1|1|km", "composite": "a$b"}
        name = parameter["name"]
        value = "name eq x" if name == "_filter" else values.get(parameter["type"], "x")
        assert fetch(server, "GET", "/fhir/Patient", params={name: value}).status_code == 200, parameter


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1", "example.org"])
def test_other_addresses_need_a_token(host: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--data", str(tmp_path / "x.sqlite"), "--host", host]) == 1
    error = capsys.readouterr().err
    assert "--token" in error
    assert error.count("\n") == 1


def test_a_file_that_is_no_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "x.sqlite"
    path.write_text("this is no database, but long enough to be taken for one" * 50)
    assert main(["--data", str(path), "--port", "0"]) == 1
    assert str(path) in capsys.readouterr().err


def test_a_port_that_is_taken(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = str(taken.getsockname()[1])
        assert main(["--data", str(tmp_path / "x.sqlite"), "--port", port]) == 1
    assert port in capsys.readouterr().err


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[[], tuple[subprocess.Popen[str], str]]]:
    running: list[subprocess.Popen[str]] = []

    def begin() -> tuple[subprocess.Popen[str], str]:
        command = [sys.executable, "-m", "fhir_server", "--data", str(tmp_path / "store.sqlite"), "--port", "0"]
        process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        running.append(process)
        assert process.stderr is not None
        line = process.stderr.readline()
        return process, line.split()[1].replace("localhost", "127.0.0.1")

    yield begin
    for process in running:
        process.kill()
        process.communicate()


def test_kill_9_loses_no_acknowledged_write(start: Callable[[], tuple[subprocess.Popen[str], str]]) -> None:
    process, base = start()
    acknowledged: list[str] = []

    def write() -> None:
        with httpx.Client(timeout=10) as client:
            try:
                while True:
                    answer = client.post(f"{base}/Patient", json={"resourceType": "Patient", "active": True})
                    if answer.status_code == 201:
                        acknowledged.append(answer.json()["id"])
            except httpx.TransportError:
                return

    threads = [threading.Thread(target=write) for _ in range(4)]
    for thread in threads:
        thread.start()
    while len(acknowledged) < 100:
        threads[0].join(0.01)
    os.kill(process.pid, signal.SIGKILL)
    for thread in threads:
        thread.join()
    _, base = start()
    with httpx.Client(timeout=10) as client:
        found = [client.get(f"{base}/Patient/{name}").status_code for name in acknowledged]
    assert set(found) == {200}
    assert len(set(acknowledged)) == len(acknowledged)


def test_a_packed_body_is_unpacked(server: Server) -> None:
    headers = {"Content-Type": "application/fhir+json", "Content-Encoding": "gzip"}
    body = gzip.compress(b'{"resourceType": "Patient", "active": true}')
    answer = fetch(server, "POST", "/fhir/Patient", content=body, headers=headers)
    assert (answer.status_code, answer.json()["active"]) == (201, True)
    bomb = gzip.compress(b" " * (MAX_BODY + 1))
    assert fetch(server, "POST", "/fhir/Patient", content=bomb, headers=headers).status_code == 413
    assert fetch(server, "POST", "/fhir/Patient", content=b"no gzip", headers=headers).status_code == 400


@pytest.mark.parametrize(
    ("origins", "allowed"), [([], None), (["http://b"], None), (["http://a"], "http://a"), (["*"], "*")]
)
def test_cors_is_for_named_origins(server: Server, origins: list[str], allowed: str | None) -> None:
    async def run() -> list[httpx.Response]:
        transport = httpx.ASGITransport(with_cors(create_app(server, token="secret"), origins))
        async with httpx.AsyncClient(transport=transport, base_url="http://testserver") as client:
            asked = {
                "Origin": "http://a",
                "Access-Control-Request-Method": "PUT",
                "Access-Control-Request-Headers": "x",
            }
            return [
                await client.request("OPTIONS", "/fhir/Patient/a", headers=asked),
                await client.request("GET", "/fhir/Patient/a", headers={"Origin": "http://a"}),
            ]

    preflight, answer = asyncio.run(run())
    assert preflight.headers.get("access-control-allow-origin") == allowed
    assert answer.headers.get("access-control-allow-origin") == allowed
    assert ("access-control-allow-credentials" in answer.headers) is (allowed == "http://a")
    assert (preflight.status_code, answer.status_code) == (200 if allowed else 401, 401)
    assert ("PUT" in preflight.headers.get("access-control-allow-methods", "")) is bool(allowed)


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER"])
def test_the_scheme_of_a_token_is_in_any_case(server: Server, scheme: str) -> None:
    for token, status in (("secret", 200), ("other", 401)):
        headers = {"Authorization": f"{scheme} {token}"}
        assert fetch(server, "GET", "/fhir/Patient/a", token="secret", headers=headers).status_code == status
    assert fetch(server, "GET", "/fhir/Patient/a", token="secret", headers={"Authorization": "Basic secret"}).is_error


def test_a_damaged_file_is_one_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "store.sqlite"
    with Server.open(path) as server:
        server.load(json.dumps({**PATIENT, "id": f"p{number}"}) for number in range(200))
    content = bytearray(path.read_bytes())
    content[4096:] = b"\xff" * (len(content) - 4096)
    path.write_bytes(content)
    assert main(["--data", str(path), "--port", "0"]) == 1
    said = capsys.readouterr().err.strip()
    assert said.startswith(f"error: {path}: ")
    assert "\n" not in said
