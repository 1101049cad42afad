"""`patient=P&code=C` has an index of its own: what it finds is what the other indexes find, whatever was written."""

from __future__ import annotations

import json
import sqlite3
from contextlib import closing, nullcontext
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Request, Server
from fhir_server.errors import ServerError
from fhir_server.server import Overlay

JSON = [("Content-Type", "application/fhir+json")]
NOW = datetime(2023, 11, 13, tzinfo=UTC)


def observation(name: str, patient: str, *codes: str) -> dict[str, Any]:
    coding = [{"system": system, "code": code} for code in codes for system in ("s", "t")]
    made = {"resourceType": "Observation", "id": name, "status": "final", "code": {"coding": coding}}
    return made | {"subject": {"reference": patient}, "effectiveDateTime": f"2023-05-{int(name[1:]) % 28 + 1:02}"}


OTHERS: list[dict[str, Any]] = [{"resourceType": "Patient", "id": f"p{number}"} for number in (0, 1, 2, 9)]
OTHERS += [{"resourceType": "Group", "id": "p1", "type": "person", "actual": True}]
OBSERVATIONS = [
    observation(f"o{number}", f"Patient/p{number % 3}" if number % 7 else "Group/p1", *"AB"[number % 2 :], "C")
    for number in range(40)
]
WARD = [*OTHERS, *OBSERVATIONS]


def found(server: Server | Overlay, query: str) -> list[str]:
    page = json.loads(server.handle(Request("GET", f"/fhir/Observation?_count=100&{query}")).text)
    return [entry["resource"]["id"] for entry in page.get("entry", ())]


def sent(server: Server | Overlay, method: str, path: str, body: dict[str, Any] | None = None) -> int:
    answer = server.handle(Request(method, f"/fhir/{path}", JSON, json.dumps(body).encode() if body else b""))
    assert answer.status in (200, 201), answer.text
    return answer.status


def agree(server: Server | Overlay) -> None:
    """What is found by both is what `subject`, which has no rows in that index, finds."""
    together = 0
    for patient in ("p0", "p1", "p2", "p9"):
        for code in ("A", "B", "C", "s|A", "t|C", "x|A"):
            for more in ("", "&_sort=-date", "&_sort=code", "&date=ge2023-05-10", "&code:not=B", "&_id=o2,o5,o8"):
                by_pair = found(server, f"patient={patient}&code={code}{more}")
                assert by_pair == found(server, f"subject=Patient/{patient}&code={code}{more}"), (patient, code, more)
                counted = server.handle(
                    Request("GET", f"/fhir/Observation?_summary=count&patient={patient}&code={code}{more}")
                )
                assert json.loads(counted.text)["total"] == len(by_pair)
                together += len(by_pair)
    assert together > 100
    assert found(server, "patient=Group/p1&code=A") == []


def changed(server: Server | Overlay) -> None:
    sent(server, "PUT", "Observation/o2", observation("o2", "Patient/p9", "A", "C"))
    sent(server, "PUT", "Observation/o5", observation("o5", "Patient/p0", "B"))
    sent(server, "DELETE", "Observation/o8")
    sent(server, "PUT", "Observation/o50", observation("o50", "Patient/p1", "A"))
    assert found(server, "patient=p9&code=A") == ["o2"]
    assert found(server, "patient=p1&code=A")[-1] == "o50"


@pytest.mark.parametrize("imported", [True, False])
def test_it_follows_what_is_written(imported: bool) -> None:
    with Server.open(None) as server:
        if imported:
            server.load(map(json.dumps, WARD))
        else:
            for resource in WARD:
                sent(server, "PUT", f"{resource['resourceType']}/{resource['id']}", resource)
        agree(server)
        with server.overlay("x", NOW) as overlay:
            changed(overlay)
            agree(overlay)
        agree(server)
        changed(server)
        agree(server)


@pytest.mark.parametrize("private", [False, True])
def test_a_parameter_that_clients_define_takes_the_place_of_one_half(private: bool) -> None:
    parameter: dict[str, Any] = {"resourceType": "SearchParameter", "id": "own", "url": "http://x/own", "name": "own"}
    parameter |= {
        "status": "active",
        "description": "d",
        "code": "patient",
        "base": ["Observation"],
        "type": "reference",
    }
    parameter |= {"expression": "Observation.performer", "target": ["Patient"]}
    with Server.open(None) as server:
        server.load(map(json.dumps, WARD))
        with server.overlay("x", NOW) if private else nullcontext(server) as instance:
            sent(instance, "PUT", "SearchParameter/own", parameter)
            assert found(instance, "patient=p1&code=A") == []
            performed = observation("o1", "Patient/p0", "A") | {"performer": [{"reference": "Patient/p1"}]}
            sent(instance, "PUT", "Observation/o1", performed)
            sent(instance, "DELETE", "Observation/o4")
            assert found(instance, "patient=p1&code=A") == ["o1"]
            sent(instance, "DELETE", "SearchParameter/own")
            agree(instance)
            assert "o4" not in found(instance, "patient=p1&code=A")


def test_a_file_of_an_earlier_format_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    Server.open(file).close()
    with closing(sqlite3.connect(file)) as connection:
        connection.execute("PRAGMA user_version = 3")
    with pytest.raises(ServerError, match="import the data again"):
        Server.open(file)
