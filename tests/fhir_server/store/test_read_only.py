"""A file that a user can only read: its data and its episodes are served, and nothing is written beside it."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhir_server import Request, Server
from fhir_server.errors import ServerError

JSON = [("Content-Type", "application/fhir+json")]
STRANGER = 12345


@pytest.fixture
def path() -> Iterator[Path]:
    with tempfile.TemporaryDirectory() as folder:  # not tmp_path, whose parents others cannot enter
        file = Path(folder) / "store.sqlite"
        with Server.open(file) as server:
            server.load([json.dumps({"resourceType": "Patient", "id": "a", "gender": "male"})])
        file.chmod(0o444)
        Path(folder).chmod(0o555)
        yield file
        Path(folder).chmod(0o755)


def by_a_stranger(check: Callable[[], None]) -> None:
    """Runs a check as a user who may only read; root may do all, so that it becomes another user for this."""
    if os.geteuid():
        check()
        return
    child = os.fork()
    if not child:
        status = 1
        try:
            os.setuid(STRANGER)
            check()
            status = 0
        finally:
            os._exit(status)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_it_is_read_and_copied_for_episodes(path: Path) -> None:
    def status(server: Server) -> int:
        assert server.handle(Request("GET", "/fhir/Patient?gender=male&_summary=count")).status == 200
        body = json.dumps({"resourceType": "Patient", "id": "a", "gender": "female"}).encode()
        with server.overlay("x", datetime(2023, 11, 13, tzinfo=UTC)) as copy:
            assert copy.handle(Request("PUT", "/fhir/Patient/a", JSON, body)).status in (200, 201)
            assert b'"total": 1' in copy.handle(Request("GET", "/fhir/Patient?gender=female")).body
        return server.handle(Request("PUT", "/fhir/Patient/a", JSON, body)).status

    def check() -> None:
        with Server.open(path) as server:
            assert status(server) == 503

    with Server.open(None) as server:  # loads what a stranger may not be able to load from root's Python
        assert status(server) == 201
    by_a_stranger(check)
    assert [file.name for file in path.parent.iterdir()] == [path.name]


@pytest.mark.filterwarnings("ignore:.*fork:DeprecationWarning")
def test_writes_that_are_not_in_it_yet_are_not_left_out(path: Path) -> None:
    path.parent.chmod(0o755)
    (path.parent / f"{path.name}-wal").write_bytes(b"x")
    path.parent.chmod(0o555)

    def check() -> None:
        with pytest.raises(ServerError, match="open it once"):
            Server.open(path)

    by_a_stranger(check)


def test_no_place_for_temporary_files_is_one_line(monkeypatch: pytest.MonkeyPatch) -> None:
    def nowhere(*, prefix: str) -> None:
        raise FileNotFoundError("No usable temporary directory found")

    monkeypatch.setattr(tempfile, "mkdtemp", nowhere)
    with pytest.raises(ServerError, match="set TMPDIR"):
        Server.open(None)
