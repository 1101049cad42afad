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
        {"resource": resource, "request": {"method": "PUT", "url": f"{resource['resourceType']}/{resource['id']}"}}
        for resource in resources
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


@pytest.mark.parametrize(
    ("query", "ids"),
    [
        ("QuestionnaireResponse?_include=QuestionnaireResponse:questionnaire", ["r", "old", "new"]),
        ("QuestionnaireResponse?_include=QuestionnaireResponse:questionnaire:Questionnaire", ["r", "old", "new"]),
        ("QuestionnaireResponse?_include=QuestionnaireResponse:questionnaire:Patient", ["r"]),
        ("QuestionnaireResponse?_include=*", ["r", "old", "new"]),
        ("Questionnaire?_id=old&_revinclude=QuestionnaireResponse:questionnaire", ["old", "r"]),
        ("Questionnaire?_id=old&_revinclude=*", ["old"]),
        ("Questionnaire?_id=other&_revinclude=QuestionnaireResponse:questionnaire", ["other"]),
    ],
)
def test_includes_follow_canonical_urls(query: str, ids: list[str]) -> None:
    """HAPI leaves the version out, so all versions of a definition are included."""
    server = Server.open(None)
    form = {"resourceType": "Questionnaire", "status": "active", "url": "http://example.org/phq"}
    for name, more in {"old": {"version": "1.0"}, "new": {"version": "1.2"}, "other": {"url": "urn:other"}}.items():
        put(server, form | {"id": name} | more)
    response = {"resourceType": "QuestionnaireResponse", "id": "r", "status": "completed"}
    put(server, response | {"questionnaire": "http://example.org/phq|1.2"})
    assert sorted(found(server, query)) == sorted(ids)
    server.close()


@pytest.mark.parametrize(
    ("accept", "kind"),
    [
        ("application/json, text/plain, */*", "text/plain"),
        ("text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", "text/plain"),
        ("text/html", "text/plain"),
        ("application/xml", "text/plain"),
        ("application/fhir+turtle", "text/plain"),
        ("application/fhir+json", "application/fhir+json"),
        ("application/xml+fhir", "application/xml+fhir"),
    ],
)
def test_a_binary_is_its_content_unless_fhir_is_asked_for_by_name(server: Server, accept: str, kind: str) -> None:
    put(server, {"resourceType": "Binary", "id": "b", "contentType": "text/plain", "data": "aGVsbG8="})
    answer = server.handle(Request("GET", "/fhir/Binary/b", [("Accept", accept)]))
    assert (answer.status, (answer.header("content-type") or "").partition(";")[0]) == (200, kind)


def test_distances_have_known_units(server: Server) -> None:
    put(server, {"resourceType": "Location", "id": "l", "position": {"latitude": 47.4, "longitude": 8.5}})
    assert found(server, "Location?near=47.9|8.5|60|[mi_us]") == ["l"]
    answer = server.handle(Request("GET", "/fhir/Location?near=47.4|8.5|60|KM"))
    said = "HAPI-2309: Error processing unit 'KM': The unit 'KM' is unknown' at position 0"
    assert (answer.status, json.loads(answer.text)["issue"][0]["diagnostics"]) == (400, said)


def test_the_text_of_an_address_is_not_searched(server: Server) -> None:
    put(server, {"resourceType": "Patient", "id": "b", "address": [{"text": "Rainbow Road, Bern", "city": "Bern"}]})
    assert found(server, "Patient?address=bern") == ["b"]
    assert found(server, "Patient?address:contains=rainbow") == []
