"""HL7's FHIRPath tests for R4 (`FHIR/fhir-test-cases`, Apache-2.0), read in place, through the public function."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple
from xml.etree import ElementTree

import pytest

from fhir_server import FhirPathError, fhirpath
from fhir_server.wire.json_text import decode
from fhir_server.wire.xml import parse_xml
from tests.shared_data import SHARED, need

FOLDER = SHARED / "fhirpath"
STRICT = {
    "testSimpleFail": "an element that does not exist is empty, as in HAPI",
    "testSimpleWithWrongContext": "a type that does not fit is empty, as in HAPI",
    "testPolymorphismB": "the public function reads the keys of JSON too",
    "testPolymorphismAsB": "a type that does not fit is empty, as in HAPI",
    "testDollarOrderNotAllowed": "children have an order, as in HAPI",
    "testIif6": "a text is true, as in HAPI",
    "testPolymorphicsB": "the public function reads the keys of JSON too",
    "testStartsWithNonString1": "an object does not have a text, as in HAPI",
    "testEndsWithNonString1": "an object does not have a text, as in HAPI",
    "testContainsNonString1": "an object does not have a text, as in HAPI",
    "testFHIRPathAsFunction21": "`as()` takes several, as in HAPI",
}
"""The tests that come out otherwise, each with the reason. All others must come out as demanded."""


class Case(NamedTuple):
    """A test: its name, its file, its expression, and what it demands."""

    name: str
    file: str
    expression: str
    values: list[str]
    ordered: bool
    invalid: bool
    exists: bool


def cases(path: Path) -> Iterator[Case]:
    for test in ElementTree.parse(path).getroot().iter("test"):
        expression = test.find("expression")
        assert expression is not None
        yield Case(
            test.attrib["name"],
            test.get("inputfile", "patient-example.xml"),
            expression.text or "",
            [(output.text or "").removeprefix("@").removeprefix("T") for output in test.findall("output")],
            test.get("ordered") != "false",
            expression.get("invalid") is not None,
            test.get("predicate") == "true",
        )


@cache
def resource(name: str) -> Any:
    text = need(FOLDER / name).read_text("utf-8")
    return decode(text) if name.endswith(".json") else parse_xml(text)


def shown(value: Any) -> str:
    match value:
        case bool():
            return json.dumps(value)
        case Decimal():
            return f"{value:f}"
        case {"value": number, "unit": unit}:
            return f"{number} '{unit}'"
    return str(value)


def comes_out(case: Case) -> bool:
    try:
        values = [shown(value) for value in fhirpath(resource(case.file), case.expression)]
    except FhirPathError:
        return case.invalid
    if case.exists:
        values = [json.dumps(bool(values))]
    if not case.ordered:
        return sorted(values) == sorted(case.values)
    return values == case.values and (bool(case.values) or not case.invalid)


def test_hl7s_tests() -> None:
    results = [(case, comes_out(case)) for case in cases(need(FOLDER / "tests-fhir-r4.xml"))]
    assert len(results) == 935
    assert {case.name for case, is_right in results if not is_right} <= STRICT.keys()
    assert sum(is_right for _, is_right in results) >= 935 - len(STRICT)


def test_no_expression_raises_another_exception() -> None:
    """Each of HL7's expressions, over each of HL7's resources, and cut off at each third of it."""
    listed = list(cases(need(FOLDER / "tests-fhir-r4.xml")))
    files = sorted({case.file for case in listed})
    for number, case in enumerate(listed):
        length = len(case.expression)
        for text in (case.expression, case.expression[: length // 3], case.expression[: length * 2 // 3]):
            with suppress(FhirPathError):
                fhirpath(resource(files[number % len(files)]), text)


@pytest.mark.parametrize("name", ["1 +", "name.", "Patient.name.nothing()"])
def test_what_is_not_an_expression_is_refused(name: str) -> None:
    with pytest.raises(FhirPathError):
        fhirpath({"resourceType": "Patient"}, name)
