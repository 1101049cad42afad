"""Measures by simulation how often intervals contain the true value, and how often equal runs are called different.

    python -m benchmarks.intervals [--runs 4000]

A run has 300 items of 10 types, which come from 90 patients with 1 to 7 items. The logit of an item's rate is that of
its type, plus the effect of its patient, whose standard deviation is 0, 0.5, 1 or 2. Each simulated run samples new
patients; the true value is the mean over all patients. In `compare`, both runs have the same rates by type, and
patients have an effect of their own on each.
"""

from __future__ import annotations

import argparse
import math
import random
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import NormalDist, fmean

from benchmarks.table import machine, row
from refsol.intervals import Value, paired_difference, share_interval
from refsol.stats import Interval
from refsol.trials import rates

TYPES, ITEMS, PATIENTS, TRIALS = 10, 300, 90, 4
EFFECTS = (0.0, 0.5, 1.0, 2.0)
"""Standard deviations of the patients' effects on the logit."""
RATES = (0.97, 0.95, 0.92, 0.9, 0.85, 0.8, 0.7, 0.6, 0.5, 0.4)
"""The rates of the types for a patient without an effect."""
_QUANTILES = [NormalDist().inv_cdf((place + 0.5) / 2000) for place in range(2000)]


@dataclass(frozen=True)
class Sampled:
    """The items of a run: the type and the patient of each, and the rate of each."""

    types: Sequence[int]
    patients: Sequence[int]
    rates: Sequence[float]


def rate(type_: int, effect: float) -> float:
    """The rate of a type's items for a patient with this effect."""
    odds = math.log(RATES[type_] / (1 - RATES[type_])) + effect
    return 1 / (1 + math.exp(-odds))


def true_value(deviation: float, power: int = 1) -> float:
    """The mean over types and patients of the rate to a power, as for `power` trials that must all be right."""
    return fmean(rate(kind, deviation * quantile) ** power for kind in range(TYPES) for quantile in _QUANTILES)


def patients_of(generator: random.Random) -> list[int]:
    """The patient of each item: sizes from 1 to 7, in random order."""
    sizes = [1] * PATIENTS
    while sum(sizes) < ITEMS:
        place = generator.randrange(PATIENTS)
        sizes[place] += sizes[place] < 7
    patients = [number for number, size in enumerate(sizes) for _ in range(size)]
    generator.shuffle(patients)
    return patients


def sample(generator: random.Random, deviation: float, patients: Sequence[int]) -> Sampled:
    """New effects of the patients."""
    effects = [generator.gauss(0.0, deviation) for _ in range(PATIENTS)]
    types = [item % TYPES for item in range(ITEMS)]
    return Sampled(types, patients, [rate(types[item], effects[patients[item]]) for item in range(ITEMS)])


def values(run: Sampled, generator: random.Random, needed: int = 1) -> list[Value]:
    """The rows of a run in which an item counts as right if `needed` answers are."""
    return [
        Value(str(kind), str(item), str(patient), (float(all(generator.random() < p for _ in range(needed))), 1.0))
        for item, (kind, patient, p) in enumerate(zip(run.types, run.patients, run.rates, strict=True))
    ]


def score(generator: random.Random, deviation: float) -> Interval:
    """The interval of a score."""
    return share_interval(values(sample(generator, deviation, patients_of(generator)), generator))


def pairs(generator: random.Random, deviation: float) -> Interval:
    """The interval of pairs of twins that are right on both."""
    return share_interval(values(sample(generator, deviation, patients_of(generator)), generator, 2))


def several_trials(generator: random.Random, deviation: float) -> tuple[Interval, Interval]:
    """The intervals of pass@1 and of pass^k, both of four trials."""
    run = sample(generator, deviation, patients_of(generator))
    names = [str(item) for item in range(ITEMS)]
    outcomes = {name: [generator.random() < p for _ in range(TRIALS)] for name, p in zip(names, run.rates, strict=True)}
    types = dict(zip(names, map(str, run.types), strict=True))
    patients = dict(zip(names, map(str, run.patients), strict=True))
    result = rates(outcomes, types, patients)
    return result.at_intervals[0], result.hat_intervals[-1]


def difference(generator: random.Random, deviation: float) -> tuple[Interval, float]:
    """The interval and the p value of the difference of two runs with equal rates."""
    patients = patients_of(generator)
    first, second = (values(sample(generator, deviation, patients), generator) for _ in range(2))
    steps = [
        before._replace(values=(max(0.0, step), max(0.0, -step), 1.0))
        for before, after in zip(first, second, strict=True)
        for step in [after.values[0] - before.values[0]]
    ]
    result = paired_difference(steps)
    return result.interval, result.p


def held(intervals: Sequence[Interval], true: float) -> float:
    """The share of intervals that contain the true value."""
    return fmean(interval.low <= true <= interval.high for interval in intervals)


def main() -> None:
    """Print the coverage of each interval, and the rate of false positives of `compare`."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=4000)
    runs = parser.parse_args().runs
    machine()
    for deviation in EFFECTS:
        generator = random.Random(round(10 * deviation))
        target = "93 to 97" if deviation < 2 else "≥ 92"

        def show(name: str, share: float, words: str, goal: str = target, deviation: float = deviation) -> None:
            row(f"patients' SD {deviation:g}, {name}", goal, 100 * share, words)

        single: dict[str, tuple[Callable[[random.Random, float], Interval], int]] = {
            "score": (score, 1),
            "pairs": (pairs, 2),
        }
        for name, (method, power) in single.items():
            intervals = [method(generator, deviation) for _ in range(runs)]
            show(name, held(intervals, true_value(deviation, power)), "% contain the true value")
        trials = [several_trials(generator, deviation) for _ in range(runs)]
        show("pass@1 of 4 trials", held([pass1 for pass1, _ in trials], true_value(deviation)), "% contain it")
        show("pass^4", held([hat for _, hat in trials], true_value(deviation, TRIALS)), "% contain it")
        compared = [difference(generator, deviation) for _ in range(runs)]
        show("difference", held([interval for interval, _ in compared], 0.0), "% contain 0")
        show("compare", fmean(p < 0.05 for _, p in compared), "% find a difference", "≤ 6")


if __name__ == "__main__":
    main()
