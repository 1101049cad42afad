"""Requests over real connections: in their turn, in parts, packed, from clients that read slowly or not at all."""

from __future__ import annotations

import asyncio
import re
import select
import socket
import time
from collections.abc import Awaitable, Iterator
from contextlib import ExitStack, closing, suppress
from urllib.parse import urlsplit

import httpx
import pytest

from fhir_server import Request, Response, Server
from fhir_server.access import Access
from fhir_server.app import GZIP_FROM, LONG
from fhir_server.processes.http import Connection
from tests.fhir_server.ward import ward
from tests.serving import serving

LAST = "Host: localhost\r\nConnection: close\r\n"
CHANGES = re.compile(
    rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=x-request-id: )\w+|(?<=(?:ed|te): )\w+, .*?GMT|\d{4}-[\d-]+T[\d:.]+\+00:00|#\w{16}"
)


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


@pytest.fixture(scope="module")
def url(server: Server) -> Iterator[str]:
    with serving(Access(origins=["http://page.example"]).application(server), Connection) as url:
        yield url


def exchange(url: str, request: str) -> bytes:
    """What is answered until the server closes the connection, but for times and ids."""
    parts = urlsplit(url)
    with closing(socket.create_connection((parts.hostname, parts.port), timeout=10)) as connection:
        connection.sendall(request.encode("latin-1"))
        answer = b""
        while got := connection.recv(65536):
            answer += got
    return CHANGES.sub(b"<>", answer.replace(str(parts.port).encode(), b"<port>"))


@pytest.mark.parametrize("letter", '|"{}[]<>^\\`')
def test_what_an_address_must_not_have_is_refused(url: str, letter: str) -> None:
    answer = exchange(url, f"GET /fhir/Patient?identifier=urn:mrn{letter}7 HTTP/1.1\r\n{LAST}\r\n")
    assert answer.startswith(b"HTTP/1.1 400"), answer
    assert f"%{ord(letter):02X}".encode() in answer


@pytest.mark.parametrize("length", [10, GZIP_FROM, LONG + 1])
def test_a_body_is_packed_for_who_accepts_that(length: int) -> None:
    class Long:
        def handle(self, request: Request) -> Response:
            return Response(200, [], b"x" * length)

    asked = [{"Accept-Encoding": "identity"}, {"Accept-Encoding": "deflate, gzip"}]
    with serving(Access().application(Long()), Connection) as url:
        plain, packed = (httpx.get(f"{url}/fhir/x", headers=headers) for headers in asked)
    assert plain.content == packed.content == b"x" * length
    assert int(plain.headers["content-length"]) == length
    assert packed.headers.get("content-encoding") == (None if length < GZIP_FROM else "gzip")
    assert int(packed.headers["content-length"]) <= max(length // 100, 30)


def test_nothing_is_answered_after_the_last_request(server: Server) -> None:
    get = "GET /fhir/Patient/p7 HTTP/1.1\r\nHost: localhost\r\n"
    with serving(Access().application(server), Connection) as url:
        answer = exchange(url, f"{get}\r\n{get}Connection: close\r\n\r\n{get}\r\n")
    assert answer.count(b"HTTP/1.1 ") == 2


def test_requests_that_come_together_are_answered_in_their_turn(server: Server) -> None:
    body = '{"resourceType": "Patient", "id": "turn"}'
    put = "PUT /fhir/Patient/turn HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/fhir+json\r\n"
    put += f"Content-Length: {len(body)}\r\n\r\n{body}"
    get = "GET /fhir/Patient/turn HTTP/1.1\r\nHost: localhost\r\n"
    with serving(Access().application(server), Connection) as url:
        answer = exchange(url, f"{get}\r\n{get}\r\n{put}{get}\r\n{get}Connection: close\r\n\r\n")
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"404", b"404", b"201", b"200", b"200"]


def in_parts(url: str, *sent: str) -> bytes:
    """What is answered to texts that are sent one after the other, each when the answer to the one before has begun to
    come or after a moment without one, until the server closes the connection; times and ids left out.
    """
    address = urlsplit(url)
    answer = b""
    with closing(socket.create_connection((address.hostname, address.port), timeout=10)) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        with suppress(ConnectionError):  # a refusal ends the connection
            for text in (*sent, f"GET /fhir/Patient/p7 HTTP/1.1\r\n{LAST}\r\n"):
                connection.sendall(text.encode())
                if select.select([connection], [], [], 0.03)[0]:
                    answer += connection.recv(65536)
            while got := connection.recv(65536):
                answer += got
    return CHANGES.sub(b"<>", answer.replace(str(address.port).encode(), b"<port>"))


SAME = "GET /fhir/Patient/p7 HTTP/1.1\r\nHost: localhost\r\n\r\n"
POST = "POST /fhir/Patient HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/fhir+json\r\nContent-Length: "


@pytest.mark.parametrize(
    ("sent", "statuses"),
    [
        ((SAME, SAME, SAME.replace("p7", "p8"), SAME.replace("p7", "nobody")), [200, 200, 200, 404, 200]),
        ((SAME, SAME.replace("GET", "HEAD"), SAME), [200, 200, 200, 200]),
        ((SAME, SAME.replace("/fhir/Patient/p7", "//fhir"), SAME), [200, 404, 200, 200]),
        ((SAME, SAME.replace("/fhir", "http://localhost/fhir"), SAME), [200, 200, 200, 200]),
        ((SAME, SAME.replace("Patient/p7", "Patient/p 7")), [200, 400]),
        ((SAME, SAME.replace("HTTP/1.1", "HTTP/1.0")), [200, 200]),
        ((SAME, SAME[:20], SAME[20:], SAME), [200, 200, 200, 200]),
        ((SAME, SAME + SAME, SAME), [200, 200, 200, 200, 200]),
        ((SAME, f"{POST}{len(SAME)}\r\n\r\n", SAME, SAME), [200, 400, 200, 200]),  # the second is a body
        ((SAME, f"{POST}{len(SAME)}\r\n\r\n{SAME}", SAME), [200, 400, 200, 200]),
        ((SAME, SAME.replace("Host", "Accept: application/fhir+xml\r\nHost"), SAME), [200, 200, 200, 200]),
        ((SAME, SAME.replace("Host: localhost", "Host: evil.example")), [200, 403]),
    ],
)
def test_requests_that_come_one_after_the_other(url: str, sent: tuple[str, ...], statuses: list[int]) -> None:
    assert re.findall(rb"HTTP/1.1 (\d+)", in_parts(url, *sent)) == [str(status).encode() for status in statuses]


def test_a_connection_is_closed_when_nothing_comes(server: Server) -> None:
    class Brief(Connection):
        def connection_made(self, transport: asyncio.Transport) -> None:
            super().connection_made(transport)
            self.timeout_keep_alive = 0.2

    with serving(Access().application(server), Brief) as url:
        address = urlsplit(url)
        with closing(socket.create_connection((address.hostname, address.port), timeout=10)) as connection:
            for _ in range(8):  # longer than it may be idle
                connection.sendall(SAME.encode())
                assert connection.recv(65536).startswith(b"HTTP/1.1 200")
                time.sleep(0.06)
            assert connection.recv(65536) == b""


class Slow:
    """Answers later, or not at all."""

    def handle(self, request: Request) -> Response | Awaitable[Response]:
        if "broken" in request.target:
            raise RuntimeError("broken")
        return self._later()

    async def _later(self) -> Response:
        await asyncio.sleep(0)
        return Response(200, [], b"later")


def test_a_later_answer_and_a_fault_are_the_applications() -> None:
    with serving(Access().application(Slow()), Connection) as url:
        assert exchange(url, f"GET /fhir/x HTTP/1.1\r\n{LAST}\r\n").endswith(b"later")
        get = "GET /fhir/broken HTTP/1.1\r\nHost: localhost\r\n\r\n"
        assert b" 500 " in exchange(url, get)


def test_long_answers_that_nobody_reads_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    body = b"x" * 8_000_000  # more than the sockets between them take
    monkeypatch.setattr("fhir_server.app.MAX_UNREAD", 3 * len(body))

    class Long:
        def handle(self, request: Request) -> Response:
            return Response(200, [], body)

    with serving(Access().application(Long()), Connection) as url, ExitStack() as opened:
        port = urlsplit(url).port
        waiting = []
        for _ in range(3):
            slow = opened.enter_context(socket.socket())
            slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
            slow.connect(("127.0.0.1", port))
            slow.sendall(b"GET /fhir/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
            assert slow.recv(15) == b"HTTP/1.1 200 OK"
            waiting.append(slow)
        refused = httpx.get(f"{url}/fhir/x", headers={"Accept-Encoding": "identity"})
        assert (refused.status_code, refused.json()["issue"][0]["code"]) == (503, "throttled")
        waiting[0].close()
        waiting[1].close()
        while httpx.get(f"{url}/fhir/x", headers={"Accept-Encoding": "identity"}).status_code == 503:
            time.sleep(0.01)


def test_who_does_not_read_is_cut_off(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhir_server.processes.http.STALLED_S", 0.2)

    class Long:
        def handle(self, request: Request) -> Response:
            return Response(200, [], b"x" * 20_000_000)

    with serving(Access().application(Long()), Connection) as url, closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 4096)
        slow.connect(("127.0.0.1", urlsplit(url).port))
        slow.sendall(b"GET /fhir/x HTTP/1.1\r\nHost: localhost\r\n\r\n")
        time.sleep(1)
        size = 0
        with suppress(ConnectionResetError):
            while got := slow.recv(1 << 20):
                size += len(got)
        assert size < 20_000_000
