"""What a connection may send: the size of heads, chunk extensions and trailers, hosts, and requests in advance."""

from __future__ import annotations

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import ExitStack, closing
from typing import Any
from urllib.parse import urlsplit

import pytest

from fhir_server import Request, Response
from fhir_server.access import Access
from fhir_server.processes.http import HEAD_BYTES, HEAD_LINES, Connection
from tests.raw_requests import answer_to, repeated, status
from tests.serving import serving

GET = b"GET /fhir/x HTTP/1.1\r\n"
HOST = b"Host: localhost\r\n"
LAST = b"Connection: close\r\n\r\n"
POST = b"POST /fhir/x HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n"
TOKEN = b"Authorization: Bearer t\r\n"
CHUNKED = POST + TOKEN + b"Transfer-Encoding: chunked\r\n\r\n"
MANY = 1_000_000
"""Bytes: far more than a server may take of a head, and little enough to send quickly."""


class Echo:
    """Answers with what was sent. Nothing above its size may be held for long."""

    def handle(self, request: Request) -> Response:
        names = ",".join(name for name, _ in request.headers)
        return Response(200, [], b"%d bytes, %s" % (len(request.body), names.encode()))


@pytest.fixture(scope="module")
def url() -> Iterator[str]:
    with serving(Access(token="t").application(Echo()), Connection) as url:
        yield url


@pytest.mark.parametrize(
    ("sent", "expected"),
    [
        ([GET, HOST, repeated(b"X000000: a\r\n", MANY)], 431),
        ([GET, HOST, b"X: ", repeated(b"a", MANY)], 431),
        ([GET, HOST, repeated(b"a", MANY)], 431),
        ([GET, HOST, repeated(b"X: a\r\n b\r\n", MANY)], 400),
        ([GET, HOST, b"X: a\r\n" * HEAD_LINES, LAST], 431),
        ([GET, HOST, *[b"X: %s\r\n" % (b"a" * 1000)] * 66, LAST], 431),
        ([b"GET /", repeated(b"a", MANY)], 414),
        ([b"GET /%s HTTP/1.1\r\n" % (b"a" * HEAD_BYTES), HOST, LAST], 414),
        ([repeated(b"\r\n", MANY)], 431),
        ([b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03"], 400),
        ([CHUNKED, b"1;", repeated(b"a=b;", MANY)], 400),
        ([CHUNKED, repeated(b"1;aaaaaaaaaaa=bbbbbbbbbbb\r\nx\r\n", MANY)], 400),
        ([CHUNKED, b"0\r\n", repeated(b"X: a\r\n", MANY)], 400),
        ([CHUNKED, b"0\r\n", b"X: ", repeated(b"a", MANY)], 400),
        ([CHUNKED, repeated(b"0000000000000000000001\r\nx\r\n", MANY)], 400),
        ([GET, b"\r\n"], 400),
        ([GET, HOST, HOST, b"\r\n"], 400),
        ([GET, HOST, b"Accept: */*\r\nhost: evil.example\r\n\r\n"], 400),
    ],
    ids=lambda value: "" if isinstance(value, list) else str(value),
)
def test_what_is_over_a_limit_is_refused_before_the_token_is_asked(url: str, sent: list[Any], expected: int) -> None:
    answer = answer_to(url, *sent)
    assert answer[9:12] == str(expected).encode(), answer[:300]
    assert b"connection: close" in answer
    assert answer.count(b"HTTP/1.1 ") == 1


@pytest.mark.parametrize(
    "sent",
    [
        [GET, HOST, TOKEN, *[b"X: %s\r\n" % (b"a" * 1000)] * 63, LAST],
        [GET, HOST, TOKEN, b"X: a\r\n" * (HEAD_LINES - 3), LAST],
        [b"GET /fhir/%s HTTP/1.1\r\n" % (b"a" * 60_000), HOST, TOKEN, LAST],
        [POST, TOKEN, b"Content-Length: 1000000\r\n\r\n", b"a\n" * 500_000],
        [CHUNKED, b"f4240\r\n", b"a\n" * 500_000, b"\r\n0\r\n\r\n"],
        [CHUNKED, b"1\r\nx\r\n" * 50_000, b"0\r\nX: a\r\n\r\n"],
        [CHUNKED, b"3;a=b\r\nx\r\n\r\n" * 3_000, b"0\r\n\r\n"],
        [GET.replace(b"1.1", b"1.0"), TOKEN, b"\r\n"],
    ],
    ids=["64 kB", "200 lines", "long target", "body", "chunked body", "small chunks", "extensions", "HTTP/1.0"],
)
def test_what_is_within_the_limits_is_answered(url: str, sent: list[bytes]) -> None:
    assert status(url, *sent) == 200
    assert status(url, b"".join(sent)) == 200


def test_each_request_of_a_connection_has_its_own_limits(url: str) -> None:
    head = GET + HOST + TOKEN + b"X: %s\r\n" % (b"a" * 40_000)
    chunk = CHUNKED.replace(LAST[:-2], b"") + b"1;%s\r\nx\r\n0\r\n\r\n" % (b"e" * 40_000)
    answer = answer_to(url, (head + b"\r\n" + chunk) * 4 + head + LAST)
    assert answer.count(b"HTTP/1.1 200") == 9
    over = head + b"X: %s\r\n" % (b"a" * 40_000)
    answer = answer_to(url, head + b"\r\n" + over + LAST)
    assert re.findall(rb"HTTP/1.1 (\d+)", answer) == [b"200", b"431"]


def test_a_trailer_is_no_header_of_its_request_nor_of_the_next_one(url: str) -> None:
    chunked = CHUNKED.replace(LAST[:-2], b"")
    answer = answer_to(
        url, chunked.replace(TOKEN, b"") + b"0\r\n" + TOKEN + b"Host: evil.example\r\n\r\n" + GET + HOST + LAST
    )
    assert answer.count(b"HTTP/1.1 401") == 2
    answer = answer_to(url, chunked + b"0\r\nX-Trailer: a\r\n\r\n" + GET + HOST + TOKEN + LAST)
    assert answer.count(b"HTTP/1.1 200") == 2
    assert b"x-trailer" not in answer


class Recorder:
    """Records the targets of requests in the order in which they begin; each answer is larger than what the operating
    system takes for a client that does not read.
    """

    def __init__(self, size: int) -> None:
        self.begun: list[str] = []
        self.changed = threading.Condition()
        self._body = b"x" * size

    def handle(self, request: Request) -> Response:
        with self.changed:
            self.begun.append(request.target)
            self.changed.notify_all()
        return Response(200, [], self._body)

    def wait_for(self, number: int) -> None:
        with self.changed:
            assert self.changed.wait_for(lambda: len(self.begun) >= number, 20)


def pipelined(name: str, number: int) -> bytes:
    return b"".join(b"GET /fhir/%s/%d HTTP/1.1\r\nHost: localhost\r\n\r\n" % (name.encode(), i) for i in range(number))


@pytest.mark.parametrize("in_one_piece", [True, False])
def test_a_client_that_does_not_read_has_one_request_worked_on(in_one_piece: bool) -> None:
    recorder = Recorder(1_000_000)
    with serving(Access().application(recorder), Connection) as url, ExitStack() as opened:
        port = urlsplit(url).port
        silent = [opened.enter_context(closing(socket.create_connection(("127.0.0.1", port)))) for _ in range(12)]
        for number, connection in enumerate(silent):
            requests = pipelined(f"silent{number}", 20)
            pieces = [requests] if in_one_piece else [line + b"\n" for line in requests.split(b"\n")[:-1]]
            for piece in pieces:
                connection.sendall(piece)
        recorder.wait_for(len(silent))
        for number in range(5):
            assert status(url, b"GET /fhir/reader/%d HTTP/1.1\r\n" % number + HOST + LAST) == 200
        begun = list(recorder.begun)
        assert sorted(begun[:12]) == sorted(f"/fhir/silent{number}/0" for number in range(12))
        assert begun[12:] == [f"/fhir/reader/{number}" for number in range(5)]
        received = b""
        while received.count(b"HTTP/1.1 200") < 20:  # who reads later gets all answers
            received = received[-20:] if len(received) > 30_000_000 else received
            part = silent[0].recv(1 << 20)
            assert part
            received += part
        assert [target for target in recorder.begun if "silent0/" in target] == [
            f"/fhir/silent0/{i}" for i in range(20)
        ]


def test_small_answers_in_advance_wait_for_the_requests_of_others() -> None:
    """All requests are there before the loop reads the first: the second of a connection begins after them all."""
    begun: list[str] = []

    async def application(scope: Any, receive: Any, send: Any) -> None:
        begun.append(scope["path"])
        if len(begun) == 1:  # the loop stands still until everybody has sent
            for name, connection in list(connections.items()):
                connection.sendall(pipelined(name, 20))
        await send({"type": "http.response.start", "status": 204, "headers": []})
        await send({"type": "http.response.body"})

    with serving(application, Connection) as url, ExitStack() as opened:
        port = urlsplit(url).port
        connections = {
            f"c{number}": opened.enter_context(closing(socket.create_connection(("127.0.0.1", port))))
            for number in range(8)
        }
        assert status(url, GET + HOST + LAST) == 204
        for connection in connections.values():
            received = b""
            while received.count(b"HTTP/1.1 204") < 20:
                received += connection.recv(65536)
    assert sorted(begun[1:9]) == sorted(f"/fhir/c{number}/0" for number in range(8))
    assert len(begun) == 161


def test_a_body_that_becomes_malformed_ends_its_request() -> None:
    gone = threading.Event()

    async def application(scope: Any, receive: Any, send: Any) -> None:
        while (await receive())["type"] != "http.disconnect":
            pass
        gone.set()

    with serving(application, Connection) as url:
        assert status(url, CHUNKED, b"1\r\nx\r\n", b"1;", repeated(b"a", MANY)) == 400
        assert gone.wait(20)


def test_a_slow_reader_gets_all_while_it_reads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("fhir_server.processes.http.STALLED_S", 0.5)
    monkeypatch.setattr("fhir_server.processes.http.STALLED_BYTES", 1)
    body = b"x" * 2_000_000

    class Long:
        def handle(self, request: Request) -> Response:
            return Response(200, [], body)

    with serving(Access().application(Long()), Connection) as url, closing(socket.socket()) as slow:
        slow.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 8192)
        slow.connect(("127.0.0.1", urlsplit(url).port))
        slow.sendall(GET + HOST + LAST)
        size = 0
        while part := slow.recv(20_000):
            size += len(part)
            threading.Event().wait(0.005)
        assert size > len(body)
