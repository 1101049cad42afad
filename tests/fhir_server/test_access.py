"""A server on a port and clients that it must not trust: odd names, endless bodies, connections without requests."""

from __future__ import annotations

import json
import socket
import tempfile
from collections.abc import Callable, Iterator
from http.client import HTTPResponse
from typing import Any

import httpx
import pytest

from fhir_server import Request, Response, Server, app
from fhir_server.access import Access
from fhir_server.app import create_app
from fhir_server.interactions.context import MAX_BODY
from fhir_server.processes import http as connections
from tests.fhir_server.ward import ward
from tests.serving import serving


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


def status(url: str, host: str | None, **headers: str) -> int:
    return httpx.get(f"{url}/fhir/Patient/p7", headers=headers | ({} if host is None else {"Host": host})).status_code


@pytest.mark.parametrize("host", [None, "LOCALHOST.:80", "127.0.0.1:1", "127.1.2.3", "[::1]:8080", "[::1]"])
def test_a_loopback_name_is_answered(server: Server, host: str | None) -> None:
    with serving(Access().application(server)) as url:
        assert status(url, host) == 200


@pytest.mark.parametrize("host", ["evil.example", "localhost.evil.example:8080", "127.0.0.1.nip.io", "[", ""])
def test_another_name_is_refused_where_there_is_no_token(server: Server, host: str) -> None:
    with serving(Access(origins=["*"]).application(server)) as url:
        refused = httpx.get(f"{url}/fhir/Patient/p7", headers={"Host": host, "Origin": "http://evil.example"})
    assert refused.status_code == 403
    assert "--allow-host" in refused.json()["issue"][0]["diagnostics"]
    assert "access-control-allow-origin" not in refused.headers


def test_a_name_that_the_user_gives_is_answered_and_a_token_opens_every_name(server: Server) -> None:
    with serving(Access(hosts=["Clinic.example"]).application(server)) as url:
        assert status(url, "clinic.example:8080") == 200
        assert status(url, "other.example") == 403
    with serving(Access(token="t").application(server)) as url:
        assert status(url, "other.example", Authorization="Bearer t") == 200
        assert status(url, "other.example") == 401


def test_a_request_without_a_host_is_refused(server: Server) -> None:
    with serving(Access().application(server)) as url:
        assert b" 403 " in exchange(url, b"GET /fhir/Patient/p7 HTTP/1.0\r\n\r\n")


def opened(url: str) -> socket.socket:
    host, _, port = url.removeprefix("http://").partition(":")
    return socket.create_connection((host, int(port)), timeout=10)


def exchange(url: str, part: bytes) -> bytes:
    """What is answered to bytes until the server closes the connection."""
    with opened(url) as connection:
        connection.sendall(part)
        answer = b""
        while got := connection.recv(65536):
            answer += got
    return answer


HEAD = b"POST /fhir/Patient HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/fhir+json\r\n"


@pytest.mark.parametrize("part", [b"", b"GET /fhir/Pat", b"GET /fhir/Patient HTTP/1.1\r\nHost: localhost\r\nX: "])
def test_a_connection_that_comes_to_no_request_is_closed(
    server: Server, monkeypatch: pytest.MonkeyPatch, part: bytes
) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    with serving(create_app(server), connections.Connection) as url:
        assert exchange(url, part) == b""


def test_a_connection_is_closed_after_half_a_second_request(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "HEAD_S", 0.1)
    with serving(create_app(server), connections.Connection) as url, opened(url) as connection:
        connection.sendall(b"GET /fhir/Patient/p7 HTTP/1.1\r\nHost: localhost\r\n\r\n")
        first = HTTPResponse(connection)
        first.begin()
        assert first.status == 200
        assert json.loads(first.read())["id"] == "p7"
        connection.sendall(b"GET /fhir/Pat")
        assert connection.recv(65536) == b""


@pytest.mark.parametrize("length", [b"Content-Length: 100\r\n\r\n", b"Transfer-Encoding: chunked\r\n\r\n5\r\n"])
def test_a_body_that_stops_coming_ends_its_request(
    server: Server, monkeypatch: pytest.MonkeyPatch, length: bytes
) -> None:
    monkeypatch.setattr(app, "BODY_S", 0.1)
    before = server.stats()
    with serving(create_app(server), connections.Connection) as url:
        assert b" 408 " in exchange(url, HEAD + length + b'{"res')
    assert server.stats() == before


class Deaf:
    """What must not be asked."""

    def handle(self, request: Request) -> Response:
        raise AssertionError("asked")


def test_a_body_that_is_too_long_is_refused_before_it_is_read() -> None:
    with serving(create_app(Deaf()), connections.Connection) as url, opened(url) as connection:
        connection.sendall(HEAD + f"Content-Length: {MAX_BODY + 1}\r\n\r\n".encode())
        assert b" 413 " in connection.recv(65536)


def test_a_body_without_a_length_is_refused_where_it_gets_too_long() -> None:
    def chunks() -> Iterator[bytes]:
        for _ in range(MAX_BODY // 1_000_000 + 1):
            yield b" " * 1_000_000

    with serving(create_app(Deaf()), connections.Connection) as url:
        assert httpx.post(f"{url}/fhir/Patient", content=chunks()).status_code == 413


def test_a_long_body_waits_on_the_disk(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    rolled: list[int] = []
    roll: Callable[[Any], None] = tempfile.SpooledTemporaryFile.rollover

    def watched(file: Any) -> None:
        rolled.append(1)
        roll(file)

    monkeypatch.setattr(tempfile.SpooledTemporaryFile, "rollover", watched)
    person = {"resourceType": "Patient", "id": "long", "name": [{"family": "x" * 1_500_000}]}
    with serving(create_app(server), connections.Connection) as url:
        assert httpx.put(f"{url}/fhir/Patient/short", json={**person, "id": "short", "name": []}).status_code == 201
        assert not rolled
        assert httpx.put(f"{url}/fhir/Patient/long", json=person).status_code == 201
        assert rolled
        assert httpx.get(f"{url}/fhir/Patient/long").json()["name"] == person["name"]


def test_a_client_that_goes_in_mid_body_writes_nothing(server: Server) -> None:
    before = server.stats()
    body = json.dumps({"resourceType": "Patient"}).encode()
    with serving(create_app(server), connections.Connection) as url:
        with opened(url) as connection:
            connection.sendall(HEAD + f"Content-Length: {len(body) + 1}\r\n\r\n".encode() + body)
        assert status(url, None) == 200
    assert server.stats() == before
