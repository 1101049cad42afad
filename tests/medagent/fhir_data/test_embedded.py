"""The embedded server behind a session: the same bytes from a cache that is built again, and its faults."""

from __future__ import annotations

import asyncio
import fcntl
import json
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue

import pytest

from medagent.core.errors import FhirUnavailableError
from medagent.fhir_data.embedded import EmbeddedEhr, imported_file

LINES = "".join(json.dumps({"resourceType": "Patient", "id": name, "active": True}) + "\n" for name in "abc")


def answers(path: Path) -> list[str]:
    ehr = EmbeddedEhr.open(imported_file(path).path, "http://localhost:8080/fhir")

    async def ask() -> list[str]:
        async with ehr.session("seed") as session:
            return [(await session.get(target)).text for target in ("/Patient/a", "/Patient?active=true&_count=2")]

    try:
        return asyncio.run(ask())
    finally:
        ehr.close()


def test_a_fault_of_the_server_costs_the_episode_and_not_the_run(tmp_path: Path) -> None:
    async def ask(ehr: EmbeddedEhr) -> None:
        async with ehr.session("s") as session:
            ehr.close()
            await session.get("/Patient?name=x")

    (tmp_path / "some.ndjson").write_text(LINES, encoding="utf-8")
    with pytest.raises(FhirUnavailableError, match="GET /Patient"):
        asyncio.run(ask(EmbeddedEhr.open(imported_file(tmp_path / "some.ndjson").path, "http://localhost:8080/fhir/")))


def test_a_rebuilt_cache_gives_the_same_bytes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "patients.ndjson"
    path.write_text(LINES)
    found = []
    for home in ("first", "second"):
        monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / home))
        found.append(answers(path))
    assert found[0] == found[1]
    assert json.loads(found[0][0])["meta"]["lastUpdated"].startswith("2023-11-13T10:15:00")
    assert len({file.name for file in tmp_path.rglob("*.sqlite")}) == 1


def test_a_file_that_another_process_is_building_is_waited_for(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "some.ndjson"
    path.write_text('{"resourceType":"Patient","id":"1"}\n')
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "theirs"))
    built = imported_file(path).path
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "here"))
    target = tmp_path / "here" / "cache" / built.name
    target.parent.mkdir(parents=True)
    with (target.parent / f".{target.name}.lock").open("wb") as lock, ThreadPoolExecutor(1) as pool:
        fcntl.flock(lock.fileno(), fcntl.LOCK_EX)
        lines = Queue[str]()
        ours = pool.submit(imported_file, path, lines.put)
        assert lines.get(timeout=60) == f"waiting for another process: importing {path}"
        for file in (built, built.with_name(f"{built.name}.sha256")):
            shutil.copy(file, target.parent)
        theirs = target.stat().st_ino
        fcntl.flock(lock.fileno(), fcntl.LOCK_UN)
        assert ours.result().path == target
        assert lines.empty()
    assert target.stat().st_ino == theirs
