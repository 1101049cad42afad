"""pass@1, pass@k, pass^k and their intervals, against figures worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from medagent.engine.report import Report
from medagent.reports.tables import print_report
from medagent.reports.trials import by_type, clustered, rates, trial_section
from refsol.stats import Interval

FOUR_TRIALS = {
    "task1_1": [True, True, False, False],
    "task1_2": [True, True, True, True],
    "task2_1": [False, False, False, False],
}


def test_several_trials() -> None:
    found = rates(FOUR_TRIALS)
    assert (found.tasks, found.trials) == (3, 4)
    assert found.pass1 == pytest.approx(1 / 2)
    # The tasks' means are 1/2, 1 and 0, their variance is (0 + 1/4 + 1/4) / 2 = 1/4.
    assert found.error == pytest.approx(math.sqrt(Fraction(1, 4) / 3))
    # Of the 6 pairs of trials of the first task, 5 hold a success and 1 holds two; of its 4 triples, 4 and 0.
    assert found.at == pytest.approx((1 / 2, (5 / 6 + 1) / 3, 2 / 3, 2 / 3))
    assert found.hat == pytest.approx((1 / 2, (1 / 6 + 1) / 3, 1 / 3, 1 / 3))
    assert found.wilson is None


def test_one_trial_has_wilsons_interval() -> None:
    found = rates({f"task1_{number}": [number <= 8] for number in range(1, 11)})
    assert (found.tasks, found.trials, found.at, found.hat) == (10, 1, (0.8,), (0.8,))
    assert found.error == pytest.approx(math.sqrt(0.8 * 0.2 / 9))
    assert found.wilson is not None
    assert (found.wilson.low, found.wilson.high) == pytest.approx((0.4902, 0.9433), abs=5e-5)


def test_tasks_with_fewer_trials_count_with_those_they_have() -> None:
    found = rates({"task1_1": [True], "task1_2": [True, False, False]})
    assert found.trials == 1
    assert (found.pass1, found.at[0]) == pytest.approx((2 / 3, 2 / 3))
    assert len(found.at) == len(found.hat) == 1
    assert found.wilson is None


def test_one_task_has_no_spread() -> None:
    assert rates({"task1_1": [True, False]}).error == 0


@pytest.mark.parametrize("outcomes", [{}, {"task1_1": []}, {"task1_1": [True], "task1_2": []}])
def test_nothing_has_no_rate(outcomes: Mapping[str, Sequence[bool]]) -> None:
    with pytest.raises(ValueError, match="at least one graded trial"):
        rates(outcomes)


def test_groups_are_the_task_types_in_their_order() -> None:
    groups = by_type({"task2_1": [True], "task10_1": [False], "task2_2": [False]})
    assert list(groups) == ["task2", "task10"]
    assert list(groups["task2"]) == ["task2_1", "task2_2"]


def test_the_cluster_bootstrap_draws_whole_types() -> None:
    """Two types, one all right and one all wrong: half of the draws are one type twice, so the interval is all."""
    assert clustered({f"task{kind}_{n}": [kind == 1] for kind in (1, 2) for n in range(50)}) == Interval(0, 1)


def test_types_that_do_not_differ_have_no_spread() -> None:
    assert clustered({f"task{kind}_{n}": [n % 2 == 0] for kind in range(10) for n in range(30)}) == Interval(0.5, 0.5)


def test_the_table_shows_each_type_and_the_whole(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(Report(benchmark="b", folder="f", table=(trial_section(FOUR_TRIALS),)))
    lines = [" ".join(line.split()) for line in capsys.readouterr().out.splitlines()]
    assert "task tasks pass@1 ± SE pass@2 pass@4 pass^2 pass^4" in lines
    assert "all 3 50.0 % 28.9 % 61.1 % 66.7 % 38.9 % 33.3 %" in lines
    assert "task2 1 0.0 % 0.0 % 0.0 % 0.0 % 0.0 % 0.0 %" in lines


def test_the_table_stays_narrow_for_many_trials(capsys: pytest.CaptureFixture[str]) -> None:
    print_report(Report(benchmark="b", folder="f", table=(trial_section({"task1_1": [True, False] * 25}),)))
    out = capsys.readouterr().out
    header = next(line for line in out.splitlines() if "pass@1" in line)
    assert [word for word in header.split() if word.startswith("pass^")] == [f"pass^{k}" for k in (2, 4, 8, 16, 32, 50)]
