"""Reads with parameters, reduced resources, and which references lead somewhere when nobody checks them."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Request, Response, Server
from fhir_server.wire.json_text import decode, render

JSON = [("Content-Type", "application/fhir+json")]


@pytest.fixture
def server() -> Iterator[Server]:
    with Server.open(None, reference_check=False) as server:
        server.load([json.dumps({"resourceType": "Patient", "id": "a"})])
        yield server


def put(server: Server, resource: dict[str, Any]) -> Response:
    target = f"/fhir/{resource['resourceType']}/{resource['id']}"
    return server.handle(Request("PUT", target, JSON, json.dumps(resource).encode()))


def found(server: Server, query: str) -> list[str]:
    bundle = json.loads(server.handle(Request("GET", f"/fhir/{query}")).text)
    return [entry["resource"]["id"] for entry in bundle.get("entry", [])]


@pytest.mark.parametrize("path", ["Patient/a", "Patient/nope", "Patient/a/_history/1"])
def test_a_read_takes_no_search_parameters(server: Server, path: str) -> None:
    """HAPI's rule for what is a read: no parameter but those that begin with `_`."""
    answer = server.handle(Request("GET", f"/fhir/{path}?x=1&_format=json"))
    assert answer.status == 400
    issue = json.loads(answer.text)["issue"][0]
    assert issue["code"] == "not-supported"
    assert issue["diagnostics"].endswith(f"handle GET operation[{path}] with parameters [[_format, x]]")
    expected = 404 if "nope" in path else 200
    assert server.handle(Request("GET", f"/fhir/{path}?_format=json&_other=1")).status == expected


def test_an_operation_definition_is_not_read(server: Server) -> None:
    assert put(server, {"resourceType": "OperationDefinition", "id": "x", "name": "X"}).status == 201
    answer = server.handle(Request("GET", "/fhir/OperationDefinition/x"))
    assert (answer.status, json.loads(answer.text)["issue"][0]["diagnostics"]) == (
        404,
        "HAPI-2249: OperationDefinition/x",
    )
    assert found(server, "OperationDefinition?name=X") == ["x"]


@pytest.mark.parametrize(
    ("reference", "leads"),
    [
        ("Patient/a", True),
        ("Patient/a/_history/1", True),
        ("Patient/later", False),
        ("http://elsewhere.example/fhir/Patient/b", True),
        ("urn:uuid:9ab14d74-e4a0-4a5e-9e0b-2f5b35fdbfe1", False),
    ],
)
def test_unchecked_references_are_found_where_they_lead(server: Server, reference: str, leads: bool) -> None:
    observation = {"resourceType": "Observation", "id": "o", "subject": {"reference": reference}}
    assert put(server, observation).status == 201
    assert put(server, {"resourceType": "Patient", "id": "later"}).status == 201
    assert found(server, "Observation?subject:missing=false") == (["o"] if leads else [])


def test_entries_of_one_transaction_lead_to_each_other(server: Server) -> None:
    observation = {"resourceType": "Observation", "id": "o", "subject": {"reference": "Patient/z"}}
    resources: list[dict[str, Any]] = [observation, {"resourceType": "Patient", "id": "z"}]
    entries = [
        {"resource": one, "request": {"method": "PUT", "url": f"{one['resourceType']}/{one['id']}"}}
        for one in resources
    ]
    body = json.dumps({"resourceType": "Bundle", "type": "transaction", "entry": entries}).encode()
    assert server.handle(Request("POST", "/fhir", JSON, body)).status == 200
    assert found(server, "Observation?subject=Patient/z") == ["o"]


@pytest.mark.parametrize("checked", [True, False])
def test_a_type_that_the_element_does_not_allow_is_refused(checked: bool) -> None:
    with Server.open(None, reference_check=checked) as server:
        answer = put(server, {"resourceType": "Observation", "id": "o", "subject": {"reference": "Practitioner/a"}})
        assert answer.status == 422
        assert "HAPI-0931" in answer.text
        assert server.handle(Request("GET", "/fhir/Observation/o")).status == 404


EXTENSION = [{"url": "http://e", "valueString": "}, {"}]
ODD: dict[str, Any] = {
    "resourceType": "Patient",
    "id": "odd",
    "meta": {"tag": [{"system": "http://x", "code": "SUBSETTED"}]},
    "extension": EXTENSION,
    "identifier": [{"extension": EXTENSION}, {"id": "i", "extension": EXTENSION, "value": '"id": "'}],
    "name": [{"family": "}, {", "given": ["[ {", "B"], "_given": [{"extension": EXTENSION}, None]}],
    "birthDate": "2020",
    "_birthDate": {"extension": EXTENSION},
    "managingOrganization": {"extension": EXTENSION},
}
GIVEN = {key: ODD["name"][0][key] for key in ("given", "_given")}


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        (
            "_summary=true",
            {
                "identifier": [{}, {"id": "i", "value": '"id": "'}],
                "name": [{"family": "}, {", "given": ["[ {", "B"]}],
                "birthDate": "2020",
                "managingOrganization": {},
            },
        ),
        ("_summary=data", {key: ODD[key] for key in list(ODD)[3:]}),
        ("_elements=identifier.value", {"identifier": [{}, {"id": "i", "value": '"id": "'}]}),
        (
            "_elements=identifier.extension.url",
            {"identifier": [{"extension": EXTENSION}, {"id": "i", "extension": EXTENSION}]},
        ),
        ("_elements=name.given,photo", {"name": [GIVEN]}),
        ("_elements=name.given.extension.url", {"name": [GIVEN]}),
        ("_elements=birthDate.extension", {"birthDate": "2020", "_birthDate": {"extension": EXTENSION}}),
        ("_elements=managingOrganization.display", {"managingOrganization": {}}),
        ("_elements=meta.tag", {}),
    ],
)
def test_a_reduced_resource_is_hapis(server: Server, query: str, expected: dict[str, Any]) -> None:
    """Element ids stay, extensions and what belongs to a primitive stay whole, and an object may become empty."""
    put(server, ODD)
    for target in (f"Patient/odd?{query}", f"Patient?_id=odd&{query}"):
        answer = server.handle(Request("GET", f"/fhir/{target}"))
        body = json.loads(answer.text)
        reduced = body["entry"][0]["resource"] if "entry" in body else body
        tags = [tag.get("display") for tag in reduced.pop("meta")["tag"]]
        assert tags == [None, "Resource encoded in summary mode"]
        rest = {key: value for key, value in reduced.items() if key not in ("resourceType", "id")}
        assert rest == expected
        assert render(decode(answer.text)) == answer.text
