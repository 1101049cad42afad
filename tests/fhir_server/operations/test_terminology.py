"""Terminology operations over stored code systems, value sets and concept maps, and over HL7's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pytest

from fhir_server import Request, Server
from tests.fhir_server.ward import JSON, found, said, send, ward

GENDER = "http://hl7.org/fhir/administrative-gender"
GENDERS = "http://hl7.org/fhir/ValueSet/administrative-gender"
SYSTEM = {
    "resourceType": "CodeSystem",
    "id": "c",
    "url": "urn:c",
    "name": "C",
    "status": "active",
    "content": "complete",
    "concept": [{"code": "a", "display": "Alpha", "concept": [{"code": "b", "display": "Beta"}]}, {"code": "z"}],
}
ALL = {"system": "urn:c"}
BELOW_A = {"system": "urn:c", "filter": [{"property": "concept", "op": "is-a", "value": "a"}]}


def value_set(identity: str, compose: dict[str, Any]) -> dict[str, Any]:
    return {
        "resourceType": "ValueSet",
        "id": identity,
        "url": f"urn:{identity}",
        "status": "active",
        "compose": compose,
    }


CONCEPT_MAP = {
    "resourceType": "ConceptMap",
    "id": "m",
    "url": "urn:m",
    "status": "active",
    "group": [
        {
            "source": "urn:c",
            "target": "urn:d",
            "element": [
                {"code": "a", "target": [{"code": "1", "equivalence": "equivalent"}]},
                {"code": "z", "target": [{"equivalence": "unmatched"}]},
            ],
        }
    ],
}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ward() as server:
        sets = [
            value_set("below", {"include": [BELOW_A]}),
            value_set("outside", {"include": [{"system": "urn:c"}], "exclude": [{"valueSet": ["urn:below"]}]}),
            value_set("listed", {"include": [{"system": "urn:c", "concept": [{"code": "z", "display": "Zed"}]}]}),
        ]
        for resource in (SYSTEM, CONCEPT_MAP, *sets):
            assert send(server, "PUT", f"{resource['resourceType']}/{resource['id']}", resource).status == 201
        yield server


def codes(server: Server, target: str, body: Any = None) -> list[tuple[str, str | None]]:
    answer = send(server, "POST" if body else "GET", target, body)
    assert answer.status == 200, answer.text
    return [(concept["code"], concept.get("display")) for concept in json.loads(answer.text)["expansion"]["contains"]]


def values(server: Server, target: str, body: Any = None) -> dict[str, Any]:
    answer = send(server, "POST" if body else "GET", target, body)
    assert answer.status == 200, answer.text
    listed = json.loads(answer.text)["parameter"]
    return {parameter["name"]: next((v for k, v in parameter.items() if k != "name"), None) for parameter in listed}


def test_a_value_set_is_expanded(server: Server) -> None:
    assert codes(server, "ValueSet/below/$expand") == [("a", "Alpha"), ("b", "Beta")]
    assert codes(server, "ValueSet/$expand?url=urn:outside") == [("z", None)]
    assert codes(server, "ValueSet/$expand?url=urn:listed") == [("z", "Zed")]
    assert codes(server, f"ValueSet/$expand?url={GENDERS}&filter=MALE") == [("male", "Male"), ("female", "Female")]
    assert codes(server, f"ValueSet/$expand?url={GENDERS}&offset=1&count=2") == [
        ("female", "Female"),
        ("other", "Other"),
    ]
    inline = value_set("inline", {"include": [{"system": GENDER}, BELOW_A]})
    body = {"resourceType": "Parameters", "parameter": [{"name": "valueSet", "resource": inline}]}
    assert len(codes(server, "ValueSet/$expand", body)) == 6


def test_what_cannot_be_expanded(server: Server) -> None:
    assert said(send(server, "GET", "ValueSet/$expand"))[1].startswith("HAPI-1133")
    assert said(send(server, "GET", "ValueSet/$expand?url=urn:nope"))[0] == 404
    unknown = value_set("x", {"include": [{"system": "urn:nope"}]})
    body = {"resourceType": "Parameters", "parameter": [{"name": "valueSet", "resource": unknown}]}
    assert said(send(server, "POST", "ValueSet/$expand", body)) == (412, "HAPI-0888: Unknown code system: urn:nope")


def test_a_code_is_looked_up(server: Server) -> None:
    assert values(server, f"CodeSystem/$lookup?system={GENDER}&code=male")["display"] == "Male"
    assert values(server, "CodeSystem/$lookup?system=urn:c&code=b")["display"] == "Beta"
    assert said(send(server, "GET", "CodeSystem/$lookup?system=urn:c&code=q"))[0] == 404
    assert said(send(server, "GET", "CodeSystem/$lookup"))[1].startswith("HAPI-1126")


def test_a_code_is_validated(server: Server) -> None:
    for target, held in (
        ("CodeSystem/$validate-code?url=urn:c&code=b", True),
        ("CodeSystem/$validate-code?url=urn:c&code=q", False),
        ("CodeSystem/$validate-code?url=urn:nope&code=q", False),
        ("ValueSet/below/$validate-code?system=urn:c&code=b", True),
        ("ValueSet/$validate-code?url=urn:outside&system=urn:c&code=b", False),
        ("ValueSet/$validate-code?url=urn:nope&system=urn:c&code=b", False),
        (f"ValueSet/$validate-code?url={GENDERS}&coding={GENDER}%7Cmale", True),
        (f"ValueSet/$validate-code?url={GENDERS}&code=male", False),
    ):
        assert values(server, target)["result"] is held, target
    concept = {"coding": [{"system": "urn:x", "code": "1"}, {"system": "urn:c", "code": "a"}]}
    listed = [{"name": "url", "valueUri": "urn:below"}, {"name": "codeableConcept", "valueCodeableConcept": concept}]
    assert values(server, "ValueSet/$validate-code", {"resourceType": "Parameters", "parameter": listed})["result"]
    assert said(send(server, "GET", "ValueSet/below/$validate-code"))[0] == 400


def test_codes_subsume_each_other(server: Server) -> None:
    for first, second, outcome in (
        ("a", "b", "subsumes"),
        ("b", "a", "subsumed-by"),
        ("a", "a", "equivalent"),
        ("b", "z", "not-subsumed"),
    ):
        target = f"CodeSystem/$subsumes?system=urn:c&codeA={first}&codeB={second}"
        assert values(server, target)["outcome"] == outcome
    refused = said(send(server, "GET", "CodeSystem/$subsumes?system=urn:c&codeA=a&codeB=q"))
    assert refused == (400, "Unknown code: [urn:c|q]")


def test_a_code_is_translated(server: Server) -> None:
    found = values(server, "ConceptMap/$translate?system=urn:c&code=a")
    assert found["result"]
    assert found["match"][1]["valueCoding"] == {"system": "urn:d", "code": "1"}
    assert values(server, "ConceptMap/$translate?url=urn:m&system=urn:c&code=a&targetsystem=urn:d")["result"]
    for target in (
        "ConceptMap/m/$translate?system=urn:c&code=b",
        "ConceptMap/$translate?system=urn:c&code=z",
        "ConceptMap/$translate?url=urn:nope&system=urn:c&code=a",
        "ConceptMap/$translate?system=urn:c&code=a&targetsystem=urn:e",
    ):
        assert values(server, target)["result"] is False
    assert said(send(server, "GET", "ConceptMap/$translate"))[0] == 400


def coded(identity: str, system: str, code: str) -> dict[str, Any]:
    return {"resourceType": "Basic", "id": identity, "code": {"coding": [{"system": system, "code": code}]}}


def test_searches_follow_a_value_set_that_changes() -> None:
    """HAPI without its search index answers 500 where the code system is stored; what it does answer is recorded."""
    large = SYSTEM | {"concept": [{"code": f"k{number}"} for number in range(1500)]}
    with ward() as server:
        for resource in (SYSTEM, value_set("below", {"include": [BELOW_A]}), value_set("all", {"include": [ALL]})):
            assert send(server, "PUT", f"{resource['resourceType']}/{resource['id']}", resource).status == 201
        for resource in (coded("b", "urn:c", "b"), coded("z", "urn:c", "z"), coded("k", "urn:c", "k1499")):
            assert send(server, "PUT", f"Basic/{resource['id']}", resource).status == 201
        assert found(server, "Basic?code:in=urn:below") == ["b"]
        assert found(server, "Basic?code:not-in=urn:below") == ["k", "z"]
        assert found(server, "Basic?code:in=urn:all&_sort=_id") == ["b", "z"]
        assert send(server, "PUT", "CodeSystem/c", large).status == 200
        assert found(server, "Basic?code:in=urn:all") == ["k"]
        assert send(server, "DELETE", "ValueSet/below").status == 200
        assert said(send(server, "GET", "Basic?code:in=urn:below")) == (404, "HAPI-2024: Unknown ValueSet: urn%3Abelow")
        assert said(send(server, "GET", "Basic?code:in=ValueSet/below"))[0] == 404


def test_an_episode_searches_by_its_own_value_set(server: Server) -> None:
    now = datetime(2023, 11, 13, tzinfo=UTC)
    with server.overlay("seed", now) as first, server.overlay("seed", now) as second:
        for resource in (value_set("own", {"include": [ALL]}), coded("own", "urn:c", "z")):
            body, target = json.dumps(resource).encode(), f"/fhir/{resource['resourceType']}/own"
            assert first.handle(Request("PUT", target, JSON, body)).status == 201
        search = Request("GET", "/fhir/Basic?code:in=urn:own", (), b"")
        assert json.loads(first.handle(search).text)["total"] == 1
        assert second.handle(search).status == 404


def test_a_search_by_codes_that_are_not_known_here_is_refused(server: Server) -> None:
    assert send(server, "PUT", "ValueSet/u", value_set("u", {"include": [{"system": "urn:nope"}]})).status == 201
    for modifier in ("in", "not-in"):
        refused = said(send(server, "GET", f"Basic?code:{modifier}=urn:u"))
        assert refused == (
            400,
            "HAPI-0888: The codes of the ValueSet urn:u cannot be listed: Unknown code system: urn:nope",
        )


def test_odd_value_sets_are_refused_in_words(server: Server) -> None:
    """A bad regular expression, value sets that name each other, and a listed concept without a code."""
    expression = {"system": "urn:c", "filter": [{"property": "code", "op": "regex", "value": "("}]}
    for resource in (
        value_set("regex", {"include": [expression]}),
        value_set("one", {"include": [{"valueSet": ["urn:two"]}]}),
        value_set("two", {"include": [{"valueSet": ["urn:one"]}]}),
        value_set("nameless", {"include": [{"system": "urn:c", "concept": [{"display": "x"}]}]}),
    ):
        assert send(server, "PUT", f"ValueSet/{resource['id']}", resource).status == 201
    for target in ("Basic?code:in=urn:{}", "ValueSet/$expand?url=urn:{}"):
        assert said(send(server, "GET", target.format("regex")))[1].endswith("code regex ( is not supported")
        assert said(send(server, "GET", target.format("one"))) == (400, "The request is nested too deeply")
        assert send(server, "GET", target.format("nameless")).status == 200


def test_value_sets_that_hold_each_other_twice_are_counted_out_once(server: Server) -> None:
    """Forty floors, each with the next one twice: without what is known already this would never end."""
    for floor in range(40):
        below = {"valueSet": [f"urn:floor{floor + 1}"]} if floor < 39 else ALL
        resource = value_set(f"floor{floor}", {"include": [below, below]})
        assert send(server, "PUT", f"ValueSet/floor{floor}", resource).status == 201
    assert [code for code, _ in codes(server, "ValueSet/floor0/$expand")] == ["a", "b", "z"]
