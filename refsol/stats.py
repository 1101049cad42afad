"""The statistics of all benchmarks: intervals, agreement, paired tests and trials. Standard library only.

Intervals are pairs on the scale of the statistic. Each bootstrap uses its own random generator, so the same seed always
gives the same interval. Percentiles are interpolated linearly between samples.
"""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain, repeat
from typing import TypeVar

T = TypeVar("T")
REPEATED = 4
"""For so few items there are fewer possible samples (n to the power of n) than a bootstrap takes: each is computed
once.
"""


def sequential_mean(values: Sequence[float]) -> float:
    """The mean, summed in order (`sum` is compensated since Python 3.12). Raises ZeroDivisionError without values."""
    total = 0.0
    for value in values:
        total += value
    return total / len(values)


@dataclass(frozen=True, slots=True)
class Interval:
    """A two-sided confidence interval, on the scale of the statistic."""

    low: float
    high: float

    def scaled(self, scale: float) -> Interval:
        """The interval on another scale."""
        return Interval(self.low * scale, self.high * scale)


def wilson(successes: int, n: int, z: float = 1.959964) -> Interval:
    """Score interval of a proportion (Wilson 1927, JASA 22). `z` is the normal quantile. (0, 1) if `n` is 0."""
    if not 0 <= successes <= n:
        raise ValueError(f"{successes} successes of {n}")
    return score_interval(successes / n, n, z) if n else Interval(0.0, 1.0)


Clusters = Sequence[tuple[float, float]]
"""Clusters of (successes, n), such as the trials of one item. A success may count in part."""


def clustered_wilson(
    clusters: Iterable[tuple[float, float]] | Mapping[tuple[float, float], int], z: float = 1.959964
) -> Interval:
    """Wilson's interval of a share over clusters of (successes, n), such as the trials of one item. Also accepts the
    number of clusters by (successes, n).

    The sample counts as the number of values that `effective` returns. For clusters of one value it equals `wilson`.
    """
    share, n = effective(clusters)
    return score_interval(share, n, z) if n else Interval(0.0, 1.0)


def effective(clusters: Iterable[tuple[float, float]] | Mapping[tuple[float, float], int]) -> tuple[float, float]:
    """The share of successes over clusters, and the equivalent number of independent values.

    The design effect reduces the sample size: the variance between clusters divided by the variance of as many
    independent values (Korn & Graubard 1998, Survey Methodology 24). If all values are equal, or there is one cluster,
    a cluster counts as one value.
    """
    kinds = {(hits, n): times for (hits, n), times in Counter(clusters).items() if n}
    hits = sum(successes * times for (successes, _), times in kinds.items())
    total = sum(n * times for (_, n), times in kinds.items())
    count = sum(kinds.values())
    if not total:
        return 0.0, 0.0
    share = hits / total
    if all(n == 1 for _, n in kinds):
        return share, total
    if share in (0, 1) or count == 1:
        return share, count
    deviations = (repeat((successes - share * n) ** 2, times) for (successes, n), times in kinds.items())
    between = count / (count - 1) * math.fsum(chain.from_iterable(deviations)) / total**2
    effect = between / (share * (1 - share) / total)
    return share, min(total / effect, total) if effect else total


def score_interval(share: float, n: float, z: float) -> Interval:
    """Wilson's interval of a share of `n` values; `n` need not be a whole number."""
    spread = z * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    middle = share + z * z / (2 * n)
    scale = 1 + z * z / n
    return Interval(max(0.0, (middle - spread) / scale), min(1.0, (middle + spread) / scale))


def bootstrap(
    statistic: Callable[[Sequence[int]], float], n: int, *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Percentile bootstrap (Efron & Tibshirani 1993, ch. 13): `statistic` of `n` item indices sampled with replacement.

    Samples with an undefined statistic (NaN) are left out; if none remains, both ends are NaN. Raises ValueError if `n`
    or `draws` is below 1 or `level` is not a proportion.
    """
    return percentile(bootstrap_values(statistic, range(n), draws=draws, seed=seed), level=level)


def bootstrap_values(
    statistic: Callable[[Sequence[T]], float], items: Sequence[T], *, draws: int = 1000, seed: int = 0
) -> list[float]:
    """The statistic of each sample of as many items, including NaN. Raises ValueError without items or if `draws` is
    below 1.
    """
    if not items or draws < 1:
        raise ValueError(f"bootstrap of {len(items)} items with {draws} samples")
    generator, size = random.Random(seed), len(items)
    if size > REPEATED:
        return [statistic(generator.choices(items, k=size)) for _ in range(draws)]
    places = [tuple(generator.choices(range(size), k=size)) for _ in range(draws)]
    values = {drawn: statistic([items[place] for place in drawn]) for drawn in set(places)}
    return [values[drawn] for drawn in places]


def percentile(values: Iterable[float], *, level: float = 0.95) -> Interval:
    """The interval with the middle `level` of the values. Raises ValueError if `level` is not a proportion."""
    if not 0 < level < 1:
        raise ValueError(f"an interval at level {level}")
    ordered = sorted(value for value in values if not math.isnan(value))
    tail = (1 - level) / 2
    return Interval(_quantile(ordered, tail), _quantile(ordered, 1 - tail))


def bootstrap_p(values: Iterable[float]) -> float:
    """The two-sided p value of "the statistic is 0", from its bootstrap values: one minus the level of the widest
    `percentile` interval without 0. At least one sample's share, because the samples cannot show less.
    """
    ordered = sorted(values)
    below, above = sum(value < 0 for value in ordered), sum(value > 0 for value in ordered)
    last = len(ordered) - 1
    if below + above < len(ordered):
        tails = [(len(ordered) - above - 1) / last, (len(ordered) - below - 1) / last]
    else:
        place = below - 1 + ordered[below - 1] / (ordered[below - 1] - ordered[below]) if below and above else 0.0
        tails = [place / last, 1 - place / last]
    return min(1.0, max(2 * min(tails), 1 / len(ordered)))


def cluster_bootstrap(
    clusters: Sequence[Sequence[float]], *, draws: int = 1000, seed: int = 0, level: float = 0.95
) -> Interval:
    """Bootstrap interval of the mean over all values; whole clusters are sampled with replacement (Cameron et al.
    2008).

    Items of one cluster (a task template) are not independent, so the width depends on the difference between clusters.
    Empty clusters are left out. Raises ValueError if no values remain.
    """
    totals = [(math.fsum(cluster), len(cluster)) for cluster in clusters if cluster]

    def mean(drawn: Sequence[int]) -> float:
        return math.fsum(totals[i][0] for i in drawn) / sum(totals[i][1] for i in drawn)

    return bootstrap(mean, len(totals), draws=draws, seed=seed, level=level)


def cohen_kappa(pairs: Iterable[tuple[Hashable, Hashable]]) -> float:
    """Agreement of two raters beyond chance (Cohen 1960). A pair is both raters' labels of one item.

    NaN if chance alone would always agree (no pairs, or only one label): kappa is then undefined.
    """
    table = Counter(pairs)
    total = table.total()
    first: Counter[Hashable] = Counter()
    second: Counter[Hashable] = Counter()
    for (label, second_label), count in table.items():
        first[label] += count
        second[second_label] += count
    agreed = sum(count for (label, second_label), count in table.items() if label == second_label)
    by_chance = sum(count * second[label] for label, count in first.items())
    if by_chance == total * total:
        return math.nan
    return (agreed * total - by_chance) / (total * total - by_chance)


def holm(ps: Sequence[float]) -> list[float]:
    """The p values of several tests, adjusted by Holm's step-down method (Holm 1979, Scand. J. Stat. 6), in order."""
    adjusted, largest = [0.0] * len(ps), 0.0
    for rank, place in enumerate(sorted(range(len(ps)), key=lambda place: ps[place])):
        largest = max(largest, min(1.0, (len(ps) - rank) * ps[place]))
        adjusted[place] = largest
    return adjusted


def pass_at_k(n: int, c: int, k: int) -> float:
    """Unbiased probability that one of `k` trials succeeds if `c` of `n` did (Chen et al. 2021, section 2.1)."""
    _check_trials(n, c, k)
    return 1 - math.comb(n - c, k) / math.comb(n, k)


def pass_hat_k(n: int, c: int, k: int) -> float:
    """Unbiased probability that all of `k` trials succeed if `c` of `n` did (tau-bench, Yao et al. 2024)."""
    _check_trials(n, c, k)
    return math.comb(c, k) / math.comb(n, k)


def _check_trials(n: int, c: int, k: int) -> None:
    if not (1 <= k <= n and 0 <= c <= n):
        raise ValueError(f"{k} of {n} trials, {c} of them successes")


def _quantile(ordered: Sequence[float], share: float) -> float:
    if not ordered:
        return math.nan
    place = share * (len(ordered) - 1)
    below = math.floor(place)
    above = min(below + 1, len(ordered) - 1)
    return ordered[below] + (place - below) * (ordered[above] - ordered[below])


def common_subsequence(first: Sequence[Hashable], second: Sequence[Hashable]) -> int:
    """The length of the longest common subsequence."""
    places: dict[Hashable, int] = {}
    bit = 1
    for token in first:
        places[token] = places.get(token, 0) | bit
        bit <<= 1
    full = bit - 1
    row = full
    for token in second:
        match = row & places.get(token, 0)
        if match:
            row = (row + match | row - match) & full
    return len(first) - row.bit_count()
