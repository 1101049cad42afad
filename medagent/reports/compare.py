"""Compares two runs: over the same items, item by item; over two sibling sets, by group."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from operator import attrgetter
from typing import Any, Literal

from medagent.core.errors import UserError
from medagent.core.number_formats import natural
from medagent.engine.pairs import counting, nouns_of
from medagent.engine.report import ItemOutcome, Measure, Report, by_trial, dependence, places
from medagent.engine.scores import Paired
from medagent.reports._measured import pages
from refsol.intervals import Value, newcombe, paired_difference
from refsol.stats import Interval, holm
from refsol.trials import flipping, rates, reliability

ITEMS = "items"
"""What a comparison counts, unless it counts pairs or triples of twins."""


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
    as the share of its trials. Of twins, `items` counts pairs or triples, which are harmed if one of their items is.
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
    second mean minus the first, `interval` its 95% interval. `uncompared` are the items of either run without a
    verdict or score in both.

    `interval` and `p` (of "no difference") are one test (`refsol.intervals.paired_difference`). `kind` says what is
    compared: verdicts, shares of right trials if items flip between trials, or scores. `trials` has the figures of both
    runs if one has several trials.

    Items of one patient, or of one cluster (a question in several languages), are not independent. `clusters` is the
    number of patients or clusters, None if each item is independent.

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
    clusters: int | None = None
    dependence: str = "clusters of dependent items"
    """What `clusters` counts."""
    trials: tuple[TrialFigures, TrialFigures] | None = None
    uncompared: tuple[str, ...] = ()
    grounded: FieldComparison | None = None
    harmed: FieldComparison | None = None
    """Of the items with an injected instruction."""
    harmful: FieldComparison | None = None
    """Of the items in which orders matter."""
    figure: str = "mean"
    measure: Measure = "score"
    nouns: str = ITEMS
    """What was compared: items, or pairs of twins."""
    patients: tuple[str, str] | None = None
    """The digests of the patients of both runs if they differ."""
    pages: tuple[str, str] | None = None
    """How the servers of both runs paged results if these differ."""

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
            uncompared=tuple(sorted({*self.uncompared, *uncompared}, key=natural)),
            figure=official.name,
            measure=official.measure,
        )

    def as_json(self) -> dict[str, Any]:
        """The comparison as `medagent compare --json` prints it."""
        shared = ["p", "difference", "interval", "trials", "clusters", "uncompared", "grounded"]
        if self.kind == "verdicts":
            document: dict[str, Any] = {"both_right": self.both_right}
            shared = ["both_wrong", "gained", "lost", *shared]
        else:
            document = {"items": self.tasks, "means": self.means, "higher": self.gained, "lower": self.lost}
            shared = ["same", *shared, "figure", "measure"]
        shared += [name for name in ("harmed", "harmful") if getattr(self, name) is not None]
        if self.nouns != ITEMS:
            shared.append("nouns")
        if self.patients is not None:
            shared.append("patients")
        if self.pages is not None:
            shared.append("pages")
        whole = asdict(self)
        return document | {name: whole[name] for name in shared}


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
    patients: Mapping[str, str] | None = None,
    *,
    kind: Literal["verdicts", "shares", "scores"] = "verdicts",
) -> Comparison:
    """Pair verdicts (0 or 1), shares or scores by item. Raises UserError if no item is in both.

    `types` has the type of each item (items without one form one type), `patients` the name that an item shares with
    dependent items (default: each item is independent).
    """
    shared = _shared(first, second)
    steps = {item: second[item] - first[item] for item in shared}
    scale = max(1.0, *map(abs, steps.values()))  # scores of other tools may be of any size
    types, patients = types or {}, patients or {}
    rows = [
        Value(
            types.get(item, ""),
            item,
            patients.get(item, item),
            (max(step, 0.0) / scale, max(-step, 0.0) / scale, 1.0),
        )
        for item, step in steps.items()
    ]
    number = len({row.patient for row in rows})
    tested = paired_difference(rows).scaled(scale)
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
        clusters=number if number < len(shared) else None,
    )


def other_pages(first: Report, second: Report) -> tuple[str, str] | None:
    """How the servers of two runs paged results, in words, if these differ; otherwise None."""
    both = pages(first) or "default pages", pages(second) or "default pages"
    return None if both[0] == both[1] else both


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison:
    """Compare the items of two runs: by verdict; by the share of right trials if items flip between trials; or by the
    mean value of the trials if an item has a score. Raises UserError if nothing can be paired.
    """
    nouns = nouns_of(first)
    first, second = counting(first), counting(second)
    items = (*first, *second)
    types, patients = places(items)
    if all(item.correct is not None for item in items if item.value is not None):
        runs = by_trial(first), by_trial(second)
        shared = _shared(*runs)
        a, b = ({item: run[item] for item in shared} for run in runs)
        kind: Literal["verdicts", "shares"] = "shares" if flipping(a) or flipping(b) else "verdicts"
        comparison = compare(reliability(a), reliability(b), types, patients, kind=kind)
        if any(item.trial > 1 for item in items):
            figures = [_trial_figures(run, types, patients) for run in (a, b)]
            comparison = replace(comparison, trials=(figures[0], figures[1]))
    else:
        means, other_means = (item_means(run, lambda item: item.value) for run in (first, second))
        comparison = compare(means, other_means, types, patients, kind="scores")
    compared = {*comparison.gained, *comparison.lost, *comparison.same}
    uncompared = sorted({item.item for item in items} - compared, key=natural)
    # Each run numbers its own patients, so only the numbers of one run can be counted together.
    compared_patients = {item.patient for item in second if item.item in compared} - {""}
    if compared_patients and comparison.clusters is not None:
        comparison = replace(comparison, clusters=len(compared_patients), dependence="patients")
    return replace(
        comparison,
        nouns=nouns,
        uncompared=tuple(uncompared),
        grounded=_by_field(first, second, types, patients, "grounded"),
        harmed=_by_field(first, second, types, patients, "harmed"),
        harmful=_by_field(first, second, types, patients, "harmful"),
    )


def compare_groups(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> dict[str, Comparison]:
    """The comparison of each group of items (task type). Groups without a common graded item are omitted."""
    groups = {}
    for name in sorted({outcome.group for outcome in first}, key=natural):
        try:
            groups[name] = compare_outcomes(
                *([outcome for outcome in run if outcome.group == name] for run in (first, second))
            )
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
    patients: Mapping[str, str],
    name: Literal["grounded", "harmed", "harmful"],
) -> FieldComparison | None:
    """The comparison of the items of two runs for which a field is true; None if no item has the field in both."""
    first_means, second_means = (item_means(items, attrgetter(name)) for items in (first, second))
    shared = first_means.keys() & second_means
    if not shared:
        return None
    comparison = compare(first_means, second_means, types, patients)
    first_sum, second_sum = (sum(run[item] for item in shared) for run in (first_means, second_means))
    return FieldComparison(comparison.tasks, first_sum, second_sum, comparison.difference, comparison.interval)


def item_means(items: Sequence[ItemOutcome], value: Callable[[ItemOutcome], float | None]) -> dict[str, float]:
    """The mean value of each item's trials. Items without a value are left out."""
    values: dict[str, list[float]] = {}
    for item in items:
        if (known := value(item)) is not None:
            values.setdefault(item.item, []).append(known)
    return {item: sum(trials) / len(trials) for item, trials in values.items()}


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
    groups = {group: _drop(ours[group], theirs[group]) for group in shared}
    whole = ([row for group in shared for row in outcomes[group]] for outcomes in (ours, theirs))
    return SetComparison(groups, _drop(*whole), first.group_names)


def _by_group(items: Sequence[ItemOutcome]) -> dict[str, list[Value]]:
    """The graded trials as (1 or 0, 1), by group."""
    rows: dict[str, list[Value]] = {}
    for outcome in items:
        if outcome.correct is not None:
            unit = outcome.cluster or outcome.item
            value = Value(outcome.group, unit, dependence(outcome), (float(outcome.correct), 1.0))
            rows.setdefault(outcome.group, []).append(value)
    return rows


def _drop(first: Sequence[Value], second: Sequence[Value]) -> Drop:
    (a, n), (b, m) = (tuple(int(sum(row.values[part] for row in run)) for part in range(2)) for run in (first, second))
    return Drop((a, n), (b, m), b / m - a / n, newcombe(first, second))


def adjusted(comparisons: Sequence[Comparison | SetComparison]) -> list[float | None]:
    """The p value of each comparison, adjusted for their number (Holm); None where there is none."""
    values = [comparison.p if isinstance(comparison, Comparison) else None for comparison in comparisons]
    each = iter(holm([p for p in values if p is not None]))
    return [None if p is None else next(each) for p in values]
