"""A cache of imported data that is built again answers with the same bytes."""

from __future__ import annotations

import asyncio
import json
from pathlib import Path

import pytest

from medagent.ehr.embedded import EmbeddedEhr, imported_file

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
