"""What is sent to a FHIR server of others: tokens that HTTP allows, and none over plain HTTP beyond this machine."""

from __future__ import annotations

import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from medagent.core.errors import UserError
from medagent.integrations.web import Port
from tests.command import Ran, medagent
from tests.medagent.benchmarks.custom.ward3 import SOURCE
from tests.medagent.fhir_data.live import LiveServer
from tests.medagent.fhir_data.people import ward

TOKEN = "ward-seven-0123456789"
FHIR_COMMANDS = {
    "ehr copy": ("ehr", "copy", "--from", "URL", "copy.ndjson"),
    "ehr push": ("ehr", "push", "--to", "URL", "--ehr", "people.ndjson"),
    "data new": ("data", "new", "ward", "--from", "ward3.py", "--fhir", "URL", "--patients", 2, "--per-type", 1),
    "run": ("run", "ward3.py", "--fhir", "URL", "--agent", "nop", "--limit", 1, "--now", "2024-03-05T14:00:00Z"),
    "run --writes private": ("run", "--fhir", "URL", "--writes", "private", "--agent", "nop", "--limit", 1),
    "doctor": ("doctor", "--fhir", "URL"),
}
"""Every command that opens a FHIR server. URL stands for its address."""
FAULTS: dict[str, Callable[[pytest.MonkeyPatch, Path], str]] = {}
"""By name a way in which a token is unusable. It returns the place that the error names."""


def fault(make: Callable[[pytest.MonkeyPatch, Path], str]) -> Callable[[pytest.MonkeyPatch, Path], str]:
    FAULTS[make.__name__] = make
    return make


def variable(patch: pytest.MonkeyPatch, token: str) -> str:
    patch.setenv("MEDAGENT_FHIR_TOKEN", token)
    return "MEDAGENT_FHIR_TOKEN contains"


def file(patch: pytest.MonkeyPatch, folder: Path, content: bytes) -> str:
    path = folder / "secrets" / "token.txt"
    path.parent.mkdir()
    path.write_bytes(content)
    patch.setenv("MEDAGENT_FHIR_TOKEN_FILE", str(path))
    return f"{path} (MEDAGENT_FHIR_TOKEN_FILE)"


@fault
def two_lines_in_the_variable(patch: pytest.MonkeyPatch, _: Path) -> str:
    return variable(patch, f"{TOKEN}\n{TOKEN}")


@fault
def other_letters_in_the_variable(patch: pytest.MonkeyPatch, _: Path) -> str:
    return variable(patch, f"{TOKEN}-über")


@fault
def a_control_character_in_the_variable(patch: pytest.MonkeyPatch, _: Path) -> str:
    return variable(patch, f"{TOKEN}\x7f{TOKEN}")


@fault
def two_lines_in_the_file(patch: pytest.MonkeyPatch, folder: Path) -> str:
    return file(patch, folder, f"{TOKEN}\n{TOKEN}\n".encode()) + " contains"


@fault
def other_letters_in_the_file(patch: pytest.MonkeyPatch, folder: Path) -> str:
    return file(patch, folder, f"{TOKEN}-шесть".encode()) + " contains"


@fault
def other_bytes_in_the_file(patch: pytest.MonkeyPatch, folder: Path) -> str:
    return file(patch, folder, f"{TOKEN}-über".encode("latin-1")) + ": is not a text file"


@fault
def an_empty_file(patch: pytest.MonkeyPatch, folder: Path) -> str:
    return file(patch, folder, b" \n") + ": the file is empty"


@pytest.fixture(autouse=True)
def _here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "ward3.py").write_text(SOURCE, "utf-8")
    (tmp_path / "people.ndjson").write_text("\n".join(ward(2, 2)), "utf-8")


def ran(command: str, url: str, *more: object) -> Ran:
    words = [url if word == "URL" else word for word in FHIR_COMMANDS[command]]
    return medagent(*words, *more)


def only_line(done: Ran) -> str:
    """The only line that a refused command prints."""
    assert done.code == 1
    assert done.out == ""
    [line] = done.err.splitlines()
    return line


def assert_no_token(done: Ran, folder: Path) -> None:
    written = [path.read_bytes() for path in folder.rglob("*") if path.is_file() and path.parent.name != "secrets"]
    assert not any(TOKEN.encode() in content for content in [done.out.encode(), done.err.encode(), *written])


@pytest.mark.parametrize("command", [name for name in FHIR_COMMANDS if name != "doctor"])
@pytest.mark.parametrize("unusable", FAULTS)
def test_an_unusable_token_is_one_line_without_the_token(
    command: str, unusable: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    place = FAULTS[unusable](monkeypatch, tmp_path)
    done = ran(command, "http://127.0.0.1:9/fhir")
    assert place in only_line(done)
    assert_no_token(done, tmp_path)


@pytest.mark.parametrize(
    "header", [f"Authorization: Bearer {TOKEN}\n{TOKEN}", f"X-Key: {TOKEN}é", f"Bad\nName: {TOKEN}"]
)
def test_a_header_that_http_forbids_is_one_line_without_its_value(header: str, tmp_path: Path) -> None:
    done = ran("ehr copy", "http://127.0.0.1:9/fhir", "--fhir-header", header)
    assert "--fhir-header" in only_line(done)
    assert_no_token(done, tmp_path)


@pytest.mark.parametrize("command", FHIR_COMMANDS)
@pytest.mark.parametrize("host", ["hospital.test", "192.0.2.7", "10.0.0.1", "0.0.0.0", "[2001:db8::1]"])
def test_a_token_is_not_sent_over_plain_http_to_another_machine(
    command: str, host: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    done = ran(command, f"http://{host}:8080/fhir")
    line = only_line(done)
    assert host.strip("[]") in line
    assert "use https, or pass --insecure-http" in line
    assert_no_token(done, tmp_path)


@pytest.mark.parametrize(
    ("url", "more"),
    [
        ("http://ward:seven-0123@hospital.test/fhir", ()),
        ("HTTP://hospital.test/fhir", ("--fhir-header", f"X-Api-Key: {TOKEN}")),
        ("http://hospital.test/fhir", ("--fhir-header", f"Authorization: Basic {TOKEN}")),
    ],
)
def test_a_password_or_a_key_is_a_token_too(url: str, more: tuple[str, ...]) -> None:
    line = only_line(ran("run", url, *more))
    assert "--insecure-http" in line
    assert TOKEN not in line
    assert "seven-0123" not in line


@pytest.fixture
def elsewhere(monkeypatch: pytest.MonkeyPatch) -> Iterator[LiveServer]:
    """A server whose name `hospital.test` is not this machine's."""
    guarded = socket.getaddrinfo

    def looked_up(host: Any, *args: Any, **kwargs: Any) -> Any:
        return guarded("127.0.0.1" if host in ("hospital.test", b"hospital.test") else host, *args, **kwargs)

    monkeypatch.setattr(socket, "getaddrinfo", looked_up)
    with LiveServer() as server:
        server.server.load(ward(2, 2))
        yield server


def address(server: LiveServer) -> str:
    return server.url.replace("127.0.0.1", "hospital.test").replace("localhost", "hospital.test")


@pytest.mark.parametrize("command", ["ehr copy", "ehr push", "data new"])
def test_plain_http_without_a_token_is_one_warning(command: str, elsewhere: LiveServer) -> None:
    done = ran(command, address(elsewhere))
    assert done.err.count("warning: plain HTTP to hospital.test: what it sends can be read") == 1
    assert "--insecure-http" not in done.err


def test_insecure_http_sends_the_token(elsewhere: LiveServer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    done = ran("ehr copy", address(elsewhere), "--insecure-http")
    assert done.code == 0, done.err
    assert "warning: plain HTTP to hospital.test" in done.err


@pytest.mark.parametrize("host", ["localhost", "127.0.0.1", "127.8.8.8", "[::1]", "LOCALHOST"])
def test_this_machine_may_use_plain_http(host: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    done = ran("ehr copy", f"http://{host}:9/fhir")
    assert "does not answer" in only_line(done)


def test_https_may_carry_a_token(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", TOKEN)
    assert "does not answer" in only_line(ran("ehr copy", "https://127.0.0.1:9/fhir"))


@pytest.mark.parametrize("token", [f"{TOKEN}\n{TOKEN}", f"{TOKEN}é"])
def test_a_served_token_that_no_client_can_send_is_one_line(
    token: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("MEDAGENT_SERVE_TOKEN", token)
    done = medagent("serve")
    assert "MEDAGENT_SERVE_TOKEN contains" in only_line(done)
    assert_no_token(done, tmp_path)
    with pytest.raises(UserError, match="MEDAGENT_SERVE_TOKEN") as error, Port("127.0.0.1", 0, token=token).opened():
        pass
    assert TOKEN not in str(error.value)


def test_a_server_that_requires_a_token_says_so() -> None:
    with LiveServer(token=TOKEN) as server:
        assert "answers 401: it requires a token; set MEDAGENT_FHIR_TOKEN_FILE" in only_line(
            ran("ehr copy", server.url)
        )
