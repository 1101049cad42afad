"""The charts of a task set: recorded without loss, and whether the cut-off can be applied to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from refsol.clinical.recorded import RecordedSource, recorded
from refsol.errors import FactsError
from refsol.psb300 import PUBLISHED, Resources, RuleName, baselines, grade_item, stored
from refsol.psb300.twins import case_of
from tests.refsol.psb300.charts import CLOCK, MRN, procedure, reading, rows, task, verdict_of

CUT_OFF = datetime(2025, 1, 1, tzinfo=UTC)


def test_recorded_charts_give_every_item_of_the_vectors_the_same_verdict_and_reason() -> None:
    both_rules: tuple[RuleName, ...] = ("official", "fair")
    for row in rows("vectors"):
        clock = datetime.fromisoformat(row["clock"])
        case, chart = case_of(row["task"], clock, PUBLISHED), Resources(row["ehr"])
        expected = [verdict_of(row, rules) for rules in both_rules]
        for complete in (True, False):
            source = RecordedSource(recorded([(case, ())], chart, complete=complete, whole=False), FactsError)
            again = [
                grade_item(row["task"], row["history"], row["result"], source, clock=clock, rules=rules)
                for rules in both_rules
            ]
            assert again == expected, row["case"]


def late(resource: dict[str, Any]) -> dict[str, Any]:
    return {**resource, "meta": {"lastUpdated": "2026-03-01T00:00:00Z"}}


@pytest.mark.parametrize(
    ("chart", "expected"),
    [
        ([], (0, 0, (), True)),
        ([procedure("90686", 10)], (1, 1, (), True)),
        ([late(procedure("90686", 10))], (1, 0, (MRN,), False)),
        ([late(procedure("90686", 10)), procedure("90686", 20, "2")], (2, 1, (), True)),
        ([{**procedure("90686", 10), "meta": {}}], (1, 1, (), True)),
        ([{**procedure("90686", 10), "meta": {"lastUpdated": "soon"}}], (1, 1, (), True)),
        ([procedure("X", 10)], (0, 0, (), True)),
    ],
)
def test_the_cut_off_applies_unless_it_would_leave_nothing(chart: list[Any], expected: tuple[Any, ...]) -> None:
    state = stored([task(9)], Resources(chart), CUT_OFF)
    assert (state.resources, state.counting, state.late, state.cut_off_applies) == expected


def test_the_constant_answer_is_the_one_that_is_right_most_often() -> None:
    tasks = [{**task(3), "id": f"task3_{number}", "eval_MRN": f"S{number}"} for number in range(3)]
    beat = {**reading("HEARTRATE", 80, 0.1), "subject": {"reference": "Patient/S0"}}
    floors = baselines([*tasks, task(9)], Resources([beat]), clock=CLOCK)
    assert {kind: behaviour.answer for kind, behaviour in floors.behaviours("constant").items()} == {
        "task3": "[null, null]",
        "task9": "[]",
    }
