"""What of a chart counts for a rule, and what is a fault of the data instead of a guess."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.clinical.chart import Chart
from refsol.clinical.codes import CPT, LOINC, SNOMED, Code, days
from refsol.clinical.rulings import Ruling, answer
from refsol.errors import DataFault
from tests.refsol.clinical.wards import POTASSIUM, Json, checked, concept, graded, ordered, reading, resource

ICD, CVX = "http://hl7.org/fhir/sid/icd-10-cm", "http://hl7.org/fhir/sid/cvx"
ECG, FLU, PRESSURE = Code("93000", CPT, "ECG"), Code("150", CVX, "influenza vaccine"), Code("I10", ICD, "hypertension")
YESTERDAY, TOMORROW = "2024-03-04T08:00:00+00:00", "2024-03-06T08:00:00+00:00"


def procedure(**elements: Any) -> Json:
    usual = {"status": "completed", "code": concept("93000", CPT), "performedDateTime": YESTERDAY}
    return resource("Procedure", **{**usual, **elements})


def vaccine(**elements: Any) -> Json:
    usual = {"status": "completed", "vaccineCode": concept("150", CVX), "occurrenceDateTime": YESTERDAY}
    return resource("Immunization", **{**usual, **elements})


def condition(code: Json, verified: str = "confirmed") -> Json:
    return resource("Condition", code=code, verificationStatus=concept(verified))


def coded(display: str = "", **more: Any) -> Json:
    """An active drug order whose concept has only a coding."""
    coding = {"code": "6809", **({"display": display} if display else {})}
    return ordered("", medicationCodeableConcept={"coding": [coding]}, **more)


def found(chart: Chart) -> dict[str, Any]:
    """What a rule finds of each kind."""
    return {
        "ECG": lambda: chart.last_done(ECG),
        "vaccine": lambda: chart.last_done(FLU, kind="Immunization"),
        "potassium": lambda: chart.latest(POTASSIUM),
        "hypertension": lambda: chart.has_condition(PRESSURE),
        "bare": lambda: chart.has_condition(Code("I10")),
        "metformin": lambda: chart.active_order("Metformin", "GLUCOPHAGE"),
    }


@pytest.mark.parametrize(
    ("what", "record", "counts"),
    [
        ("ECG", procedure(), True),
        ("ECG", procedure(status="not-done"), False),
        ("ECG", procedure(status="entered-in-error"), False),
        ("ECG", procedure(performedDateTime=TOMORROW), False),
        ("ECG", procedure(code=concept("93000", SNOMED)), False),
        ("ECG", procedure(code=concept("93000")), True),
        ("ECG", procedure(performedDateTime=None, effectiveDateTime=YESTERDAY), True),
        ("vaccine", vaccine(), True),
        ("vaccine", vaccine(status="not-done"), False),
        ("vaccine", vaccine(occurrenceDateTime=TOMORROW), False),
        ("potassium", reading(4), True),
        ("potassium", reading(4, status="entered-in-error"), False),
        ("potassium", reading(4, code=concept("2823-3", "http://local")), False),
        ("hypertension", condition(concept("I10", ICD)), True),
        ("hypertension", condition(concept("I10", SNOMED)), False),
        ("hypertension", condition(concept("I10")), True),
        ("hypertension", condition(concept("I10", ICD), "refuted"), False),
        ("hypertension", condition(concept("I10", ICD), "entered-in-error"), False),
        ("bare", condition(concept("I10", SNOMED)), True),
        ("metformin", ordered("Metformin 500 mg"), True),
        ("metformin", ordered("glucophage"), True),
        ("metformin", ordered("atorvastatin"), False),
        ("metformin", coded("metFORMIN 500 MG"), True),
        ("metformin", ordered("", medicationReference={"reference": "Medication/1", "display": "Metformin"}), True),
    ],
)
def test_what_counts(what: str, record: Json, counts: bool) -> None:
    def rule(chart: Chart) -> Ruling:
        return answer([1 if found(chart)[what]() else 0])

    assert checked(rule, record).answer == [int(counts)]


@pytest.mark.parametrize(
    ("what", "record", "fault"),
    [
        ("ECG", procedure(performedDateTime=None), "Procedure/1: the time is missing"),
        (
            "vaccine",
            vaccine(occurrenceDateTime=None, occurrenceString="in spring"),
            "Immunization/1: the time is missing",
        ),
        ("metformin", coded(), "MedicationRequest/1 does not name its drug, in a text or a display"),
        (
            "metformin",
            ordered("", medicationReference={"reference": "Medication/1"}),
            "MedicationRequest/1 does not name its drug, in a text or a display",
        ),
    ],
)
def test_what_is_not_known_is_not_guessed(what: str, record: Json, fault: str) -> None:
    def rule(chart: Chart) -> Ruling:
        return answer([1 if found(chart)[what]() else 0])

    with pytest.raises(DataFault, match=fault):
        checked(rule, record)
    verdict = graded(rule, resources=[record], answer="[1]")
    assert (verdict.correct, verdict.reason) == (None, f"the data, not the agent: {fault}")


def test_a_search_for_what_does_not_count_finds_it() -> None:
    def rule(chart: Chart) -> Ruling:
        return answer([1 if chart.first("Procedure", ECG, status="not-done") else 0])

    assert checked(rule, procedure(status="not-done")).answer == [1]


def test_only_the_window_and_the_system_of_a_reading_count() -> None:
    def rule(chart: Chart) -> Ruling:
        return answer([event.value for event in chart.all(POTASSIUM, within=days(2))])

    both = {"coding": [*concept("2823-3", "http://local")["coding"], *concept("2823-3", LOINC)["coding"]]}
    readings = (
        reading(4.1, number=1),
        reading(4.2, number=2, code=concept("2823-3")),
        reading(4.3, number=3, code=both),
        reading(4.4, number=4, code=concept("2823-3", SNOMED)),
        reading(4.5, "2024-03-01T08:00:00+00:00", number=5),
    )
    assert checked(rule, *readings).answer == [4.1, 4.2, 4.3]
