"""Compares two runs: over the same items, item by item; over two sibling sets, by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

from medagent.core.errors import UserError
from medagent.core.figures import natural
from medagent.engine.pairs import counting
from medagent.engine.report import ItemOutcome, Measure, Report, by_trial, places, unit_of
from medagent.engine.scores import Paired
from refsol.intervals import Steps, other_types_difference, paired_difference, strata, stratified_newcombe
from refsol.stats import Clusters, Interval, holm
from refsol.trials import flipping, rates, reliability


@dataclass(frozen=True, slots=True)
class TrialFigures:
    """A run of several trials: pass@1, pass@k and pass^k of all its trials over the shared items with their 95 %
    intervals, and which items are right in some trials and wrong in others.
    """

    trials: int
    pass_1: float
    pass_at_k: float
    pass_hat_k: float
    flipping: tuple[str, ...]
    pass_1_interval: Interval
    pass_at_k_interval: Interval
    pass_hat_k_interval: Interval


@dataclass(frozen=True, slots=True)
class FieldComparison:
    """The items of which both runs say whether they are grounded (or harmed): how many are in each, and the second
    run's share minus the first's with its 95 % interval over other patients. With several trials, an item counts
    as the share of its trials.
    """

    items: int
    first: float
    second: float
    difference: float
    interval: Interval


@dataclass(frozen=True, slots=True, kw_only=True)
class Comparison:
    """Items with a verdict, or a score, in both runs, paired.

    `gained` are better in the second run: right instead of wrong, or with a higher score. `lost` are worse, `same` are
    equal. `both_right` and `both_wrong` are those of `same` whose verdicts are right or wrong. `difference` is the
    second mean minus the first. `interval` is its 95 % interval for these types and other patients, `other_types` that
    for other types (None below five, and for official scores). `uncompared` are the items of either run without a
    verdict or score in both.

    `interval` and `p` (of "no difference") are one test (`refsol.intervals.paired_difference`). `kind` says what is
    compared: verdicts, shares of right trials if items flip between trials, or scores. `trials` has the figures of both
    runs if one has several trials.

    Items of one cluster (a question in several languages) are one unit of the test. `clusters` is the number of
    clusters, None if each item is a cluster.

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
    p: float
    kind: Literal["verdicts", "shares", "scores"] = "verdicts"
    other_types: Interval | None = None
    clusters: int | None = None
    trials: tuple[TrialFigures, TrialFigures] | None = None
    uncompared: tuple[str, ...] = ()
    grounded: FieldComparison | None = None
    harmed: FieldComparison | None = None
    """Of the items with an injected instruction."""
    figure: str = "mean"
    measure: Measure = "score"
    nouns: str = "items"
    """What was compared: items, or pairs of twins."""
    patients: tuple[str, str] | None = None
    """The digests of the patients of both runs if they differ."""

    @property
    def test(self) -> str:
        """The name of the test."""
        return "paired score test" if self.figure == "mean" else "paired bootstrap"

    @property
    def both_right(self) -> tuple[str, ...]:
        """The items that are right in both runs."""
        wrong = set(self.both_wrong)
        return tuple(item for item in self.same if self.kind == "verdicts" and item not in wrong)

    def by(self, official: Paired | None) -> Comparison:
        """Scores and shares with the difference of the official score if there is one; verdicts are unchanged."""
        if official is None or self.kind == "verdicts":
            return self
        (before, after), uncompared = official.values, {*self.gained, *self.lost, *self.same} - official.items
        return replace(
            self,
            tasks=len(official.items),
            means=official.values,
            difference=after - before,
            interval=official.interval,
            p=official.p,
            other_types=None,
            uncompared=tuple(sorted({*self.uncompared, *uncompared}, key=natural)),
            figure=official.name,
            measure=official.measure,
        )

    def as_json(self) -> dict[str, Any]:
        """The comparison as `medagent compare --json` prints it."""
        shared = ["p", "difference", "interval", "other_types", "trials", "clusters", "uncompared", "grounded"]
        if self.kind == "verdicts":
            own: dict[str, Any] = {"both_right": self.both_right}
            shared = ["both_wrong", "gained", "lost", *shared]
        else:
            own = {"items": self.tasks, "means": self.means, "higher": self.gained, "lower": self.lost}
            shared = ["same", *shared, "figure", "measure"]
        if self.harmed is not None:
            shared.append("harmed")
        if self.patients is not None:
            shared.append("patients")
        whole = asdict(self)
        return own | {name: whole[name] for name in shared}


@dataclass(frozen=True, slots=True)
class Drop:
    """The results of two sets: right and graded trials of each, the second rate minus the first, its 95 % interval."""

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
    group_names: Mapping[str, str] = field(default_factory=dict)
    """The groups in words."""

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
    units: Mapping[str, str] | None = None,
    *,
    kind: Literal["verdicts", "shares", "scores"] = "verdicts",
) -> Comparison:
    """Pair verdicts (0 or 1), shares or scores by item. Raises UserError if no item is in both.

    `types` has the type of each item (items without one form one type), `units` the name that an item shares with
    dependent items (default: each item is independent).
    """
    shared = _shared(first, second)
    steps = {item: second[item] - first[item] for item in shared}
    scale = max(1.0, *map(abs, steps.values()))  # scores of other tools may be of any size
    types, units = types or {}, units or {}
    parts: list[Steps] = [
        *strata(
            (types.get(item, ""), units.get(item, item), (max(step, 0.0) / scale, max(-step, 0.0) / scale, 1.0))
            for item, step in steps.items()
        )
    ]
    number, tested = sum(map(len, parts)), paired_difference(parts).scaled(scale)
    same = tuple(item for item in shared if not steps[item])
    return Comparison(
        tasks=len(shared),
        gained=tuple(item for item in shared if steps[item] > 0),
        lost=tuple(item for item in shared if steps[item] < 0),
        same=same,
        both_wrong=tuple(item for item in same if not first[item]) if kind == "verdicts" else (),
        means=(sum(first[item] for item in shared) / len(shared), sum(second[item] for item in shared) / len(shared)),
        difference=tested.value,
        interval=tested.interval,
        p=tested.p,
        kind=kind,
        other_types=tested.other_types,
        clusters=number if number < len(shared) else None,
    )


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison:
    """Compare the items of two runs: by verdict; by the share of right trials if items flip between trials; or by the
    mean value of the trials if an item has a score. Raises UserError if nothing can be paired.
    """
    twins = any(item.pair for item in (*first, *second))
    first, second = counting(first), counting(second)
    items = (*first, *second)
    types, units = places(items)
    if all(item.correct is not None for item in items if item.value is not None):
        runs = by_trial(first), by_trial(second)
        shared = _shared(*runs)
        a, b = ({item: run[item] for item in shared} for run in runs)
        kind: Literal["verdicts", "shares"] = "shares" if flipping(a) or flipping(b) else "verdicts"
        comparison = compare(reliability(a), reliability(b), types, units, kind=kind)
        if any(item.trial > 1 for item in items):
            figures = [_trial_figures(run, types, units) for run in (a, b)]
            comparison = replace(comparison, trials=(figures[0], figures[1]))
    else:
        one, other = (item_means(run, lambda item: item.value) for run in (first, second))
        comparison = compare(one, other, types, units, kind="scores")
    compared = {*comparison.gained, *comparison.lost, *comparison.same}
    uncompared = sorted({item.item for item in items} - compared, key=natural)
    return replace(
        comparison,
        nouns="pairs" if twins else "items",
        uncompared=tuple(uncompared),
        grounded=_by_field(first, second, types, units, "grounded"),
        harmed=_by_field(first, second, types, units, "harmed"),
    )


def compare_groups(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> dict[str, Comparison]:
    """The comparison of each group of items (task type). Groups without a common graded item are omitted."""
    groups = {}
    for name in sorted({one.group for one in first}, key=natural):
        try:
            groups[name] = compare_outcomes(*([one for one in run if one.group == name] for run in (first, second)))
        except UserError:
            continue
    return groups


def _trial_figures(outcomes: Mapping[str, Sequence[bool]], *places: Mapping[str, str]) -> TrialFigures:
    figures = rates(outcomes, *places)
    return TrialFigures(
        figures.trials,
        figures.pass1,
        figures.at[-1],
        figures.hat[-1],
        flipping(outcomes),
        figures.at_intervals[0],
        figures.at_intervals[-1],
        figures.hat_intervals[-1],
    )


def _by_field(
    first: Sequence[ItemOutcome],
    second: Sequence[ItemOutcome],
    types: Mapping[str, str],
    units: Mapping[str, str],
    name: Literal["grounded", "harmed"],
) -> FieldComparison | None:
    """The comparison of the items of two runs that are grounded (or harmed); None if no item has the field in both."""
    one, other = (item_means(items, attrgetter(name)) for items in (first, second))
    shared = one.keys() & other
    if not shared:
        return None
    comparison = compare(one, other, types, units)
    first_sum, second_sum = (sum(run[item] for item in shared) for run in (one, other))
    return FieldComparison(comparison.tasks, first_sum, second_sum, comparison.difference, comparison.interval)


def item_means(items: Sequence[ItemOutcome], value: Callable[[ItemOutcome], float | None]) -> dict[str, float]:
    """The mean value of each item's trials. Items without a value are left out."""
    values: dict[str, list[float]] = {}
    for item in items:
        if (known := value(item)) is not None:
            values.setdefault(item.item, []).append(known)
    return {item: sum(some) / len(some) for item, some in values.items()}


def _shared(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    shared = sorted((item for item in first if item in second), key=natural)
    if not shared:
        raise UserError("the two runs do not share a graded task; compare runs over the same tasks")
    return shared


def compare_sets(first: Report, second: Report) -> SetComparison:
    """Compare the graded trials of two runs by group. Raises UserError if no group is in both."""
    ours, theirs = _by_group(counting(first.items)), _by_group(counting(second.items))
    shared = sorted((group for group in ours if group in theirs), key=natural)
    if not shared:
        raise UserError("the two runs do not share a graded task type; compare runs with the same types")
    groups = {group: _drop([ours[group]], [theirs[group]]) for group in shared}
    overall = _drop(*([outcomes[group] for group in shared] for outcomes in (ours, theirs)))
    steps = [(drop.difference, 1.0) for drop in groups.values()]
    return SetComparison(groups, overall, other_types_difference(steps, overall.interval), first.group_names)


def _by_group(items: Sequence[ItemOutcome]) -> dict[str, Clusters]:
    """The numbers of right and of graded trials of each unit, by group."""
    rows = [one for one in items if one.correct is not None]
    names = dict.fromkeys(one.group for one in rows)
    return {
        name: strata(
            ("", unit_of(one.item, one.cluster), (int(bool(one.correct)), 1)) for one in rows if one.group == name
        )[0]
        for name in names
    }


def _drop(first: Sequence[Clusters], second: Sequence[Clusters]) -> Drop:
    (a, n), (b, m) = (
        tuple(int(sum(unit[part] for units in run for unit in units)) for part in range(2)) for run in (first, second)
    )
    return Drop((a, n), (b, m), b / m - a / n, stratified_newcombe(first, second))


def adjusted(comparisons: Sequence[Comparison | SetComparison]) -> list[float | None]:
    """The p value of each comparison, adjusted for their number (Holm); None where there is none."""
    values = [one.p if isinstance(one, Comparison) else None for one in comparisons]
    each = iter(holm([p for p in values if p is not None]))
    return [None if p is None else next(each) for p in values]
