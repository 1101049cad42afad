"""Baselines of psb-300, and what has to be read."""

from __future__ import annotations

from typing import Any

import pytest

from refsol.psb300 import BASELINES, Resources, RuleName, baselines
from tests.refsol.psb300.charts import CLOCK, MRN, medication, procedure, reading, task

Json = dict[str, Any]


def outcomes(tasks: list[Json], chart: list[Json], rules: RuleName = "official") -> dict[str, dict[str, bool | None]]:
    """By baseline, whether it is right in each task."""
    found = baselines(tasks, Resources(chart), clock=CLOCK, rules=rules)
    return {name: {entry["id"]: found.outcomes(entry["id"])[name] for entry in tasks} for name in BASELINES}


@pytest.mark.parametrize("rules", ["official", "fair"])
def test_blind_orders_what_the_text_spells_out(rules: RuleName) -> None:
    tasks = [task(kind, instruction=f"Do what is due for {MRN}.") for kind in range(1, 11)]
    due = [
        procedure("NUR1373", 5),
        {**procedure("X", 5), "resourceType": "Condition", "code": {"coding": [{"code": "C64.2"}]}},
        reading("TSH", 12, 60),
        reading("TSH", 15, 5),
        reading("FT4", 1, 5),
        reading("QTCINTERVAL", 530, 1),
        medication("ondansetron 4 mg"),
        medication("morphine 5 mg"),
        reading("HEARTRATE", 80, 0.1),
    ]
    found = outcomes(tasks, due, rules)
    assert not any(found["nop"].values())
    assert [name for name, right in found["constant"].items() if right] == ["task3_1"]
    assert all(found["blind"].values())


def test_a_baseline_is_the_best_single_behaviour_of_a_type() -> None:
    tasks = [
        task(9, id=f"task9_{number}", eval_MRN=f"S{number}", instruction=f"A vaccine for S{number}?")
        for number in range(3)
    ]
    recent = {**procedure("90686", 10), "subject": {"reference": "Patient/S0"}}
    found = outcomes(tasks, [recent])
    assert found["nop"] == {"task9_0": True, "task9_1": False, "task9_2": False}
    assert found["blind"] == {"task9_0": False, "task9_1": True, "task9_2": True}


def test_a_text_without_the_patient_allows_no_order() -> None:
    assert outcomes([task(9)], [])["blind"] == {"task9_1": False}
    assert outcomes([task(9, instruction=f"A vaccine for {MRN}?")], [])["blind"] == {"task9_1": True}


def test_nothing_is_known_about_a_chart_that_cannot_be_read_or_an_unknown_type() -> None:
    broken = {**procedure("90686", 10), "performedDateTime": "soon"}
    tasks = [task(9), {**task(9), "id": "task99_1"}]
    assert outcomes(tasks, [broken])["blind"] == {"task9_1": None, "task99_1": None}
