"""Measures by simulation how often intervals of a rate contain the true rate: 10 types of 30 items each.

    python -m benchmarks.intervals [--runs 4000]

Each sample is a run. *Other types*: the rates of the types are sampled from a Beta distribution, and the true value is
its mean. *These types, other patients*: the rates are sampled once for all runs, and the true value is their mean.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Callable, Sequence
from statistics import fmean, stdev

from benchmarks.table import machine, row
from refsol.intervals import other_types, stratified_wilson, t_quantile
from refsol.stats import Interval, cluster_bootstrap, wilson

TYPES, ITEMS, DRAWS = 10, 30, 500
POPULATIONS = ((2.0, 1.0), (9.0, 1.0), (0.6, 0.4), (0.5, 0.5), (4.0, 0.5))
"""Beta distributions of the types' rates."""
Run = Sequence[int]
"""How many items of each type are right."""
Method = Callable[[Run], Interval]


def bootstrap(run: Run) -> Interval:
    """Percentile bootstrap over types."""
    return cluster_bootstrap([_values(right) for right in run], draws=DRAWS)


def plain_t(run: Run) -> Interval:
    """Student's t on the types' rates."""
    rates = [right / ITEMS for right in run]
    reach = t_quantile(TYPES - 1, 0.95) * stdev(rates) / TYPES**0.5
    return Interval(fmean(rates) - reach, fmean(rates) + reach)


def logit_t(run: Run) -> Interval:
    """Student's t on the logit, as in reports."""
    interval = other_types([[(1, 1)] * right + [(0, 1)] * (ITEMS - right) for right in run])
    assert interval is not None
    return interval


def within(run: Run) -> Interval:
    """Items within types, as in reports."""
    return stratified_wilson([[(1, 1)] * right + [(0, 1)] * (ITEMS - right) for right in run])


def pooled(run: Run) -> Interval:
    """All items as if they were of one type."""
    return wilson(sum(run), TYPES * ITEMS)


def coverage(method: Method, runs: Sequence[tuple[Run, float]]) -> tuple[float, float]:
    """The share of runs whose interval holds the true value, and the mean width."""
    bounds = [(method(run), true) for run, true in runs]
    held = fmean(one.low <= true <= one.high for one, true in bounds)
    return held, fmean(one.high - one.low for one, _ in bounds)


def drawn(generator: random.Random, rates: Sequence[float]) -> Run:
    """A run over types of these rates."""
    return [sum(generator.random() < rate for _ in range(ITEMS)) for rate in rates]


def new_types(generator: random.Random, a: float, b: float, runs: int) -> list[tuple[Run, float]]:
    """Runs over types of their own."""
    types = [[generator.betavariate(a, b) for _ in range(TYPES)] for _ in range(runs)]
    return [(drawn(generator, rates), a / (a + b)) for rates in types]


def same_types(generator: random.Random, a: float, b: float, runs: int) -> list[tuple[Run, float]]:
    """Runs over the same types."""
    rates = [generator.betavariate(a, b) for _ in range(TYPES)]
    return [(drawn(generator, rates), fmean(rates)) for _ in range(runs)]


def _values(right: int) -> list[float]:
    return [1.0] * right + [0.0] * (ITEMS - right)


def main() -> None:
    """Print the coverage of each method, for each population."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    machine()
    other: dict[str, Method] = {"percentile bootstrap": bootstrap, "t": plain_t, "t on the logit": logit_t}
    these: dict[str, Method] = {"stratified Wilson": within, "Wilson of all items": pooled}
    questions = (("other types", new_types, other), ("these types", same_types, these))
    for question, sample, methods in questions:
        for name, method in methods.items():
            reported = name in ("t on the logit", "stratified Wilson")
            for a, b in POPULATIONS:
                held, width = coverage(method, sample(random.Random(0), a, b, runs))
                label = f"{question}, rates Beta({a:g}, {b:g}), {name} (mean width {width:.3f})"
                row(label, "≥ 92" if reported else "", 100 * held, "% hold the true rate")


if __name__ == "__main__":
    main()
