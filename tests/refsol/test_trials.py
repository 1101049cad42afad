"""pass@1, pass@k, pass^k and their intervals, against figures worked out by hand."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction

import pytest

from refsol.intervals import Value, share_interval
from refsol.trials import by_type, flipping, rates, reliability

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
    for means, intervals in ((found.at, found.at_intervals), (found.hat, found.hat_intervals)):
        assert all(interval.low < mean < interval.high for mean, interval in zip(means, intervals, strict=True))


def test_one_trial_has_wilsons_interval() -> None:
    found = rates({f"task1_{number}": [number <= 8] for number in range(1, 11)})
    assert (found.tasks, found.trials, found.at, found.hat) == (10, 1, (0.8,), (0.8,))
    assert found.error == pytest.approx(math.sqrt(0.8 * 0.2 / 9))
    for (interval,) in (found.at_intervals, found.hat_intervals):
        assert (interval.low, interval.high) == pytest.approx((0.4902, 0.9433), abs=5e-5)


def test_the_intervals_of_trials_are_those_of_the_rate_and_know_types_and_patients() -> None:
    trials = {f"t{number % 5}_{number}": [number % 5 < 3, number % 2 == 0, number % 3 == 0] for number in range(60)}
    types = {task: task[:2] for task in trials}
    alone, typed = rates(trials), rates(trials, types)
    whole = share_interval(Value(types[task], task, task, (sum(right), 3)) for task, right in trials.items())
    assert (typed.at_intervals[0].low, typed.at_intervals[0].high) == pytest.approx((whole.low, whole.high))
    shared = rates(trials, None, {task: str(number % 10) for number, task in enumerate(trials)})
    assert shared.at == alone.at
    for wide, narrow in zip(shared.hat_intervals, alone.hat_intervals, strict=True):
        assert wide.low < narrow.low < narrow.high < wide.high


def test_tasks_with_fewer_trials_count_with_those_they_have() -> None:
    found = rates({"task1_1": [True], "task1_2": [True, False, False]})
    assert found.trials == 1
    assert (found.pass1, found.at[0]) == pytest.approx((2 / 3, 2 / 3))
    assert len(found.at) == len(found.hat) == 1


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


def test_a_task_that_is_right_at_times_flips() -> None:
    outcomes = {**FOUR_TRIALS, "task3_1": [True, False, False, False], "task4_1": []}
    assert reliability(outcomes) == {"task1_1": 0.5, "task1_2": 1, "task2_1": 0, "task3_1": 0.25}
    assert flipping(outcomes) == ("task1_1", "task3_1")
    assert flipping({}) == ()
