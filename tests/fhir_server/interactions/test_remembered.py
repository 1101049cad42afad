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
from fhir_server.interactions import _remembered as remembered
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
    with ward() as other:  # where nothing was asked before
        for number in range(2):
            for _ in range(3):
                shown(server, search)
            for one in (server, other):
                send(one, "PUT", f"Observation/more{number}", seen("Patient/p7") | {"id": f"more{number}"})
        answers = {re.sub(rb"#\w{16}", b"<>", shown(one, search)) for one in (server, other)}
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
    with Server.open(tmp_path / "x.sqlite") as one, Server.open(tmp_path / "x.sqlite") as two:
        for number in range(3):
            send(one, "PUT", f"Patient/q{number}", {"resourceType": "Patient", "id": f"q{number}"})
            assert [len(found(two, "Patient?_count=50")) for _ in range(3)] == [number + 1] * 3


def test_what_is_asked_once_is_not_kept_and_what_is_kept_is_bounded(
    server: Server, monkeypatch: pytest.MonkeyPatch
) -> None:
    known = server.context.remembered
    asked = [f"Observation?patient=p{number}&_count=1{number}" for number in range(9)]
    for search in asked:
        shown(server, search)
    assert not known._known
    before = [shown(server, search) for search in asked]
    assert len(known._known) == 9
    for name, most in (("MAX_CACHED", 4), ("MAX_SENT_ONCE", 4), ("MAX_BYTES", 3000)):
        monkeypatch.setattr(remembered, name, most)
        for _ in range(3):
            assert [shown(server, search) for search in asked] == before
        assert len(known._known) <= 9
        monkeypatch.undo()
    assert known._bytes <= 3000 or len(known._known) <= 4
