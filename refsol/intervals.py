"""Intervals of rates and of differences between rates, by the question that they answer. Standard library only.

* *These types, other patients*: units are sampled within types; the types are fixed (`stratified_wilson`).
* *Other types*: types are sampled, with their units (`other_types`, `other_types_difference`).
* Two runs over the same items: `paired_difference`. Before a run: `noise` and `detectable`.

A unit is an item with its trials, or several dependent items. `benchmarks/intervals.py` simulates how often the
intervals contain the true value.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean
from typing import Any, TypeVar

from refsol.stats import Clusters, Interval, effective, score_interval

ValuesT = TypeVar("ValuesT", bound=tuple[float, ...])
Steps = Sequence[tuple[float, float, float]]
"""The units of a comparison of two runs, each as (gained, lost, n): the sums of the steps up and of the steps down of
its `n` items. A step is between -1 and 1.
"""

Z95 = 1.959964
"""The normal quantile of a two-sided 95% interval."""
FEWEST_TYPES = 5
"""With fewer types than this there is no interval over other types."""
DISCORDANT = 0.2
"""The default share of items on which two runs differ. `noise` and `detectable` depend on it."""
_NO_ERROR = 1e-12
SHRINKING = 2.0
"""The number of pseudo-items, right at the overall rate, in each type's variance. Without them, the variance would be 0
if all 30 items are right.
"""


def stratified_wilson(strata: Iterable[Clusters], z: float = Z95) -> Interval:
    """The interval of a share over strata of clusters of (successes, n): types of items, each item with its trials.

    This is Wilson's interval for the number of independent values with the same variance as the values within strata
    (design effect of stratified samples; Kish 1965, ch. 3). Its width is never 0. For one stratum of single trials it
    equals `wilson`. Without values it is (0, 1).
    """
    parts = [(*effective(one), sum(n for _, n in one)) for one in map(list, strata)]
    total = sum(count for *_, count in parts)
    if not total:
        return Interval(0.0, 1.0)
    share = math.fsum(one * count for one, _, count in parts) / total
    if len(parts) == 1 or min(share, 1 - share) < 1e-12:
        return score_interval(share, math.fsum(n for _, n, _ in parts), z)
    variance = 0.0
    for one, n, count in parts:
        if count:
            near = _shrunk(one, n, share)
            variance += (count / total) ** 2 * near * (1 - near) / n
    return score_interval(share, share * (1 - share) / variance, z)


def stratified_newcombe(first: Sequence[Clusters], second: Sequence[Clusters], z: float = Z95) -> Interval:
    """The interval of the difference of two independent shares, the second minus the first, each over its strata. It is
    computed from their intervals (Newcombe 1998, method 10; Zou & Donner 2008, Statistics in Medicine 27).
    """
    (low, share, high), (other_low, other, other_high) = (_limits(one, z) for one in (first, second))
    below = math.hypot(other - other_low, high - share)
    above = math.hypot(other_high - other, share - low)
    return Interval(other - share - below, other - share + above)


def strata(rows: Iterable[tuple[str, str, ValuesT]]) -> list[list[ValuesT]]:
    """The sums of the values of each unit, by type. A row is (type, unit, values).

    If the rows of a unit are of several types, types are not separated, because a unit must be sampled as a whole.
    """
    units: dict[str, Any] = {}
    types: dict[str, str] = {}
    mixed = False
    for type_, unit, values in rows:
        before = units.get(unit)
        units[unit] = values if before is None else tuple(map(sum, zip(before, values, strict=True)))
        mixed |= types.setdefault(unit, type_) != type_
    by_type: dict[str, list[ValuesT]] = {}
    for unit, values in units.items():
        by_type.setdefault("" if mixed else types[unit], []).append(values)
    return list(by_type.values())


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two runs over the same items, with its 95% interval, and the p value of "no difference". The
    interval excludes 0 if and only if p is below 0.05: both are one test.
    """

    value: float
    interval: Interval
    p: float
    other_types: Interval | None
    """The interval for other types; None below five."""

    def scaled(self, scale: float) -> Difference:
        """The difference of values that were divided by `scale`."""
        others = self.other_types
        return Difference(
            self.value * scale, self.interval.scaled(scale), self.p, None if others is None else others.scaled(scale)
        )


def paired_difference(types: Iterable[Steps]) -> Difference:
    """The difference of two runs over the same items, which are units of types. Raises ValueError without items.

    The test is the score test of paired shares: for independent items, McNemar's (1947, Psychometrika 12), without a
    correction, whose error of the first kind is near 5% for any number of items (Fagerland et al. 2013, BMC Medical
    Research Methodology 13). The interval contains the differences that the test does not reject (Tango 1998,
    Statistics in Medicine 17). Both use the number of independent items with the same variance as the units. Types are
    not separated, so that `noise` and `detectable` can plan the test.
    """
    some = [list(units) for units in types if units]
    steps = [(gained - lost, size) for units in some for gained, lost, size in units]
    gained, lost, n = (math.fsum(unit[part] for units in some for unit in units) for part in range(3))
    mean = (gained - lost) / n if n else 0.0
    between = math.fsum((step - size * mean) ** 2 for step, size in steps)
    if between > _NO_ERROR * (gained + lost):
        times = (gained + lost - mean**2 * n) / between
    else:
        times = len(steps) / n if n else 1.0
    interval = tango(gained * times, lost * times, n * times)
    turned = (gained + lost) * times
    p = math.erfc(abs(gained - lost) * times / math.sqrt(2 * turned)) if turned else 1.0
    totals = [(math.fsum(up - down for up, down, _ in units), math.fsum(size for *_, size in units)) for units in some]
    return Difference(mean, interval, p, other_types_difference(totals, interval))


def tango(gained: float, lost: float, n: float, z: float = Z95) -> Interval:
    """The score interval of the difference of two paired shares, `(gained - lost) / n` (Tango 1998, Statistics in
    Medicine 17). Raises ValueError without pairs.
    """
    if n <= 0 or gained < 0 or lost < 0 or gained + lost > n * (1 + 1e-9):
        raise ValueError(f"{gained} and {lost} discordant pairs of {n}")
    middle = (gained - lost) / n

    def statistic(difference: float) -> float:
        a, c = 2 * n, -lost * difference * (1 - difference)
        b = -gained - lost + (2 * n - gained + lost) * difference
        share = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        variance = n * (2 * share + difference * (1 - difference))
        return abs(gained - lost - n * difference) / math.sqrt(variance) if variance > 0 else math.inf

    return Interval(_edge(statistic, middle, -1.0, z), _edge(statistic, middle, 1.0, z))


def other_types(types: Sequence[Clusters]) -> Interval | None:
    """The interval of the rate over other types of the same kind. `types` lists each type's units as (right, trials).

    Student's t with (types - 1) degrees of freedom on the logit of the rate, with the jackknife error over types
    (Miller 1974, Biometrika 61; on the logit by the delta method). If all types are equal, it is the score interval
    with the number of types as n. It includes the interval for these types, because other types cannot be known better.
    None with fewer than five types.
    """
    totals = [tuple(math.fsum(unit[part] for unit in units) for part in range(2)) for units in types if units]
    if len(totals) < FEWEST_TYPES:
        return None
    right, n = (math.fsum(total[part] for total in totals) for part in range(2))
    rate = right / n
    error = _jackknife_error([(right - one) / (n - count) for one, count in totals])
    if error < _NO_ERROR:
        interval = score_interval(rate, len(totals), Z95)
    else:
        reach = t_quantile(len(totals) - 1, 0.95) * error / (rate * (1 - rate))
        middle = math.log(rate / (1 - rate))
        interval = Interval(_of_logit(middle - reach), _of_logit(middle + reach))
    return interval.including(stratified_wilson(types))


def other_types_difference(totals: Sequence[tuple[float, float]], these: Interval) -> Interval | None:
    """The interval of a difference over other types: Student's t with the jackknife error. `totals` lists each type's
    sum of differences and number of items, `these` is the interval for these types, which it includes. None below five
    types.

    If all types differ equally, it is the interval for as many pairs as types, none discordant, around the difference.
    """
    if len(totals) < FEWEST_TYPES:
        return None
    total, n = (math.fsum(one[part] for one in totals) for part in range(2))
    error = _jackknife_error([(total - one) / (n - count) for one, count in totals])
    reach = t_quantile(len(totals) - 1, 0.95) * error if error >= _NO_ERROR else tango(0, 0, len(totals)).high
    return Interval(max(-1.0, total / n - reach), min(1.0, total / n + reach)).including(these)


def mean_draws(units: Sequence[tuple[float, ...]], draws: int = 1000, seed: int = 0) -> list[list[float]]:
    """The mean of each of several runs over the same items, in each sample of a bootstrap of units. A unit is its
    number of items, then the sum of each run's values on them. Raises ValueError without units.
    """
    generator, kinds = random.Random(seed), Counter(units)
    means: list[list[float]] = []
    for _ in range(draws):
        sampled = Counter(generator.choices([*kinds], [*kinds.values()], k=len(units)))
        columns = zip(*([times * value for value in unit] for unit, times in sampled.items()), strict=True)
        n, *sums = map(math.fsum, columns)
        means.append([one / n for one in sums])
    return [list(run) for run in zip(*means, strict=True)]


def rank_intervals(draws: Sequence[Sequence[float]]) -> list[tuple[int, int]]:
    """The 95% interval of the rank of each of several runs, from the runs' values in the same samples. The highest
    value is rank 1; equal values share a rank.
    """
    ranks: list[list[int]] = [[] for _ in draws]
    for values in zip(*draws, strict=True):
        ordered = sorted(values)
        for place, value in enumerate(values):
            ranks[place].append(1 + len(ordered) - bisect_right(ordered, value))
    tail = math.floor(0.025 * len(draws[0]))
    return [(one[tail], one[-1 - tail]) for one in map(sorted, ranks)]


def noise(n: int, discordant: float = DISCORDANT) -> float:
    """The difference between two runs over the same `n` items from which the p of `paired_difference` is below 0.05, if
    the runs differ on the share `discordant` of the items. If it is above that share, p is never below 0.05.
    """
    return min(1.0, Z95 * math.sqrt(discordant / n))


def detectable(n: int, discordant: float = DISCORDANT, power: float = 0.8) -> float:
    """The true difference for which the p of `paired_difference` of two runs over `n` items is below 0.05 with
    probability `power` (Connor 1987, Biometrics 43). At most `discordant`; 1 if no difference is large enough.
    """
    quantile = NormalDist().inv_cdf(power)

    def surplus(difference: float) -> float:
        spread = Z95 * math.sqrt(discordant) + quantile * math.sqrt(discordant - difference**2)
        return difference * math.sqrt(n) - spread

    return _root(surplus, 0.0, discordant) if surplus(discordant) > 0 else 1.0


def t_quantile(degrees: int, level: float) -> float:
    """The two-sided quantile of Student's t: |t| is below it with probability `level` (Abramowitz & Stegun 26.7.3)."""
    if degrees < 1 or not 0 < level < 1:
        raise ValueError(f"Student's t with {degrees} degrees of freedom at {level}")
    return math.sqrt(degrees) * math.tan(_root(lambda angle: _t_within(angle, degrees) - level, 0.0, math.pi / 2))


def _t_within(angle: float, degrees: int) -> float:
    """The probability that |t| is below sqrt(degrees) · tan(angle)."""
    sine, cosine = math.sin(angle), math.cos(angle)
    odd = degrees % 2
    term, total = (cosine, cosine) if odd else (1.0, 1.0)
    if degrees == 1:
        total = 0.0
    for k in range(2 + odd, degrees - 1, 2):
        term *= (k - 1) / k * cosine**2
        total += term
    return 2 / math.pi * (angle + sine * total) if odd else sine * total


def _shrunk(share: float, n: float, overall: float) -> float:
    return (share * n + SHRINKING * overall) / (n + SHRINKING)


def _limits(strata: Sequence[Clusters], z: float) -> tuple[float, float, float]:
    """The share, limited to the ends of its interval."""
    interval = stratified_wilson(strata, z)
    right, total = (sum(cluster[part] for one in strata for cluster in one) for part in range(2))
    return interval.low, right / total, interval.high


def _jackknife_error(without: Sequence[float]) -> float:
    """The jackknife standard error of a statistic, from its values with one type left out each time."""
    mean, k = fmean(without), len(without)
    return math.sqrt((k - 1) / k * math.fsum((one - mean) ** 2 for one in without))


def _of_logit(logit: float) -> float:
    """The rate for a logit, without overflow for large logits."""
    odds = math.exp(-abs(logit))
    return 1 / (1 + odds) if logit >= 0 else odds / (1 + odds)


def _edge(statistic: Callable[[float], float], middle: float, end: float, z: float) -> float:
    """The point between the middle and an end where a statistic that grows towards the end is `z`."""
    if statistic(end) <= z:
        return end
    share = _root(lambda step: statistic(middle + step * (end - middle)) - z, 0.0, 1.0)
    return middle + share * (end - middle)


def _root(function: Callable[[float], float], low: float, high: float) -> float:
    """The root of an increasing function, by bisection."""
    for _ in range(60):
        half = (low + high) / 2
        low, high = (half, high) if function(half) < 0 else (low, half)
    return (low + high) / 2
