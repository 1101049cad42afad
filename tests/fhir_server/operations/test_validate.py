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
        (
            {"resourceType": "Observation", "code": {"text": "x"}},
            "Observation.status: minimum required = 1, but only found 0",
        ),
        (GOOD | {"foo": 1}, "Unrecognized property 'foo'"),
        (GOOD | {"category": {"text": "y"}}, "The property category must be a JSON Array, not an Object"),
        (GOOD | {"component": [{}]}, "Observation.component.code: minimum required = 1"),
        (GOOD | {"subject": "Patient/p7"}, "The property subject must be an Object, not a Primitive property (at"),
        (
            GOOD | {"status": ["final"]},
            "This property must be a simple value, not an Array (status at",
        ),
    ],
)
def test_what_is_wrong_is_named(server: Server, resource: dict[str, Any], diagnostics: str) -> None:
    for body in (resource, {"resourceType": "Parameters", "parameter": [{"name": "resource", "resource": resource}]}):
        found = issues(send(server, "POST", "Observation/$validate", body))
        assert any(severity == "error" and said.startswith(diagnostics) for severity, said in found)


CODES = [
    {
        "resourceType": "CodeSystem",
        "url": "urn:c",
        "status": "active",
        "content": "complete",
        "concept": [{"code": "a"}],
    },
    {
        "resourceType": "CodeSystem",
        "url": "urn:f",
        "status": "active",
        "content": "fragment",
        "concept": [{"code": "a"}],
    },
]
ALLERGY = {"resourceType": "AllergyIntolerance", "patient": {"display": "x"}}
STATUS = "http://terminology.hl7.org/CodeSystem/allergyintolerance-clinical"
MARITAL = "http://terminology.hl7.org/CodeSystem/v3-MaritalStatus"
SET = "'AllergyIntolerance Clinical Status Codes' (http://hl7.org/fhir/ValueSet/allergyintolerance-clinical|4.0.1)"
PASSED_ON = "Terminology_PassThrough_TX_Message"
NONE = "None of the codings provided are in the value set"
OPERATION = {
    **{"resourceType": "OperationDefinition", "name": "X", "status": "draft", "kind": "operation", "code": "x"},
    **{"system": True, "type": False, "instance": False},
}
TYPE = "http://hl7.org/fhir/ValueSet/all-types"
CODED = [
    (
        ALLERGY | {"clinicalStatus": {"coding": [{"system": STATUS, "code": "foo"}]}},
        [
            ("error", PASSED_ON, "AllergyIntolerance.clinicalStatus", f"Unknown code '{STATUS}#foo'"),
            (
                "error",
                "Terminology_TX_NoValid_1_CC",
                "AllergyIntolerance.clinicalStatus",
                f"{NONE} {SET}, and a coding from this value set is required) (codes = {STATUS}#foo)",
            ),
        ],
    ),
    (
        ALLERGY | {"clinicalStatus": {"text": "x"}},
        [
            (
                "error",
                "Terminology_TX_Code_ValueSet",
                "AllergyIntolerance.clinicalStatus",
                f"No code provided, and a code is required from the value set {SET}",
            )
        ],
    ),
    (
        OPERATION | {"parameter": [{"name": "a", "use": "in", "min": 0, "max": "1", "type": "Foo"}]},
        [
            (
                "error",
                "Terminology_TX_NoValid_16",
                "OperationDefinition.parameter[0].type",
                f"The value provided ('Foo') was not found in the value set 'FHIRAllTypes' ({TYPE}|4.0.1), and a code"
                " is required from this value set  (error message = Unknown code 'Foo' for in-memory expansion of"
                f" ValueSet '{TYPE}')",
            )
        ],
    ),
    (
        {"resourceType": "Encounter", "status": "finished", "class": {"system": MARITAL, "code": "Q"}},
        [],  # HAPI only warns, since the binding is extensible
    ),
    (
        {"resourceType": "Patient", "maritalStatus": {"coding": [{"system": "urn:c", "code": "b"}]}},
        [
            (
                "error",
                PASSED_ON,
                "Patient.maritalStatus",
                "Unable to validate code urn:c#b - Code is not found in CodeSystem: urn:c",
            )
        ],
    ),
    (
        {"resourceType": "Patient", "maritalStatus": {"coding": [{"system": "urn:f", "code": "b"}]}},
        [("warning", PASSED_ON, "Patient.maritalStatus", "Unknown code in fragment CodeSystem 'urn:f#b'")],
    ),
    (
        {"resourceType": "Patient", "maritalStatus": {"coding": [{"system": MARITAL}]}},
        [("error", PASSED_ON, "Patient.maritalStatus", f"Unknown code '{MARITAL}#null'")],
    ),
]
"""Coded values, each with HAPI 7.6.0's issues about them."""


@pytest.mark.parametrize(("resource", "expected"), CODED)
def test_codes_are_checked_in_code_systems_and_required_value_sets(
    server: Server, resource: dict[str, Any], expected: list[tuple[str, str, str, str]]
) -> None:
    for code_system in CODES:
        send(server, "PUT", f"CodeSystem/{code_system['url'][-1]}", code_system | {"id": code_system["url"][-1]})
    answer = send(server, "POST", f"{resource['resourceType']}/$validate", resource)
    listed = [
        (issue["severity"], issue["details"]["coding"][0]["code"], issue["location"][0], issue["diagnostics"])
        for issue in json.loads(answer.text)["issue"]
        if "details" in issue
    ]
    assert listed == expected


def test_problems_of_a_resource_in_parameters_are_located_in_the_parameters(server: Server) -> None:
    resource = GOOD | {"valueQuantity": 5, "component": [{"valueString": "x"}]}
    body = {"resourceType": "Parameters", "parameter": [{"name": "x"}, {"name": "resource", "resource": resource}]}
    listed = json.loads(send(server, "POST", "Observation/$validate", body).text)["issue"]
    column = json.dumps(body).index("5") + 2
    assert [issue["location"] for issue in listed if issue["severity"] == "error"] == [
        ["Parameters.parameter[1].resource.value[x]", f"Line[1] Col[{column}]"],
        ["Parameters.parameter[1].resource/*Observation/null*/.component[0]", "Line[1] Col[222]"],
    ]


def test_a_good_resource_has_no_errors(server: Server) -> None:
    create = {"resourceType": "Parameters", "parameter": [{"name": "mode", "valueCode": "create"}]}
    for answer in (
        send(server, "POST", "Patient/p7/$validate", create),
        send(server, "POST", "Observation/$validate", GOOD),
        send(server, "POST", "Patient/p7/$validate"),
        send(server, "GET", "Patient/p8/$validate"),
    ):
        assert not [said for severity, said in issues(answer) if severity == "error"]


def test_a_resource_with_all_that_is_recommended_has_no_issues(server: Server) -> None:
    text = {"status": "generated", "div": '<div xmlns="http://www.w3.org/1999/xhtml">x</div>'}
    answer = send(server, "POST", "Patient/$validate", {"resourceType": "Patient", "text": text})
    assert issues(answer) == [("information", "No issues detected during validation")]


def test_an_issue_names_its_line_and_column(server: Server) -> None:
    body = '{"resourceType": "Patient",\n "name": [{"family": "x"}, {"nope": [1, {"a": "b"}]}]}'
    issue = json.loads(send(server, "POST", "Patient/$validate", body.encode()).text)["issue"][0]
    assert issue["diagnostics"] == "Unrecognized property 'nope'"
    assert issue["location"] == ["Patient.name[1]", "Line[2] Col[52]"]
    assert [extension["valueInteger"] for extension in issue["extension"]] == [2, 52]


def test_whether_a_resource_may_be_deleted(server: Server) -> None:
    assert issues(send(server, "GET", "Observation/o1/$validate?mode=delete")) == [("information", "Ok to delete")]
    assert said(send(server, "GET", "Patient/p7/$validate?mode=delete"))[0] == 409


def test_what_cannot_be_validated(server: Server) -> None:
    status, words = said(send(server, "POST", "Patient/$validate"))
    assert (status, words[:9]) == (400, "HAPI-0992")
    assert said(send(server, "POST", "Patient/nope/$validate"))[0] == 404
    assert "HAPI-1821" in said(send(server, "POST", "Patient/$validate", {"resourceType": "Patient", "gender": "x"}))[1]
    assert said(send(server, "POST", "$validate", GOOD))[0] == 400


def test_the_capability_statement_lists_the_operations(server: Server) -> None:
    (rest,) = json.loads(send(server, "GET", "metadata").text)["rest"]
    patient = next(resource for resource in rest["resource"] if resource["type"] == "Patient")
    assert {operation["name"] for operation in patient["operation"]} == {
        "everything",
        "validate",
        "meta",
        "meta-add",
        "meta-delete",
        "expunge",
    }
    kinds = {
        resource["type"]: {operation["name"] for operation in resource["operation"]} for resource in rest["resource"]
    }
    assert {"expand", "validate-code"} <= kinds["ValueSet"]
    assert {"lookup", "validate-code", "subsumes"} <= kinds["CodeSystem"]
    assert ("translate" in kinds["ConceptMap"], "lastn" in kinds["Observation"]) == (True, True)
    assert {operation["name"] for operation in rest["operation"]} == {
        "meta",
        "get-resource-counts",
        "expunge",
        "reindex",
        "mark-all-resources-for-reindexing",
    }


def test_a_resource_in_xml_is_validated_as_the_same_in_json(server: Server) -> None:
    xml = """<Patient xmlns="http://hl7.org/fhir"><active value="true"/><multipleBirthInteger value="2"/><extension
        url="urn:x"><valueDecimal value="1.50"/></extension></Patient>"""
    extension = [{"url": "urn:x", "valueDecimal": 1.50}]
    same = {"resourceType": "Patient", "extension": extension, "active": True, "multipleBirthInteger": 2}
    headers = {"Content_Type": "application/fhir+xml", "Accept": "application/fhir+json"}
    answer = send(server, "POST", "Patient/$validate", xml.encode(), **headers)
    found = issues(answer)
    assert found == issues(send(server, "POST", "Patient/$validate", same))
    assert all(severity != "error" for severity, _ in found)
    refused = send(server, "POST", "Patient/$validate", xml.replace("true", "maybe").encode(), **headers)
    assert said(refused)[0] == 400
    assert "Invalid boolean string: 'maybe'" in said(refused)[1]


@pytest.mark.parametrize(
    "resource",
    [
        {"resourceType": "Bundle", "type": "batch", "entry": [{"request": {"method": "GET", "url": "Patient/1"}}]},
        {"resourceType": "Questionnaire", "status": "active", "url": "http://example.org/q"},
    ],
)
def test_the_form_of_what_may_be_missing_is_no_problem(server: Server, resource: dict[str, Any]) -> None:
    """R4's invariants bdl-8 and que-0 are false for what is missing; HAPI's validator does not report them then."""
    answer = send(server, "POST", f"{resource['resourceType']}/$validate", json.dumps(resource).encode())
    assert not [words for _, words in issues(answer) if "bdl-8" in words or "que-0" in words]
