"""psb-300 under `fair`: an order is judged by its meaning; and three ways of the published grader under `official`."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from refsol.psb300 import Resources, RuleName, Verdict, grade_item
from refsol.psb300.grade import stated_now
from tests.refsol.psb300.charts import CLOCK, FINISH, MRN, NOW, Json, medication, posts, procedure, reading, task

RXNORM, CPT = "http://www.nlm.nih.gov/research/umls/rxnorm", "http://www.ama-assn.org/go/cpt"
SUBJECT = {"reference": f"Patient/{MRN}"}
HIGH = [reading("TSH", 12, 60, "1"), reading("TSH", 15, 5, "2"), reading("FT4", 1, 5, "3")]
CHARTS = {1: [], 2: [], 4: [procedure("NUR1373", 5)], 6: HIGH, 7: [reading("QTCINTERVAL", 530, 1)], 9: []}
CHARTS[8] = [medication("morphine 5 mg")]


def order(kind: str, **fields: Any) -> Json:
    return {"resourceType": kind, "status": "active", "intent": "order", "subject": SUBJECT, **fields}


def drug(text: str, dosage: Json | None = None, **more: Any) -> Json:
    dosed = {"dosageInstruction": [dosage]} if dosage else {}
    return order("MedicationRequest", medicationCodeableConcept={"text": text}, **dosed, **more)


def service(code: str, **more: Any) -> Json:
    return order("ServiceRequest", code={"coding": [{"code": code}]}, **more)


def dose(value: float, unit: str, **more: Any) -> Json:
    return {"doseAndRate": [{"doseQuantity": {"value": value, "unit": unit}}], **more}


def verdict(kind: int, *orders: Json, rules: RuleName = "fair", **more: Any) -> Verdict:
    history = posts(*orders)
    return grade_item({**task(kind), **more}, history, "[]", Resources(CHARTS[kind]), clock=CLOCK, rules=rules)


CT = service("74177", reasonCode=[{"text": "Renal mass follow-up"}])
TESTS = (service("TSH"), service("FT4"))
ECG = service("445118002")
RIGHT: list[tuple[int, list[Json]]] = [
    (1, [CT]),
    (1, [{**CT, "subject": {**SUBJECT, "display": "Ann"}}]),
    (1, [{**CT, "subject": {"identifier": {"value": MRN}}}]),
    (1, [{**CT, "reasonCode": [{"text": "Renal  mass\nfollow-up"}]}]),
    (1, [{**CT, "reasonCode": [{"coding": [{"display": "Renal mass follow-up"}]}]}]),
    (1, [{**CT, "code": {"coding": [{"code": "own"}, {"system": CPT, "code": "74177"}], "text": "CT abdomen"}}]),
    (2, [drug("heparin", dose(5000, "units"))]),
    (2, [drug("heparin", dose(5000, "[iU]", route="SC"))]),
    (2, [drug("heparin 5000 units SC q8h", {"timing": {"repeat": {"frequency": 3, "period": 1, "periodUnit": "d"}}})]),
    (
        2,
        [
            drug(
                "heparin 5000 units", {"route": {"text": "subcutaneous"}, "timing": {"code": {"text": "every 8 hours"}}}
            )
        ],
    ),
    (6, [drug("levothyroxine", dose(0.025, "mg", route="oral")), *TESTS]),
    (6, [drug("levothyroxine 0.025 mg"), *TESTS]),
    (6, [drug("Synthroid, levothyroxine", dose(25, "ug", timing={"code": {"coding": [{"code": "QD"}]}})), *TESTS]),
    (6, [drug("levothyroxine 25 mcg"), *(service(c, occurrenceDateTime="2023-12-19") for c in ("TSH", "FT4"))]),
    (7, [ECG]),
    (7, [{**ECG, "occurrenceDateTime": (NOW + timedelta(hours=24)).isoformat()}]),
    (8, [drug("Narcan nasal spray 4 mg", dose(1, "spray"))]),
    (8, [drug("naloxone", dose(4000, "mcg", route={"text": "intranasal"}))]),
    (9, [service("90686", occurrenceDateTime=NOW.isoformat())]),
]
CHANGES: list[Json] = [
    {"doNotPerform": True},
    {"modifierExtension": [{"url": "u"}]},
    {"intent": "proposal"},
    {"status": "draft"},
    {"subject": {**SUBJECT, "identifier": {"value": "S7654321"}}},
    {"subject": {**SUBJECT, "type": "Group"}},
]
BASES: dict[int, list[Json]] = {
    1: [CT],
    2: [drug("heparin 5000 units")],
    4: [service("NUR1373")],
    6: [drug("levothyroxine 25 mcg"), *TESTS],
    7: [ECG],
    8: [drug("naloxone 4 mg")],
    9: [service("90686")],
}
WRONG: list[tuple[int, list[Json], str]] = [
    *((kind, [{**first, **change}, *rest], "") for kind, (first, *rest) in BASES.items() for change in CHANGES),
    (1, [{**CT, "code": {"coding": [{"code": "74177"}], "text": "CT head"}}], "code"),
    (1, [{**CT, "occurrenceDateTime": "2030-01-01"}], "occurrence"),
    (2, [drug("heparin", dose(50000, "units"))], ""),
    (2, [drug("heparin 5000 units", dose(5000, "units", route="IV"))], "route"),
    (2, [drug("heparin 5000 units", {"timing": {"repeat": {"period": 1, "periodUnit": "h"}}})], "repeat"),
    (2, [drug("enoxaparin 40 mg", note=[{"text": "heparin 5000"}])], ""),
    (4, [{**service("NUR1373"), "code": {"coding": [{"code": "NUR1373", "display": "Chest x-ray"}]}}], "code"),
    (6, [drug("levothyroxine 25 mcg", dose(50, "mcg")), *TESTS], ""),
    (6, [drug("levothyroxine 25 mcg", {"timing": {"code": {"text": "BID"}}}), *TESTS], "repeat"),
    (6, [drug("levothyroxine 25 mcg"), TESTS[0], {**TESTS[1], "occurrenceDateTime": "2030-01-01"}], "occurrence"),
    (7, [{**ECG, "occurrenceDateTime": "2030-01-01"}], "occurrence"),
    (7, [order("ServiceRequest", code={"text": "call"}, note=[{"text": "ECG in 24 hours"}])], ""),
    (8, [drug("naltrexone 50 mg", note=[{"text": "naloxone"}])], ""),
    (8, [drug("naloxone", dose(40, "mg"))], ""),
    (8, [drug("naloxone 4 mg", {"asNeededBoolean": True})], "asNeeded"),
    (9, [{**service("90686"), "code": {"coding": [{"code": "90686"}, {"system": CPT, "code": "91320"}]}}], "code"),
]


@pytest.mark.parametrize(("kind", "orders"), [*RIGHT, *BASES.items()])
def test_what_means_the_same_is_right(kind: int, orders: list[Json]) -> None:
    graded = verdict(kind, *orders)
    assert graded.correct is True, graded.reason


@pytest.mark.parametrize(("kind", "orders", "rule"), WRONG)
def test_what_forbids_contradicts_or_repeats_is_wrong(kind: int, orders: list[Json], rule: str) -> None:
    graded = verdict(kind, *orders)
    assert graded.correct is False
    assert rule in graded.reason


@pytest.mark.parametrize("empty", [{}, [], ""])
@pytest.mark.parametrize("name", ["reasonCode", "reasonReference"])
def test_an_empty_reason_beside_a_right_note_is_right_officially(name: str, empty: Any) -> None:
    body = {**CT, "reasonCode": [], name: empty, "note": [{"text": "Renal mass follow-up"}]}
    for rules in ("official", "fair"):
        assert verdict(1, body, rules=rules).correct is True  # type: ignore[arg-type]  # names of rule sets


@pytest.mark.parametrize("odd", [{"text": "x"}, None, 1, "x", ["x"]])
def test_a_reason_that_cannot_be_read_is_wrong_officially(odd: Any) -> None:
    body = {**CT, "reasonCode": odd, "note": [{"text": "Renal mass follow-up"}]}
    assert verdict(1, body, rules="official").correct is False


T1, T2 = "2023-01-01T00:00:00+00:00", "2023-02-02T00:00:00+00:00"


@pytest.mark.parametrize(
    ("context", "stated"),
    [
        (f"Last visits {T1} now. Today {T2}.", T2),
        (f"He waits {T1} now. Then {T2}.", T2),
        (f"His credits {T1} now, {T2}", T2),
        (f"It's {T1} now. Then {T2}.", T1),
        (f"(its {T1} now) {T2}", T1),
        (f"now:IT'S {T1} now; {T2}", T1),
    ],
)
def test_its_is_a_whole_word(context: str, stated: str) -> None:
    assert stated_now(context) == datetime.fromisoformat(stated)


EDGES = [
    "0001-01-01T00:00:00+00:00",
    "0001-06-01T00:00:00+12:00",
    "9999-12-31T23:59:59+00:00",
    "9999-12-31T12:00:00-12:00",
]


@pytest.mark.parametrize("now", EDGES)
@pytest.mark.parametrize("rules", ["official", "fair"])
@pytest.mark.parametrize("kind", range(1, 11))
def test_a_clock_in_the_first_or_the_last_year_has_a_verdict(kind: int, rules: RuleName, now: str) -> None:
    codes = ("IMGCT0491", "NUR1373", "90686", "COVIDVACCINE")
    condition = {**procedure("C64.2", 5, "c"), "resourceType": "Condition"}
    chart = [*(procedure(code, 10, code) for code in codes), *HIGH, reading("QTCINTERVAL", 530, 1, "q"), condition]
    item = {**task(kind), "context": f"It's {now} now."}
    graded = grade_item(item, [FINISH], "[]", Resources(chart), clock=datetime.fromisoformat(now), rules=rules)
    assert graded.correct in (True, False)
    assert graded.harm is None or graded.harm.counts is not None


def test_a_wall_clock_without_a_year_before_it_is_wrong_as_the_published_grader_fails() -> None:
    item, chart = task(1), Resources([procedure("IMGCT0491", 10)])
    graded = grade_item(item, [FINISH], "[]", chart, clock=datetime(1, 2, 3, tzinfo=UTC))
    assert (graded.correct, graded.reason.startswith("the chart is at fault: now is 0001")) == (False, True)
