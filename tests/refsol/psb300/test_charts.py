"""The charts of a task set: saved without loss, and whether the cut-off can be applied to them."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import Any

import pytest

from refsol.errors import FactsError
from refsol.psb300 import Resources, RuleName, StoredFacts, baselines, grade_item, save, stored
from tests.refsol.psb300.charts import CLOCK, MRN, procedure, reading, rows, task, verdict_of

CUT_OFF = datetime(2025, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("rules", ["official", "fair"])
def test_saved_charts_give_every_recorded_item_the_same_verdict_and_reason(rules: RuleName) -> None:
    for row in rows("vectors"):
        saved = StoredFacts(save([row["task"]], Resources(row["ehr"])))
        clock = datetime.fromisoformat(row["clock"])
        again = grade_item(row["task"], row["history"], row["result"], saved, clock=clock, rules=rules)
        assert again == verdict_of(row, rules), row["case"]


def test_a_search_that_was_not_saved_is_an_error() -> None:
    with pytest.raises(FactsError, match="do not contain the search for Procedure of patient S7654321"):
        StoredFacts(save([task(9)], Resources([]))).search("Procedure", patient="S7654321", code="90686")


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
