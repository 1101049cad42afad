"""The shared statistics, against figures from their papers, brute force, and each other."""

from __future__ import annotations

import math
import random
from itertools import combinations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from refsol.stats import (
    Interval,
    bootstrap,
    bootstrap_p,
    cluster_bootstrap,
    clustered_wilson,
    cohen_kappa,
    holm,
    pass_at_k,
    pass_hat_k,
    percentile,
    wilson,
)


@pytest.mark.parametrize(
    ("successes", "n", "low", "high"),
    # Newcombe 1998, Statistics in Medicine 17, table I, method 3.
    [(81, 263, 0.2553, 0.3662), (15, 148, 0.0624, 0.1605), (0, 20, 0.0, 0.1611), (1, 29, 0.0061, 0.1718)],
)
def test_wilson_gives_the_published_intervals(successes: int, n: int, low: float, high: float) -> None:
    interval = wilson(successes, n)
    assert (round(interval.low, 4), round(interval.high, 4)) == (low, high)


def test_wilson_of_nothing_is_everything() -> None:
    assert wilson(0, 0) == Interval(0.0, 1.0)


@given(st.integers(0, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n))))
def test_wilson_holds_the_share_and_mirrors(case: tuple[int, int]) -> None:
    successes, n = case
    interval, mirrored = wilson(successes, n), wilson(n - successes, n)
    assert 0 <= interval.low <= interval.high <= 1
    if n:
        assert interval.low - 1e-12 <= successes / n <= interval.high + 1e-12
    assert interval.low == pytest.approx(1 - mirrored.high)


def test_bootstrap_is_repeatable_and_holds_the_mean() -> None:
    values = [i % 2 for i in range(400)]

    def mean(drawn: object) -> float:
        assert isinstance(drawn, list)
        return sum(values[i] for i in drawn) / len(drawn)

    interval = bootstrap(mean, 400)
    assert interval == bootstrap(mean, 400)
    assert interval != bootstrap(mean, 400, seed=1)
    # The normal approximation: 0.5 ± 1.96 × 0.025.
    assert interval.low == pytest.approx(0.451, abs=0.01)
    assert interval.high == pytest.approx(0.549, abs=0.01)
    wide = bootstrap(mean, 400, level=0.99)
    assert wide.low < interval.low < interval.high < wide.high


@pytest.mark.parametrize("shift", [0.0, 0.3, 0.6, 0.9, 1.2, 1.5, 1.8, 2.1, 2.4, 3.0, 9.0])
def test_the_p_of_a_bootstrap_and_its_interval_agree(shift: float) -> None:
    generator = random.Random(3)
    for rounded in (1, 6):
        draws = [round(generator.gauss(shift, 1), rounded) for _ in range(1000)]
        for values in (draws, [-draw for draw in draws]):
            interval = percentile(values)
            assert (interval.low > 0 or interval.high < 0) == (bootstrap_p(values) < 0.05)
    assert bootstrap_p([0.0] * 10) == 1
    assert bootstrap_p([1.0] * 1000) == 0.001


def test_bootstrap_leaves_out_undefined_draws() -> None:
    never = bootstrap(lambda _: math.nan, 3)
    assert math.isnan(never.low)
    assert math.isnan(never.high)
    assert bootstrap(lambda drawn: 1.0 if 0 in drawn else math.nan, 2, draws=50) == Interval(1.0, 1.0)


def test_clusters_that_differ_widen_the_interval() -> None:
    alike = [[0.0, 1.0] * 15 for _ in range(10)]
    apart = [[float(i % 2)] * 30 for i in range(10)]
    assert cluster_bootstrap(alike) == Interval(0.5, 0.5)
    wide = cluster_bootstrap(apart)
    assert wide.low < 0.3
    assert wide.high > 0.7
    assert cluster_bootstrap([*apart, []]) == wide


def test_cluster_means_weigh_by_size() -> None:
    assert cluster_bootstrap([[1.0, 1.0, 0.0]]) == Interval(2 / 3, 2 / 3)


def test_kappa_of_cohens_kind_of_table() -> None:
    # 20 yes-yes, 5 yes-no, 10 no-yes, 15 no-no: observed 0.7, by chance 0.5.
    pairs = [("y", "y")] * 20 + [("y", "n")] * 5 + [("n", "y")] * 10 + [("n", "n")] * 15
    assert cohen_kappa(pairs) == pytest.approx(0.4)


def test_kappa_at_its_ends() -> None:
    assert cohen_kappa([(1, 1), (2, 2)]) == 1.0
    assert cohen_kappa([(1, 2), (2, 1)]) == -1.0
    assert math.isnan(cohen_kappa([]))
    assert math.isnan(cohen_kappa([("a", "a")] * 3))
    assert cohen_kappa([("a", "b")] * 3) == 0.0


@pytest.mark.parametrize(("n", "c", "k"), [(5, 2, 1), (5, 2, 3), (5, 0, 2), (5, 5, 5), (4, 3, 2), (1, 1, 1)])
def test_trials_agree_with_counting(n: int, c: int, k: int) -> None:
    draws = list(combinations([True] * c + [False] * (n - c), k))
    assert pass_at_k(n, c, k) == pytest.approx(sum(any(d) for d in draws) / len(draws))
    assert pass_hat_k(n, c, k) == pytest.approx(sum(all(d) for d in draws) / len(draws))


def test_nonsense_is_refused() -> None:
    with pytest.raises(ValueError, match="3 successes of 2"):
        wilson(3, 2)
    with pytest.raises(ValueError, match="bootstrap of 0 items"):
        cluster_bootstrap([[]])
    with pytest.raises(ValueError, match="6 of 5 trials"):
        pass_at_k(5, 1, 6)
    with pytest.raises(ValueError, match="0 of 5 trials"):
        pass_hat_k(5, 1, 0)


def test_holm_steps_down_and_never_falls() -> None:
    """Holm 1979: the smallest p times the number of tests, the next times one less, each at least the one before."""
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.9, 0.6]) == [1.0, 1.0]
    assert holm([]) == []


def test_clusters_of_one_are_wilsons() -> None:
    assert clustered_wilson([(1, 1)] * 7 + [(0, 1)] * 3 + [(0, 0)]) == wilson(7, 10)


def test_values_of_a_cluster_that_agree_count_once() -> None:
    twice = clustered_wilson([(2, 2)] * 7 + [(0, 2)] * 3)
    assert twice.high - twice.low > wilson(14, 20).high - wilson(14, 20).low
    assert (twice.low, twice.high) == pytest.approx((wilson(7, 10).low, wilson(7, 10).high), abs=0.03)
    assert clustered_wilson([(3, 3)] * 5) == wilson(5, 5)
    assert clustered_wilson([(1, 2)]) == clustered_wilson([(2, 4)])


def test_clusters_that_differ_less_than_chance_count_no_more_than_their_values() -> None:
    assert clustered_wilson([(1, 2)] * 9 + [(2, 2)]) == wilson(11, 20)


@settings(max_examples=30)
@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3)).map(lambda pair: (min(pair), max(pair))), max_size=30))
def test_clustered_intervals_hold_the_share(clusters: list[tuple[int, int]]) -> None:
    found = clustered_wilson(clusters)
    total = sum(n for _, n in clusters)
    share = sum(hits for hits, _ in clusters) / total if total else 0.5
    assert 0 <= found.low <= share + 1e-9
    assert share - 1e-9 <= found.high <= 1
