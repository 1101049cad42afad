"""Import and export of NDJSON: ids, the counter, refused lines, what is there already."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhir_server import Request, Server
from fhir_server.clock import SteppingClock
from fhir_server.errors import ServerError
from fhir_server.load.importer import CHUNK

JSON = [("Content-Type", "application/fhir+json")]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None) as server:
        yield server


def patient(patient_id: str, /, **more: object) -> str:
    return json.dumps({"resourceType": "Patient", "id": patient_id, **more})


def next_id(server: Server) -> str:
    answer = server.handle(Request("POST", "/fhir/Patient", JSON, b'{"resourceType":"Patient"}'))
    return json.loads(answer.text)["id"]


def read(server: Server, target: str) -> dict:
    return json.loads(server.handle(Request("GET", f"/fhir/{target}")).text)


def test_the_counter_stands_above_the_number_of_resources(server: Server) -> None:
    assert server.load([patient("a"), patient("b")]) == 2
    assert next_id(server) == "3"


def test_the_counter_stands_above_the_greatest_number(server: Server) -> None:
    assert server.load([patient("1000"), patient("b"), patient("007")]) == 3
    assert read(server, "Patient/1000")["id"] == "1000"
    assert next_id(server) == "1001"


def test_the_counter_survives_reopening(tmp_path: Path) -> None:
    path = tmp_path / "store.sqlite"
    with Server.open(path) as server:
        server.load([patient("41")])
    with Server.open(path) as server:
        assert next_id(server) == "42"


def test_an_element_without_content_is_not_stored(server: Server) -> None:
    """As for a resource that a client sends."""
    empty = {"extension": [{"url": "http://e", "extension": [{"url": "u"}]}]}
    body = patient("a", identifier=[empty, {"value": "{ }"}, empty], maritalStatus=empty, active=True)
    server.load([body])
    imported = read(server, "Patient/a")
    assert list(imported) == ["resourceType", "id", "meta", "identifier", "active"]
    assert imported["identifier"] == [{"value": "{ }"}]
    server.handle(Request("PUT", "/fhir/Patient/a", JSON, body.encode()))
    assert read(server, "Patient/a") | {"meta": {}} == imported | {"meta": {}}


def test_lines_of_any_kind(server: Server) -> None:
    lines: list[str | bytes] = [patient("a"), patient("b").encode() + b"\n", "", b"  \n", patient("c") + "\r\n"]
    assert server.load(lines) == 3
    assert server.stats() == {"Patient": 3}


BAD = [
    ("{", "HAPI-1861"),
    ("{}", "HAPI-1838"),
    ('{"resourceType":"Foo","id":"x"}', "Foo"),
    ('{"resourceType":"Patient"}', "id"),
    (b'{"resourceType":"Patient","id":"x","gender":"\xff"}', "UTF-8"),
    ('{"resourceType":"Patient","id":"x","gender":"\ud800"}', "UTF-8"),
    ('{"resourceType":"Patient","id":"x","gender":"banana"}', "banana"),
]


@pytest.mark.parametrize(("line", "reason"), BAD, ids=range(len(BAD)))
def test_a_bad_line_is_named(server: Server, line: str | bytes, reason: str) -> None:
    with pytest.raises(ServerError, match="line 2") as error:
        server.load([patient("a"), line])
    assert reason in str(error.value)
    refused: list[tuple[int, str]] = []
    taken = server.load([patient("c"), line, patient("d")], refused=lambda *found: refused.append(found))
    assert taken == 2
    assert [number for number, _ in refused] == [2]


def test_what_is_there_becomes_history(server: Server) -> None:
    clock = SteppingClock(datetime(2023, 11, 13, tzinfo=UTC))  # both loads in one millisecond would be a tie
    server.load([patient("a", gender="male"), patient("b")], clock=clock)
    server.load([patient("a", gender="female"), patient("a", gender="other")], clock=clock)
    assert read(server, "Patient/a")["meta"]["versionId"] == "3"
    assert read(server, "Patient/a/_history")["total"] == 3
    assert read(server, "Patient?gender=male")["total"] == 0
    assert [entry["resource"]["id"] for entry in read(server, "Patient")["entry"]] == ["b", "a"]


def test_meta_is_kept_where_given(server: Server) -> None:
    meta = {"versionId": "7", "lastUpdated": "2020-01-02T03:04:05.678+00:00", "source": "#abc", "tag": [{"code": "t"}]}
    server.load([patient("a", meta=meta)])
    assert read(server, "Patient/a")["meta"] == meta | {"versionId": "1"}
    assert read(server, "Patient?_tag=t")["total"] == 1
    assert read(server, "Patient?_lastUpdated=lt2021")["total"] == 1


def test_references_may_point_forward(server: Server) -> None:
    observation = {"resourceType": "Observation", "id": "o", "subject": {"reference": "Patient/later"}}
    server.load([json.dumps(observation), patient("later")])
    assert read(server, "Observation?patient=later")["total"] == 1
    assert read(server, "Observation?subject:Patient._id=later")["total"] == 1


def test_a_large_import(server: Server) -> None:
    count = CHUNK + 1200
    lines = [patient(f"p{number}", birthDate=f"{1900 + number % 100}") for number in range(count)]
    refused: list[int] = []
    lines[CHUNK + 700] = "{"
    taken = server.load(lines, refused=lambda number, _: refused.append(number))
    assert (taken, refused) == (count - 1, [CHUNK + 701])
    assert [json.loads(line)["id"] for line in server.export("Patient")][-1] == f"p{count - 1}"
    assert read(server, "Patient?birthdate=1950&_summary=count")["total"] == len(range(50, count, 100))


def test_export_gives_back_what_came(server: Server) -> None:
    server.load([patient("a", name=[{"family": "Å", "given": ["a\nb"]}]), patient("b", multipleBirthInteger=2)])
    exported = [json.loads(line) for line in server.export("Patient")]
    assert [line.count("\n") for line in server.export("Patient")] == [0, 0]
    assert exported[0]["name"] == [{"family": "Å", "given": ["a\nb"]}]
    with Server.open(None) as restored:
        assert restored.load(server.export("Patient")) == 2
        assert list(restored.export("Patient")) == list(server.export("Patient"))
