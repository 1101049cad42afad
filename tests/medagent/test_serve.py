"""`medagent serve`: the embedded server as a process of its own on a port."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import httpx
import pytest

from medagent.fhir_data.embedded import bundled_file
from tests.command import medagent
from tests.medagent.fhir_data.people import patient, ward


@dataclass(frozen=True, slots=True)
class Served:
    process: subprocess.Popen[str]
    url: str

    def count(self, kind: str) -> int:
        total: int = httpx.get(f"{self.url}/{kind}?_summary=count").json()["total"]
        return total


@contextmanager
def served(folder: Path, *args: object) -> Iterator[Served]:
    """The command on a free port, its temporary files in `folder`; stopped by SIGTERM, which it must obey."""
    words = [sys.executable, "-m", "medagent", "serve", "--port", "0", *map(str, args)]
    environment = {**os.environ, "TMPDIR": str(folder)}
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env=environment)
    assert process.stderr is not None
    try:
        said = ""
        while "http://" not in said:
            line = process.stderr.readline()
            assert line, said
            said += line
        found = re.search(r"http://\S+", said)
        assert found
        yield Served(process, found[0])
    finally:
        process.send_signal(signal.SIGTERM)
        process.stderr.read()
        process.stderr.close()
        assert process.wait(timeout=30) == 0


def test_the_bundled_hospital_is_served_and_stays_as_it_is(tmp_path: Path) -> None:
    hospital = bundled_file().path
    before = hospital.read_bytes()
    with served(tmp_path, "--allow-host", "clinic.example") as server:
        assert server.count("Patient") == 100
        named = [
            httpx.get(f"{server.url}/metadata", headers={"Host": f"{name}.example"}) for name in ("clinic", "evil")
        ]
        assert [answer.status_code for answer in named] == [200, 403]
        assert httpx.put(f"{server.url}/Patient/new", json=json.loads(patient("new"))).status_code == 201
        assert server.count("Patient") == 101
    assert hospital.read_bytes() == before
    assert list(tmp_path.iterdir()) == []


def test_a_server_that_is_killed_leaves_no_temporary_file(tmp_path: Path) -> None:
    words = [sys.executable, "-m", "medagent", "serve", "--port", "0"]
    process = subprocess.Popen(words, stderr=subprocess.PIPE, text=True, env={**os.environ, "TMPDIR": str(tmp_path)})
    assert process.stderr is not None
    while "http://" not in (line := process.stderr.readline()):
        assert line
    assert sum(file.stat().st_size for file in tmp_path.rglob("*.sqlite")) > 1_000_000
    process.kill()
    process.communicate()
    while list(tmp_path.iterdir()):  # a shell that waited for this removes them
        time.sleep(0.01)


def test_a_machine_without_a_temporary_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "missing"))
    ran = medagent("serve", "--port", "0")
    assert (ran.code, ran.err.count("\n")) == (1, 1)
    assert "cannot create a temporary folder" in ran.err
    assert "set TMPDIR" in ran.err


def test_a_store_keeps_what_clients_write(tmp_path: Path) -> None:
    data, folder = tmp_path / "own.sqlite", tmp_path / "tmp"
    folder.mkdir()
    for known in (0, 1):
        with served(folder, "--data", data) as server:
            assert server.count("Patient") == known
            httpx.put(f"{server.url}/Patient/new", json=json.loads(patient("new")))
    assert list(folder.iterdir()) == []


def test_ndjson_is_served_with_a_token_and_without_reference_check(tmp_path: Path) -> None:
    source = tmp_path / "ward.ndjson"
    source.write_text("\n".join(ward(2, 3)))
    orphan = {"resourceType": "Observation", "id": "x", "status": "final", "subject": {"reference": "Patient/none"}}
    with served(tmp_path, "--data", source, "--token", "secret", "--no-reference-check") as server:
        assert httpx.get(f"{server.url}/Patient").status_code == 401
        assert httpx.get(f"{server.url}/Patient", headers={"Host": "any.example"}).status_code == 401
        authorized = {"Authorization": "Bearer secret"}
        assert httpx.get(f"{server.url}/Observation?_summary=count", headers=authorized).json()["total"] == 6
        assert httpx.put(f"{server.url}/Observation/x", json=orphan, headers=authorized).status_code == 201


@pytest.mark.parametrize(
    ("args", "message"),
    [
        (["--host", "0.0.0.0"], "--token"),
        (["--data", "absent.ndjson"], "absent.ndjson: cannot be read"),
        (["--data", "text.sqlite"], "is not JSON"),
    ],
)
def test_what_cannot_be_served_is_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, args: list[str], message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "text.sqlite").write_text("no database, no NDJSON\n")
    (tmp_path / "a.sqlite").touch()
    data = [] if "--data" in args else ["--data", "new.sqlite"]
    ran = medagent("serve", "--port", "0", *data, *args)
    assert ran.code == 1
    assert message in ran.err
    assert "Traceback" not in ran.err


def test_a_taken_port_is_said(tmp_path: Path) -> None:
    with served(tmp_path, "--data", tmp_path / "a.sqlite") as server:
        port = server.url.removesuffix("/fhir").rpartition(":")[2]
        ran = medagent("serve", "--data", tmp_path / "b.sqlite", "--port", port)
    assert ran.code == 1
    assert "--port" in ran.err
