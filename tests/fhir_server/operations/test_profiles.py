"""`$validate` by uploaded profiles: what HAPI says of 400 resources, and what the recording does not show."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Server
from tests.fhir_server.ward import send
from tools.hapi_diff.profiles import compared

BASE = "http://hl7.org/fhir/StructureDefinition/"
NOTE = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}
UNKNOWN = (
    "Profile reference 'http://x/nope' has not been checked because it could not be found, and the validator is set"
    " to not fetch unknown profiles"
)


def profile(*elements: dict[str, Any], kind: str = "Observation") -> dict[str, Any]:
    """A profile of a type whose snapshot has these elements."""
    root = {"id": kind, "path": kind, "min": 0, "max": "*"}
    return {
        "resourceType": "StructureDefinition",
        "id": "p",
        "url": "http://x/p",
        "name": "P",
        "status": "active",
        "kind": "resource",
        "abstract": False,
        "type": kind,
        "baseDefinition": BASE + kind,
        "derivation": "constraint",
        "snapshot": {"element": [root, *({"id": element["path"], **element} for element in elements)]},
    }


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None) as server:
        yield server


def upload(server: Server, *elements: dict[str, Any]) -> None:
    assert send(server, "PUT", "StructureDefinition/p", profile(*elements)).status in (200, 201)


def found(server: Server, resource: dict[str, Any], target: str = "Observation/$validate") -> list[tuple[str, str]]:
    """Severity and words of the issues that profiles give rise to."""
    issues = json.loads(send(server, "POST", target, resource).text)["issue"]
    said = [(issue["severity"], issue["diagnostics"]) for issue in issues]
    return [issue for issue in said if "Best Practice" not in issue[1] and "No issues" not in issue[1]]


def named(*urls: str, **more: Any) -> dict[str, Any]:
    return {**NOTE, "meta": {"profile": list(urls or ("http://x/p",))}, **more}


def test_every_verdict_is_hapis() -> None:
    rows = list(compared())
    assert [bool(wanted) for _, wanted, _ in rows].count(True) == [bool(wanted) for _, wanted, _ in rows].count(False)
    assert [text for text, wanted, ours in rows if bool(wanted) != bool(ours)] == []
    assert sum(sorted(wanted) == sorted(ours) for _, wanted, ours in rows) >= 378


def test_an_unknown_profile(server: Server) -> None:
    assert found(server, named("http://x/nope")) == [("error", UNKNOWN)]
    assert found(server, NOTE, "Observation/$validate?profile=http://x/nope") == [("warning", UNKNOWN)]
    assert found(server, named(BASE + "vitalsigns")) == []  # HL7's own are not held here


def test_a_profile_without_a_snapshot_is_not_known(server: Server) -> None:
    differential = {key: value for key, value in profile().items() if key != "snapshot"}
    send(server, "PUT", "StructureDefinition/p", differential | {"url": "http://x/nope"})
    assert found(server, named("http://x/nope")) == [("error", UNKNOWN)]


@pytest.mark.parametrize("parameter", [{"valueUri": "http://x/p"}, {"valueCanonical": "http://x/p|1"}])
def test_a_profile_is_named_by_a_parameter(server: Server, parameter: dict[str, str]) -> None:
    upload(server, {"path": "Observation.subject", "min": 1, "max": "1"})
    wanted = [("error", "Observation.subject: minimum required = 1, but only found 0 (from http://x/p)")]
    body = [{"name": "resource", "resource": NOTE}, {"name": "profile", **parameter}]
    assert found(server, {"resourceType": "Parameters", "parameter": body}) == wanted
    assert found(server, NOTE, "Observation/$validate?profile=http://x/p") == wanted
    send(server, "PUT", "Observation/o", NOTE | {"id": "o"})
    stored = json.loads(send(server, "GET", "Observation/o/$validate?profile=http://x/p").text)["issue"]
    assert stored[0]["diagnostics"] == wanted[0][1]


def test_a_profile_of_another_type(server: Server) -> None:
    send(server, "PUT", "StructureDefinition/p", profile(kind="Patient"))
    said = "Specified profile type was 'Patient' in profile 'http://x/p', but found type 'Observation'"
    assert found(server, named()) == [("error", said)]


def test_what_lies_in_a_resource_is_held_against_its_own_profiles(server: Server) -> None:
    upload(server, {"path": "Observation.status", "min": 1, "max": "1", "fixedCode": "amended"})
    bundle = {"resourceType": "Bundle", "type": "collection", "entry": [{"resource": named()}]}
    assert ("error", "Value is 'final' but must be 'amended'") in found(server, bundle, "Bundle/$validate")


@pytest.mark.parametrize(
    ("element", "value", "words"),
    [
        ({"patternQuantity": {"unit": "mg"}}, {"value": 1, "unit": "mg"}, []),
        (
            {"fixedQuantity": {"unit": "mg"}},
            {"value": 1, "unit": "mg"},
            [
                "The element value is present in the instance but not allowed in the applicable fixed value specified"
                " in profile"
            ],
        ),
        (
            {"constraint": [{"key": "x-1", "severity": "error", "human": "small", "expression": "value < 5"}]},
            {"value": 7},
            ["Constraint failed: x-1: 'small'"],
        ),
        (
            {"constraint": [{"key": "x-1", "severity": "error", "human": "odd", "expression": "no such("}]},
            {"value": 7},
            [],
        ),
    ],
)
def test_values_and_invariants(server: Server, element: dict[str, Any], value: Any, words: list[str]) -> None:
    kinds = [{"code": "Quantity"}]
    upload(server, {"path": "Observation.value[x]", "min": 0, "max": "1", "type": kinds, **element})
    assert [said for _, said in found(server, named(valueQuantity=value))] == words


def test_slices_are_left_out(server: Server) -> None:
    slice_ = {"id": "Observation.category:a", "path": "Observation.category", "sliceName": "a", "min": 1, "max": "1"}
    upload(server, {"path": "Observation.category", "min": 0, "max": "*"}, slice_)
    assert found(server, named()) == []


def test_all_invariants_of_a_profile_have_one_bound(server: Server) -> None:
    costly = "%resource.descendants().where(children().count() >= 0).count() >= 0"
    listed = [{"key": f"c-{n}", "severity": "error", "human": "x", "expression": costly} for n in range(300)]
    last = {"key": "last", "severity": "error", "human": "not reached", "expression": "false"}
    element = {"path": "Observation.code", "min": 1, "max": "1"}
    upload(server, {**element, "constraint": [last]})
    assert found(server, named()) == [("error", "Constraint failed: last: 'not reached'")]
    upload(server, {**element, "constraint": [*listed, last]})
    assert found(server, named(note=[{"text": f"{n}"} for n in range(400)])) == []
