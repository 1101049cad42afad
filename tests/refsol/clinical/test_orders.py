"""Orders of rules: the right reply is right, and each argument may be a meaning."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from refsol.changes import Change
from refsol.clinical.chart import Chart
from refsol.clinical.codes import CPT, LOINC, RXNORM, Code, Drug
from refsol.clinical.meanings import Is, Near, OneOf
from refsol.clinical.orders import Order, lab_test, medication, stop
from refsol.clinical.rulings import Ruling, answer, nothing, order
from refsol.clinical.task_type import RuleError
from tests.refsol.clinical.wards import NOW, POTASSIUM, Json, Rule, checked, concept, graded, ordered, resource

DIGOXIN = Drug("3407", RXNORM, "digoxin")
SODIUM = Code("2951-2", LOINC, "sodium")
EIGHT, NINE = (NOW + timedelta(hours=hours) for hours in (18, 19))


def due(expected: Order) -> Rule:
    def rule(chart: Chart) -> Ruling:
        return order(expected)

    return rule


@pytest.mark.parametrize(("dose", "written"), [(0.125, 0.125), (70 / 3, 23.333333333), ((3.5 - 3.1) / 0.1 * 10, 40)])
def test_a_dose_is_written_as_it_is(dose: float, written: float) -> None:
    [(_, body)] = checked(due(medication(DIGOXIN, dose, "mg"))).posts
    value = body["dosageInstruction"][0]["doseAndRate"][0]["doseQuantity"]["value"]
    assert (value, type(value)) == (written, type(written))


@pytest.mark.parametrize(
    ("drug", "text"),
    [
        (Drug("5224", RXNORM, "anticoagulant", words=("heparin", "enoxaparin")), "heparin"),
        (Drug("5224", words=("Heparin",)), "Heparin"),
        (Drug("5224", name="Heparin"), "Heparin"),
    ],
)
def test_a_stop_is_written_with_a_word_that_names_the_drug(drug: Drug, text: str) -> None:
    assert checked(due(stop(drug))).posts[0][1]["medicationCodeableConcept"] == {"text": text}


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: stop(Drug("5224", RXNORM)), "the drug 5224 needs a name or words"),
        (lambda: medication(DIGOXIN, 1, "mg", over=0), "over=0: a dose is given over more than 0 hours"),
        (lambda: medication(DIGOXIN, 1, "mg", over=Near(1, 1)), "over=1: a dose is given over more than 0 hours"),
    ],
)
def test_an_order_that_cannot_be_is_an_error(make: Any, words: str) -> None:
    with pytest.raises(RuleError, match=words):
        checked(lambda chart: order(make()))


def drug_order(value: Any, rate: Json | None = None, unit: str = "mg", **more: Any) -> Json:
    dosage = {"doseAndRate": [{"doseQuantity": {"value": value, "unit": unit}, **(rate or {})}], **more}
    usual: Json = {"status": "active", "intent": "order", "medicationCodeableConcept": concept("3407", RXNORM)}
    return resource("MedicationRequest", **usual, dosageInstruction=[dosage])


def hours(value: float, unit: str = "h") -> Json:
    return {"rateQuantity": {"value": value, "unit": unit}}


def hourly(value: float, unit: str = "mg/h") -> Json:
    return {"rateQuantity": {"value": value, "unit": unit}}


def ratio(dose: float, of: str, **length: Any) -> Json:
    return {"rateRatio": {"numerator": {"value": dose, "unit": of}, "denominator": length}}


def service(**more: Any) -> Json:
    usual = {"status": "active", "intent": "order", "code": concept("2823-3", LOINC)}
    return resource("ServiceRequest", **{**usual, **more})


ARGUMENTS: list[tuple[Order, list[Json], list[Json]]] = [
    (
        medication(DIGOXIN, Near(20, 2), "mg"),
        [drug_order(18), drug_order(22.0)],
        [drug_order(17.9), drug_order("20")],
    ),
    (medication(DIGOXIN, OneOf(20, Near(40, 1)), "mg"), [drug_order(20), drug_order(39)], [drug_order(21)]),
    (medication(DIGOXIN, Is(20), "mg"), [drug_order(20)], [drug_order(21)]),
    (
        medication(DIGOXIN, 20, "mg", over=Near(2, 0.5)),
        [drug_order(20, hours(1.5)), drug_order(20, hourly(8)), drug_order(20, hourly(20 / 1.5))],
        [drug_order(20, hours(1.4)), drug_order(20, hourly(7.9)), drug_order(20, hourly(13.4)), drug_order(20)],
    ),
    (
        medication(DIGOXIN, OneOf(20, 40), "mg", over=OneOf(1, 2)),
        [drug_order(40, hours(2)), drug_order(20, hourly(20)), drug_order(20, hourly(10))],
        [drug_order(20, hours(3))],
    ),
    (
        medication(DIGOXIN, Near(20, 2), "mg", over=2),
        [drug_order(22, hourly(11)), drug_order(18, hourly(9))],
        [drug_order(22, hourly(11.1))],
    ),
    (
        medication(DIGOXIN, 20, "mg"),
        [drug_order(0.02, unit="g"), drug_order(20000, unit="mcg"), drug_order(20, unit="MG")],
        [drug_order(20, unit="g"), drug_order(20, unit="mL"), drug_order(20, unit=""), drug_order(1e308, unit="kg")],
    ),
    (
        medication(DIGOXIN, 20, "mg", over=2),
        [
            drug_order(20, hours(120, "min")),
            drug_order(20, hourly(0.01, "g/hr")),
            drug_order(20, hourly(10, "mg per hour")),
            drug_order(20, ratio(20, "mg", value=2, unit="h")),
            drug_order(20, ratio(10, "mg", unit="hour")),
            drug_order(20, ratio(20, "mg", value=120, unit="min")),
        ],
        [
            drug_order(20, hours(2, "min")),
            drug_order(20, hourly(10, "g/h")),
            drug_order(20, ratio(20, "mg", value=1, unit="h")),
            drug_order(20, ratio(20, "mg", value=0, unit="h")),
            drug_order(20, ratio(20, "mg", value=2, unit="mg")),
        ],
    ),
    (
        medication(DIGOXIN, 20, "mg", route=OneOf("IV", "oral")),
        [drug_order(20, route={"text": "Oral route"}), drug_order(20, route="iv")],
        [drug_order(20, route={"text": "subcutaneous"}), drug_order(20)],
    ),
    (
        lab_test(OneOf(SODIUM, POTASSIUM)),
        [service(), service(code=concept("2951-2", LOINC))],
        [service(code=concept("2951-2", CPT))],
    ),
    (lab_test(Is(concept("2823-3", LOINC))), [service()], [service(code={"text": "potassium"})]),
    (
        lab_test(POTASSIUM, at=OneOf(EIGHT, NINE)),
        [service(occurrenceDateTime="2024-03-06T10:00:00+01:00")],
        [service(occurrenceDateTime="2024-03-06T10:00:00+00:00")],
    ),
    (
        lab_test(POTASSIUM, priority=OneOf("urgent", "stat")),
        [service(priority="stat")],
        [service(priority="routine"), service()],
    ),
    (lab_test(POTASSIUM, priority=Is("urgent")), [service(priority="urgent")], [service(priority="stat")]),
    (
        lab_test(POTASSIUM, note=OneOf("fasting", "nüchtern")),
        [service(note=[{"text": "draw nüchtern"}])],
        [service(note=[{"text": "draw"}])],
    ),
]


@pytest.mark.parametrize(
    ("expected", "right", "wrong"), ARGUMENTS, ids=[expected.words for expected, _, _ in ARGUMENTS]
)
def test_an_argument_may_be_a_meaning(expected: Order, right: list[Json], wrong: list[Json]) -> None:
    checked(due(expected))
    for body in right:
        assert graded(due(expected), body).correct, body
    for body in wrong:
        assert graded(due(expected), body).correct is False, body


@pytest.mark.parametrize(
    ("route", "forms"),
    [
        ("Oral", ["oral", {"text": "Oral route"}, {"coding": [{"code": "26643006"}]}]),
        ("PO", ["oral", {"coding": [{"code": "PO"}]}]),
        ("intravenous", ["IV", {"text": "intravenous"}, {"coding": [{"code": "47625008"}]}]),
        ("iv", ["IV", {"text": "Intravenous route"}]),
        ("Nasal", ["nasal", {"text": "NASAL"}]),
    ],
)
def test_a_route_has_many_forms(route: str, forms: list[Any]) -> None:
    rule = due(medication(DIGOXIN, 20, "mg", route=route))
    checked(rule)
    for form in forms:
        assert graded(rule, drug_order(20, route=form)).correct, form
    assert graded(rule, drug_order(20, route="subcutaneous")).correct is False


@pytest.mark.parametrize(("near", "off"), [(Near(4.1, 0.1), 4.2), (Near(5.5, 0.1), 5.4), (Near(0.3, 0.1), 0.2)])
def test_a_tolerance_includes_its_end(near: Near, off: float) -> None:
    assert graded(lambda chart: answer([near]), answer=f"[{off}]").correct
    assert graded(due(medication(DIGOXIN, near, "mg")), drug_order(off)).correct
    assert (
        graded(lambda chart: answer([near]), answer=f"[{off + (0.001 if off > near.value else -0.001)}]").correct
        is False
    )


def test_many_orders_are_paired_with_their_posts() -> None:
    codes = [Code(f"{number}", LOINC) for number in range(14)]

    def rule(chart: Chart) -> Ruling:
        return order(*(lab_test(code, priority="stat") for code in codes))

    posts = [service(code=concept(code.code, LOINC), priority="stat") for code in codes]
    assert graded(rule, *reversed(posts)).correct
    assert graded(rule, *posts[1:]).reason.startswith("posts: expected 14 accepted, got 13 accepted")
    wrong = graded(rule, *reversed(posts[2:]), {**posts[1], "priority": "urgent"}, posts[0])
    assert (wrong.correct, wrong.reason) == (False, 'ServiceRequest priority: expected "stat", got "urgent"')


METFORMIN, INSULIN = ordered("metformin 500 mg", 1), ordered("insulin", 2)
STOP = stop(Drug("6809", RXNORM, "metformin"))


def becomes(before: Json, status: str) -> Change:
    return Change("changed", before, {**before, "status": status})


@pytest.mark.parametrize(
    ("rule", "changes", "others"),
    [
        (lambda chart: nothing(), [], ""),
        (lambda chart: nothing(), [becomes(METFORMIN, "on-hold")], ""),
        (lambda chart: nothing(), [becomes(METFORMIN, "stopped")], "MedicationRequest 1: status active → stopped"),
        (lambda chart: answer([]), [becomes(METFORMIN, "cancelled")], "MedicationRequest 1: status active → cancelled"),
        (lambda chart: nothing(), [Change("deleted", INSULIN)], "MedicationRequest 2: deleted (active, insulin)"),
        (lambda chart: nothing(), [becomes({**INSULIN, "status": "draft"}, "cancelled")], ""),
        (due(STOP), [becomes(METFORMIN, "stopped")], ""),
        (
            due(STOP),
            [becomes(METFORMIN, "stopped"), becomes(INSULIN, "completed")],
            "MedicationRequest 2: status active → completed",
        ),
        (
            lambda chart: nothing(only=True),
            [becomes(METFORMIN, "stopped")],
            "MedicationRequest 1: status active → stopped",
        ),
    ],
)
def test_ending_an_active_drug_is_an_order(rule: Rule, changes: list[Change], others: str) -> None:
    verdict = graded(rule, changes=changes)
    assert verdict.correct is (not others)
    assert verdict.reason == (f"other changes: expected none, got {others}" if others else "all checks passed")
