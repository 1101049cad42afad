"""What the HTTP client makes of servers and proxies that misbehave: raw bytes on a real socket."""

from __future__ import annotations

import asyncio
import json
import shutil
import socketserver
import ssl
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import ModelError, StopRunError, UserError
from medagent.models.client import EndpointClient, ForeignHostError, GuardedClient, TooLongError
from medagent.models.endpoint import ChatEndpoint
from tests.loopback import (
    Fault,
    ModelServer,
    chat_json,
    empty_choices,
    stall,
    status,
    truncated_json,
    wrong_content_type,
)
from tests.medagent.models.asking import QUESTION, ask, settings, with_model

BASIC_AUTH = pytest.mark.filterwarnings("ignore:.*(BasicAuth|proxy_auth).* deprecated:DeprecationWarning")
"""openai's client passes a proxy's login to aiohttp in a way that aiohttp 3.14 deprecates."""


def http(text: str, head: bytes = b"HTTP/1.1 200 OK", extra: bytes = b"") -> bytes:
    body = json.dumps(chat_json(text, {})).encode()
    return head + b"\r\nContent-Length: %d\r\n" % len(body) + extra + b"\r\n" + body


class RawServer(socketserver.ThreadingTCPServer):
    """Sends for each request the pieces that `answers` gives for its number and body; closes after what is no answer.

    A piece is sent a moment after the one before it.
    """

    daemon_threads = False
    block_on_close = True

    def __init__(self, answers: Callable[[int, bytes], list[bytes]]) -> None:
        super().__init__(("127.0.0.1", 0), _Talk)
        self.answers = answers
        self.number = -1
        self.url = f"http://127.0.0.1:{self.server_address[1]}/v1"
        self._thread = threading.Thread(target=self.serve_forever, kwargs={"poll_interval": 0.02})

    def __enter__(self) -> RawServer:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.shutdown()
        self._thread.join()
        self.server_close()


class _Talk(socketserver.StreamRequestHandler):
    server: RawServer

    def handle(self) -> None:
        while self.rfile.readline():
            length = 0
            while (line := self.rfile.readline().strip()) != b"":
                if line.lower().startswith(b"content-length:"):
                    length = int(line.partition(b":")[2])
            body = self.rfile.read(length)
            self.server.number += 1
            pieces = self.server.answers(self.server.number, body)
            for piece in pieces:
                self.wfile.write(piece)
                time.sleep(0.02)
            if not pieces[-1].endswith(b"}"):
                return


def talk(answers: Callable[[int, bytes], list[bytes]], **changes: Any) -> str:
    """The reply to one question."""
    with RawServer(answers) as server:
        return ask(settings(server.url, **changes)).text


@pytest.mark.parametrize(
    "garbage",
    [
        b"SSH-2.0-OpenSSH_9.6\r\n",
        b"HTTP/9.9.9 what\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nno colon here\r\n\r\n",
        b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nZZ\r\n{}\r\n",
        b"HTTP/1.1 200 OK\r\nContent-Length: minus\r\n\r\n{}",
        "HTTP/1.1 429 请求过多\r\nContent-Length: 2\r\n\r\n{}".encode("gbk"),
        b"",
    ],
)
def test_an_answer_that_is_no_http_is_asked_for_again(garbage: bytes) -> None:
    assert talk(lambda number, _: [garbage if number == 0 else http("good")], max_retries=1) == "good"


def test_the_key_does_not_show_in_what_is_said_of_a_bad_answer() -> None:
    with pytest.raises(ModelError) as failed:
        talk(lambda number, _: [b"SSH-2.0-OpenSSH_9.6\r\n"], max_retries=0)
    assert "authorization" not in str(failed.value).lower()
    assert "the answer is not HTTP" in str(failed.value)


@BASIC_AUTH
@pytest.mark.parametrize(
    ("login", "sent"), [("user:pw", "dXNlcjpwdw=="), ("user:%C3%A9", "dXNlcjrp"), ("user", "dXNlcjo=")]
)
def test_a_proxys_login_is_sent_to_it(monkeypatch: pytest.MonkeyPatch, login: str, sent: str) -> None:
    with ModelServer("by proxy") as proxy:
        monkeypatch.setenv("HTTP_PROXY", proxy.url.removesuffix("/v1").replace("//", f"//{login}@"))
        assert ask(settings("http://models.example/v1")).text == "by proxy"
    assert proxy.calls[0].headers["proxy-authorization"] == f"Basic {sent}"


@BASIC_AUTH
def test_a_tunnels_login_is_for_the_proxy_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[bytes] = []

    def refuse(_: int, head: bytes) -> list[bytes]:
        asked.append(head)
        return [b"HTTP/1.1 407 Proxy Authentication Required\r\nContent-Length: 0\r\n\r\n"]

    with RawServer(refuse) as proxy:
        monkeypatch.setenv("HTTPS_PROXY", proxy.url.removesuffix("/v1").replace("//", "//user:pw@"))
        with pytest.raises(ModelError, match="the proxy answered 407: Proxy Authentication Required"):
            ask(settings("https://models.example/v1", max_retries=0))
    assert len(asked) == 1


def test_an_answer_cut_off_is_not_called_another_protocol() -> None:
    cut = http("good")[:-5]
    with pytest.raises(ModelError) as failed:
        talk(lambda *_: [cut], max_retries=0)
    assert "not HTTP" not in str(failed.value)


def test_credentials_in_the_base_url_are_sent_and_not_shown() -> None:
    with ModelServer("good") as server:
        address = server.url.replace("http://", "http://user:secretpw@")
        assert ask(settings(address)).text == "good"
        assert server.calls[0].headers["authorization"] == "Basic dXNlcjpzZWNyZXRwdw=="
    with pytest.raises(StopRunError) as failed:
        ask(settings(address, max_retries=0))
    assert "secretpw" not in str(failed.value)


@pytest.mark.parametrize("fault", [stall(), truncated_json(), wrong_content_type(), empty_choices(), status(500)])
def test_credentials_show_in_no_failure(fault: Fault) -> None:
    with ModelServer(faults=lambda _: fault) as server, pytest.raises(ModelError) as failed:
        ask(settings(server.url.replace("http://", "http://user:secretpw@"), max_retries=0, timeout_s=0.3))
    assert "secretpw" not in str(failed.value)


@pytest.mark.parametrize(
    ("proxy", "message"),
    [
        ("socks5://127.0.0.1:9", "is socks5://, but only http proxies are supported"),
        ("ftp://127.0.0.1:9", "cannot be used"),
        ("http://us%3Aer:pw@127.0.0.1:9", "cannot be used"),
        ("http://user:%E4%BD%A0@127.0.0.1:9", "cannot be used"),
    ],
)
def test_a_proxy_that_cannot_be_used_is_one_clear_line(
    monkeypatch: pytest.MonkeyPatch, proxy: str, message: str
) -> None:
    monkeypatch.setenv("ALL_PROXY", proxy)
    with pytest.raises(UserError, match=message):
        ask(settings("http://models.example/v1"))


def test_a_stream_of_unknown_length_is_read_to_the_bound() -> None:
    head = b"HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n"
    chunk = b"%x\r\n" % 100_000 + b" " * 100_000 + b"\r\n"
    with pytest.raises(ModelError, match="longer than 1,000,000 bytes"):
        talk(lambda *_: [head, *[chunk] * 10, b"1\r\n \r\n"], max_reply_bytes=1_000_000)


def test_a_models_client_goes_to_its_own_place_only() -> None:
    async def asked(url: str) -> None:
        async with EndpointClient("http://127.0.0.1:1", 5, 1_000_000) as client:
            await client.get(url)

    for url in ("http://127.0.0.1:2/v1", "https://127.0.0.1:1/v1", "http://localhost:1/v1"):
        with pytest.raises(ForeignHostError, match=r"not to http://127\.0\.0\.1:1"):
            asyncio.run(asked(url))


def test_a_client_for_other_libraries_reads_to_a_bound_and_goes_to_named_hosts_only() -> None:
    async def asked(server: ModelServer, *allowed: str) -> int:
        port = server.url.rpartition(":")[2]
        async with GuardedClient(allowed, 5, 1_000_000) as client:
            return (await client.post(f"http://localhost:{port}", json={"messages": []})).status_code

    with ModelServer("good") as server:
        with pytest.raises(
            ForeignHostError, match="localhost, which was not named; allow it with --allow-host localhost"
        ):
            asyncio.run(asked(server, "127.0.0.1"))
        assert not server.calls
        assert asyncio.run(asked(server, "localhost")) == 200
    with ModelServer("x" * 2_000_000) as server, pytest.raises(TooLongError, match="longer than 1,000,000 bytes"):
        asyncio.run(asked(server, "localhost"))


ALERT = b"\x15\x03\x01\x00\x02\x02\x46"
"""What a port for TLS answers to a plain request."""


def test_a_plain_request_to_a_port_for_tls_stops_the_run_at_once() -> None:
    words = "the port speaks TLS; begin the base URL with https://"
    with RawServer(lambda *_: [ALERT]) as server, pytest.raises(StopRunError, match=words):
        ask(settings(server.url, max_retries=5))
    assert server.number == 0


class PlainPort(socketserver.ThreadingTCPServer):
    """A port that answers the first message of a TLS handshake with some bytes and closes the connection."""

    def __init__(self, answer: bytes) -> None:
        super().__init__(("127.0.0.1", 0), _Ending)
        self.answer, self.connections = answer, 0


class _Ending(socketserver.BaseRequestHandler):
    server: PlainPort

    def handle(self) -> None:
        self.server.connections += 1
        self.request.recv(65536)
        self.request.sendall(self.server.answer)


@contextmanager
def plain_port(answer: bytes) -> Iterator[PlainPort]:
    with PlainPort(answer) as port:
        thread = threading.Thread(target=port.serve_forever, kwargs={"poll_interval": 0.02})
        thread.start()
        yield port
        port.shutdown()
        thread.join()


@pytest.mark.parametrize(
    ("answer", "words"),
    [
        (b"HTTP/1.1 400 Bad Request\r\nContent-Length: 0\r\n\r\n", "does not speak TLS; correct the base URL"),
        (b"\x15\x03\x03\x00\x02\x02\x28", "does not speak TLS; correct the base URL"),
        (b"", "ended the TLS handshake; correct the base URL"),
        (b"\x16\x03\x03\x00\x7a\x02", "ended the TLS handshake; correct the base URL"),
    ],
    ids=["plain HTTP", "an alert", "it only closes", "half a message"],
)
def test_tls_to_a_port_that_does_not_speak_it_stops_the_run_at_once_and_costs_nothing(
    answer: bytes, words: str
) -> None:
    async def later(model: ChatEndpoint) -> Any:
        model._reached = True  # an endpoint that has answered before is asked again
        return (await asyncio.gather(model.complete(QUESTION), return_exceptions=True))[0]

    with plain_port(answer) as port:
        address = f"https://127.0.0.1:{port.server_address[1]}/v1"
        with pytest.raises(StopRunError, match=words):
            ask(settings(address, max_retries=5))
        assert port.connections == 1
        failure, _ = with_model(settings(address, max_retries=1), later)
    assert isinstance(failure, ModelError)
    assert failure.paid is None


def test_a_certificate_that_is_not_trusted_stops_the_run_at_once(tmp_path: Path) -> None:
    openssl = shutil.which("openssl")
    if openssl is None:
        pytest.skip("openssl is not installed")
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    words = ["req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes", "-subj", "/CN=a"]
    subprocess.run([openssl, *words, "-keyout", key, "-out", certificate], check=True, capture_output=True)
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate, key)
    with RawServer(lambda *_: [b""]) as server:
        server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
        with pytest.raises(StopRunError, match=r"is not trusted: self-signed certificate; set SSL_CERT_FILE"):
            ask(settings(server.url.replace("http", "https", 1), max_retries=5))
