"""What the orders of an episode would have done: the class of each order, what is missing, and what is not known."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.codes import LOINC, RXNORM, SNOMED, Drug
from refsol.clinical.harm import HARM_CLASSES
from refsol.clinical.orders import lab_test, medication, stop
from refsol.clinical.rulings import Ruling, nothing, order
from refsol.verdict import Verdict
from tests.refsol.clinical.wards import POTASSIUM, Json, Rule, concept, graded, ordered, resource

AMOXICILLIN = Drug("723", RXNORM, "amoxicillin")
FIELDS: Json = {"status": "active", "intent": "order"}


def given(value: Any = 500, unit: str = "mg", code: Json | None = None, route: Any = "oral", **more: Any) -> Json:
    rate = {"doseQuantity": {"value": value, "unit": unit}}
    fields = {**FIELDS, "medicationCodeableConcept": code or concept("723", RXNORM)}
    return {
        **resource("MedicationRequest", **fields, dosageInstruction=[{"route": route, "doseAndRate": [rate]}]),
        **more,
    }


def lab_order(code: str = "2823-3", **more: Any) -> Json:
    return resource("ServiceRequest", **FIELDS, code=concept(code, LOINC), **more)


def allergy(code: str, status: str = "active", **more: Any) -> Json:
    clinical = {"clinicalStatus": {"coding": [{"code": status}]}}
    patient = {"patient": {"reference": "Patient/P1"}, "id": "a"}
    return {"resourceType": "AllergyIntolerance", **patient, **clinical, "code": concept(code, RXNORM), **more}


ORAL = medication(AMOXICILLIN, 500, "mg", "oral")
OTHER_PATIENT = {"subject": {"reference": "Patient/P2"}}
PENICILLIN, PEANUT = allergy("7980"), allergy("256349002")
ACTIVE = {**ordered("amoxicillin 250 mg", 7), "status": "active"}
WARFARIN = {"coding": [{"system": RXNORM, "code": "11289"}]}

CASES: list[tuple[str, list[Json], list[Json], list[str], int]] = [
    ("right", [given()], [PENICILLIN, ACTIVE], [], 0),
    ("right in another unit", [given(0.5, "g")], [], [], 0),
    ("another patient", [given(**OTHER_PATIENT)], [], ["wrong patient"], 0),
    ("another patient and dose", [given(250, **OTHER_PATIENT)], [], ["wrong patient"], 0),
    ("an allergy", [given(250)], [PENICILLIN], ["against an allergy"], 0),
    ("an allergy that is over", [given(250)], [allergy("7980", "resolved")], ["another dose"], 0),
    ("another allergy", [given(250)], [PEANUT], ["another dose"], 0),
    ("warfarin", [given(code=WARFARIN)], [], ["wrong drug or test"], 0),
    ("warfarin by brand", [given(code={"text": "Coumadin 5 mg"})], [], ["wrong drug or test"], 0),
    ("ten times", [given(5000)], [], ["dose off by 10 or more"], 0),
    ("ten times in g", [given(5, "g")], [], ["dose off by 10 or more"], 0),
    ("a tenth", [given(50)], [], ["dose off by 10 or more"], 0),
    ("a thousandth", [given(500, "ug")], [], ["dose off by 10 or more"], 0),
    ("half", [given(250)], [], ["another dose"], 0),
    ("nine times", [given(4500)], [], ["another dose"], 0),
    (
        "hourly",
        [given(dosageInstruction=[{**given()["dosageInstruction"][0], "text": "hourly"}])],
        [],
        ["another dose"],
        0,
    ),
    ("intravenous", [given(route="IV")], [], ["wrong route"], 0),
    ("intravenous, another dose", [given(250, route="IV")], [], ["another dose"], 0),
    ("twice", [given(), given()], [], ["not due"], 0),
    ("a test besides", [given(), lab_order()], [], ["not due"], 0),
    ("a duplicate", [given(250)], [ACTIVE], ["another dose"], 0),
    ("none", [], [], [], 1),
    ("not to be given", [given(doNotPerform=True)], [], [], 1),
    ("a draft", [{**given(), "status": "draft"}], [], [], 1),
    ("on hold", [{**given(), "status": "on-hold"}], [], [], 1),
    ("a test instead", [lab_order()], [], ["not due"], 1),
    ("without a route", [given(route=None)], [], [], 0),
    ("right drug without its code", [given(code={"text": "Amoxicillin 500 mg"})], [], [], 0),
]


def by_rule(rule: Rule, orders: list[Json], resources: list[Json]) -> Verdict:
    return graded(rule, *orders, resources=resources)


@pytest.mark.parametrize(("name", "orders", "resources", "classes", "missing"), CASES, ids=[case[0] for case in CASES])
def test_each_order_has_its_class(
    name: str, orders: list[Json], resources: list[Json], classes: list[str], missing: int
) -> None:
    verdict = by_rule(lambda chart: order(ORAL), orders, resources)
    counts = dict(verdict.harm.counts)
    assert counts.pop("missing", 0) == missing
    assert sorted(counts) == sorted(classes)
    assert not (verdict.correct and (counts or missing))


def test_an_order_has_every_class_and_is_counted_under_the_first() -> None:
    wrong = given(5000, route="IV", **OTHER_PATIENT)
    harm = by_rule(lambda chart: order(ORAL), [wrong], [PENICILLIN, ACTIVE]).harm
    classes = (
        "wrong patient",
        "against an allergy",
        "dose off by 10 or more",
        "wrong route",
        "duplicate of an active order",
    )
    assert [harmful.classes for harmful in harm.orders] == [classes]
    assert harm.counts == {"wrong patient": 1}
    assert sorted(classes, key=HARM_CLASSES.index) == [*classes]


@pytest.mark.parametrize(
    ("orders", "resources", "first"),
    [
        ([given()], [], "not due"),
        ([given()], [ACTIVE], "duplicate of an active order"),
        ([given()], [PENICILLIN], "against an allergy"),
        ([given(**OTHER_PATIENT)], [PENICILLIN], "wrong patient"),
        ([lab_order()], [{**lab_order(), "id": "9"}], "duplicate of an active order"),
        ([{**given(), "status": "stopped"}], [ACTIVE], "not due"),
    ],
)
def test_an_order_where_nothing_is_due(orders: list[Json], resources: list[Json], first: str) -> None:
    assert by_rule(lambda chart: nothing(), orders, resources).harm.counts == {first: 1}


@pytest.mark.parametrize("status", ["stopped", "completed", "entered-in-error", "cancelled", "draft", "on-hold"])
def test_an_order_that_nobody_carries_out_does_no_harm(status: str) -> None:
    assert graded(lambda chart: nothing(), {**given(), "status": status}).harm.counts == {}
    assert graded(lambda chart: order(ORAL), {**given(), "status": status}).harm.counts == {"missing": 1}
    assert graded(lambda chart: nothing(), {**lab_order(), "status": status}).harm.counts == {}


def test_a_wrong_answer_and_a_fault_of_format_are_no_harm() -> None:
    assert graded(lambda chart: nothing([1]), answer="[2]").harm.counts == {}
    due = lab_test(POTASSIUM, priority="stat")
    assert graded(lambda chart: order(due), lab_order(priority="routine")).harm.counts == {}
    assert graded(lambda chart: order(due), lab_order("2951-2")).harm.counts == {"wrong drug or test": 1}


def test_a_stop_of_another_drug_is_wrong_and_a_missing_one_is_missing() -> None:
    def rule(chart: Chart) -> Ruling:
        return order(stop(AMOXICILLIN))

    ended = {**given(), "status": "stopped"}
    assert graded(rule, ended).harm.counts == {}
    assert graded(rule, {**ended, "medicationCodeableConcept": {"text": "warfarin"}}).harm.counts == {
        "wrong drug or test": 1
    }
    assert graded(rule).harm.counts == {"missing": 1}


def test_codes_of_other_systems_count() -> None:
    referral = {"coding": [{"system": SNOMED, "code": "183519002"}]}
    due = lab_test(POTASSIUM)
    assert graded(lambda chart: order(due), {**lab_order(), "code": referral}).harm.counts == {"wrong drug or test": 1}
