"""Intervals of rates and of differences between rates. Standard library only.

* A rate: with other patients, how would it change? (`share_interval`). The types of tasks are fixed.
* Two runs over the same items: `paired_difference`. Two runs over other items of the same types: `newcombe`.
* Before a run: `noise`, `detectable` and `design_effect`.

A unit is an item with its trials, or several items that count as one. Units of one patient are not independent: a
hospital's patient may be hard in all of its tasks. So each variance is the larger of two: that of independent units
within their types, and that of the patients' sums (Liang & Zeger 1986, Biometrika 73). `benchmarks/intervals.py`
simulates how often the intervals contain the true value.
"""

from __future__ import annotations

import math
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from statistics import NormalDist
from typing import NamedTuple

from refsol.stats import Interval, effective, score_interval

Z95 = 1.959964
"""The normal quantile of a two-sided 95% interval."""
DISCORDANT = 0.2
"""The default share of items on which two runs differ. `noise` and `detectable` depend on it."""
CORRELATION = 0.1
"""The assumed correlation of the differences of two runs on two items of one patient, before a run. It is that of
patients whose difficulty varies by one standard deviation on the logit (`benchmarks/intervals.py`).
"""
_NO_ERROR = 1e-12
SHRINKING = 2.0
"""The number of pseudo-items, right at the overall rate, in each type's variance. Without them, the variance would be 0
if all 30 items are right.
"""


class Value(NamedTuple):
    """Values of a unit of a type, such as (right, trials). `patient` is the name that units of one patient share."""

    type: str
    unit: str
    patient: str
    values: tuple[float, ...]


def share_interval(rows: Iterable[Value], z: float = Z95) -> Interval:
    """The interval of a share. The values of a row are (successes, n).

    It is Wilson's interval for the number of independent values with the same variance: the larger of the variance
    within types (design effect of stratified samples; Kish 1965, ch. 3), and of the variance between patients, whose
    residuals from the types' rates are summed. Its width is never 0. For one type of single trials of different
    patients it equals `wilson`. Without values it is (0, 1).
    """
    share, n = _independent(list(rows))
    return score_interval(share, n, z) if n else Interval(0.0, 1.0)


def standard_error(values: Sequence[tuple[str, float]]) -> float:
    """The standard error of the mean of values, each with the name of its patient: the larger of the errors over values
    and over patients. 0 for fewer than two values.
    """
    if len(values) < 2:
        return 0.0
    n = len(values)
    mean = math.fsum(value for _, value in values) / n
    residuals = [(patient, value - mean) for patient, value in values]
    independent = n / (n - 1) * math.fsum(residual**2 for _, residual in residuals)
    return math.sqrt(max(independent, _between_patients(residuals))) / n


def newcombe(first: Iterable[Value], second: Iterable[Value], z: float = Z95) -> Interval:
    """The interval of the difference of two independent shares, the second minus the first. It is computed from their
    intervals (Newcombe 1998, method 10; Zou & Donner 2008, Statistics in Medicine 27).
    """
    (low, share, high), (later_low, later, later_high) = (_limits(list(rows), z) for rows in (first, second))
    below = math.hypot(later - later_low, high - share)
    above = math.hypot(later_high - later, share - low)
    return Interval(later - share - below, later - share + above)


def units_of(rows: Iterable[Value]) -> list[Value]:
    """One row for each unit, with the sums of its values. A unit of several types has no type: it counts as a whole."""
    sums: dict[str, Value] = {}
    for row in rows:
        before = sums.get(row.unit)
        if before is not None:
            type_ = row.type if row.type == before.type else ""
            row = Value(type_, row.unit, before.patient, tuple(map(sum, zip(before.values, row.values, strict=True))))
        sums[row.unit] = row
    return list(sums.values())


@dataclass(frozen=True, slots=True)
class Difference:
    """The difference of two runs over the same items, with its 95% interval, and the p value of "no difference". The
    interval excludes 0 if and only if p is below 0.05: both are one test.
    """

    value: float
    interval: Interval
    p: float

    def scaled(self, scale: float) -> Difference:
        """The difference of values that were divided by `scale`."""
        return Difference(self.value * scale, self.interval.scaled(scale), self.p)


def paired_difference(rows: Iterable[Value]) -> Difference:
    """The difference of two runs over the same items. The values of a row are (gained, lost, n): the sums of the steps
    up and of the steps down of its `n` items. A step is between -1 and 1.

    The test is the score test of paired shares: for independent items, McNemar's (1947, Psychometrika 12), without a
    correction, whose error of the first kind is near 5% for any number of items (Fagerland et al. 2013, BMC Medical
    Research Methodology 13). The interval contains the differences that the test does not reject (Tango 1998,
    Statistics in Medicine 17). Both use the number of independent items with the same variance: the larger of the
    variances between units and between patients. Types are not separated, so that `noise` and `detectable` can plan the
    test.
    """
    units = units_of(rows)
    gained, lost, n = (math.fsum(unit.values[part] for unit in units) for part in range(3))
    mean = (gained - lost) / n if n else 0.0
    residuals = [(unit.patient, unit.values[0] - unit.values[1] - unit.values[2] * mean) for unit in units]
    between = max(math.fsum(residual**2 for _, residual in residuals), _between_patients(residuals))
    if between > _NO_ERROR * (gained + lost):
        times = (gained + lost - mean**2 * n) / between
    else:
        times = len(units) / n if n else 1.0
    interval = tango(gained * times, lost * times, n * times)
    turned = (gained + lost) * times
    p = math.erfc(abs(gained - lost) * times / math.sqrt(2 * turned)) if turned else 1.0
    return Difference(mean, interval, p)


def tango(gained: float, lost: float, n: float, z: float = Z95) -> Interval:
    """The score interval of the difference of two paired shares, `(gained - lost) / n` (Tango 1998, Statistics in
    Medicine 17). Raises ValueError without pairs.
    """
    if n <= 0 or gained < 0 or lost < 0 or gained + lost > n * (1 + 1e-9):
        raise ValueError(f"{gained} and {lost} discordant pairs of {n}")
    middle = (gained - lost) / n

    def excess(difference: float) -> float:
        """By how much the test's statistic exceeds `z`; it grows with the distance from the middle."""
        a, c = 2 * n, -lost * difference * (1 - difference)
        b = -gained - lost + (2 * n - gained + lost) * difference
        share = (math.sqrt(max(b * b - 4 * a * c, 0.0)) - b) / (2 * a)
        variance = n * (2 * share + difference * (1 - difference))
        return abs(gained - lost - n * difference) / math.sqrt(variance) - z if variance > 0 else math.inf

    low, high = (_root(excess, middle, end) if excess(end) > 0 else end for end in (-1.0, 1.0))
    return Interval(low, high)


def mean_draws(rows: Iterable[Value], draws: int = 1000, seed: int = 0) -> list[list[float]]:
    """The mean of each of several runs over the same items, in each sample of a bootstrap of patients. The values of a
    row are its number of items, then the sum of each run's values on them. Raises ValueError without rows.
    """
    patients = units_of(Value("", row.patient, row.patient, row.values) for row in rows)
    generator, kinds = random.Random(seed), Counter(patient.values for patient in patients)
    means: list[list[float]] = []
    for _ in range(draws):
        sampled = Counter(generator.choices([*kinds], [*kinds.values()], k=len(patients)))
        columns = zip(*([times * value for value in unit] for unit, times in sampled.items()), strict=True)
        n, *sums = map(math.fsum, columns)
        means.append([total / n for total in sums])
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
    return [(ordered[tail], ordered[-1 - tail]) for ordered in map(sorted, ranks)]


def noise(n: float, discordant: float = DISCORDANT) -> float:
    """The difference between two runs over the same `n` independent items from which the p of `paired_difference` is
    below 0.05, if the runs differ on the share `discordant` of the items. If it is above that share, p is never below
    0.05.
    """
    return min(1.0, Z95 * math.sqrt(discordant / n))


def detectable(n: float, discordant: float = DISCORDANT, power: float = 0.8) -> float:
    """The true difference for which the p of `paired_difference` of two runs over `n` independent items is below 0.05
    with probability `power` (Connor 1987, Biometrics 43). At most `discordant`; 1 if no difference is large enough.
    """
    quantile = NormalDist().inv_cdf(power)

    def surplus(difference: float) -> float:
        spread = Z95 * math.sqrt(discordant) + quantile * math.sqrt(discordant - difference**2)
        return difference * math.sqrt(n) - spread

    return _root(surplus, 0.0, discordant) if surplus(discordant) > 0 else 1.0


def design_effect(sizes: Sequence[float], correlation: float = CORRELATION) -> float:
    """By how much items of common patients count less: the variance of their mean, divided by that of as many items of
    different patients (Kish 1965, section 5.4). `sizes` is the number of items of each patient.
    """
    typical = math.fsum(size**2 for size in sizes) / math.fsum(sizes)
    return 1 + max(0.0, typical - 1) * correlation


def _independent(rows: Sequence[Value]) -> tuple[float, float]:
    """The share, and the number of independent values with its variance."""
    by_type: dict[str, list[Value]] = {}
    units = units_of(rows)
    mixed = any(unit.type == "" for unit in units)
    for unit in units:
        by_type.setdefault("" if mixed else unit.type, []).append(unit)
    parts = [_Part.of(members) for members in by_type.values()]
    total = math.fsum(part.values for part in parts)
    if not total:
        return 0.0, 0.0
    share = math.fsum(part.share * part.values for part in parts) / total
    if min(share, 1 - share) < _NO_ERROR:
        return share, math.fsum(part.n for part in parts)
    if len(parts) == 1:
        within = share * (1 - share) / parts[0].n
    else:
        within = math.fsum(part.variance(share) * (part.values / total) ** 2 for part in parts if part.values)
    residuals = [
        (unit.patient, unit.values[0] - unit.values[1] * part.share)
        for part, members in zip(parts, by_type.values(), strict=True)
        for unit in members
    ]
    return share, share * (1 - share) / max(within, _between_patients(residuals) / total**2)


class _Part(NamedTuple):
    """The values of one type: their share, their number, and the number of independent ones."""

    share: float
    values: float
    n: float

    @classmethod
    def of(cls, units: Sequence[Value]) -> _Part:
        shares = [(unit.values[0], unit.values[1]) for unit in units]
        share, n = effective(shares)
        return cls(share, math.fsum(count for _, count in shares), n)

    def variance(self, overall: float) -> float:
        """The variance of the share, if it is close to the overall share."""
        near = (self.share * self.n + SHRINKING * overall) / (self.n + SHRINKING)
        return near * (1 - near) / self.n


def _between_patients(residuals: Iterable[tuple[str, float]]) -> float:
    """The sum of the squares of the patients' sums of residuals, corrected for the number of patients. 0 if each unit
    has a patient of its own, or if there is only one patient: then it is unknown.
    """
    sums: dict[str, list[float]] = {}
    for patient, residual in residuals:
        sums.setdefault(patient, []).append(residual)
    if len(sums) < 2 or all(len(values) == 1 for values in sums.values()):
        return 0.0
    return len(sums) / (len(sums) - 1) * math.fsum(math.fsum(values) ** 2 for values in sums.values())


def _limits(rows: Sequence[Value], z: float) -> tuple[float, float, float]:
    """The share, limited to the ends of its interval."""
    interval = share_interval(rows, z)
    right, total = (math.fsum(row.values[part] for row in rows) for part in range(2))
    return interval.low, right / total, interval.high


def _root(function: Callable[[float], float], below: float, above: float) -> float:
    """The root of a function between a point where it is negative and one where it is not, by bisection."""
    for _ in range(60):
        half = (below + above) / 2
        if function(half) < 0:
            below = half
        else:
            above = half
    return (below + above) / 2
