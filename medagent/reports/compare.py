"""Compares two runs over the same items, item by item."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain

from medagent.core.errors import UserError
from medagent.engine.figures import natural
from medagent.engine.report import ItemOutcome, Measure, by_trial
from medagent.engine.scores import Paired
from refsol.intervals import other_types_difference, stratified_bootstrap, stratified_tango, tango
from refsol.stats import Interval, bootstrap, mcnemar_exact
from refsol.trials import flipping, rates, reliability


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """A run of several trials: pass@1, pass@k and pass^k of all its trials over the shared items, and which items are
    right in some trials and wrong in others.
    """

    trials: int
    pass_1: float
    pass_at_k: float
    pass_hat_k: float
    flipping: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class GroundedComparison:
    """The items of which both runs say whether they are grounded: the number of grounded ones in each, and the
    second run's share minus the first's with its 95 % interval over other patients.
    """

    items: int
    first: int
    second: int
    difference: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class Comparison:
    """Items with a verdict in both runs. `gained` were wrong in the first and right in the second run.

    `p` is McNemar's exact p of the flips; `difference` is the second rate minus the first. `interval` is its 95 %
    interval for these types and other patients (Tango's score interval), `other_types` that for other types (None below
    five). Items of one cluster (a question in several languages) flip and are drawn together: `p` is then that of the
    clusters that gained more than they lost against those that lost more, and `interval` a bootstrap over clusters.
    `clusters` is the number of clusters, None if each item is a cluster. `trials` has the figures of both runs if
    one has several trials, `uncompared` the items of either run without a verdict in both.
    """

    both_right: tuple[str, ...]
    both_wrong: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    difference: float
    interval: Interval
    other_types: Interval | None = None
    trials: tuple[TrialFigures, TrialFigures] | None = None
    clusters: int | None = None
    uncompared: tuple[str, ...] = ()
    grounded: GroundedComparison | None = None

    @property
    def tasks(self) -> int:
        """The number of compared items."""
        return len(self.both_right) + len(self.both_wrong) + len(self.gained) + len(self.lost)


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Items with a score in both runs. `difference` is the second mean minus the first, paired.

    If items flip between trials, the score of an item is the share of its right trials, and `trials` has the figures of
    both runs. If the official score of a benchmark is not a mean of items, `means` are the official scores, called
    `figure`. `clusters` and `uncompared` are as in `Comparison`.
    """

    items: int
    means: tuple[float, float]
    higher: tuple[str, ...]
    lower: tuple[str, ...]
    same: tuple[str, ...]
    difference: float
    interval: Interval
    other_types: Interval | None = None
    trials: tuple[TrialFigures, TrialFigures] | None = None
    clusters: int | None = None
    uncompared: tuple[str, ...] = ()
    grounded: GroundedComparison | None = None
    figure: str = "mean"
    measure: Measure = "score"

    def by(self, official: Paired) -> ScoreComparison:
        """The same with the difference of the official score."""
        (before, after), uncompared = official.values, {*self.higher, *self.lower, *self.same} - official.items
        return replace(
            self,
            items=len(official.items),
            means=official.values,
            difference=after - before,
            interval=official.interval,
            uncompared=tuple(sorted({*self.uncompared, *uncompared}, key=natural)),
            figure=official.name,
            measure=official.measure,
        )


@dataclass(frozen=True, slots=True)
class Kinship:
    """The relations between items: each item's type (items without one form one type), and the cluster of each item
    that has one.
    """

    types: Mapping[str, str] = field(default_factory=dict)
    clusters: Mapping[str, str] = field(default_factory=dict)


ALONE = Kinship()
"""Independent items of one type."""


def compare(first: Mapping[str, bool], second: Mapping[str, bool], kinship: Kinship = ALONE) -> Comparison:
    """Pair the verdicts by item. Raises UserError if no item is in both."""
    shared = _shared(first, second)
    steps = {item: second[item] - first[item] for item in shared}
    cells: dict[tuple[bool, bool], list[str]] = {}
    for item in shared:
        cells.setdefault((first[item], second[item]), []).append(item)
    types, clusters = _grouped(steps, kinship.types, alone=False), _grouped(steps, kinship.clusters)
    turned = [sum(cluster) for cluster in clusters]
    clustered = len(clusters) < len(shared)
    counts = ((one.count(1), one.count(-1), len(one)) for one in types)
    return Comparison(
        both_right=tuple(cells.get((True, True), [])),
        both_wrong=tuple(cells.get((False, False), [])),
        gained=tuple(cells.get((False, True), [])),
        lost=tuple(cells.get((True, False), [])),
        p=mcnemar_exact(sum(step > 0 for step in turned), sum(step < 0 for step in turned)),
        difference=sum(turned) / len(shared),
        interval=_clustered_interval(clusters) if clustered else stratified_tango(counts),
        other_types=other_types_difference(types),
        clusters=len(clusters) if clustered else None,
    )


def compare_scores(
    first: Mapping[str, float], second: Mapping[str, float], kinship: Kinship = ALONE
) -> ScoreComparison:
    """Pair the scores by item. Raises UserError if no item is in both."""
    shared = _shared(first, second)
    steps = {item: second[item] - first[item] for item in shared}
    types, clusters = _grouped(steps, kinship.types, alone=False), _grouped(steps, kinship.clusters)
    clustered = len(clusters) < len(shared)
    return ScoreComparison(
        items=len(shared),
        means=(sum(first[item] for item in shared) / len(shared), sum(second[item] for item in shared) / len(shared)),
        higher=tuple(item for item in shared if second[item] > first[item]),
        lower=tuple(item for item in shared if second[item] < first[item]),
        same=tuple(item for item in shared if second[item] == first[item]),
        difference=sum(steps.values()) / len(shared),
        interval=_clustered_interval(clusters) if clustered else stratified_bootstrap(types),
        other_types=other_types_difference(types),
        clusters=len(clusters) if clustered else None,
    )


def _grouped(steps: Mapping[str, float], groups: Mapping[str, str], *, alone: bool = True) -> list[list[float]]:
    """The steps of each group. Items without a group are each a group, or form one if not `alone`."""
    by_group: dict[str, list[float]] = {}
    for item, step in steps.items():
        by_group.setdefault(groups.get(item, item if alone else ""), []).append(step)
    return list(by_group.values())


def _clustered_interval(clusters: Sequence[Sequence[float]]) -> Interval:
    """The bootstrap interval of the mean step over clusters; if nothing differs, Tango's interval of as many pairs."""
    sums = [(sum(cluster), len(cluster)) for cluster in clusters]
    if not any(step for cluster in clusters for step in cluster):
        return tango(0, 0, len(clusters))
    return bootstrap(lambda drawn: sum(sums[i][0] for i in drawn) / sum(sums[i][1] for i in drawn), len(sums))


def compare_trials(
    first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]], kinship: Kinship = ALONE
) -> Comparison | ScoreComparison:
    """Pair the items of runs with several trials: by verdict if each item ends equally in all its trials, otherwise by
    the shares of right trials. Raises UserError if no item is in both.
    """
    shared = _shared(first, second)
    a, b = ({item: run[item] for item in shared} for run in (first, second))
    figures = (_trial_figures(a), _trial_figures(b))
    if any(one.flipping for one in figures):
        return replace(compare_scores(reliability(a), reliability(b), kinship), trials=figures)
    before, after = ({item: trials[0] for item, trials in run.items()} for run in (a, b))
    return replace(compare(before, after, kinship), trials=figures)


def _trial_figures(outcomes: Mapping[str, Sequence[bool]]) -> TrialFigures:
    figures = rates(outcomes)
    return TrialFigures(figures.trials, figures.pass1, figures.at[-1], figures.hat[-1], flipping(outcomes))


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison | ScoreComparison:
    """Compare the items of two runs: verdicts, the shares of right trials if a run has several, or the scores of the
    first trial. Raises UserError if nothing can be paired.
    """
    items = (*first, *second)
    kinship = Kinship(
        {item.item: item.group for item in items}, {item.item: item.cluster for item in items if item.cluster}
    )
    comparison = _paired(first, second, kinship)
    uncompared = {item.item for item in items}.difference(_compared_items(comparison))
    return replace(
        comparison, uncompared=tuple(sorted(uncompared, key=natural)), grounded=_grounded(first, second, kinship)
    )


def _paired(
    first: Sequence[ItemOutcome], second: Sequence[ItemOutcome], kinship: Kinship
) -> Comparison | ScoreComparison:
    if not any(item.correct is not None for item in (*first, *second)):
        return compare_scores(_scores(first), _scores(second), kinship)
    verdicts = by_trial(tuple(first)), by_trial(tuple(second))
    if any(item.trial > 1 for item in (*first, *second)):
        return compare_trials(*verdicts, kinship)
    a, b = ({item: trials[0] for item, trials in run.items()} for run in verdicts)
    return compare(a, b, kinship)


def _grounded(
    first: Sequence[ItemOutcome], second: Sequence[ItemOutcome], kinship: Kinship
) -> GroundedComparison | None:
    """The comparison of the grounded items of two first trials; None if no item has `grounded` in both."""
    known = [
        {item.item: item.grounded for item in items if item.grounded is not None and item.trial == 1}
        for items in (first, second)
    ]
    shared = [item for item in known[0] if item in known[1]]
    if not shared:
        return None
    one, other = ({item: run[item] for item in shared} for run in known)
    comparison = compare(one, other, kinship)
    return GroundedComparison(
        len(shared), sum(one.values()), sum(other.values()), comparison.difference, comparison.interval
    )


def _compared_items(comparison: Comparison | ScoreComparison) -> Iterator[str]:
    if isinstance(comparison, Comparison):
        return chain(comparison.both_right, comparison.both_wrong, comparison.gained, comparison.lost)
    return chain(comparison.higher, comparison.lower, comparison.same)


def _scores(items: Sequence[ItemOutcome]) -> dict[str, float]:
    return {item.item: item.score for item in items if item.score is not None and item.trial == 1}


def _shared(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    shared = sorted((item for item in first if item in second), key=natural)
    if not shared:
        raise UserError("the two runs have no graded task in common")
    return shared
