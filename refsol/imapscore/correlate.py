"""How well metrics follow human scores: Spearman's ρ and Kendall's τ-b (scipy), × 100, as the paper's Table 2.

Correlations are per file (one model's answers) and averaged over files. Intervals are percentile bootstraps over items.
Two metrics are compared by the bootstrap of their difference on the same samples. If a column is constant, a rank
correlation is undefined; the reason is shown. With fewer than ten items there is no interval.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from refsol.imapscore._extra import need
from refsol.stats import Interval, bootstrap

Column = Sequence[float]
Coefficient = Callable[[Column, Column], float]
AVERAGE = "average"
MIN_ITEMS = 10
"""The least number of items for an interval."""


@dataclass(frozen=True, slots=True)
class Table:
    """The columns of one file over the same items: metrics, and human scores by dimension."""

    name: str
    metrics: Mapping[str, Column]
    human: Mapping[str, Column]


@dataclass(frozen=True, slots=True)
class Correlation:
    """A coefficient × 100 over `n` items with its interval. If undefined, it is None with a reason."""

    value: float | None
    interval: Interval | None = None
    reason: str = ""
    n: int = 0


def coefficients() -> dict[str, Coefficient]:
    """The coefficients by name; each is NaN for constant columns. Raises InputError if scipy is not installed."""
    stats = need("scipy.stats")

    def guarded(function: Callable[[Column, Column], float]) -> Coefficient:
        return lambda metric, ratings: (
            math.nan if _constant(metric) or _constant(ratings) else 100 * function(metric, ratings)
        )

    return {
        "spearman": guarded(lambda metric, ratings: float(stats.spearmanr(metric, ratings).statistic)),
        "kendall": guarded(lambda metric, ratings: float(stats.kendalltau(metric, ratings).statistic)),
    }


@dataclass(frozen=True, slots=True)
class CorrelationRow:
    """The correlations of one metric (or of the difference of two) in one file (or on average), by human dimension."""

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
    """Every metric, and the difference of `pair`, in each file and, for several files, their average."""
    groups = [(table.name, [table]) for table in tables]
    if len(tables) > 1:
        groups.append(("average", list(tables)))
    correlations = []
    for name, group in groups:
        columns: dict[str, list[str]] = {dimension: [dimension] for dimension in group[0].human}
        if len(columns) > 1:
            columns[AVERAGE] = list(group[0].human)
        for metric in metrics:
            cells = {column: correlate(group, metric, named, coefficient, draws) for column, named in columns.items()}
            correlations.append(CorrelationRow(name, metric, cells))
        if pair is not None:
            cells = {column: compare(group, pair, named, coefficient, draws) for column, named in columns.items()}
            correlations.append(CorrelationRow(name, f"{pair[0]} − {pair[1]}", cells))
    return correlations


def correlate(
    tables: Sequence[Table], metric: str, dimensions: str | Sequence[str], coefficient: Coefficient, draws: int
) -> Correlation:
    """The correlation of `metric` with a human dimension, in one table or averaged over several. For several
    dimensions, it is the mean of the correlations, which is the paper's column AVE.
    """
    named = [dimensions] if isinstance(dimensions, str) else list(dimensions)
    for table in tables:
        columns = [(metric, table.metrics[metric]), *((dimension, table.human[dimension]) for dimension in named)]
        for name, column in columns:
            if _constant(column):
                what = "covers fewer than two items" if len(column) < 2 else f"is constant ({column[0]:g})"
                return Correlation(None, reason=f"{name} {what} in {table.name}", n=_size(tables))
    return _estimate(_average(tables, metric, named, coefficient), _size(tables), draws)


def compare(
    tables: Sequence[Table],
    metrics: tuple[str, str],
    dimensions: str | Sequence[str],
    coefficient: Coefficient,
    draws: int,
) -> Correlation:
    """The first metric's correlation minus the second's, on the same samples of items."""
    named = [dimensions] if isinstance(dimensions, str) else list(dimensions)
    for metric in metrics:
        alone = correlate(tables, metric, named, coefficient, 1)
        if alone.value is None:
            return alone
    first, second = (_average(tables, metric, named, coefficient) for metric in metrics)
    return _estimate(lambda drawn: first(drawn) - second(drawn), _size(tables), draws)


def _estimate(statistic: Callable[[Sequence[int]], float], size: int, draws: int) -> Correlation:
    interval = bootstrap(statistic, size, draws=draws) if size >= MIN_ITEMS else None
    return Correlation(statistic(range(size)), interval, n=size)


def _size(tables: Sequence[Table]) -> int:
    return sum(len(next(iter(table.human.values()), ())) for table in tables)


def _average(
    tables: Sequence[Table], metric: str, dimensions: Sequence[str], coefficient: Coefficient
) -> Callable[[Sequence[int]], float]:
    """A function that averages over tables and dimensions. Its argument: item numbers that run through all tables."""
    places = [(number, place) for number, table in enumerate(tables) for place in range(len(table.metrics[metric]))]

    def statistic(drawn: Sequence[int]) -> float:
        chosen: list[list[int]] = [[] for _ in tables]
        for item in drawn:
            number, place = places[item]
            chosen[number].append(place)
        coefficients: list[float] = []
        for table, rows_drawn in zip(tables, chosen, strict=True):
            values = [table.metrics[metric][place] for place in rows_drawn]
            human = ([table.human[dimension][place] for place in rows_drawn] for dimension in dimensions)
            coefficients += [coefficient(values, scores) for scores in human]
        return fmean(coefficients)

    return statistic


def _constant(column: Column) -> bool:
    return len(set(column)) < 2
