"""What is written together is found together, and what fails leaves nothing and is no hindrance."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.store.store import RESOURCES_AT_ONCE

JSON = [("Content-Type", "application/fhir+json")]


@pytest.fixture
def server(tmp_path: Path) -> Iterator[Server]:
    with Server.open(tmp_path / "store.sqlite") as server:
        yield server


def note(code: str, status: str = "final") -> dict[str, Any]:
    return {"resourceType": "Observation", "status": status, "code": {"coding": [{"code": code}]}}


def post(server: Server, resource: dict[str, Any], path: str = "/Observation") -> Response:
    return server.handle(Request("POST", f"/fhir{path}", JSON, json.dumps(resource).encode()))


def bundle(kind: str, resources: list[dict[str, Any]]) -> dict[str, Any]:
    entries = [
        {"resource": resource, "request": {"method": "POST", "url": resource["resourceType"]}} for resource in resources
    ]
    return {"resourceType": "Bundle", "type": kind, "entry": entries}


def total(server: Server, query: str) -> int:
    answer = server.handle(Request("GET", f"/fhir/Observation?{query}&_summary=count"))
    return int(json.loads(answer.text)["total"])


@pytest.mark.parametrize("count", [RESOURCES_AT_ONCE - 1, RESOURCES_AT_ONCE, RESOURCES_AT_ONCE + 1, 230])
def test_a_long_transaction_is_indexed_and_counted(server: Server, count: int) -> None:
    assert post(server, bundle("transaction", [note(f"c{number % 7}") for number in range(count)]), "").status == 200
    assert [total(server, f"code=c{number}") for number in range(7)] == [
        len(range(number, count, 7)) for number in range(7)
    ]
    assert server.stats() == {"Observation": count}
    assert post(server, note("x")).status == 201
    assert server.stats() == {"Observation": count + 1}


def test_an_entry_sees_what_stands_before_it(server: Server) -> None:
    transaction = bundle("transaction", [note("x")])
    get = {"request": {"method": "GET", "url": "Observation?code=x&_summary=count"}}
    answer = post(server, {**transaction, "entry": [get, *transaction["entry"]]}, "")
    assert json.loads(answer.text)["entry"][0]["resource"]["total"] == 1


def test_what_fails_in_a_batch_leaves_the_rest(server: Server) -> None:
    lost = {"resourceType": "Observation", "status": "final", "code": {}, "subject": {"reference": "Patient/none"}}
    answer = post(server, bundle("batch", [note("a"), lost, note("b")]), "")
    found = [entry["response"]["status"][:3] for entry in json.loads(answer.text)["entry"]]
    assert found == ["201", "400", "201"]
    assert [total(server, "code=a"), total(server, "code=b"), server.stats()] == [1, 1, {"Observation": 2}]


def test_a_failed_transaction_leaves_nothing_but_its_numbers(server: Server) -> None:
    lost = {**note("a"), "subject": {"reference": "Patient/none"}}
    assert post(server, bundle("transaction", [note("a"), lost]), "").status == 400
    assert (total(server, "code=a"), server.stats()) == (0, {})
    assert json.loads(post(server, note("a")).text)["id"] == "3"


def test_a_full_disk_is_no_hindrance_later(server: Server) -> None:
    pages = server.store.connection.execute("PRAGMA page_count").fetchone()[0]
    server.store.connection.execute(f"PRAGMA max_page_count = {pages}")
    assert post(server, {**note("a"), "note": [{"text": "x" * 100_000}]}).status == 503
    server.store.connection.execute("PRAGMA max_page_count = 1000000")
    assert post(server, note("a")).status == 201
    assert (total(server, "code=a"), server.stats()) == (1, {"Observation": 1})


def test_parameters_that_a_file_lacks_are_numbered(tmp_path: Path) -> None:
    file = tmp_path / "store.sqlite"
    with Server.open(file) as server:
        server.store.connection.execute("DELETE FROM params WHERE type = 'Observation' AND name = 'code'")
    with Server.open(file) as server:
        assert post(server, note("a")).status == 201
        assert total(server, "code=a") == 1


def test_durable_waits_for_the_disk(tmp_path: Path) -> None:
    """SQLite numbers `synchronous`: 1 is NORMAL, 2 is FULL. An import turns it off meanwhile."""
    for durable, expected in ((False, 1), (True, 2)):
        with Server.open(tmp_path / f"{durable}.sqlite", durable=durable) as server:
            server.load(['{"resourceType": "Patient", "id": "a"}'])
            assert server.store.query("PRAGMA synchronous").fetchone()[0] == expected
            assert server.settings["durable"] is durable
