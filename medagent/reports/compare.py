"""Compares two runs: over the same items, item by item; over two sibling sets, by group."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

from medagent.core.errors import UserError
from medagent.core.figures import natural
from medagent.engine.report import ItemOutcome, Measure, by_trial
from medagent.engine.scores import Paired
from refsol.intervals import (
    other_types_difference,
    stratified_bootstrap,
    stratified_newcombe,
    stratified_tango,
    tango,
)
from refsol.stats import Interval, bootstrap, holm, mcnemar_exact, newcombe
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


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Items with a verdict, or a score, in both runs, paired.

    `gained` are better in the second run: right instead of wrong, or with a higher score. `lost` are worse, `same` are
    equal. `both_right` and `both_wrong` are those of `same` whose verdicts are right or wrong. `difference` is the
    second mean minus the first. `interval` is its 95 % interval for these types and other patients, `other_types` that
    for other types (None below five). `uncompared` are the items of either run without a verdict or score in both.

    If all items have verdicts, `p` is McNemar's exact p of the flips, and the interval is Tango's score interval.
    Otherwise `p` is None and the interval a bootstrap over items. If items flip between trials, the score of an item is
    the share of its right trials. `trials` has the figures of both runs if one has several trials.

    Items of one cluster (a question in several languages) flip and are drawn together: `p` is then that of the clusters
    that gained more than they lost against those that lost more, and `interval` a bootstrap over clusters. `clusters`
    is the number of clusters, None if each item is a cluster.

    If the official score of a benchmark is not a mean of items, `means` are the official scores, called `figure`.
    """

    tasks: int
    """The number of compared items."""
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    same: tuple[str, ...]
    both_wrong: tuple[str, ...]
    means: tuple[float, float]
    difference: float
    interval: Interval
    p: float | None
    other_types: Interval | None = None
    clusters: int | None = None
    trials: tuple[TrialFigures, TrialFigures] | None = None
    uncompared: tuple[str, ...] = ()
    grounded: GroundedComparison | None = None
    figure: str = "mean"
    measure: Measure = "score"

    @property
    def kind(self) -> Literal["verdicts", "shares", "scores"]:
        """What is compared: verdicts, shares of right trials, or scores."""
        return "verdicts" if self.p is not None else "scores" if self.trials is None else "shares"

    @property
    def both_right(self) -> tuple[str, ...]:
        """The items that are right in both runs."""
        wrong = set(self.both_wrong)
        return tuple(item for item in self.same if self.p is not None and item not in wrong)

    def by(self, official: Paired | None) -> Comparison:
        """Scores with the difference of the official score if there is one; verdicts are unchanged."""
        if official is None or self.p is not None:
            return self
        (before, after), uncompared = official.values, {*self.gained, *self.lost, *self.same} - official.items
        return replace(
            self,
            tasks=len(official.items),
            means=official.values,
            difference=after - before,
            interval=official.interval,
            uncompared=tuple(sorted({*self.uncompared, *uncompared}, key=natural)),
            figure=official.name,
            measure=official.measure,
        )

    def as_json(self) -> dict[str, Any]:
        """The comparison as `medagent compare --json` prints it."""
        shared = ["difference", "interval", "other_types", "trials", "clusters", "uncompared", "grounded"]
        if self.p is None:
            own = {"items": self.tasks, "means": self.means, "higher": self.gained, "lower": self.lost}
            shared = ["same", *shared, "figure", "measure"]
        else:
            own = {"both_right": self.both_right}
            shared = ["both_wrong", "gained", "lost", "p", *shared]
        whole = asdict(self)
        return own | {name: whole[name] for name in shared}


@dataclass(frozen=True, slots=True)
class Drop:
    """The results of two sets: right and graded items of each, the second rate minus the first, its 95 % interval."""

    first: tuple[int, int]
    second: tuple[int, int]
    difference: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class SetComparison:
    """Two runs over sibling sets (the same types, different items), by group (task type) and overall.

    Nothing is paired. If a model may have memorised one set and cannot know the other, the difference measures recall,
    apart from chance and the difficulty of the sets.
    """

    groups: dict[str, Drop]
    overall: Drop
    other_types: Interval | None = None
    """The interval of the difference for other types; None below five."""

    @property
    def difference(self) -> float:
        """The second rate minus the first."""
        return self.overall.difference

    def as_json(self) -> dict[str, Any]:
        """The comparison as `medagent compare --json` prints it."""
        return asdict(self)


def compare(
    first: Mapping[str, float],
    second: Mapping[str, float],
    types: Mapping[str, str] | None = None,
    clusters: Mapping[str, str] | None = None,
    *,
    scores: bool = False,
) -> Comparison:
    """Pair verdicts (0 or 1), or scores, by item. Raises UserError if no item is in both.

    `types` has the type of each item (items without one form one type), `clusters` the cluster of each item that has
    one.
    """
    shared = _shared(first, second)
    steps = {item: second[item] - first[item] for item in shared}
    by_type = _grouped(steps, types or dict.fromkeys(steps, ""))
    by_cluster = _grouped(steps, clusters or {})
    clustered = len(by_cluster) < len(shared)
    if clustered:
        interval = _clustered_interval(by_cluster)
    elif scores:
        interval = stratified_bootstrap(by_type)
    else:
        interval = stratified_tango((one.count(1), one.count(-1), len(one)) for one in by_type)
    turned = [sum(cluster) for cluster in by_cluster]
    same = tuple(item for item in shared if not steps[item])
    return Comparison(
        tasks=len(shared),
        gained=tuple(item for item in shared if steps[item] > 0),
        lost=tuple(item for item in shared if steps[item] < 0),
        same=same,
        both_wrong=() if scores else tuple(item for item in same if not first[item]),
        means=(sum(first[item] for item in shared) / len(shared), sum(second[item] for item in shared) / len(shared)),
        difference=sum(steps.values()) / len(shared),
        interval=interval,
        p=None if scores else mcnemar_exact(sum(step > 0 for step in turned), sum(step < 0 for step in turned)),
        other_types=other_types_difference(by_type),
        clusters=len(by_cluster) if clustered else None,
    )


def _grouped(steps: Mapping[str, float], groups: Mapping[str, str]) -> list[list[float]]:
    """The steps of each group. An item without a group is a group."""
    by_group: dict[str, list[float]] = {}
    for item, step in steps.items():
        by_group.setdefault(groups.get(item, item), []).append(step)
    return list(by_group.values())


def _clustered_interval(clusters: Sequence[Sequence[float]]) -> Interval:
    """The bootstrap interval of the mean step over clusters; if nothing differs, Tango's interval of as many pairs."""
    sums = [(sum(cluster), len(cluster)) for cluster in clusters]
    if not any(step for cluster in clusters for step in cluster):
        return tango(0, 0, len(clusters))
    return bootstrap(lambda drawn: sum(sums[i][0] for i in drawn) / sum(sums[i][1] for i in drawn), len(sums))


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison:
    """Compare the items of two runs: by verdict; by the share of right trials if items flip between trials; or by the
    score of the first trial. Raises UserError if nothing can be paired.
    """
    items = (*first, *second)
    types = {item.item: item.group for item in items}
    clusters = {item.item: item.cluster for item in items if item.cluster}
    if any(item.correct is not None for item in items):
        runs = by_trial(first), by_trial(second)
        shared = _shared(*runs)
        a, b = ({item: run[item] for item in shared} for run in runs)
        flips = bool(flipping(a) or flipping(b))
        comparison = compare(reliability(a), reliability(b), types, clusters, scores=flips)
        if any(item.trial > 1 for item in items):
            comparison = replace(comparison, trials=(_trial_figures(a), _trial_figures(b)))
    else:
        comparison = compare(_scores(first), _scores(second), types, clusters, scores=True)
    compared = {*comparison.gained, *comparison.lost, *comparison.same}
    uncompared = sorted({item.item for item in items} - compared, key=natural)
    return replace(comparison, uncompared=tuple(uncompared), grounded=_grounded(first, second, types, clusters))


def compare_groups(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> dict[str, Comparison]:
    """The comparison of each group of items (task type). Groups without a common graded item are omitted."""
    groups = {}
    for name in sorted({one.group for one in first}, key=natural):
        try:
            groups[name] = compare_outcomes(*([one for one in run if one.group == name] for run in (first, second)))
        except UserError:
            continue
    return groups


def _trial_figures(outcomes: Mapping[str, Sequence[bool]]) -> TrialFigures:
    figures = rates(outcomes)
    return TrialFigures(figures.trials, figures.pass1, figures.at[-1], figures.hat[-1], flipping(outcomes))


def _grounded(
    first: Sequence[ItemOutcome], second: Sequence[ItemOutcome], *relations: Mapping[str, str]
) -> GroundedComparison | None:
    """The comparison of the grounded items of two first trials; None if no item has `grounded` in both."""
    one, other = (
        {item.item: item.grounded for item in items if item.grounded is not None and item.trial == 1}
        for items in (first, second)
    )
    if one.keys().isdisjoint(other):
        return None
    comparison = compare(one, other, *relations)
    right, gained, lost = (len(some) for some in (comparison.both_right, comparison.gained, comparison.lost))
    return GroundedComparison(
        comparison.tasks, right + lost, right + gained, comparison.difference, comparison.interval
    )


def _scores(items: Sequence[ItemOutcome]) -> dict[str, float]:
    return {item.item: item.score for item in items if item.score is not None and item.trial == 1}


def _shared(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    shared = sorted((item for item in first if item in second), key=natural)
    if not shared:
        raise UserError("the two runs have no graded task in common")
    return shared


def compare_sets(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> SetComparison:
    """Compare the graded items of the first trials by group. Raises UserError if no group is in both."""
    ours, theirs = _by_group(first), _by_group(second)
    shared = sorted((group for group in ours if group in theirs), key=natural)
    if not shared:
        raise UserError("the two runs have no graded task type in common")
    groups = {group: _drop(ours[group], theirs[group]) for group in shared}
    whole = _drop(*([one for group in shared for one in outcomes[group]] for outcomes in (ours, theirs)))
    a, b = ([[(int(one), 1) for one in outcomes[group]] for group in shared] for outcomes in (ours, theirs))
    overall = replace(whole, interval=stratified_newcombe(a, b))
    return SetComparison(groups, overall, other_types_difference([[drop.difference] for drop in groups.values()]))


def _by_group(items: Sequence[ItemOutcome]) -> dict[str, list[bool]]:
    groups: dict[str, list[bool]] = {}
    for item in items:
        if item.correct is not None and item.trial == 1:
            groups.setdefault(item.group, []).append(item.correct)
    return groups


def _drop(first: Sequence[bool], second: Sequence[bool]) -> Drop:
    a, n, b, m = sum(first), len(first), sum(second), len(second)
    return Drop((a, n), (b, m), b / m - a / n, newcombe(a, n, b, m))


def adjusted(comparisons: Sequence[Comparison | SetComparison]) -> list[float | None]:
    """McNemar's p of each comparison, adjusted for their number (Holm); None where there is none."""
    values = [one.p if isinstance(one, Comparison) else None for one in comparisons]
    each = iter(holm([p for p in values if p is not None]))
    return [None if p is None else next(each) for p in values]
