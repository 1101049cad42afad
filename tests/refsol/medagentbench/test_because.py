"""The facts that a verdict rests on: for every task type and branch, as a sentence and as data."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import UTC, datetime
from typing import Any

import pytest

from refsol._moments import shown_time
from refsol.medagentbench import Because, Constants, Fact, NdjsonEhr, grade_item
from tests.refsol.medagentbench.items import MRN, MadeUpEhr, grade, lab

AT, SHOWN = "2023-11-13T05:12:00+00:00", "2023-11-13 05:12"
OLD = "2021-06-01T08:00:00+00:00"
DAY = "2023-11-12T10:15:00+00:00"

SENTENCES: list[tuple[str, MadeUpEhr, str]] = [
    ("task1", MadeUpEhr(), f'the right answer is ["{MRN}"]'),
    ("task2", MadeUpEhr(), "born 1963-11-13, so 60 years old on 2023-11-13"),
    ("task3", MadeUpEhr(), "the instruction asks to record 118/77 mmHg, now"),
    ("task4", lab("MG", (AT, 1.8)), f"last magnesium 1.8 mg/dL at {SHOWN}, 5 h before now"),
    ("task4", lab("MG", (OLD, 1.8)), "no magnesium of the last 24 h"),
    (
        "task5",
        lab("MG", (AT, 1.8)),
        f"last magnesium 1.8 mg/dL at {SHOWN}, 5 h before now; 1.5 to 1.9 → "
        "order 1 g of magnesium sulfate, IV over 1 h",
    ),
    (
        "task5",
        lab("MG", (AT, 1.2)),
        f"last magnesium 1.2 mg/dL at {SHOWN}, 5 h before now; 1 to below 1.5 → "
        "order 2 g of magnesium sulfate, IV over 2 h",
    ),
    (
        "task5",
        lab("MG", (AT, 0.9)),
        f"last magnesium 0.9 mg/dL at {SHOWN}, 5 h before now; below 1 → order 4 g of magnesium sulfate, IV over 4 h",
    ),
    (
        "task5",
        lab("MG", (AT, 2.0)),
        f"last magnesium 2.0 mg/dL at {SHOWN}, 5 h before now; above 1.9 → nothing to order",
    ),
    ("task5", MadeUpEhr(), "no magnesium of the last 24 h; nothing to order"),
    ("task6", lab("GLU", (AT, 90), (DAY, 95)), "glucose of the last 24 h: 90, 95 mg/dL; their mean is 92.5"),
    ("task6", lab("GLU", (OLD, 90)), "no glucose of the last 24 h"),
    ("task7", lab("GLU", (OLD, 90)), f"last glucose 90 mg/dL at {shown_time(OLD)}, 895 days before now"),
    ("task7", MadeUpEhr(), "no glucose in the record"),
    ("task8", MadeUpEhr(), "the instruction asks for an orthopedic referral, now"),
    (
        "task9",
        lab("K", (DAY, 3.3)),
        f"last potassium 3.3 mmol/L at {shown_time(DAY)}, 24 h before now; below 3.5 → "
        "order 20 mEq of potassium chloride, oral and order potassium in serum at 2023-11-14T08:00",
    ),
    (
        "task9",
        lab("K", (AT, 3.5)),
        f"last potassium 3.5 mmol/L at {SHOWN}, 5 h before now; not below 3.5 → nothing to order",
    ),
    ("task9", MadeUpEhr(), "no potassium in the record; nothing to order"),
    (
        "task10",
        lab("A1C", (OLD, 6.1)),
        f"last HbA1c 6.1 % at {shown_time(OLD)}, 895 days before now; older than a year → order HbA1c",
    ),
    (
        "task10",
        lab("A1C", ("2023-11-13T10:00:00Z", 6.1)),
        "last HbA1c 6.1 % at 2023-11-13 10:00, 15 min before now; not older than a year → nothing to order",
    ),
    ("task10", MadeUpEhr(), "no HbA1c in the record; order HbA1c"),
]


@pytest.mark.parametrize(("kind", "facts", "sentence"), SENTENCES)
def test_every_branch_says_what_it_rests_on(kind: str, facts: MadeUpEhr, sentence: str) -> None:
    because = grade(kind, "[]", [], facts).because
    assert because is not None
    assert because.sentence == sentence
    assert json.loads(json.dumps(asdict(because)))["facts"] == [asdict(fact) for fact in because.facts]


@pytest.mark.parametrize(
    ("kind", "facts", "data"),
    [
        ("task2", MadeUpEhr(), [("birthDate", "1963-11-13", None, None)]),
        ("task4", lab("MG", (AT, 1.8), (OLD, 1)), [("MG", 1.8, "mg/dL", AT)]),
        ("task5", lab("MG", (OLD, 1)), [("MG", None, "mg/dL", None)]),
        ("task6", lab("GLU", (AT, 90), (OLD, 1), (DAY, 95)), [("GLU", 90, "mg/dL", AT), ("GLU", 95, "mg/dL", DAY)]),
        ("task9", lab("K", (OLD, 3.3)), [("K", 3.3, "mmol/L", OLD)]),
    ],
)
def test_the_facts_are_data(kind: str, facts: MadeUpEhr, data: list[tuple[Any, ...]]) -> None:
    because = grade(kind, "[]", [], facts).because
    assert because is not None
    assert [(fact.name, fact.value, fact.unit, fact.time) for fact in because.facts] == data
    assert all(fact.role for fact in because.facts)


def test_a_reading_after_now_and_one_without_a_zone_are_said() -> None:
    later = grade("task4", "[]", [], lab("MG", ("2023-11-13T12:20:00+00:00", 1.8))).because
    assert later == Because(
        "last magnesium 1.8 mg/dL at 2023-11-13 12:20, 2 h after now",
        (Fact("MG", 1.8, "mg/dL", "2023-11-13T12:20:00+00:00", "latest of the last 24 h"),),
    )
    without_zone = grade("task7", "[]", [], lab("GLU", ("2023-11-13", 90))).because
    assert without_zone is not None
    assert without_zone.sentence == "last glucose 90 mg/dL at 2023-11-13, a time without a zone"


def test_what_allows_no_verdict_rests_on_nothing() -> None:
    assert grade("task2", "[60]", [], MadeUpEhr(birth_date="1963")).because is None
    assert grade("task2", "[60]", [], MadeUpEhr(away=True)).because is None


def test_every_vector_with_a_branch_says_why(
    vector_cases: list[dict[str, Any]], vector_tasks: dict[str, dict[str, Any]], vector_ehr: NdjsonEhr
) -> None:
    for case in vector_cases:
        verdict = grade_item(vector_tasks[case["task_id"]], case["answer"], case["post_history"], vector_ehr)
        assert (verdict.branch is None) == (verdict.because is None)


def test_another_data_set_has_another_now_and_other_thresholds() -> None:
    constants = Constants(
        now=datetime(2024, 2, 29, 8, 0, tzinfo=UTC),
        base="https://other.test/r4/",
        magnesium_doses=((1.2, 3), (2.1, 2)),
        potassium_low=4.0,
    )
    assert constants.a1c_start == datetime(2023, 2, 28, 8, 0, tzinfo=UTC)
    recent = "2024-02-29T05:00:00+00:00"
    low = grade("task5", "[]", [], lab("MG", (recent, 2.1)), constants=constants)
    assert low.branch == "order"
    assert low.because is not None
    assert low.because.sentence.endswith("1.2 to 2.1 → order 2 g of magnesium sulfate, IV over 2 h")
    assert next(check for check in low.checks if check.name.endswith("url")).expected.startswith('"https://other.test/')
    potassium = grade("task9", "[]", [], lab("K", (recent, 3.9)), constants=constants)
    expected = {check.name: check.expected for check in potassium.checks}
    assert expected["ServiceRequest occurrenceDateTime"] == '"2024-03-01T08:00:00+00:00" (to the hour)'
    assert expected["ServiceRequest authoredOn"] == '"2024-02-29T08:00:00+00:00"'
    assert grade("task2", "[60]", [], MadeUpEhr(), constants=constants).correct is True
    assert grade("task10", "[]", [], lab("A1C", ("2023-02-28T08:00:00Z", 6)), constants=constants).branch == "no order"
