"""Each search has the same matches in the same order by every way that may be taken to them."""

from __future__ import annotations

import itertools
import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhir_server import Request, Server
from fhir_server.bounds import Bounds, Meter
from fhir_server.search import plan
from fhir_server.server import Overlay
from fhir_server.wire.json_values import Json

JSON = [("Content-Type", "application/fhir+json")]
TIMES: list[Json] = [
    {"effectiveDateTime": "2023-05"},
    {"effectiveDateTime": "2023-05-17"},
    {"effectiveDateTime": "2023-05-17T23:30:00-10:00"},
    {"effectiveDateTime": "2023-05-17T00:30:00+12:00"},
    {"effectivePeriod": {"start": "2022-12-30", "end": "2023-05-17"}},
    {"effectivePeriod": {"start": "2023-05-16"}},
    {"effectiveTiming": {"event": ["2023-05-18", "2023-01-01T10:00:00Z"]}},
    {},
]
SEARCHES = [
    *(f"date={prefix}2023-05-17" for prefix in ("", "ne", "gt", "ge", "sa", "lt", "le", "eb")),
    *(f"date={prefix}2023-05-17T10:00:00Z" for prefix in ("gt", "ge", "sa", "lt", "le", "eb")),
    "date=ge2023-05-16&date=le2023-05-17",
    "date=2023-05",
    *(f"_sort={sign}{name}" for sign in ("", "-") for name in ("date", "status,-date", "_lastUpdated")),
    "_sort=-date&status:not=final",
    "date=ge2023&_sort=-date",
]
CONDITIONS = ("", "code=A", "code=A&status=final", "patient=p1&code=A", "patient=p2&code=B")


def lines() -> Iterator[str]:
    for number in range(64):
        patient, code = ("p1", "A") if number < 40 else ("p2", "AB"[number % 3 == 0])
        yield json.dumps(
            {
                "resourceType": "Observation",
                "id": f"o{number}",
                "status": "final" if number % 5 else "amended",
                "code": {"coding": [{"system": "s", "code": code}, {"system": "t", "code": code}]},
                "subject": {"reference": f"Patient/{patient}"},
                **TIMES[number * 5 % len(TIMES)],
            }
        )
    for number, days in enumerate((["2023-03-01", "2023-01-01"], ["2023-02-01"], ["2023-02-02", "2022-01-01"])):
        targets = [{"measure": {"text": "x"}, "detailString": "y", "dueDate": day} for day in days]
        words = {"lifecycleStatus": "active", "description": {"text": "z"}, "subject": {"reference": "Patient/p1"}}
        yield json.dumps({"resourceType": "Goal", "id": f"g{number}", **words, "target": targets})


def found(server: Server | Overlay, search: str) -> list[str]:
    """All matches by their ids, over the pages; counted they are as many."""
    target = f"/fhir/{search}"
    ids: list[str] = []
    while target:
        page = json.loads(server.handle(Request("GET", target)).text)
        ids += [entry["resource"]["id"] for entry in page.get("entry", ())]
        target = next((link["url"].partition("8080")[2] for link in page["link"] if link["relation"] == "next"), "")
    counted = json.loads(server.handle(Request("GET", f"/fhir/{search}&_summary=count")).text)
    assert counted["total"] == len(ids) == len(set(ids)), search
    return ids


def by_each_way(server: Server | Overlay, monkeypatch: pytest.MonkeyPatch) -> list[dict[str, list[str]]]:
    """The answers to all searches, with everything taken for many and with everything taken for few."""
    searches = [f"Observation?_count=30&{condition}&{search}" for condition in CONDITIONS for search in SEARCHES]
    searches += [f"Goal?{search}" for search in ("target-date=ge2022", "target-date=le2024", "_sort=target-date")]
    searches += ["Goal?_sort=-target-date", "Goal?patient=p1&_sort=-target-date"]
    answers = []
    for most in (0, 1_000_000):
        monkeypatch.setattr(plan, "MAX_SORTED", most)
        answers.append({search: found(server, search) for search in searches})
    return answers


def test_every_way_gives_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with Server.open(tmp_path / "store.sqlite", reference_check=False) as server:
        server.load(lines())
        many, few = by_each_way(server, monkeypatch)
        assert many == few
        assert few["Goal?_sort=-target-date"] == ["g0", "g2", "g1"]
        assert few["Goal?_sort=target-date"] == ["g2", "g0", "g1"]
        assert len(few["Observation?_count=30&patient=p1&code=A&_sort=-date"]) == 40
        with server.overlay("x", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
            first = json.loads(next(lines())) | {"effectiveDateTime": "2023-05-17"}
            overlay.handle(Request("PUT", "/fhir/Observation/o0", JSON, json.dumps(first).encode()))
            overlay.handle(Request("DELETE", "/fhir/Observation/o1"))
            many, few = by_each_way(overlay, monkeypatch)
            assert many == few
            assert "o1" not in few["Observation?_count=30&&_sort=-date"]
            assert few["Observation?_count=30&code=A&date=2023-05-17"][0] == "o0"


@pytest.mark.parametrize(
    "search",
    [
        "Observation?subject:Patient._id=p7",
        "Observation?patient.family:exact=f7&code=A",
        "Observation?subject:Patient.family:exact=f7",
        "Patient?_id=p7&_has:Observation:patient:code=A",
    ],
)
def test_a_chained_search_of_an_overlay_reads_what_it_needs(search: str) -> None:
    """Not the whole hospital, whether or not the episode has added something."""
    patients = [
        {"resourceType": "Patient", "id": f"p{number}", "name": [{"family": f"f{number}"}]} for number in range(999)
    ]
    readings = [
        {
            "resourceType": "Observation",
            "id": f"o{number}",
            "status": "final",
            "code": {"coding": [{"code": "A"}]},
            "subject": {"reference": f"Patient/p{number}"},
            "valueQuantity": {"value": number},
        }
        for number in range(999)
    ]
    request = Request("GET", f"/fhir/{search}", [])
    few = Bounds(steps=20_000)
    with Server.open(None) as server:
        server.load(map(json.dumps, [*patients, *readings]))
        with server.overlay("episode", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
            before = json.loads(overlay.handle(request, Meter(few, seconds=600)).body)
            overlay.add([{**readings[500], "id": "added"}])
            after = json.loads(overlay.handle(request, Meter(few, seconds=600)).body)
    assert before["total"] == after["total"] == 1


DEPTHS = (1, 3, 9)


@pytest.mark.parametrize("depth", DEPTHS)
@pytest.mark.parametrize("rest", ["", "&_sort=name", "&_total=accurate", "&_summary=count"])
def test_chains_may_have_many_links(depth: int, rest: str) -> None:
    """Forward, reverse and both together, in the file and in an overlay with a change."""
    members = [{"resourceType": "Organization", "id": f"o{number:02}", "name": f"n{number:02}"} for number in range(12)]
    for before, member in itertools.pairwise(members):
        member["partOf"] = {"reference": f"Organization/{before['id']}"}
    up, down = "partof." * depth, "_has:Organization:partof:" * depth
    searches = {
        f"{up}name=n00": f"o{depth:02}",
        f"{down}name=n11": f"o{11 - depth:02}",
    }
    if depth < 9:  # a chain at the end of nested `_has`
        searches[f"{down}{up}name=n02"] = "o02"
    with Server.open(None) as server:
        server.load(map(json.dumps, members))
        with server.overlay("x", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
            overlay.add([{"resourceType": "Organization", "id": "added"}])
            for search, expected in searches.items():
                for side in (server, overlay):
                    bundle = json.loads(side.handle(Request("GET", f"/fhir/Organization?{search}{rest}")).text)
                    assert bundle["total"] == 1, search
                    assert [entry["resource"]["id"] for entry in bundle.get("entry", [])] in ([expected], []), search


def test_a_chain_of_eleven_links_is_refused() -> None:
    with Server.open(None) as server:
        for search in ("partof." * 11 + "name", "_has:Organization:partof:" * 11 + "name"):
            assert "at most 10 links" in server.handle(Request("GET", f"/fhir/Organization?{search}=x")).text


def test_has_with_many_matches_reads_each_reference_once() -> None:
    readings = [
        {
            "resourceType": "Observation",
            "id": f"o{number}",
            "status": "final",
            "subject": {"reference": f"Patient/p{number}"},
        }
        for number in range(999)
    ]
    patients = [{"resourceType": "Patient", "id": f"p{number}"} for number in range(999)]
    request = Request("GET", "/fhir/Patient?_has:Observation:patient:status=final&_summary=count", [])
    with Server.open(None) as server:
        server.load(map(json.dumps, [*patients, *readings]))
        with server.overlay("episode", datetime(2024, 1, 1, tzinfo=UTC)) as overlay:
            bundle = json.loads(overlay.handle(request, Meter(Bounds(steps=500_000), seconds=600)).body)
    assert bundle["total"] == 999
