"""The definitions of R4 and the index rows that values of each kind give."""

from __future__ import annotations

import re
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fhir_server import definitions
from fhir_server.search._element_paths import compile_path
from fhir_server.search.indexer import index
from fhir_server.search.kinds.string import fold
from fhir_server.search.parameters import ParameterRegistry, parameters, resource_types
from fhir_server.wire.json_values import Number

R4 = ParameterRegistry({})

LOINC = "http://loinc.org"


def rows(kind: str, name: str, resource: dict[str, Any]) -> list[tuple[Any, ...]]:
    """The rows of one parameter, without its name."""
    return [tuple(row[1:]) for row in index(resource, R4)[kind] if row[0] == name]


def test_every_resource_type_has_elements_and_parameters() -> None:
    assert len(resource_types()) == 146
    for name in resource_types():
        assert definitions.elements(name)[0].name == "id"
        assert {"_id", "_lastUpdated", "_tag", "_profile", "_security"} <= set(parameters(name))


def test_every_type_an_element_names_is_known() -> None:
    seen, owed = set(), list(resource_types())
    while owed:
        name = owed.pop()
        if name not in seen and not definitions.is_primitive(name):
            seen.add(name)
            owed += [declared.name for element in definitions.elements(name) for declared in element.types]
    assert {"Patient.contact", "Extension", "Dosage", "Resource"} <= seen


def test_every_expression_finds_elements() -> None:
    """Only what is answered in another way leads to no element: inline resources and `deceased`."""
    without = {
        f"{kind}.{name}"
        for kind in resource_types()
        for name, parameter in parameters(kind).items()
        if parameter.expression and parameter.kind != "composite" and not compile_path(parameter.expression, kind)
    }
    assert without == {"Bundle.composition", "Bundle.message", "Patient.deceased"}


def test_components_of_composites_are_parameters() -> None:
    for kind in resource_types():
        for parameter in parameters(kind).values():
            assert all(component.parameter in parameters(kind) for component in parameter.components)
    assert [c.kind for c in parameters("Observation")["code-value-quantity"].components] == ["token", "quantity"]


def test_an_unknown_type_has_no_parameters() -> None:
    with pytest.raises(KeyError):
        parameters("Foo")
    with pytest.raises(KeyError):
        parameters("DomainResource")


def test_a_concept_gives_tokens_and_texts() -> None:
    concept = {"coding": [{"system": LOINC, "code": "MG", "display": "Magnésium"}, {"code": "x"}], "text": "Mg"}
    observation = {"resourceType": "Observation", "code": concept}
    assert rows("token", "code", observation) == [(LOINC, "MG"), ("", "x")]
    assert rows("string", "code", observation) == [("MG", "Mg"), ("MAGNESIUM", "Magnésium")]
    assert rows("token", "combo-code", observation) == [(LOINC, "MG"), ("", "x")]


def test_a_bound_code_has_the_system_of_its_list() -> None:
    patient = {"resourceType": "Patient", "gender": "male", "active": True}
    assert rows("token", "gender", patient) == [("http://hl7.org/fhir/administrative-gender", "male")]
    assert rows("token", "active", patient) == [("", "true")]


def test_an_identifier_without_a_value_is_not_indexed() -> None:
    identifiers = [{"system": "urn:a"}, {"system": "urn:a", "value": "1"}, {"value": "2"}, {"value": "2"}]
    assert rows("token", "identifier", {"resourceType": "Patient", "identifier": identifiers}) == [
        ("urn:a", "1"),
        ("", "2"),
    ]


def test_a_filter_on_a_literal_holds() -> None:
    telecom = [{"system": "phone", "value": "1"}, {"system": "email", "value": "a@b"}]
    patient = {"resourceType": "Patient", "telecom": telecom}
    assert rows("token", "phone", patient) == [("phone", "1")]
    assert rows("token", "telecom", patient) == [("phone", "1"), ("email", "a@b")]


@pytest.mark.parametrize(
    ("members", "value"),
    [
        ({}, "false"),
        ({"deceasedBoolean": False}, "false"),
        ({"deceasedBoolean": True}, "true"),
        ({"deceasedDateTime": "2020"}, "true"),
    ],
)
def test_deceased_is_true_or_false_for_every_patient(members: dict[str, Any], value: str) -> None:
    assert rows("token", "deceased", {"resourceType": "Patient", **members}) == [("", value)]


def test_names_and_addresses_give_their_parts() -> None:
    name = {"family": "du Marché", "given": ["A", "B"], "prefix": ["Dr"]}
    patient = {"resourceType": "Patient", "name": [name], "address": [{"line": ["1 St"], "city": "X", "use": "home"}]}
    assert {row[1] for row in rows("string", "name", patient)} == {"du Marché", "A", "B", "Dr"}
    assert rows("string", "family", patient) == [("DU MARCHE", "du Marché")]
    assert {row[1] for row in rows("string", "address", patient)} == {"1 St", "X"}


def test_a_choice_is_indexed_by_its_type() -> None:
    quantity = {"value": 4.5, "unit": "mg/dL", "system": "http://unitsofmeasure.org", "code": "mg/dL"}
    observation = {"resourceType": "Observation", "valueQuantity": quantity, "effectiveDateTime": "2023-11"}
    assert rows("quantity", "value-quantity", observation) == [(4.5, "http://unitsofmeasure.org", "mg/dL")]
    assert [row[2:] for row in rows("date", "date", observation)] == [(20231101, 20231130)]
    period = {"resourceType": "Observation", "effectivePeriod": {"start": "2023-11-13T01:35:00+00:00"}}
    assert [row[2:] for row in rows("date", "date", period)] == [(20231113, 90000101)]


def test_money_has_its_currency_for_unit_and_a_range_two_ends() -> None:
    invoice = {"resourceType": "Invoice", "totalNet": {"value": 40, "currency": "EUR"}}
    assert rows("quantity", "totalnet", invoice) == [(40.0, "urn:iso:std:iso:4217", "EUR")]
    value = {"low": {"value": 3}, "high": {"value": 18}}
    measure = {"resourceType": "Measure", "useContext": [{"code": {"code": "age"}, "valueRange": value}]}
    assert rows("quantity", "context-quantity", measure) == [(3.0, "", ""), (18.0, "", "")]


def test_numbers_are_rounded_to_two_places() -> None:
    assessment = {
        "resourceType": "RiskAssessment",
        "prediction": [{"probabilityDecimal": Number("0.015")}, {"probabilityDecimal": 7}],
    }
    assert rows("number", "probability", assessment) == [(0.02,), (7.0,)]


@pytest.mark.parametrize("huge", [Number("9" * 400 + ".5"), 10**400])
def test_enormous_amounts_are_indexed(huge: Number | int) -> None:
    prediction = {"probabilityDecimal": huge}
    assert rows("number", "probability", {"resourceType": "RiskAssessment", "prediction": [prediction]}) == [(inf,)]
    observation = {"resourceType": "Observation", "valueQuantity": {"value": huge}}
    assert rows("quantity", "value-quantity", observation) == [(inf, "", "")]


def test_uris_and_coordinates() -> None:
    assert rows("uri", "url", {"resourceType": "ValueSet", "url": "urn:x"}) == [("urn:x",)]
    position = {"latitude": 42.25, "longitude": -83.5}
    assert rows("special", "near", {"resourceType": "Location", "position": position}) == [(42.25, -83.5)]


def test_references_carry_the_path_hapi_names() -> None:
    observation = {"resourceType": "Observation", "subject": {"reference": "Patient/1"}}
    assert [row[:3] for row in index(observation, R4)["reference"]] == [
        ("patient", "Observation.subject.where(resolve() is Patient)", "Patient/1"),
        ("subject", "Observation.subject", "Patient/1"),
    ]
    group = {"resourceType": "Observation", "subject": {"reference": "Group/1"}}
    assert [row.parameter for row in index(group, R4)["reference"]] == ["subject"]
    inside = {"resourceType": "Observation", "subject": {"reference": "#p"}}
    assert index(inside, R4)["reference"] == []


def test_the_codes_of_a_code_system_are_of_its_system() -> None:
    system = {"resourceType": "CodeSystem", "url": "urn:s", "concept": [{"code": "a"}]}
    assert rows("token", "code", system) == [("urn:s", "a")]


def test_long_texts_are_cut() -> None:
    patient = {"resourceType": "Patient", "name": [{"family": "x" * 2000}]}
    assert {len(cell) for row in rows("string", "family", patient) for cell in row} == {768}


def test_tags_and_profiles_are_indexed() -> None:
    meta = {"tag": [{"system": "urn:t", "code": "a"}], "profile": ["urn:p"]}
    patient = {"resourceType": "Patient", "meta": meta}
    assert rows("token", "_tag", patient) == [("urn:t", "a")]
    assert rows("uri", "_profile", patient) == [("urn:p",)]


@settings(max_examples=100)
@given(st.text())
def test_folding_ignores_case_and_accents(text: str) -> None:
    assert fold(fold(text)) == fold(text)
    assert not re.search("[\u0300-\u036f]", fold(text))


def test_folding_is_hapis() -> None:
    assert fold("Åsa Müller-ß") == "ASA MULLER-SS"
    assert fold("Нью-Йорк 東京") == "НЬЮ-ИОРК 東京"
