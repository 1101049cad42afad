"""Each search has the same matches in the same order by every way that may be taken to them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path

import pytest

from fhir_server import Request, Server
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
