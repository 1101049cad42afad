"""`fair` and `state`: what they accept beyond the official rules, and what they do not."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.medagentbench import RecordedEpisode
from refsol.medagentbench.constants import REFERRAL
from refsol.medagentbench.recorded import Created
from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MadeUpEhr, grade, lab, post, put

ROUTE = ("dosageInstruction", 0, "route")
RATE = ("dosageInstruction", 0, "doseAndRate", 0, "rateQuantity")
LOW_MG = lab("MG", (items.RECENT, 1.2))
LOW_K = lab("K", (items.RECENT, 3.3))
ZULU = "2023-11-13T10:15:00Z"
PROSE = [{"role": "agent", "content": "GET http://x/Observation?code=POST"}, {"role": "user", "content": "{}"}]

VITAL = {"system": "http://hl7.org/fhir/observation-category", "code": "vital-signs"}


def slashed(order: dict[str, Any]) -> list[dict[str, str]]:
    """A POST whose URL ends in a slash."""
    said, accepted = post(order)
    return [{**said, "content": said["content"].replace("ServiceRequest\n", "ServiceRequest/\n", 1)}, accepted]


TRAPS = {
    "note as a list": ("task8", post(put(items.REFERRAL_ORDER, ("note",), [{"text": REFERRAL}])), MadeUpEhr()),
    "IV as text of a concept": ("task5", post(put(items.MAGNESIUM, ROUTE, {"text": "IV"})), LOW_MG),
    "IV as a code": ("task5", post(put(items.MAGNESIUM, ROUTE, {"coding": [{"code": "47625008"}]})), LOW_MG),
    "IV as a display": ("task5", post(put(items.MAGNESIUM, ROUTE, {"coding": [{"display": "Intravenous"}]})), LOW_MG),
    "oral as text of a concept": (
        "task9",
        post(put(items.POTASSIUM, ROUTE, {"text": "Oral"})) + post(items.POTASSIUM_CHECK),
        LOW_K,
    ),
    "a rate per hour": ("task5", post(put(items.MAGNESIUM, RATE, {"value": 1, "unit": "g/h"})), LOW_MG),
    "the other order": ("task9", post(items.POTASSIUM_CHECK) + post(items.POTASSIUM), LOW_K),
    "prose in a query": ("task2", PROSE, MadeUpEhr()),
    "Zulu time": ("task3", post(put(items.BLOOD_PRESSURE, ("effectiveDateTime",), ZULU)), MadeUpEhr()),
    "Zulu order": ("task10", post(put(items.A1C_ORDER, ("authoredOn",), ZULU)), MadeUpEhr()),
    "a reading after now": ("task5", post(items.MAGNESIUM), lab("MG", (items.RECENT, 1.2), ("2023-11-13T11:00Z", 2.4))),
}
DOSE = ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity")
RATES = ("dosageInstruction", 0, "doseAndRate", 0)
UCUM = {"system": "http://unitsofmeasure.org", "code": "g"}
RATIO = {
    "doseQuantity": {"value": 2, "unit": "g"},
    "rateRatio": {"numerator": {"value": 2, "unit": "g"}, "denominator": {"value": 2, "unit": "h"}},
}
SERVER = "http://localhost:8080/fhir/"
TRAPS |= {
    "a quantity with system and code": (
        "task5",
        post(put(items.MAGNESIUM, DOSE, {**UCUM, "unit": "g", "value": 2})),
        LOW_MG,
    ),
    "a subject with a display": (
        "task3",
        post(put(items.BLOOD_PRESSURE, ("subject",), {**items.SUBJECT, "display": "Ann Lee"})),
        MadeUpEhr(),
    ),
    "an absolute reference to the patient": (
        "task10",
        post(put(items.A1C_ORDER, ("subject",), {"reference": f"{SERVER}Patient/{items.MRN}"})),
        MadeUpEhr(),
    ),
    "a rate as a ratio": ("task5", post(put(items.MAGNESIUM, RATES, RATIO)), LOW_MG),
    "g/hr for g/h": ("task5", post(put(items.MAGNESIUM, RATE, {"value": 1, "unit": "g/hr"})), LOW_MG),
    "a category without display": (
        "task3",
        post(put(items.BLOOD_PRESSURE, ("category",), [{"coding": [VITAL]}])),
        MadeUpEhr(),
    ),
    "the right code as the second coding": (
        "task10",
        post(put(items.A1C_ORDER, ("code", "coding"), [{"code": "own"}, items.A1C_ORDER["code"]["coding"][0]])),
        MadeUpEhr(),
    ),
    "fractions of a second": (
        "task3",
        post(put(items.BLOOD_PRESSURE, ("effectiveDateTime",), "2023-11-13T10:15:00.000+00:00")),
        MadeUpEhr(),
    ),
    "another zone": (
        "task10",
        post(put(items.A1C_ORDER, ("authoredOn",), "2023-11-13T05:15:00-05:00")),
        MadeUpEhr(),
    ),
    "a trailing slash": ("task10", slashed(items.A1C_ORDER), MadeUpEhr()),
}
ANSWERS = {"task2": "[60]"}


@pytest.mark.parametrize("trap", TRAPS)
def test_a_mended_trap_is_right_in_fair_and_wrong_officially(trap: str) -> None:
    kind, history, ehr = TRAPS[trap]
    answer = ANSWERS.get(kind, "[]")
    assert grade(kind, answer, history, ehr).correct is False
    fair = grade(kind, answer, history, ehr, rules="fair")
    assert fair.correct is True, fair.reason


@pytest.mark.parametrize(
    ("kind", "history", "ehr"),
    [
        ("task5", post(put(items.MAGNESIUM, ROUTE, {"text": "oral"})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, ROUTE, {"coding": [{"code": "26643006"}]})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, ROUTE, {"coding": []})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, RATE, {"value": 2, "unit": "g/h"})), LOW_MG),
        ("task8", post(put(items.REFERRAL_ORDER, ("note",), [{"text": "no"}])), MadeUpEhr()),
        ("task8", post(put(items.REFERRAL_ORDER, ("note",), [])), MadeUpEhr()),
        ("task9", post(items.POTASSIUM) + post(items.POTASSIUM), LOW_K),
        ("task2", post(items.A1C_ORDER), MadeUpEhr()),
        ("task5", post(put(items.MAGNESIUM, DOSE, {**UCUM, "code": "mg", "value": 2})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, DOSE, {**UCUM, "unit": "mg", "value": 2})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, RATE, {"value": 1, "unit": "mg/hr"})), LOW_MG),
        ("task5", post(put(items.MAGNESIUM, RATES, put(RATIO, ("rateRatio", "numerator", "value"), 4))), LOW_MG),
        ("task10", post(put(items.A1C_ORDER, ("code", "coding"), [{"code": "4548-4"}])), MadeUpEhr()),
        ("task10", post(put(items.A1C_ORDER, ("authoredOn",), "2023-11-13T05:15:00+05:00")), MadeUpEhr()),
        (
            "task10",
            post(put(items.A1C_ORDER, ("subject",), {"reference": f"http://other/fhir/Patient/{items.MRN}"})),
            MadeUpEhr(),
        ),
        ("task2", [{"role": "agent", "content": "```tool_code\nPOST http://x/A\n{}```"}, items.ACCEPTED], MadeUpEhr()),
        ("task3", post(put(items.BLOOD_PRESSURE, ("effectiveDateTime",), "2023-11-13T10:15Z")), MadeUpEhr()),
    ],
)
def test_what_is_clinically_wrong_stays_wrong(kind: str, history: list[dict[str, str]], ehr: MadeUpEhr) -> None:
    assert grade(kind, ANSWERS.get(kind, "[]"), history, ehr, rules="fair").correct is False


def test_the_time_of_an_answer_may_be_zulu() -> None:
    ehr = lab("A1C", ("2023-11-01T09:00:00+00:00", 5.9))
    answer = '[5.9, "2023-11-01T09:00:00Z"]'
    assert grade("task10", answer, [], ehr).correct is False
    assert grade("task10", answer, [], ehr, rules="fair").correct is True
    zulu = lab("A1C", ("2023-11-01T09:00:00Z", 5.9))
    assert grade("task10", '[5.9, "2023-11-01T09:00:00+00:00"]', [], zulu, rules="fair").correct is True


def test_a_reading_at_the_very_moment_is_not_after_now() -> None:
    ehr = lab("MG", (items.RECENT, 2.0), (items.NOW, 2.2), ("2023-11-13T12:00:00Z", 2.4))
    assert [grade("task4", f"[{value}]", [], ehr, rules="fair").correct for value in (2.0, 2.2, 2.4)] == [
        False,
        True,
        True,
    ]


def test_both_readings_of_the_window_are_fair() -> None:
    ehr = lab("MG", (items.RECENT, 2.0), ("2023-11-13T12:00:00Z", 2.4))
    assert grade("task4", "[2.4]", [], ehr).correct is True
    assert [grade("task4", f"[{value}]", [], ehr, rules="fair").correct for value in (2.0, 2.4, 2.2)] == [
        True,
        True,
        False,
    ]


def episode(*created: dict[str, Any] | None, status: str = "completed") -> RecordedEpisode:
    stored = tuple(
        Created(f"http://localhost:8080/fhir/{(resource or {}).get('resourceType', 'X')}", resource)
        for resource in created
    )
    return RecordedEpisode("task", 1, status, stored)


def stored(payload: dict[str, Any]) -> dict[str, Any]:
    return {"id": "a1", "meta": {"versionId": "1"}, **payload}


def test_state_grades_what_was_stored_and_not_what_was_said() -> None:
    said = post(items.MAGNESIUM)
    no_route = stored(put(items.MAGNESIUM, ("dosageInstruction", 0), {}))
    no_route["dosageInstruction"][0] = {"doseAndRate": items.MAGNESIUM["dosageInstruction"][0]["doseAndRate"]}
    assert grade("task5", "[]", said, LOW_MG, rules="state", episode=episode(no_route)).correct is True
    assert grade("task5", "[]", said, LOW_MG, rules="state", episode=episode(None)).correct is False
    assert grade("task5", "[]", [], LOW_MG, rules="state", episode=episode(stored(items.MAGNESIUM))).correct is True
    assert grade("task5", "[]", [], LOW_MG, rules="state", episode=episode(no_route)).correct is False
    other_dose = put(no_route, ("dosageInstruction", 0, "doseAndRate", 0, "doseQuantity", "value"), 4)
    assert grade("task5", "[]", said, LOW_MG, rules="state", episode=episode(other_dose)).correct is False


def test_state_counts_a_stored_resource_against_a_query_but_no_refused_one() -> None:
    said = post(items.A1C_ORDER)
    assert grade("task2", "[60]", said, MadeUpEhr(), rules="state", episode=episode(None)).correct is True
    assert grade("task2", "[60]", [], MadeUpEhr(), rules="state", episode=episode(items.A1C_ORDER)).correct is False


def test_state_without_a_record_is_not_graded() -> None:
    assert grade("task2", "[60]", [], MadeUpEhr(), rules="state").correct is None
    bare = RecordedEpisode("task2_1", 1, "completed", None)
    verdict = grade("task2", "[60]", [], MadeUpEhr(), rules="state", episode=bare)
    assert verdict.correct is None
    assert "episodes.jsonl" in verdict.reason
