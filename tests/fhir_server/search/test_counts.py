"""How many resources match: `_summary=count` and `_total=accurate`, over the file and over an overlay."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhir_server import Request, Server
from fhir_server.server import Overlay

JSON = [("Content-Type", "application/fhir+json")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.open(tmp_path / "store.sqlite") as server:
        server.load(json.dumps({"resourceType": "Patient", "id": f"p{number}"}) for number in range(5))
        yield server


def counts(server: Server | Overlay) -> list[int]:
    """The number of patients, as each way of asking gives it."""
    found = []
    for query in ("_summary=count", "_total=accurate&_count=2", "_sort=-_lastUpdated&_summary=count", "_count=1000"):
        answer = server.handle(Request("GET", f"/fhir/Patient?{query}"))
        found.append(json.loads(answer.text)["total"])
    return found


def send(server: Server | Overlay, method: str, path: str) -> None:
    body = json.dumps({"resourceType": "Patient", "id": path.partition("/")[2]} if method == "PUT" else {}).encode()
    assert server.handle(Request(method, f"/fhir/{path}", JSON, body)).status in (200, 201)


def test_what_is_deleted_and_put_again_is_counted_as_it_is(server: Server) -> None:
    assert counts(server) == [5] * 4
    send(server, "DELETE", "Patient/p1")
    send(server, "DELETE", "Patient/p2")
    assert counts(server) == [3] * 4
    with server.overlay("x", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
        send(overlay, "PUT", "Patient/p1")
        send(overlay, "DELETE", "Patient/p3")
        send(overlay, "PUT", "Patient/new")
        send(overlay, "PUT", "Patient/p4")
        assert counts(overlay) == [4] * 4
    assert counts(server) == [3] * 4
    send(server, "PUT", "Patient/p2")
    assert counts(server) == [4] * 4


def test_a_type_is_counted_without_its_rows(server: Server) -> None:
    """What stands in the table of counts is the answer, and it is what a count of the rows gives."""
    send(server, "DELETE", "Patient/p1")
    with closing(sqlite3.connect(server.store.path)) as connection:
        rows = "SELECT type, count(*) FROM resources WHERE text IS NOT NULL GROUP BY type"
        assert connection.execute("SELECT * FROM counts").fetchall() == connection.execute(rows).fetchall()
        connection.execute("UPDATE counts SET live = 1000")
        connection.commit()
    assert counts(server)[:3] == [1000] * 3


@pytest.mark.parametrize(("kind", "status", "added"), [("transaction", 400, 0), ("batch", 200, 1)])
def test_what_is_rolled_back_is_not_counted(server: Server, kind: str, status: int, added: int) -> None:
    refused = {"resource": {"resourceType": "Patient"}, "request": {"method": "PUT", "url": "Observation/x"}}
    posted = {"resource": {"resourceType": "Patient"}, "request": {"method": "POST", "url": "Patient"}}
    bundle = json.dumps({"resourceType": "Bundle", "type": kind, "entry": [posted, refused]}).encode()
    assert server.handle(Request("POST", "/fhir", JSON, bundle)).status == status
    assert counts(server) == [5 + added] * 4
