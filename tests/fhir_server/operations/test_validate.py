"""`$validate`: errors of structure, and HAPI's words where its parser refuses."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Response, Server
from tests.fhir_server.ward import said, send, ward

GOOD = {"resourceType": "Observation", "status": "final", "code": {"text": "x"}}


@pytest.fixture(scope="module")
def server() -> Iterator[Server]:
    with ward() as server:
        yield server


def issues(answer: Response) -> list[tuple[str, str]]:
    assert answer.status == 200, answer.text
    return [(issue["severity"], issue["diagnostics"]) for issue in json.loads(answer.text)["issue"]]


@pytest.mark.parametrize(
    ("resource", "diagnostics"),
    [
        ({"resourceType": "Observation", "code": {}}, "Observation.status: minimum required = 1, but only found 0"),
        (GOOD | {"foo": 1}, "Unrecognized property 'foo'"),
        (GOOD | {"category": {"text": "y"}}, "The property category must be a JSON Array, not an Object"),
        (GOOD | {"component": [{}]}, "Observation.component[0].code: minimum required = 1"),
        (GOOD | {"subject": "Patient/p7"}, "This property must be an Object, not a Primitive property"),
        (GOOD | {"status": ["final"]}, "The property status must be a simple value, not an Array"),
    ],
)
def test_what_is_wrong_is_named(server: Server, resource: dict[str, Any], diagnostics: str) -> None:
    for body in (resource, {"resourceType": "Parameters", "parameter": [{"name": "resource", "resource": resource}]}):
        found = issues(send(server, "POST", "Observation/$validate", body))
        assert [severity for severity, _ in found] == ["error"]
        assert found[0][1].startswith(diagnostics)


def test_a_good_resource_has_no_errors(server: Server) -> None:
    for answer in (
        send(server, "POST", "Observation/$validate", GOOD),
        send(server, "POST", "Patient/p7/$validate"),
        send(server, "GET", "Patient/p8/$validate"),
    ):
        assert issues(answer) == [("information", "No issues detected during validation")]


def test_what_cannot_be_validated(server: Server) -> None:
    status, words = said(send(server, "POST", "Patient/$validate"))
    assert (status, words[:9]) == (400, "HAPI-0992")
    assert said(send(server, "POST", "Patient/nope/$validate"))[0] == 404
    assert "HAPI-1821" in said(send(server, "POST", "Patient/$validate", {"resourceType": "Patient", "gender": "x"}))[1]
    assert said(send(server, "POST", "$validate", GOOD))[0] == 400


def test_the_capability_statement_lists_the_operations(server: Server) -> None:
    (rest,) = json.loads(send(server, "GET", "metadata").text)["rest"]
    patient = next(one for one in rest["resource"] if one["type"] == "Patient")
    assert {one["name"] for one in patient["operation"]} == {
        "everything",
        "validate",
        "meta",
        "meta-add",
        "meta-delete",
    }
    assert {one["name"] for one in rest["operation"]} == {"meta", "get-resource-counts"}
