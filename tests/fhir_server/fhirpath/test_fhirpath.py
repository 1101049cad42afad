"""FHIRPath as R4's invariants use it."""

from __future__ import annotations

import pytest

from fhir_server import definitions
from fhir_server.fhirpath.evaluator import FUNCTIONS, Environment, evaluate, holds
from fhir_server.fhirpath.node import Node
from fhir_server.fhirpath.parser import FhirPathError, parse
from fhir_server.wire.json_text import parse as read

PATIENT = read(
    '{"resourceType": "Patient", "id": "p", "active": true, "birthDate": "1950-01-02", "multipleBirthInteger": 2,'
    ' "contained": [{"resourceType": "Organization", "id": "o", "name": "O"}],'
    ' "managingOrganization": {"reference": "#o"},'
    ' "name": [{"family": "A", "given": ["B", "C"]}, {"text": "D"}], "_gender": {"extension": [{"url": "u"}]}}'
)


def environment() -> tuple[Node, Environment]:
    node = Node(PATIENT, "Patient")
    return node, Environment(node, node, lambda reference: Node(PATIENT["contained"][0], "Organization"), FUNCTIONS)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("name.given", ["B", "C"]),
        ("Patient.name.where(family = 'A').given.first()", ["B"]),
        ("name[1].text & '!'", ["D!"]),
        ("multipleBirth + 1", ["3"]),
        ("multipleBirth is integer", [True]),
        ("name.given.count() > 1 and active", [True]),
        ("name.select(family | text)", ["A", "D"]),
        ("name.all(family.exists() xor text.exists())", [True]),
        ("gender.exists() and gender.hasValue().not()", [True]),
        ("birthDate >= '1950-01-02'", [True]),
        ("('A' | 'B') contains name.family", [True]),
        ("managingOrganization.resolve().name", ["O"]),
        ("iif(active, 'yes', 'no')", ["yes"]),
        ("name.family.matches('[A-Z]') implies name.family.startsWith('B')", [False]),
        ("{} or true", [True]),
        ("-1 < 0", [True]),
        ("%resource.descendants().reference.substring(1)", ["o"]),
        ("nothing.empty()", [True]),
    ],
)
def test_what_an_expression_gives(expression: str, values: list[object]) -> None:
    node, around = environment()
    found = [one.value for one in evaluate(expression, node, around)]
    assert [value if isinstance(value, (bool, str)) else str(value) for value in found] == values


@pytest.mark.parametrize("expression", ["", "name.", "name(", "a b", "'open", "nothing()", "%nobody", "1 / ", "¶"])
def test_what_cannot_be_evaluated_is_said(expression: str) -> None:
    node, around = environment()
    with pytest.raises(FhirPathError):
        evaluate(expression, node, around)


def test_every_invariant_of_r4_can_be_read() -> None:
    kinds = [*definitions.resource_types(), "Quantity", "Period", "Reference", "Timing.repeat", "Questionnaire.item"]
    found = [one for kind in kinds for one in definitions.constraints(kind)]
    assert len(found) > 100
    node, around = environment()
    for one in found:
        assert parse(one.expression)
        assert holds(one.expression, node, around) in (True, False) or one.key
