"""Conditions in a transaction that refer to other entries, as in a load that may be repeated: as HAPI 7.6.0 answers."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Request, Server

PATIENT, LATER = "urn:uuid:aaaaaaaa-0000-4000-8000-000000000001", "urn:uuid:aaaaaaaa-0000-4000-8000-000000000002"
PATIENT_ENTRY = {
    "fullUrl": PATIENT,
    "resource": {"resourceType": "Patient", "identifier": [{"system": "http://i", "value": "1"}]},
    "request": {"method": "POST", "url": "Patient", "ifNoneExist": "identifier=http://i|1"},
}


def observation(request: dict[str, str]) -> dict[str, Any]:
    return {
        "fullUrl": LATER,
        "resource": {
            "resourceType": "Observation",
            "status": "final",
            "code": {"coding": [{"code": "k"}]},
            "subject": {"reference": PATIENT},
        },
        "request": request,
    }


def create(condition: str) -> dict[str, Any]:
    return observation({"method": "POST", "url": "Observation", "ifNoneExist": condition})


def update(condition: str) -> dict[str, Any]:
    return observation({"method": "PUT", "url": f"Observation?{condition}"})


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None) as server:
        yield server


def sent(server: Server, *entries: dict[str, Any]) -> tuple[int, Any]:
    body = json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries}).encode()
    answer = server.handle(Request("POST", "/fhir", [("Content-Type", "application/fhir+json")], body))
    return answer.status, json.loads(answer.text)


def statuses(server: Server, *entries: dict[str, Any]) -> list[str]:
    status, bundle = sent(server, *entries)
    assert status == 200, bundle
    return [entry["response"]["status"][:3] for entry in bundle["entry"]]


@pytest.mark.parametrize("of_entry", [create, update])
@pytest.mark.parametrize(
    "condition",
    [
        f"code=k&subject={PATIENT}",
        f"code=k&patient={PATIENT}",
        f"subject={PATIENT}&code=k",
        f"code=k&subject:Patient={PATIENT}",
        f"code=k&subject={PATIENT.replace(':', '%3A')}",
    ],
)
@pytest.mark.parametrize("first", [True, False])
def test_a_load_can_be_repeated(server: Server, of_entry: Any, condition: str, first: bool) -> None:
    entries = [PATIENT_ENTRY, of_entry(condition)] if first else [of_entry(condition), PATIENT_ENTRY]
    assert statuses(server, *entries) == ["201", "201"]
    assert statuses(server, *entries) == ["200", "200"]
    found = json.loads(server.handle(Request("GET", "/fhir/Observation")).text)
    assert found["total"] == 1


def test_the_message_repeats_the_condition_with_the_real_id(server: Server) -> None:
    _, bundle = sent(server, PATIENT_ENTRY, create(f"code=k&subject={PATIENT}"))
    patient, made = (entry["response"] for entry in bundle["entry"])
    text = made["outcome"]["issue"][0]["diagnostics"]
    assert f'matched URL "code=k&subject={patient["location"].partition("/_history")[0]}"' in text


def test_a_chain_of_entries(server: Server) -> None:
    visit = {
        "fullUrl": "urn:oid:1.2.3",
        "resource": {
            "resourceType": "Encounter",
            "status": "finished",
            "class": {"code": "AMB"},
            "subject": {"reference": PATIENT},
        },
        "request": {"method": "POST", "url": "Encounter", "ifNoneExist": f"status=finished&subject={PATIENT}"},
    }
    last = create("code=k&encounter=urn:oid:1.2.3")
    last["resource"]["encounter"] = {"reference": "urn:oid:1.2.3"}
    for expected in ("201", "200"):
        assert statuses(server, last, visit, PATIENT_ENTRY) == [expected] * 3


def put_patient(url: str) -> dict[str, Any]:
    return {
        "fullUrl": PATIENT,
        "resource": {"resourceType": "Patient", "id": "p", "identifier": [{"system": "http://i", "value": "1"}]},
        "request": {"method": "PUT", "url": url},
    }


@pytest.mark.parametrize("url", ["Patient/p", "Patient?identifier=http://i|1"])
def test_an_update_may_refer_to_an_update(server: Server, url: str) -> None:
    for expected in ("201", "200"):
        assert statuses(server, update(f"code=k&subject={PATIENT}"), put_patient(url)) == [expected] * 2


@pytest.mark.parametrize("url", ["Patient/p", "Patient?identifier=http://i|1"])
def test_a_create_cannot_refer_to_a_later_update(server: Server, url: str) -> None:
    status, outcome = sent(server, create(f"code=k&subject={PATIENT}"), put_patient(url))
    assert (status, outcome["issue"][0]["diagnostics"][:9]) == (400, "HAPI-0929")


@pytest.mark.parametrize(
    "condition",
    [f"code=k&subject={LATER[:-1]}9", f"code=k&subject={PATIENT},{LATER}", f"identifier={PATIENT}", "code=other"],
)
def test_a_condition_that_the_resource_does_not_meet(server: Server, condition: str) -> None:
    for entry in (create(condition), update(condition)):
        status, outcome = sent(server, PATIENT_ENTRY, entry)
        assert (status, outcome["issue"][0]["diagnostics"][:9]) == (400, "HAPI-0929")
    without = create("code=other")
    del without["resource"]["subject"]
    status, outcome = sent(server, without)
    assert (status, outcome["issue"][0]["diagnostics"][:9]) == (412, "HAPI-0539")
