"""Private copies: isolated from each other and from the file, and the same bytes each time."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest

from fhir_server import Overlay, Request, Server

NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
JSON = [("Content-Type", "application/fhir+json")]


def post(overlay: Overlay, resource: dict) -> dict:
    kind = resource["resourceType"]
    answer = overlay.handle(Request("POST", f"/fhir/{kind}", JSON, json.dumps(resource).encode()))
    assert answer.status == 201, answer.text
    return json.loads(answer.text)


def search(overlay: Overlay | Server, query: str) -> list[str]:
    bundle = json.loads(overlay.handle(Request("GET", f"/fhir/{query}")).text)
    return [entry["resource"]["id"] for entry in bundle.get("entry", [])]


def note(text: str) -> dict:
    return {
        "resourceType": "Observation",
        "status": "final",
        "code": {"text": text},
        "subject": {"reference": "Patient/a"},
    }


@pytest.fixture
def server():
    with Server.open(None) as server:
        server.load(
            json.dumps({"resourceType": "Patient", "id": name, "name": [{"family": f"Family {name}"}]}) for name in "ab"
        )
        yield server


def test_writes_are_seen_in_the_overlay_only(server: Server) -> None:
    with server.overlay("one", NOW) as first, server.overlay("two", NOW) as second:
        created = post(first, note("BP"))
        assert created["id"] == "3"
        assert search(first, "Observation?patient=a&code:text=BP") == ["3"]
        assert search(second, "Observation?patient=a") == []
        assert search(server, "Observation?patient=a") == []
        assert second.handle(Request("GET", "/fhir/Observation/3")).status == 404
    assert server.stats() == {"Patient": 2}


def test_an_update_hides_the_version_below(server: Server) -> None:
    body = json.dumps({"resourceType": "Patient", "id": "a", "name": [{"family": "Other"}]}).encode()
    with server.overlay("one", NOW) as overlay:
        assert overlay.handle(Request("PUT", "/fhir/Patient/a", JSON, body)).status == 200
        assert search(overlay, "Patient?family=family") == ["b"]
        assert search(overlay, "Patient?family=other") == ["a"]
        assert search(overlay, "Patient") == ["a", "b"]
        history = json.loads(overlay.handle(Request("GET", "/fhir/Patient/a/_history")).text)
        assert history["total"] == 2
        first = overlay.handle(Request("GET", "/fhir/Patient/a/_history/1"))
        assert "Family a" in first.text
    assert search(server, "Patient?family=family") == ["a", "b"]


def test_a_deletion_is_gone_with_the_overlay(server: Server) -> None:
    with server.overlay("one", NOW) as overlay:
        assert overlay.handle(Request("DELETE", "/fhir/Patient/b")).status == 200
        assert overlay.handle(Request("GET", "/fhir/Patient/b")).status == 410
        assert search(overlay, "Patient") == ["a"]
    assert server.handle(Request("GET", "/fhir/Patient/b")).status == 200


def test_an_overlay_after_another_starts_clean(server: Server) -> None:
    with server.overlay("one", NOW) as earlier:
        post(earlier, note("first"))
    with server.overlay("two", NOW) as later:
        post(later, note("second"))
        assert search(later, "Observation?code:text=first") == []
        assert search(later, "Observation") == ["3"]


def test_created_lists_what_was_really_created(server: Server) -> None:
    with server.overlay("one", NOW) as overlay:
        assert overlay.created() == []
        first = post(overlay, note("BP"))
        refused = note("x") | {"subject": {"reference": "Patient/none"}}
        assert overlay.handle(Request("POST", "/fhir/Observation", JSON, json.dumps(refused).encode())).status == 400
        second = post(overlay, {"resourceType": "ServiceRequest", "subject": {"reference": "Patient/a"}})
        found = overlay.created()
    assert [(kind, name) for kind, name, _ in found] == [("Observation", first["id"]), ("ServiceRequest", second["id"])]
    assert json.loads(found[0][2]) == first


def episode(server: Server, seed: str) -> list[bytes]:
    requests = [
        Request("GET", "/fhir/Patient?_count=1"),
        Request("POST", "/fhir/Observation", JSON, json.dumps(note("BP")).encode()),
        Request("GET", "/fhir/Observation?patient=a"),
        Request("GET", "/fhir/Observation/3/_history"),
    ]
    with server.overlay(seed, NOW) as overlay:
        answers = [overlay.handle(request) for request in requests]
    return [repr((answer.status, answer.headers)).encode() + answer.body for answer in answers]


def test_the_same_seed_gives_the_same_bytes(server: Server) -> None:
    assert episode(server, "seed") == episode(server, "seed")
    assert episode(server, "seed") != episode(server, "other")


def test_times_begin_at_now(server: Server) -> None:
    with server.overlay("one", NOW) as overlay:
        created = post(overlay, note("BP"))
    assert created["meta"]["lastUpdated"] == "2023-11-13T10:15:00.000+00:00"


def test_sixty_four_at_once(server: Server) -> None:
    overlays = [server.overlay(str(number), NOW) for number in range(64)]
    for number, overlay in enumerate(overlays):
        for _ in range(number % 3 + 1):
            post(overlay, note("BP"))
    counts = [len(search(overlay, "Observation?patient=a")) for overlay in overlays]
    assert counts == [number % 3 + 1 for number in range(64)]
    for overlay in overlays:
        overlay.close()
    assert search(server, "Observation") == []
