"""Orders of own task types are judged by their meaning. A type may state that they repeat, or are given if needed."""

from __future__ import annotations

from datetime import timedelta
from typing import Any

import pytest

from refsol.clinical.codes import LOINC, RXNORM, Drug, hours
from refsol.clinical.orders import Order, lab_test, medication, stop
from refsol.clinical.task_type import RuleError
from tests.refsol.clinical.test_orders import due
from tests.refsol.clinical.wards import POTASSIUM, Json, checked, concept, graded, resource

FUROSEMIDE = Drug("4603", RXNORM, "furosemide")
UNKNOWN = Drug("99999999", RXNORM, "docusate calcium")
ONCE = medication(FUROSEMIDE, 40, "mg", "IV")
THRICE = medication(FUROSEMIDE, 40, "mg", "IV", repeat=hours(8))
IF_NEEDED = medication(FUROSEMIDE, 40, "mg", "IV", as_needed=True)


def drug(dosage: Json | None = None, *, code: Json | None = None, **more: Any) -> Json:
    rate = {"doseQuantity": {"value": 40, "unit": "mg"}}
    return resource(
        "MedicationRequest",
        status="active",
        intent="order",
        medicationCodeableConcept=code or concept("4603", RXNORM),
        dosageInstruction=[{"route": "IV", "doseAndRate": [rate], **(dosage or {})}],
        **more,
    )


def timed(**repeat: Any) -> Json:
    return {"timing": {"repeat": repeat}}


def coded(code: str) -> Json:
    return {"timing": {"code": {"coding": [{"code": code}]}}}


TESTS = [lab_test(POTASSIUM, repeat=timedelta(days=1)), lab_test(POTASSIUM, as_needed=True)]


@pytest.mark.parametrize("expected", [ONCE, THRICE, IF_NEEDED, *TESTS], ids=lambda expected: expected.words)
def test_the_right_reply_is_right_and_each_wrong_field_wrong(expected: Order) -> None:
    assert checked(due(expected)).wrong


@pytest.mark.parametrize(
    ("expected", "body", "right"),
    [
        (ONCE, drug(), True),
        (ONCE, drug({"timing": {"code": {"text": "once, now"}}}), True),
        (ONCE, drug(timed(frequency=1, period=8, periodUnit="h")), False),
        (ONCE, drug(coded("TID")), False),
        (ONCE, drug({"asNeededBoolean": True}), False),
        (ONCE, drug(doNotPerform=True), False),
        (ONCE, drug({"modifierExtension": [{"url": "u"}]}), False),
        (THRICE, drug(timed(frequency=1, period=8, periodUnit="h")), True),
        (THRICE, drug(timed(frequency=3, period=1, periodUnit="d")), True),
        (THRICE, drug(timed(frequency=3, period=24, periodUnit="h")), True),
        (THRICE, drug(coded("TID")), True),
        (THRICE, drug(coded("Q8H")), True),
        (THRICE, drug({"timing": {"code": {"text": "every 8 hours"}}}), True),
        (THRICE, drug({"timing": {"code": {"text": "three times a day"}}}), True),
        (THRICE, drug(), False),
        (THRICE, drug(timed(frequency=1, period=6, periodUnit="h")), False),
        (THRICE, drug({**coded("TID"), "text": "40 mg IV hourly"}), False),
        (THRICE, drug({"timing": {"repeat": {"period": 8, "periodUnit": "h"}, "code": {"text": "daily"}}}), False),
        (IF_NEEDED, drug({"asNeededBoolean": True}), True),
        (IF_NEEDED, drug({"asNeededCodeableConcept": {"text": "dyspnea"}}), True),
        (IF_NEEDED, drug({"asNeededBoolean": False}), False),
        (IF_NEEDED, drug(), False),
        (ONCE, drug(code={**concept("4603", RXNORM), "text": "Lasix 40 mg"}), True),
        (ONCE, drug(code={**concept("4603", RXNORM), "text": "Bumex"}), False),
        (ONCE, drug(code={"coding": [*concept("3407", RXNORM)["coding"], *concept("4603", RXNORM)["coding"]]}), False),
        (medication(FUROSEMIDE, 0.04, "g"), drug(), True),
        (medication(FUROSEMIDE, 4, "mg"), drug(), False),
    ],
)
def test_an_order_is_judged_by_its_meaning(expected: Order, body: Json, right: bool) -> None:
    verdict = graded(due(expected), body)
    assert verdict.correct is right, verdict.reason


@pytest.mark.parametrize(
    ("text", "right"),
    [("docusate calcium 240 mg", True), ("Surfak", True), ("calcium with vitamin", True), ("240 mg capsule", True)],
)
def test_a_drug_that_the_table_does_not_know_is_contradicted_only_by_a_code(text: str, right: bool) -> None:
    expected = medication(UNKNOWN, 40, "mg")
    assert graded(due(expected), drug(code={**concept("99999999", RXNORM), "text": text})).correct is right
    contradicting = {"coding": [*concept("99999999", RXNORM)["coding"], {"system": RXNORM, "code": "11289"}]}
    assert graded(due(expected), drug(code=contradicting)).correct is False


@pytest.mark.parametrize("dosage", [timed(period=8, periodUnit="h"), {"text": "daily"}, {"asNeededBoolean": True}])
def test_the_dosage_of_an_order_that_stops_a_drug_does_not_matter(dosage: Json) -> None:
    rule = due(stop(FUROSEMIDE))
    body = {**drug(dosage), "status": "stopped", "medicationCodeableConcept": {"text": "furosemide 40 mg"}}
    assert graded(rule, body).correct
    assert graded(rule, {**body, "doNotPerform": True}).correct is False
    another = {"text": "furosemide", "coding": [{"display": "warfarin"}]}
    assert graded(rule, {**body, "medicationCodeableConcept": another}).correct is False


def test_a_test_is_due_at_one_time_or_repeats() -> None:
    with pytest.raises(RuleError, match="at and repeat: a test is due at one time or repeats"):
        checked(lambda chart: due(lab_test(POTASSIUM, at=chart.now, repeat=hours(8)))(chart))


@pytest.mark.parametrize(
    ("identifier", "right"), [("P1", True), ("MRN-7", True), ("MRN-8", False), ("", False), (None, False)]
)
def test_the_patient_may_be_named_by_an_identifier(identifier: Any, right: bool) -> None:
    patient = {"resourceType": "Patient", "id": "P1", "identifier": [{"system": "http://x/mrn", "value": "MRN-7"}]}
    order = {**drug(), "subject": {"identifier": {"system": "http://x/mrn", "value": identifier}}}
    assert graded(due(ONCE), order, resources=[patient]).correct is right


def test_a_repeated_test_is_a_timing() -> None:
    expected = lab_test(POTASSIUM, repeat=timedelta(hours=6))
    body = {"status": "active", "intent": "order", "code": concept("2823-3", LOINC)}
    right = resource("ServiceRequest", **body, occurrenceTiming={"code": {"coding": [{"code": "Q6H"}]}})
    assert graded(due(expected), right).correct
    assert graded(due(expected), resource("ServiceRequest", **body)).correct is False
    assert graded(due(lab_test(POTASSIUM)), right).correct is False
