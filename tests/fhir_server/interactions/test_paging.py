"""A server's own page size and shuffled order: searches, `$everything`, `$lastn` and history."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.search.paging import Paging

NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
BASE = "/fhir"
SEARCHES = ("Observation?patient=p1", "Observation?subject=Patient/p1&code=GLU", "Patient/p1/$everything")
READS = (*SEARCHES, "Observation/$lastn?patient=p1&max=40", "Observation/_history")


def lines() -> Iterator[str]:
    """Two patients with 40 readings each, all stored at the same time."""
    for patient in ("p1", "p2"):
        yield json.dumps({"resourceType": "Patient", "id": patient})
        for number in range(40):
            yield json.dumps(reading(patient, f"{patient}-{number}", number))


def reading(patient: str, name: str, value: int) -> dict[str, Any]:
    return {
        "resourceType": "Observation",
        "id": name,
        "status": "final",
        "meta": {"lastUpdated": "2023-11-01T00:00:00.000+00:00"},
        "code": {"coding": [{"code": "GLU"}], "text": "GLU"},
        "subject": {"reference": f"Patient/{patient}"},
        "effectiveDateTime": f"2023-10-{1 + value % 28:02d}T00:{value:02d}:00+00:00",
        "valueQuantity": {"value": value},
    }


def opened(paging: Paging) -> Server:
    server = Server.open(None, paging=paging)
    server.load(lines())
    return server


@pytest.fixture(scope="module")
def servers() -> Iterator[dict[str, Server]]:
    made = {
        "plain": opened(Paging()),
        "small": opened(Paging(7)),
        "shuffled": opened(Paging(shuffled=True)),
        "again": opened(Paging(5, shuffled=True)),
    }
    yield made
    for server in made.values():
        server.close()


def get(server: Any, target: str) -> Response:
    response: Response = server.handle(Request("GET", f"{BASE}/{target}" if target[0] != "?" else f"{BASE}{target}"))
    assert response.status == 200, response.body
    return response


def put(server: Any, resource: dict[str, Any]) -> Response:
    target, headers = f"{BASE}/Observation/{resource['id']}", (("Content-Type", "application/fhir+json"),)
    response: Response = server.handle(Request("PUT", target, headers, json.dumps(resource).encode()))
    return response


def names(response: Response) -> list[str]:
    entries = json.loads(response.body).get("entry", [])
    return [f"{entry['resource']['resourceType']}/{entry['resource']['id']}" for entry in entries]


def all_names(server: Any, target: str) -> list[str]:
    """The results of all pages."""
    results: list[str] = []
    while target:
        response = get(server, target)
        results += names(response)
        links = {link["relation"]: link["url"] for link in json.loads(response.body)["link"]}
        target = links.get("next", "").partition(BASE)[2].removeprefix("/")
    return results


@pytest.mark.parametrize("target", READS)
def test_a_page_has_the_size_of_the_server_unless_the_request_states_one(
    servers: dict[str, Server], target: str
) -> None:
    assert len(names(get(servers["plain"], target))) == 20
    assert len(names(get(servers["small"], target))) == 7
    more = "&" if "?" in target else "?"
    assert len(names(get(servers["small"], f"{target}{more}_count=11"))) == 11


@pytest.mark.parametrize("target", SEARCHES)
def test_pages_together_are_the_whole_result(servers: dict[str, Server], target: str) -> None:
    plain, small, again = (all_names(servers[name], target) for name in ("plain", "small", "again"))
    assert small == plain
    assert sorted(again) == sorted(plain)
    assert len(set(again)) == len(again)


@pytest.mark.parametrize("target", READS)
def test_a_shuffled_order_is_the_same_each_time_and_for_each_page_size(servers: dict[str, Server], target: str) -> None:
    order = all_names(servers["shuffled"], target)
    assert order == all_names(servers["again"], target)
    assert order != all_names(servers["plain"], target)
    assert sorted(order) == sorted(all_names(servers["plain"], target))


def test_each_search_and_each_patient_has_an_order_of_its_own(servers: dict[str, Server]) -> None:
    server = servers["shuffled"]
    orders = [
        [name.rpartition("-")[2] for name in all_names(server, target)]
        for target in (
            "Observation?patient=p1",
            "Observation?patient=p2",
            "Observation?patient=p1&code=GLU",
        )
    ]
    assert orders[0] != orders[1] != orders[2] != orders[0]


@pytest.mark.parametrize("more", ["_count=40", "_summary=data", "_elements=code", "_total=accurate", "_format=json"])
def test_the_form_of_a_reply_does_not_change_the_order(servers: dict[str, Server], more: str) -> None:
    server = servers["shuffled"]
    assert all_names(server, f"Observation?patient=p1&{more}") == all_names(server, "Observation?patient=p1")


@pytest.mark.parametrize("sort", ["_sort=date", "_sort=-date"])
def test_a_sorted_search_stays_sorted(servers: dict[str, Server], sort: str) -> None:
    target = f"Observation?patient=p1&{sort}"
    assert all_names(servers["shuffled"], target) == all_names(servers["plain"], target)


def test_the_history_of_a_resource_stays_newest_first(servers: dict[str, Server]) -> None:
    with servers["shuffled"].overlay("a", NOW) as overlay:
        for value in (101, 102, 103):
            assert put(overlay, reading("p1", "p1-3", value) | {"effectiveDateTime": "2023-10-01"}).status == 200
        entries = json.loads(get(overlay, "Observation/p1-3/_history").body)["entry"]
    assert [entry["resource"]["meta"]["versionId"] for entry in entries] == ["4", "3", "2", "1"]


@pytest.mark.parametrize("target", SEARCHES)
def test_both_charts_of_a_pair_have_one_order(servers: dict[str, Server], target: str) -> None:
    """A changed, an added and a removed resource move no other."""
    server = servers["shuffled"]
    amendment = [reading("p1", "p1-3", 39), "Observation/p1-9"]
    with server.overlay("first", NOW) as before, server.overlay("second", NOW, amendment) as after:
        assert put(after, reading("p1", "new", 7)).status == 201
        old, new = all_names(before, target), all_names(after, target)
    assert [name for name in new if name != "Observation/new"] == [name for name in old if name != "Observation/p1-9"]
