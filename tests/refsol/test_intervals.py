"""Intervals of rates and differences, against published values, identities and small simulations."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import fmean

import pytest

from benchmarks import intervals
from refsol.intervals import (
    Difference,
    Value,
    design_effect,
    detectable,
    mean_draws,
    newcombe,
    noise,
    paired_difference,
    rank_intervals,
    share_interval,
    standard_error,
    tango,
    units_of,
)
from refsol.stats import Interval, wilson


def bounds(interval: Interval | None) -> tuple[float, float]:
    assert interval is not None
    return interval.low, interval.high


def rows(types: Sequence[Sequence[tuple[float, ...]]], patients: Sequence[str] = ()) -> list[Value]:
    """Values by type, each of a unit of its own; the patient of each unit, in turn, or one of its own."""
    units = [(f"t{kind}", values) for kind, members in enumerate(types) for values in members]
    names = patients or [f"p{number}" for number in range(len(units))]
    return [
        Value(kind, f"u{number}", name, values)
        for number, ((kind, values), name) in enumerate(zip(units, names, strict=True))
    ]


def stratified(types: Sequence[Sequence[tuple[float, ...]]]) -> Interval:
    return share_interval(rows(types))


def difference_of(types: Sequence[Sequence[tuple[float, ...]]]) -> Difference:
    return paired_difference(rows(types))


def test_tangos_interval() -> None:
    """Tango 1998, table: 44 pairs, 1 gained and none lost is the example of Newcombe 1998 (b): −0.0255 … 0.1156."""
    assert bounds(tango(1, 0, 50)) == pytest.approx((-0.0528, 0.1047), abs=5e-3)
    for n in (2, 30, 300):
        edge = 1.959964**2 / (n + 1.959964**2)
        assert bounds(tango(0, 0, n)) == pytest.approx((-edge, edge))
    assert tango(5, 0, 5).high == 1
    assert bounds(tango(3, 8, 40)) == pytest.approx(tuple(-bound for bound in reversed(bounds(tango(8, 3, 40)))))
    with pytest.raises(ValueError, match="3 and 3 discordant pairs of 5"):
        tango(3, 3, 5)


def test_one_type_of_single_trials_is_wilson() -> None:
    assert bounds(stratified([[(1, 1)] * 7 + [(0, 1)] * 3])) == pytest.approx(bounds(wilson(7, 10)))
    assert bounds(stratified([[(1, 1)] * 30] * 10)) == pytest.approx(bounds(wilson(300, 300)))
    assert bounds(stratified([[]])) == (0, 1)


def test_types_that_differ_make_the_interval_of_these_types_narrower() -> None:
    """Five types right by nine in ten and five by one in ten: what differs between types is no error of their mean."""
    strata = [[(1, 1)] * right + [(0, 1)] * (30 - right) for right in [27, 3] * 5]
    narrow, wide = stratified(strata), wilson(150, 300)
    assert narrow.high - narrow.low < 0.7 * (wide.high - wide.low)
    assert stratified([[(1, 1)] * 30, [(0, 1)] * 30]).low < 0.5, "never without width"


def test_trials_of_an_item_are_no_more_items() -> None:
    once = stratified([[(1, 1)] * 5 + [(0, 1)] * 5] * 3)
    often = stratified([[(8, 8)] * 5 + [(0, 8)] * 5] * 3)
    assert bounds(often) == pytest.approx(bounds(once), abs=0.02)


def singles(*types: tuple[int, int, int]) -> list[list[tuple[float, float, float]]]:
    """Types with so many items gained, lost, and in all."""
    return [
        [(1.0, 0.0, 1.0)] * gained + [(0.0, 1.0, 1.0)] * lost + [(0.0, 0.0, 1.0)] * (n - gained - lost)
        for gained, lost, n in types
    ]


def test_items_of_one_patient_count_less() -> None:
    """Sixty items of twenty patients who have all three right, or all three wrong, say as much as twenty items."""
    together = [(1.0, 1.0)] * 30 + [(0.0, 1.0)] * 30
    patients = [f"p{number // 3}" for number in range(60)]
    wide, alone = share_interval(rows([together], patients)), wilson(10, 20)
    assert bounds(wide) == pytest.approx(bounds(alone), abs=0.01)
    mixed = [f"p{number % 20}" for number in range(60)]  # each has items of both halves, so that they balance
    assert bounds(share_interval(rows([together], mixed))) == pytest.approx(bounds(wilson(30, 60)), abs=0.03)
    assert bounds(share_interval(rows([together]))) == pytest.approx(bounds(wilson(30, 60)))


def test_patients_are_sampled_across_types() -> None:
    """A patient who is hard in each of ten types; the types' own rates are no error."""
    types = [[(float(number % 2), 1.0) for number in range(20)] for _ in range(10)]
    shared = share_interval(rows(types, [f"p{number}" for _ in range(10) for number in range(20)]))
    independent = share_interval(rows(types))
    assert shared.high - shared.low > 2.5 * (independent.high - independent.low)
    assert bounds(shared) == pytest.approx(bounds(wilson(10, 20)), abs=0.02)


def test_one_patient_or_equal_values_say_nothing_about_patients() -> None:
    same = [(1.0, 1.0)] * 30
    assert bounds(share_interval(rows([same], ["p"] * 30))) == pytest.approx(bounds(wilson(30, 30)))
    assert bounds(share_interval(rows([same], ["p", "q"] * 15))) == pytest.approx(bounds(wilson(30, 30)))


def test_differences_of_patients_who_turn_together() -> None:
    """Two patients gain all four items, none loses: 8 of 40 items, but only two patients."""
    steps = [(1.0, 0.0, 1.0)] * 8 + [(0.0, 0.0, 1.0)] * 32
    patients = [f"p{number // 4}" for number in range(40)]
    alone, together = (paired_difference(rows([steps], names)) for names in ((), patients))
    assert (alone.value, alone.p < 0.01) == (together.value, True)
    assert together.p > 0.05
    assert together.interval.low < 0 < together.interval.high


def test_the_error_of_a_mean_knows_patients() -> None:
    values = [("a", 1.0), ("a", 1.0), ("b", 0.0), ("b", 0.0)]
    assert standard_error([(str(place), value) for place, (_, value) in enumerate(values)]) == pytest.approx(
        math.sqrt(1 / 12)
    )
    assert standard_error(values) == pytest.approx(0.5)
    assert standard_error(values[:1]) == 0


def test_the_design_effect_of_a_set() -> None:
    assert design_effect([1.0] * 300) == 1
    assert design_effect([300 / 90] * 90) == pytest.approx(1 + (300 / 90 - 1) * 0.1)
    assert design_effect([1.0] * 50 + [7.0] * 50, 0.5) == pytest.approx(1 + (6.25 - 1) * 0.5)


def test_paired_differences_are_tangos() -> None:
    assert bounds(difference_of(singles((0, 0, 1), (0, 0, 299))).interval) == pytest.approx(bounds(tango(0, 0, 300)))
    assert bounds(difference_of(singles((6, 2, 60))).interval) == pytest.approx(bounds(tango(6, 2, 60)))
    split = difference_of(singles((30, 0, 30), (0, 0, 30))).interval
    assert bounds(split) == pytest.approx(bounds(tango(30, 0, 60))), "as `power` plans it"


@pytest.mark.parametrize(
    ("gained", "lost", "p"), [(0, 0, 1.0), (5, 5, 1.0), (6, 0, 0.014306), (1, 9, 0.011412), (3, 4, 0.705457)]
)
def test_the_test_of_independent_items_is_mcnemars(gained: int, lost: int, p: float) -> None:
    """The statistic is (b − c)² / (b + c), chi-squared with one degree of freedom."""
    assert difference_of(singles((gained, lost, 50))).p == pytest.approx(p, abs=1e-6)


def contradicts(found: Difference) -> bool:
    return (found.interval.low > 0 or found.interval.high < 0) != (found.p < 0.05)


def test_interval_and_p_never_contradict_each_other() -> None:
    """Verdicts, shares of three trials, and pairs of items; in one type and in several."""
    for n in (7, 40):
        for gained in range(n + 1):
            assert not any(contradicts(difference_of(singles((gained, lost, n)))) for lost in range(n - gained + 1))
    generator = random.Random(4)
    for _ in range(400):
        types, size, trials = generator.choice([1, 2, 10]), generator.choice([1, 2]), generator.choice([1, 3])
        lean = generator.random() / 2
        parts = []
        for _ in range(types):
            steps = [
                [
                    sum(generator.choice([-1, 0, 1, generator.random() < lean]) for _ in range(trials)) / trials
                    for _ in range(size)
                ]
                for _ in range(generator.choice([2, 8, 20]))
            ]
            parts.append([(sum(s for s in unit if s > 0), -sum(s for s in unit if s < 0), size) for unit in steps])
        assert not contradicts(difference_of(parts))


@pytest.mark.parametrize(("types", "per_type", "trials"), [(10, 30, 1), (10, 3, 1), (10, 10, 3), (1, 20, 3)])
def test_equal_agents_differ_in_one_of_twenty_comparisons(types: int, per_type: int, trials: int) -> None:
    generator = random.Random(5)
    rejected = 0
    for _ in range(400):
        parts = []
        for _ in range(types):
            rates = [generator.betavariate(0.5, 0.5) for _ in range(per_type)]
            runs = (
                [sum(generator.random() < rate for _ in range(trials)) / trials for rate in rates] for _ in range(2)
            )
            parts.append([(max(b - a, 0), max(a - b, 0), 1) for a, b in zip(*runs, strict=True)])
        rejected += difference_of(parts).p < 0.05
    assert rejected / 400 < 0.08


def test_dependent_items_are_sampled_together() -> None:
    """Forty pairs of items that flip together say as much as forty items; a unit in two types separates none."""
    pairs = [(2.0, 0.0, 2.0)] * 8 + [(0.0, 2.0, 2.0)] * 2 + [(0.0, 0.0, 2.0)] * 30
    found, alone = difference_of([pairs]), difference_of(singles((8, 2, 40)))
    assert (found.value, found.p) == pytest.approx((alone.value, alone.p))
    assert bounds(found.interval) == pytest.approx(bounds(alone.interval))
    trials = [Value("a", "x", "p", (1, 2)), Value("b", "y", "q", (1, 1)), Value("a", "x", "p", (0, 1))]
    assert units_of(trials) == [Value("a", "x", "p", (1, 3)), Value("b", "y", "q", (1, 1))]
    assert units_of([Value("a", "x", "p", (1,)), Value("b", "x", "p", (1,))]) == [Value("", "x", "p", (2,))]


def test_ranks_of_runs_over_the_same_items() -> None:
    """The first two differ on four of 60 items, two each way; the third is wrong on most."""
    units = [(1.0, 1.0, 1.0, 0.0)] * 40 + [(1.0, 1.0, 0.0, 0.0)] * 2 + [(1.0, 0.0, 1.0, 0.0)] * 2
    units += [(1.0, 0.0, 0.0, 0.0)] * 16
    assert rank_intervals(mean_draws(rows([units]))) == [(1, 2), (1, 2), (3, 3)]
    assert rank_intervals(mean_draws(rows([[(1.0, 1.0, 1.0)]]))) == [(1, 1), (1, 1)], "equal runs have equal ranks"


@pytest.mark.parametrize(
    ("a", "n", "b", "m", "low", "high"),
    # Newcombe 1998, Statistics in Medicine 17, table II, method 10.
    [(48, 80, 56, 70, 0.0524, 0.3339), (3, 10, 9, 10, 0.1705, 0.8090), (2, 7, 6, 7, 0.0582, 0.8062)],
)
def test_two_sets_of_one_type(a: int, n: int, b: int, m: int, low: float, high: float) -> None:
    first, second = (rows([[(1, 1)] * right + [(0, 1)] * (of - right)]) for right, of in ((a, n), (b, m)))
    assert bounds(newcombe(first, second)) == pytest.approx((low, high), abs=5e-5)


def test_noise_falls_with_items_and_grows_with_flips() -> None:
    assert [round(100 * noise(n), 1) for n in (100, 300)] == [8.8, 5.1]
    assert noise(300, 0.05) < noise(300) < noise(300, 0.5) < detectable(300, 0.5)
    assert detectable(5) == 1
    for n in (40, 300):  # with a fifth of the items discordant
        turned = n // 5
        least = min(
            up for up in range(turned + 1) if 2 * up > turned and difference_of(singles((up, turned - up, n))).p < 0.05
        )
        assert (2 * least - turned - 2) / n < noise(n) <= (2 * least - turned) / n


def test_four_of_five_comparisons_find_the_detectable_difference() -> None:
    generator, n, share = random.Random(6), 300, 0.2
    difference = detectable(n, share)
    weights = [(share + difference) / 2, (share - difference) / 2, 1 - share]
    found = 0
    for _ in range(400):
        steps = generator.choices([1, -1, 0], weights, k=n)
        found += difference_of(singles((steps.count(1), steps.count(-1), n))).p < 0.05
    assert found / 400 == pytest.approx(0.8, abs=0.06)


@pytest.mark.parametrize("deviation", [0.0, 1.0])
def test_coverage_over_patients(deviation: float) -> None:
    """`benchmarks/intervals.py` in small: 95% nominal; of 300 runs, 92% is over two errors below what it measures."""
    generator = random.Random(7)
    true = intervals.true_value(deviation)
    scores = [intervals.score(generator, deviation) for _ in range(300)]
    assert intervals.held(scores, true) >= 0.92
    rejected = fmean(intervals.difference(generator, deviation)[1] < 0.05 for _ in range(300))
    assert rejected < 0.08
