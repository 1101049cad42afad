"""Import of NDJSON: what is kept, what is refused, and the same bytes whenever it is done again."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Server
from fhir_server.errors import ServerError
from fhir_server.load import ALONE
from fhir_server.marks import SeededMarks


def patient(resource_id: str, **more: Any) -> str:
    return json.dumps({"resourceType": "Patient", "id": resource_id, **more})


def loaded(lines: list[str], seed: str | None = None) -> list[str]:
    marks = None if seed is None else SeededMarks(seed, datetime(2023, 11, 13, 10, 15, tzinfo=UTC))
    with Server.open(None) as server:
        assert server.load(lines, marks=marks) == len(lines)
        return list(server.export("Patient"))


def test_the_same_marks_give_the_same_bytes() -> None:
    lines = [patient("a"), patient("b", active=True)]
    assert loaded(lines, "x") == loaded(lines, "x")
    assert loaded(lines, "x") != loaded(lines, "y")
    assert json.loads(loaded(lines, "x")[0])["meta"]["lastUpdated"] == "2023-11-13T10:15:00.000+00:00"


def test_workers_give_what_one_process_gives() -> None:
    lines = [patient(f"p{number}", active=number % 2 == 0) for number in range(ALONE + 700)]
    found = loaded(lines, "x")
    assert [json.loads(line)["id"] for line in found] == [f"p{number}" for number in range(ALONE + 700)]
    assert found[:5] + found[-5:] == loaded(lines[:5] + lines[-5:], "x")


@pytest.mark.parametrize(
    ("given", "kept"),
    [
        ("2015-02-07T13:28:17.239+02:00", "2015-02-07T11:28:17.239+00:00"),
        ("2015-02-07T13:28:17.2399999Z", "2015-02-07T13:28:17.239+00:00"),
        ("2015-02-07T13:28:60Z", "2015-02-07T13:29:00.000+00:00"),
        ("0301-02-07T13:28:17Z", "0301-02-07T13:28:17.000+00:00"),
    ],
)
def test_time_and_source_are_kept(given: str, kept: str) -> None:
    meta = json.loads(loaded([patient("a", meta={"lastUpdated": given, "source": "http://x#y"})])[0])["meta"]
    assert meta == {"versionId": "1", "lastUpdated": kept, "source": "http://x#y"}


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        (json.dumps({"resourceType": "Patient"}), "a Patient without an id"),
        (patient("../x"), "an id that FHIR does not allow: ../x"),
        (patient("x" * 65), "an id that FHIR does not allow"),
        (patient("①"), "an id that FHIR does not allow"),
        (patient("a", meta={"lastUpdated": "0001-01-01T00:00:00+14:00"}), "meta.lastUpdated lies outside the years"),
        (patient("a", meta={"lastUpdated": "2015-02-07"}), "HAPI-1821"),
        (patient("a", birthDate="yesterday"), "HAPI-1821"),
        ('{"resourceType":"Nope","id":"a"}', "HAPI-1684"),
        ("[" * 200_000, "HAPI-1861"),
        (b"\xff", "not UTF-8"),
        ("null", "HAPI-1861"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_a_refused_line_is_named_and_the_others_are_taken(line: str | bytes, reason: str) -> None:
    with Server.open(None) as server:
        reasons: dict[int, str] = {}
        assert server.load([patient("a"), "", line, patient("b")], refused=reasons.__setitem__) == 2
        assert list(reasons) == [3]
        assert reason in reasons[3]
        with pytest.raises(ServerError, match=r"^line 2: "):
            server.load([patient("c"), line])


def test_an_id_again_is_the_next_version() -> None:
    with Server.open(None) as server:
        server.load([patient("a", active=True), patient("a", active=False)])
        assert server.handle(Request("GET", "/fhir/Patient/a")).header("etag") == 'W/"2"'
        assert json.loads(server.handle(Request("GET", "/fhir/Patient?active=true")).text)["total"] == 0


def test_the_counter_stands_above_ids_of_digits() -> None:
    with Server.open(None) as server:
        server.load([patient("41"), patient("a"), patient("9" * 64)])
        body = b'{"resourceType":"Patient"}'
        created = server.handle(Request("POST", "/fhir/Patient", [("Content-Type", "application/json")], body))
        assert json.loads(created.text)["id"] == "42"
