"""What the public function answers: FHIRPath as HAPI FHIR 7.6.0 evaluates it, within its limits."""

from __future__ import annotations

import json
import subprocess
import sys
from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest

from fhir_server import FhirPathError, TooCostlyError, definitions, fhirpath
from fhir_server.expressions.errors import FhirPathError as Refusal
from fhir_server.expressions.evaluator import compiled, holds
from fhir_server.expressions.node import Node
from fhir_server.expressions.scope import Environment

PATIENT: dict[str, Any] = json.loads(
    '{"resourceType": "Patient", "id": "p", "active": true, "birthDate": "1950-01-02", "multipleBirthInteger": 2,'
    ' "contained": [{"resourceType": "Organization", "id": "o", "name": "O"}],'
    ' "managingOrganization": {"reference": "#o"}, "telecom": [{"rank": 3, "value": "a1"}, {"rank": 1, "value": "b2"}],'
    ' "name": [{"family": "A", "given": ["B", "C"]}, {"text": "D"}], "_gender": {"extension": [{"url": "u"}]},'
    ' "extension": [{"url": "x", "valueDecimal": 1.50}, {"url": "y", "valueAge": {"value": 4, "unit": "a"}}]}'
)


@pytest.mark.parametrize(
    ("expression", "values"),
    [
        ("name.given", ["B", "C"]),
        ("Patient.name.where(family = 'A').given.first()", ["B"]),
        ("name[1].text & '!'", ["D!"]),
        ("multipleBirth + 1", [3]),
        ("multipleBirth is integer", [True]),
        ("name.given.count() > 1 and active", [True]),
        ("name.select(family | text)", ["A", "D"]),
        ("name.select(family.union(given))", ["A", "B", "C"]),
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
        ("telecom.value.first().substring(1, 1)", ["1"]),
        ("active.toString()", ["true"]),
        ("'Peter'.matches('ete')", [True]),
        ("'Peter' ~ 'PETER'", [True]),
        ("1.is(Integer)", [True]),
        ("name.given.select($index)", [0, 1]),
        ("name.given.where($index = 1)", ["C"]),
        ("telecom.sort(rank).value", ["b2", "a1"]),
        ("telecom.sort(-rank).value", ["a1", "b2"]),
        ("name.given.where($this in {'C', 'E'})", ["C"]),
        ("multipleBirthInteger | multipleBirth", [2]),
        ("resourceType", ["Patient"]),
        ("%context.Patient.id", ["p"]),
        ("extension('x').value * 2", [Decimal("3.0")]),
        ("extension('y').value.is(Quantity)", [True]),
        ("birthDate.toDateTime() < @1950-01-02T10:00:00Z", []),
        ("birthDate.toDateTime() < @1950-01-03T10:00:00Z", [True]),
        ("'2020-05'.toDateTime().highBoundary()", ["2020-05-31T23:59:59.999-12:00"]),
        ("@2020-02.lowBoundary()", ["2020-02-01"]),
        ("@2020-02-29 + 1 year", ["2021-02-28"]),
        ("@2020-01-31T10:00:00+02:00 + 90 minutes", ["2020-01-31T11:30:00+02:00"]),
        ("4 'kg' > 3900 'g'", [True]),
        ("1 'mm[Hg]' = 133.322 'Pa'", [True]),
        ("60 'mL/min' = 1 'mL/s'", [True]),
        ("3 '[iU]' > 2 '[iU]'", [True]),
        ("3 '[iU]' > 2 'g'", []),
        ("5 days", [{"value": "5", "unit": "days"}]),
        ("today() > birthDate", [True]),
        ('"double"', ["double"]),
        ("'a/* b */' // end", ["a/* b */"]),
        ("name.given.trace('given').count()", [2]),
        ("1.ofType(Integer)", []),
        ("1.ofType(System.Integer)", [1]),
        ("name.given.replaceMatches('x', 'y')", ["B"]),
        ("name.given.startsWith('B,C')", [True]),
        ("name.given.upper()", []),
        ("name.given is string", [False]),
        ("name.given.is(string)", []),
        ("extension('y').value.lowBoundary()", []),
        ("22 / 7", [Decimal("3.1")]),
        ("''.exists()", [False]),
        ("birthDate.length()", []),
        ("name.given.toString()", ["B,C"]),
        ("{}.convertsToInteger()", [False]),
    ],
)
def test_what_an_expression_gives(expression: str, values: list[object]) -> None:
    assert fhirpath(PATIENT, expression) == values


@pytest.mark.parametrize(
    ("expression", "problem"),
    [
        ("", "incomplete"),
        ("name.", "incomplete"),
        ("name(", "incomplete"),
        ("a b", "unexpected b"),
        ("'open", "cannot be read"),
        ("nothing()", "nothing\\(\\) is not known"),
        ("name.first(1)", "does not take 1 argument"),
        ("%nobody", "%nobody is not known"),
        ("1 / ", "incomplete"),
        ("¶", "cannot be read"),
        ("name.given.single()", "there are 2"),
        ("-'a'", "cannot be computed"),
        ("1 + 'a'", "cannot be computed"),
        ("birthDate + 1 'kg'", "cannot be added"),
        ("name.as(Nobody)", "Nobody is not a type"),
        ("@2020-13-01", "not a date"),
        ("'\\q'", "escape"),
        ("'a'.matches('(')", "RE2"),
        ("1 /* open", "not expected"),
        ("memberOf('x')", "not known"),
    ],
)
def test_what_cannot_be_evaluated_is_said(expression: str, problem: str) -> None:
    with pytest.raises(FhirPathError, match=problem):
        fhirpath(PATIENT, expression)


@pytest.mark.parametrize(
    "expression",
    [
        "descendants()" + ".select(%resource.descendants())" * 6,
        "name.repeat($this & 'x')",
        "('x' & 'y')" + ".replace('', 'yyyyyyyyyyyyyyyyyyyy')" * 6,
        "1" + "0" * 38 + "".join([" * 10"] * 40),
        "10.power(10).power(10).power(10)",
        "(" * 5000 + "1" + ")" * 5000,
        "1" + " + 1" * 5000,
        "name" + ".name" * 5000,
        "/**/" * 5000 + "§",
        "'" + "a" * 200_000 + "'",
        "'aaaaaaaaaaaaaaaaaaaaaaaa!'.matches('(a+)+$') and {}.single() or" + " (true)" * 2,
        "@9999-12-31 + 1 day",
        "@0001-01-01T00:00:00Z - 1 hour",
        "(0.1).power(99999999)",
        "1.5.round(99999999)",
    ],
)
def test_no_expression_takes_long_or_raises_anything_else(expression: str) -> None:
    with suppress(FhirPathError):
        assert len(fhirpath(PATIENT, expression, steps=100_000)) <= 1


def test_the_steps_are_the_callers() -> None:
    assert len(fhirpath(PATIENT, "descendants()")) > 20
    with pytest.raises(TooCostlyError, match="too many steps"):
        fhirpath(PATIENT, "descendants()", steps=10)
    assert issubclass(TooCostlyError, FhirPathError)
    assert Refusal is FhirPathError


def test_references_of_a_bundle_are_resolved() -> None:
    encounter = {"resourceType": "Encounter", "id": "e", "subject": {"reference": "Patient/p"}}
    stay = {"resourceType": "Encounter", "id": "f", "partOf": {"reference": "urn:uuid:1"}}
    entries = [{"resource": PATIENT}, {"resource": encounter, "fullUrl": "urn:uuid:1"}, {"resource": stay}]
    bundle = {"resourceType": "Bundle", "entry": entries}
    visits = "Bundle.entry.resource.where(resourceType = 'Encounter')"
    assert fhirpath(bundle, f"{visits}.subject.resolve().birthDate") == ["1950-01-02"]
    assert fhirpath(bundle, f"{visits}.partOf.resolve().id") == ["e"]
    assert fhirpath(bundle, "entry.resource.where(partOf.resolve().subject.resolve() is Patient).id") == ["f"]
    assert fhirpath(bundle, "entry.resource.managingOrganization.resolve()") == []


def test_what_is_not_a_resource_is_refused() -> None:
    with pytest.raises(FhirPathError, match="resourceType"):
        fhirpath({"id": "x"}, "id")


def test_the_package_needs_no_regular_expressions() -> None:
    code = """
import fhir_server
print(fhir_server.fhirpath({"resourceType": "Patient", "active": True}, "active.not()"))
try:
    fhir_server.fhirpath({"resourceType": "Patient"}, "'a'.matches('a')")
except fhir_server.FhirPathError as error:
    print(error)
"""
    run = subprocess.run([sys.executable, "-S", "-c", code], capture_output=True, text=True, check=True)
    assert run.stdout == "[False]\nregular expressions need the package google-re2: pip install google-re2\n"


def test_every_invariant_of_r4_can_be_evaluated() -> None:
    kinds = [*definitions.resource_types(), "Quantity", "Period", "Reference", "Timing.repeat", "Questionnaire.item"]
    constraints = [constraint for kind in kinds for constraint in definitions.constraints(kind)]
    assert len(constraints) > 100
    for constraint in constraints:
        node = Node({}, constraint.path)
        assert compiled(constraint.expression)
        assert holds(constraint.expression, node, Environment(node, node, lambda reference: None)) in (True, False)
