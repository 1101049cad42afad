"""The embedded server's file: built once, the same bytes each time, made again when damaged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from fhir_server import Server
from medagent.ehr.embedded import imported_file
from medagent.errors import UserError

PATIENT = {"resourceType": "Patient", "id": "p1", "birthDate": "1970-01-01"}


@pytest.fixture
def ndjson(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    path = tmp_path / "people.ndjson"
    path.write_text(json.dumps(PATIENT) + "\n")
    return path


def build(path: Path) -> tuple[Path, list[str]]:
    told: list[str] = []
    return imported_file(path, told.append).path, told


def test_an_import_is_made_once(ndjson: Path) -> None:
    built, told = build(ndjson)
    assert told == [f"importing {ndjson}"]
    assert build(ndjson) == (built, [])


@pytest.mark.parametrize("damage", [b"", b"not a database", None])
def test_a_damaged_import_is_made_again(ndjson: Path, damage: bytes | None) -> None:
    built, _ = build(ndjson)
    whole = built.read_bytes()
    built.write_bytes(
        whole[: len(whole) // 2] + b"\xff" * 100 + whole[len(whole) // 2 + 100 :] if damage is None else damage
    )
    again, told = build(ndjson)
    assert told == [f"importing {ndjson}"]
    with Server.open(again) as server:
        assert server.stats() == {"Patient": 1}


def test_an_import_made_again_answers_with_the_same_bytes(ndjson: Path) -> None:
    texts = []
    for _ in range(2):
        built, _told = build(ndjson)
        with Server.open(built) as server:
            texts.append(list(server.export("Patient")))
        built.unlink()
    assert texts[0] == texts[1]
    assert "2023-11-13T10:15:00.000+00:00" in texts[0][0]


def test_a_bundle_and_a_file_of_the_servers_own_are_taken_too(ndjson: Path) -> None:
    bundle = ndjson.with_name("bundle.json")
    entry = {"fullUrl": "urn:uuid:1", "resource": PATIENT}
    bundle.write_text(json.dumps({"resourceType": "Bundle", "type": "collection", "entry": [entry]}))
    built, _ = build(bundle)
    assert imported_file(built).path == built


@pytest.mark.parametrize(
    "text", ["{", '{"resourceType": "Nothing", "id": "a"}\n', "[1]\n", '{"resourceType": "Patient"}\n']
)
def test_what_is_no_resource_is_named_and_nothing_is_kept(ndjson: Path, text: str) -> None:
    ndjson.write_text(text)
    with pytest.raises(UserError):
        build(ndjson)
    assert list((ndjson.parent / "home").rglob("*.sqlite*")) == []
