"""A search that is asked again answers as it did the first time, and sees what was written since."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Request, Server
from fhir_server.server import Overlay
from tests.fhir_server.ward import JSON, found, seen, send, ward

CHANGES = re.compile(rb"[0-9a-f]{8}-[0-9a-f-]{27}|(?<=\"lastUpdated\": \").*?(?=\")")
SEARCHES = (
    "Observation?patient=p7&code:missing=true",
    "Observation?patient=p7",
    "Observation?patient=p7&_count=1",
    "Observation?patient=p7&_include=Observation:patient",
    "Observation?patient=p7&_elements=status",
    "Observation?patient=p7&_total=accurate&_count=1",
    "Observation?_summary=count",
    "Observation?_count=1",
    "Observation?_sort=-date",
    "Patient?identifier=X&_revinclude=Observation:patient",
    "Patient?_id=nobody",
)


@pytest.fixture
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


def shown(server: Server | Overlay, target: str, method: str = "GET", **more: Any) -> bytes:
    """The answer but for times and ids."""
    answer = server.handle(Request(method, f"/fhir/{target}", **more))
    assert answer.status == 200
    return CHANGES.sub(b"<>", answer.body)


@pytest.mark.parametrize("search", SEARCHES)
def test_it_answers_the_same_again(server: Server, search: str) -> None:
    answers = {shown(server, search) for _ in range(4)}
    assert len(answers) == 1
    bundles = [server.handle(Request("GET", f"/fhir/{search}")).body for _ in range(2)]
    assert bundles[0] != bundles[1]  # each has an id of its own


@pytest.mark.parametrize("search", SEARCHES)
def test_it_sees_what_was_written(server: Server, search: str) -> None:
    with ward() as fresh:  # where nothing was asked before
        for number in range(2):
            for _ in range(3):
                shown(server, search)
            for instance in (server, fresh):
                send(instance, "PUT", f"Observation/more{number}", seen("Patient/p7") | {"id": f"more{number}"})
        answers = {re.sub(rb"#\w{16}", b"<>", shown(instance, search)) for instance in (server, fresh)}
        assert len(answers) == 1


def test_each_address_has_its_own_links(server: Server) -> None:
    form = {"headers": [("Content-Type", "application/x-www-form-urlencoded")], "body": b"patient=p7"}
    asked: list[tuple[str, dict[str, Any], bytes]] = [
        ("Observation?patient=p7", {}, b"8080/fhir/Observation?patient=p7"),
        ("Observation?patient=p7", {"headers": [("Host", "elsewhere:1")]}, b"elsewhere:1/fhir/Observation?patient=p7"),
        ("Observation/_search?patient=p7", {}, b"8080/fhir/Observation/_search?patient=p7"),
        ("Observation/_search", {"method": "POST", **form}, b'8080/fhir/Observation/_search"'),
    ]
    for _ in range(3):
        for target, more, link in asked:
            assert link in shown(server, target, **more)


def test_an_overlay_and_its_base_see_their_own(server: Server) -> None:
    search = "Observation?patient=p7&_summary=count"

    def total(of: Server | Overlay) -> int:
        return int(re.findall(rb'"total": (\d+)', shown(of, search))[0])

    for _ in range(3):
        assert total(server) == 1
        with server.overlay("x", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
            assert [total(overlay) for _ in range(2)] == [1, 1]
            body = json.dumps(seen("Patient/p7")).encode()
            assert overlay.handle(Request("POST", "/fhir/Observation", JSON, body)).status == 201
            assert [total(overlay), total(server), total(overlay)] == [2, 1, 2]


def test_another_process_writes(tmp_path: Path) -> None:
    with Server.open(tmp_path / "x.sqlite") as writer, Server.open(tmp_path / "x.sqlite") as reader:
        for number in range(3):
            send(writer, "PUT", f"Patient/q{number}", {"resourceType": "Patient", "id": f"q{number}"})
            assert [len(found(reader, "Patient?_count=50")) for _ in range(3)] == [number + 1] * 3


def test_a_parameter_that_changes_is_planned_again(server: Server) -> None:
    assert found(server, "Patient?gender=male") == ["p8"]
    parameter = {
        "resourceType": "SearchParameter",
        "id": "own",
        "url": "http://x/own",
        "name": "own",
        "status": "active",
        "description": "x",
        "code": "gender",
        "base": ["Patient"],
        "type": "token",
        "expression": "Patient.identifier",
    }
    assert send(server, "PUT", "SearchParameter/own", parameter).status == 201
    assert (found(server, "Patient?gender=male"), found(server, "Patient?gender=8")) == ([], ["p8"])
