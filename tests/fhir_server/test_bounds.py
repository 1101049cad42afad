"""Requests with bounds: what is over one is told so, and leaves an overlay as if it had not been asked."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from time import process_time
from typing import Any

import httpx
import pytest

from fhir_server import Overlay, Request, Response, Server
from fhir_server.app import create_app
from fhir_server.bounds import Bounds, Meter, OverBoundsError, UnfinishedError
from tests.fhir_server.ward import JSON, said, seen, send

NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
NEGATED = "Observation?" + "&".join(f"code:not=X{n}" for n in range(40)) + "&_total=accurate"
"""Half a million steps over the observations below."""


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with Server.open(None) as server:
        people = [{"resourceType": "Patient", "id": "p1"}]
        notes = [{**seen("Patient/p1"), "id": f"o{n}", "code": {"text": "x" * 100}} for n in range(1000)]
        server.load(json.dumps(resource) for resource in [*people, *notes])
        yield server


def ask(overlay: Overlay, target: str, body: Any = None, meter: Meter | None = None) -> Response:
    content = b"" if body is None else json.dumps(body).encode()
    return overlay.handle(Request("GET" if body is None else "POST", f"/fhir/{target}", JSON, content), meter)


def batch(*targets: str, kind: str = "batch") -> dict[str, Any]:
    reads = [{"request": {"method": "GET", "url": target}} for target in targets]
    create = {"request": {"method": "POST", "url": "Observation"}, "resource": seen("Patient/p1")}
    return {"resourceType": "Bundle", "type": kind, "entry": [create, *reads]}


@pytest.mark.parametrize(
    ("target", "body", "bounds", "words"),
    [
        ("Observation?_count=100000000", None, Bounds(reply=100_000), "the answer is over 0.1 MB; ask for less"),
        ("Observation?_count=1000&_elements=id", None, Bounds(read=100_000), "made of more than 100,000 characters"),
        ("Observation?_include=*&_count=1000", None, Bounds(read=250_000), "made of more than 250,000 characters"),
        ("Observation/_history?_count=1000", None, Bounds(reply=100_000), "the answer is over 0.1 MB"),
        (NEGATED, None, Bounds(steps=300_000), "the search takes more than 300,000 steps of the database"),
        ("", batch(*["Observation/o1"] * 5), Bounds(entries=5), "a Bundle may have at most 5 entries, not 6"),
        ("", batch(*["Observation?_count=500"] * 5), Bounds(reply=1_000_000), "the answer is over 1 MB"),
        ("", batch(*["Observation/o1"] * 50), Bounds(reply=20_000), "the answer is over 0.02 MB"),
        ("", batch(*[NEGATED] * 2), Bounds(steps=600_000), "the search takes more than 600,000 steps"),
        ("", batch(*[NEGATED] * 2, kind="transaction"), Bounds(steps=600_000), "the search takes more than"),
    ],
)
def test_what_is_over_a_bound_is_told_so_and_changes_nothing(
    server: Server, target: str, body: Any, bounds: Bounds, words: str
) -> None:
    with server.overlay("a", NOW) as asked, server.overlay("a", NOW) as spared:
        for overlay in (asked, spared):
            assert ask(overlay, "Observation", seen("Patient/p1")).status == 201  # lives through an interruption
        for _ in range(2):
            with pytest.raises(OverBoundsError, match=words):
                ask(asked, target, body, Meter(bounds))
        after = [
            ask(overlay, "Observation?_sort=-_lastUpdated&_count=3", None, Meter(Bounds()))
            for overlay in (asked, spared)
        ]
        assert after[0].body == after[1].body
        made = [ask(overlay, "Observation", seen("Patient/p1"), Meter(Bounds())) for overlay in (asked, spared)]
        assert made[0].body == made[1].body
        assert len(asked.created()) == 2


def test_the_first_page_of_everything_reads_only_its_part(server: Server) -> None:
    with server.overlay("a", NOW) as overlay:
        first = ask(overlay, "Patient/p1/$everything", None, Meter(Bounds(read=60_000)))
        bundle = json.loads(first.text)
        assert len(bundle["entry"]) == 20
        listed: list[str] = []
        while True:
            listed += [entry["fullUrl"].rpartition("/")[2] for entry in bundle["entry"]]
            following = [link["url"] for link in bundle["link"] if link["relation"] == "next"]
            if not following:
                break
            bundle = json.loads(ask(overlay, f"?{following[0].partition('?')[2]}").text)
        assert listed == ["p1", *(f"o{n}" for n in range(1000))]


@pytest.mark.parametrize("condition", ["status=final", "status=final,amended", "status=final&_id=p1"])
def test_a_reverse_chain_reads_each_reference_once(server: Server, condition: str) -> None:
    """Not once for each other reference."""
    with server.overlay("a", NOW) as overlay:
        answer = ask(overlay, f"Patient?_has:Observation:patient:{condition}", None, Meter(Bounds(steps=300_000)))
        assert [entry["fullUrl"].rpartition("/")[2] for entry in json.loads(answer.text)["entry"]] == ["p1"]


def test_a_request_within_its_bounds_is_answered_as_without(server: Server) -> None:
    with server.overlay("a", NOW) as asked, server.overlay("a", NOW) as plain:
        for target, body in ((NEGATED, None), ("Observation?_count=50", None), ("", batch("Observation?code=x"))):
            assert ask(asked, target, body, Meter(Bounds())).body == ask(plain, target, body).body


@pytest.mark.parametrize("target", [NEGATED, "Observation?_count=1000", "Observation/_history?_count=1000"])
def test_a_request_that_is_not_finished_in_its_time_can_be_asked_again(server: Server, target: str) -> None:
    with server.overlay("a", NOW) as asked, server.overlay("a", NOW) as plain:
        for _ in range(2):
            with pytest.raises(UnfinishedError):
                ask(asked, target, None, Meter(Bounds(), 0.0))
        assert ask(asked, target, None, Meter(Bounds())).body == ask(plain, target).body
        stopped = Meter(Bounds())
        stopped.stop()
        with pytest.raises(UnfinishedError):
            ask(asked, target, None, stopped)


def test_a_batch_that_writes_is_not_half_done_when_it_is_stopped(server: Server) -> None:
    with server.overlay("a", NOW) as overlay:
        with pytest.raises(UnfinishedError):
            ask(overlay, "", batch("Observation/o1"), Meter(Bounds(), 0.0))
        assert overlay.created() == []


def test_more_values_than_sqlite_takes_is_the_requests_fault(server: Server) -> None:
    query = "&".join("_id=" + ",".join(f"{n}x{m}" for m in range(10_000)) for n in range(26))
    status, words = said(server.handle(Request("GET", f"/fhir/Observation?{query}")))
    assert (status, words) == (400, "The request cannot be answered: too many SQL variables")


DOUBLED = "Patient.id" + ".select($this & $this)" * 24
"""A text of 33 million characters."""
REPLACED = "Patient.id" + ".replaceMatches('.', '01234567')" * 12
NESTED = "%resource.descendants().where(" * 3 + "$this.exists()" + ").exists()" * 3


@pytest.mark.parametrize(
    ("expression", "words"),
    [
        (DOUBLED, "too many steps"),
        (REPLACED, "too many steps"),
        (f"Patient.name.skip({'9' * 100_000})", "at most"),
        (f"Patient.name.skip({'9' * 41})", "a number may have at most 40 digits"),
        ("Patient.name.skip(9999999999)", "at most 1000000000"),
        (f"Patient.name.where({NESTED})", "too many steps"),
    ],
)
def test_an_expression_takes_no_more_memory_and_time_than_its_budget(expression: str, words: str) -> None:
    name = {"family": "x" * 9, "given": ["y"] * 40}
    person = {"resourceType": "Patient", "id": "p1", "name": [name] * 40}
    parts = [{"name": "type", "valueCode": "delete"}, {"name": "path", "valueString": expression}]
    patch = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}]}
    with Server.open(None) as server:
        assert send(server, "PUT", "Patient/p1", person).status == 201
        start = process_time()
        status, text = said(send(server, "PATCH", "Patient/p1", patch))
        assert (status, words in text) == (400, True), text[-300:]
        parameter = {"resourceType": "SearchParameter", "status": "active", "code": "own", "base": ["Patient"]}
        parameter |= {
            "type": "string",
            "url": "http://x/own",
            "name": "own",
            "description": "d",
            "expression": expression,
        }
        if words == "too many steps":
            assert send(server, "POST", "SearchParameter", parameter).status == 400
        assert process_time() - start < 5


def test_all_operations_and_resources_of_a_request_share_one_budget() -> None:
    path = "Patient.name.where(%resource.descendants().count() = 0)"
    parts = [{"name": "type", "valueCode": "delete"}, {"name": "path", "valueString": path}]
    patch = {"resourceType": "Parameters", "parameter": [{"name": "operation", "part": parts}] * 50}
    with Server.open(None) as server:
        person = {"resourceType": "Patient", "id": "p1", "name": [{"family": "x", "given": ["y"]}] * 80}
        assert send(server, "PUT", "Patient/p1", person).status == 201
        single = {**patch, "parameter": patch["parameter"][:1]}
        assert send(server, "PATCH", "Patient/p1", single).status == 200
        status, text = said(send(server, "PATCH", "Patient/p1", patch))
        assert (status, "too many steps" in text) == (400, True)


def test_a_batch_on_a_port_builds_no_more_than_the_largest_answer(server: Server) -> None:
    reads = [{"request": {"method": "GET", "url": "Observation?_count=1000"}}] * 1000
    create = {"request": {"method": "POST", "url": "Observation"}, "resource": {**seen("Patient/p1"), "id": "new"}}
    before = _total(server)

    async def ask_app() -> httpx.Response:
        transport = httpx.ASGITransport(create_app(server))
        async with httpx.AsyncClient(transport=transport, base_url="http://localhost:8080") as client:
            body = {"resourceType": "Bundle", "type": "batch", "entry": [create, *reads]}
            return await client.post("/fhir", json=body, headers=dict(JSON))

    reply = asyncio.run(ask_app())
    assert reply.status_code == 413
    assert "the answer is over 100 MB" in reply.json()["issue"][0]["diagnostics"]
    assert _total(server) == before


def _total(server: Server) -> Any:
    return json.loads(server.handle(Request("GET", "/fhir/Observation?_summary=count")).text)["total"]
