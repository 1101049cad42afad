"""An overlay over amended data answers like one over data that have always been so."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Server
from fhir_server.clock import SteppingClock
from fhir_server.errors import ServerError
from fhir_server.ids import IdSource
from fhir_server.server import Overlay

NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
PATIENT = {"resourceType": "Patient", "id": "p1", "birthDate": "1950-01-01"}


def reading(name: str, value: str, day: int, patient: str = "p1") -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": name,
        "meta": {"lastUpdated": f"2023-11-{day + 1:02d}T00:00:00.000+00:00"},
        "status": "final",
        "code": {"coding": [{"system": "http://loinc.org", "code": "K"}]},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": f"2023-11-{day:02d}T08:00:00+00:00",
        "valueQuantity": {"value": float(value), "unit": "mmol/L"},
    }


READINGS = [reading("a", "4.1", 3), reading("b", "3.3", 5), reading("c", "4.4", 7), reading("d", "5.1", 9)]
GETS = (
    "/Observation/b",
    "/Observation/b/_history",
    "/Observation/b/_history/1",
    "/Observation/b/_history/2",
    "/Observation?patient=p1&code=K",
    "/Observation?patient=p1&_sort=-date",
    "/Observation?_sort=_lastUpdated",
    "/Observation?_lastUpdated=ge2023-11-06&_lastUpdated=lt2023-11-07",
    "/Observation?value-quantity=lt3.5",
    "/Observation?date=ge2023-11-06",
    "/Observation?_summary=count",
    "/Observation/_history",
    "/_history",
    "/Patient/p1/$everything",
    "/Observation/$lastn?patient=p1",
)


@contextmanager
def overlay(resources: Sequence[Any], amendment: Sequence[Any] = ()) -> Iterator[Overlay]:
    with Server.open(None, "http://localhost/fhir") as server:
        lines = [json.dumps(resource).replace("4.4,", "4.40,") for resource in resources]
        server.load(lines, ids=IdSource("load"), clock=SteppingClock(NOW))
        with server.overlay("seed", NOW, amendment) as opened:
            yield opened


def get(opened: Overlay, target: str) -> tuple[int, str, list[tuple[str, str]]]:
    reply = opened.handle(Request("GET", f"/fhir{target}"))
    return reply.status, reply.body.decode(), list(reply.headers)


def send(opened: Overlay, method: str, target: str, body: Any = None) -> int:
    content = (("Content-Type", "application/fhir+json"),)
    text = json.dumps(body).encode() if body is not None else b""
    return opened.handle(Request(method, f"/fhir{target}", content, text)).status


CHANGES = {
    "value": reading("b", "3.9", 5),
    "time": reading("b", "3.3", 8),
    "patient": reading("b", "3.3", 5, "p2"),
}


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_resource_looks_as_if_it_had_always_been_so(name: str) -> None:
    changed = [CHANGES[name] if resource["id"] == "b" else resource for resource in READINGS]
    others = [PATIENT, {**PATIENT, "id": "p2"}]
    with overlay([*others, *READINGS], [CHANGES[name]]) as amended, overlay([*others, *changed]) as always:
        for target in GETS:
            assert get(amended, target) == get(always, target), target


def test_a_removed_resource_was_never_there() -> None:
    kept = [resource for resource in READINGS if resource["id"] != "b"]
    with overlay([PATIENT, *READINGS], ["Observation/b"]) as amended, overlay([PATIENT, *kept]) as always:
        for target in GETS:
            assert get(amended, target) == get(always, target), target
        assert get(amended, "/Observation/b")[0] == 404


def test_a_changed_value_keeps_its_decimals() -> None:
    with overlay([PATIENT, *READINGS], [reading("c", "3.2", 7)]) as amended:
        assert '"value": 3.20,' in get(amended, "/Observation/c")[1]


def test_later_writes_find_the_amended_data() -> None:
    amendment = [CHANGES["value"], "Observation/a"]
    with overlay([PATIENT, *READINGS], amendment) as amended:
        assert not [*amended.replaced(), *amended.created(), *amended.written(0)]
        assert send(amended, "PUT", "/Observation/b", reading("b", "4.8", 5)) == 200
        assert send(amended, "PUT", "/Observation/a", READINGS[0]) == 201
        assert send(amended, "DELETE", "/Observation/d") == 200
        (first, again, gone) = amended.replaced()
        assert '"value": 3.9' in str(first[2])
        assert '"value": 4.8' in str(first[3])
        assert again[2] is None
        assert gone[2] is not None
        assert gone[3] is None
        assert '"versionId": "2"' in get(amended, "/Observation/b")[1]


@pytest.mark.parametrize("entry", ["Observation/x", reading("x", "1.0", 1)])
def test_a_resource_that_is_not_in_the_data_cannot_be_amended(entry: Any) -> None:
    with Server.open(None, "http://localhost/fhir") as server:
        server.load([json.dumps(PATIENT)], ids=IdSource("load"), clock=SteppingClock(NOW))
        with pytest.raises(ServerError, match="Observation/x: is not in the data"):
            server.overlay("seed", NOW, [entry])
        assert len(server.pool.idle) == 1, "the refused overlay gave its connection back"
