"""How well metrics follow human scores: Spearman's ρ and Kendall's τ-b (scipy), × 100, as the paper's Table 2.

By file (a file holds one model's answers) and on the average over files. Intervals are percentile bootstraps over
items; two metrics are compared by the bootstrap of their difference on the same draws. Where a column is constant a
rank correlation is undefined, and says so. Below ten items there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from refsol.imapscore.extra import need
from refsol.stats import Interval, bootstrap

Column = Sequence[float]
Coefficient = Callable[[Column, Column], float]
AVERAGE = "average"
MIN_ITEMS = 10
"""So many items an interval needs."""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one file over the same items: metrics, and human scores by dimension."""

    name: str
    metrics: Mapping[str, Column]
    human: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient × 100 over `n` items with its interval; None, and the reason, where it is undefined."""

    value: float | None
    interval: Interval | None = None
    reason: str = ""
    n: int = 0


def coefficients() -> dict[str, Coefficient]:
    """The coefficients by name; each is NaN for constant columns. Raises InputError without scipy."""
    stats = need("scipy.stats")

    def guarded(function: Callable[[Column, Column], float]) -> Coefficient:
        return lambda one, other: math.nan if _constant(one) or _constant(other) else 100 * function(one, other)

    return {
        "spearman": guarded(lambda one, other: float(stats.spearmanr(one, other).statistic)),
        "kendall": guarded(lambda one, other: float(stats.kendalltau(one, other).statistic)),
    }


@dataclass(frozen=True, slots=True)
class CorrelationRow:
    """The correlations of one metric (or the difference of two) in one file (or on average), by human dimension."""

    file: str
    metric: str
    cells: Mapping[str, Correlation]


def rows(
    tables: Sequence[Table],
    metrics: Sequence[str],
    pair: tuple[str, str] | None,
    coefficient: Coefficient,
    draws: int = 1000,
) -> list[CorrelationRow]:
    """Every metric, and the difference of `pair`, in each file and, for several files, on their average."""
    groups = [(table.name, [table]) for table in tables]
    if len(tables) > 1:
        groups.append(("average", list(tables)))
    found = []
    for name, group in groups:
        dimensions = list(group[0].human)
        for metric in metrics:
            cells = {dimension: correlate(group, metric, dimension, coefficient, draws) for dimension in dimensions}
            if len(dimensions) > 1:
                cells[AVERAGE] = correlate_all(group, metric, dimensions, coefficient, draws)
            found.append(CorrelationRow(name, metric, cells))
        if pair is not None:
            cells = {dimension: compare(group, pair, dimension, coefficient, draws) for dimension in dimensions}
            found.append(CorrelationRow(name, f"{pair[0]} − {pair[1]}", cells))
    return found


def correlate(
    tables: Sequence[Table], metric: str, dimension: str, coefficient: Coefficient, draws: int
) -> Correlation:
    """The correlation of `metric` with the human `dimension`: of one table, or the average over several."""
    for table in tables:
        for name, column in ((metric, table.metrics[metric]), (dimension, table.human[dimension])):
            if _constant(column):
                what = "has fewer than two items" if len(column) < 2 else f"is constant ({column[0]:g})"
                return Correlation(None, reason=f"{name} {what} in {table.name}", n=_size(tables))
    return _estimate(_average(tables, metric, dimension, coefficient), _size(tables), draws)


def correlate_all(
    tables: Sequence[Table], metric: str, dimensions: Sequence[str], coefficient: Coefficient, draws: int
) -> Correlation:
    """The mean of the metric's correlations with all human dimensions: the paper's column AVE."""
    for dimension in dimensions:
        alone = correlate(tables, metric, dimension, coefficient, 1)
        if alone.value is None:
            return alone
    statistics = [_average(tables, metric, dimension, coefficient) for dimension in dimensions]
    return _estimate(lambda drawn: fmean(one(drawn) for one in statistics), _size(tables), draws)


def compare(
    tables: Sequence[Table], metrics: tuple[str, str], dimension: str, coefficient: Coefficient, draws: int
) -> Correlation:
    """The first metric's correlation less the second's, on the same draws of items."""
    for metric in metrics:
        alone = correlate(tables, metric, dimension, coefficient, 1)
        if alone.value is None:
            return alone
    first, second = (_average(tables, metric, dimension, coefficient) for metric in metrics)
    return _estimate(lambda drawn: first(drawn) - second(drawn), _size(tables), draws)


def _estimate(statistic: Callable[[Sequence[int]], float], size: int, draws: int) -> Correlation:
    interval = bootstrap(statistic, size, draws=draws) if size >= MIN_ITEMS else None
    return Correlation(statistic(range(size)), interval, n=size)


def _size(tables: Sequence[Table]) -> int:
    return sum(len(next(iter(table.human.values()), ())) for table in tables)


def _average(
    tables: Sequence[Table], metric: str, dimension: str, coefficient: Coefficient
) -> Callable[[Sequence[int]], float]:
    """The average over tables, as a function of item numbers that run through all tables."""
    items = [
        (number, pair)
        for number, table in enumerate(tables)
        for pair in zip(table.metrics[metric], table.human[dimension], strict=True)
    ]

    def statistic(drawn: Sequence[int]) -> float:
        columns: list[tuple[list[float], list[float]]] = [([], []) for _ in tables]
        for place in drawn:
            number, (value, human) = items[place]
            columns[number][0].append(value)
            columns[number][1].append(human)
        return fmean(coefficient(*pair) for pair in columns)

    return statistic


def _constant(column: Column) -> bool:
    return len(set(column)) < 2
