"""Two runs over the same items, compared item by item."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import chain
from types import MappingProxyType

from medagent.core.errors import UserError
from medagent.engine.figures import natural
from medagent.engine.report import ItemOutcome, Measure, by_trial
from medagent.engine.scores import Paired
from medagent.reports.siblings import SetComparison
from medagent.reports.tables import WIDTH, figure, percent, print_table, put
from medagent.reports.tables import named as names
from refsol.stats import Interval, bootstrap, holm, mcnemar_exact
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
class Comparison:
    """Items that both runs have a verdict on. `gained` were wrong in the first and right in the second run.

    `p` is McNemar's exact p of the flips; `difference` is the second's rate less the first's, with a 95 % bootstrap
    interval over items. Items of one cluster (a question in several languages) flip and are drawn together: `p` is then
    that of the clusters that gained more than they lost against those that lost more. `clusters` is the number of
    clusters, None if each item stands by itself. `trials` has the figures of both runs where one has several trials,
    `uncompared` the items of either run without a verdict in both.
    """

    both_right: tuple[str, ...]
    both_wrong: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    difference: float
    interval: Interval
    trials: tuple[TrialFigures, TrialFigures] | None = None
    clusters: int | None = None
    uncompared: tuple[str, ...] = ()

    @property
    def tasks(self) -> int:
        """How many items were compared."""
        return len(self.both_right) + len(self.both_wrong) + len(self.gained) + len(self.lost)


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Items that both runs have a score for; `difference` is the second's mean less the first's, paired.

    Of runs whose items flip between trials, the score of an item is the share of its trials that are right, and
    `trials` has the figures of both. Of a benchmark whose official score is no mean of items, `means` are the official
    scores, called `figure`. `clusters` and `uncompared` are as in `Comparison`.
    """

    items: int
    means: tuple[float, float]
    higher: tuple[str, ...]
    lower: tuple[str, ...]
    same: tuple[str, ...]
    difference: float
    interval: Interval
    trials: tuple[TrialFigures, TrialFigures] | None = None
    clusters: int | None = None
    uncompared: tuple[str, ...] = ()
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


Clusters = Mapping[str, str]
"""The cluster of each item that has one."""
ALONE: Clusters = MappingProxyType({})
"""Each item by itself."""


def compare(first: Mapping[str, bool], second: Mapping[str, bool], clusters: Clusters = ALONE) -> Comparison:
    """Pair the verdicts by item. Raises UserError where no item is in both."""
    shared = _shared(first, second)
    steps = [second[item] - first[item] for item in shared]
    cells: dict[tuple[bool, bool], list[str]] = {}
    for item in shared:
        cells.setdefault((first[item], second[item]), []).append(item)
    gained, lost = cells.get((False, True), []), cells.get((True, False), [])
    groups = _groups(shared, clusters)
    turned = [sum(steps[place] for place in group) for group in groups]
    return Comparison(
        both_right=tuple(cells.get((True, True), [])),
        both_wrong=tuple(cells.get((False, False), [])),
        gained=tuple(gained),
        lost=tuple(lost),
        p=mcnemar_exact(sum(step > 0 for step in turned), sum(step < 0 for step in turned)),
        difference=sum(steps) / len(steps),
        interval=_interval(steps, groups),
        clusters=len(groups) if len(groups) < len(shared) else None,
    )


def _groups(items: Sequence[str], clusters: Clusters) -> list[list[int]]:
    """The places of the items, those of one cluster together."""
    groups: dict[str, list[int]] = {}
    for place, item in enumerate(items):
        groups.setdefault(clusters.get(item, item), []).append(place)
    return list(groups.values())


def _interval(steps: Sequence[float], groups: Sequence[Sequence[int]]) -> Interval:
    """The bootstrap interval of the mean step, whole groups drawn."""
    sums = [(sum(steps[place] for place in group), len(group)) for group in groups]
    return bootstrap(lambda drawn: sum(sums[i][0] for i in drawn) / sum(sums[i][1] for i in drawn), len(sums))


def compare_scores(
    first: Mapping[str, float], second: Mapping[str, float], clusters: Clusters = ALONE
) -> ScoreComparison:
    """Pair the scores by item. Raises UserError where no item is in both."""
    shared = _shared(first, second)
    groups = _groups(shared, clusters)
    steps = [second[item] - first[item] for item in shared]
    return ScoreComparison(
        items=len(shared),
        means=(sum(first[item] for item in shared) / len(shared), sum(second[item] for item in shared) / len(shared)),
        higher=tuple(item for item in shared if second[item] > first[item]),
        lower=tuple(item for item in shared if second[item] < first[item]),
        same=tuple(item for item in shared if second[item] == first[item]),
        difference=sum(steps) / len(steps),
        interval=_interval(steps, groups),
        clusters=len(groups) if len(groups) < len(shared) else None,
    )


def compare_trials(
    first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]], clusters: Clusters = ALONE
) -> Comparison | ScoreComparison:
    """Pair the items of runs with several trials: by verdict where each item ends alike in all its trials, else by the
    shares of right trials. Raises UserError where no item is in both.
    """
    shared = _shared(first, second)
    a, b = ({item: run[item] for item in shared} for run in (first, second))
    figures = (_trial_figures(a), _trial_figures(b))
    if any(one.flipping for one in figures):
        return replace(compare_scores(reliability(a), reliability(b), clusters), trials=figures)
    before, after = ({item: trials[0] for item, trials in run.items()} for run in (a, b))
    return replace(compare(before, after, clusters), trials=figures)


def _trial_figures(outcomes: Mapping[str, Sequence[bool]]) -> TrialFigures:
    found = rates(outcomes)
    return TrialFigures(found.trials, found.pass1, found.at[-1], found.hat[-1], flipping(outcomes))


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison | ScoreComparison:
    """Compare two runs' items: verdicts, the shares of right trials where a run has several, or scores, of which the
    first trial's. Raises UserError where there is nothing to pair.
    """
    items = (*first, *second)
    clusters = {item.item: item.cluster for item in items if item.cluster}
    found = _paired(first, second, clusters)
    uncompared = {item.item for item in items}.difference(_compared_items(found))
    return replace(found, uncompared=tuple(sorted(uncompared, key=natural)))


def _paired(
    first: Sequence[ItemOutcome], second: Sequence[ItemOutcome], clusters: Clusters
) -> Comparison | ScoreComparison:
    if not any(item.correct is not None for item in (*first, *second)):
        return compare_scores(_scores(first), _scores(second), clusters)
    verdicts = by_trial(tuple(first)), by_trial(tuple(second))
    if any(item.trial > 1 for item in (*first, *second)):
        return compare_trials(*verdicts, clusters)
    a, b = ({item: trials[0] for item, trials in run.items()} for run in verdicts)
    return compare(a, b, clusters)


def _compared_items(found: Comparison | ScoreComparison) -> Iterator[str]:
    if isinstance(found, Comparison):
        return chain(found.both_right, found.both_wrong, found.gained, found.lost)
    return chain(found.higher, found.lower, found.same)


def _scores(items: Sequence[ItemOutcome]) -> dict[str, float]:
    return {item.item: item.score for item in items if item.score is not None and item.trial == 1}


def _shared(first: Mapping[str, object], second: Mapping[str, object]) -> list[str]:
    shared = sorted((item for item in first if item in second), key=natural)
    if not shared:
        raise UserError("the two runs have no graded task in common")
    return shared


def document(found: Sequence[Comparison | ScoreComparison | SetComparison]) -> str:
    """Comparisons as JSON: an object where there is one, else a list."""
    documents = [asdict(one) for one in found]
    return json.dumps(documents[0] if len(documents) == 1 else documents, indent=1)


def print_comparison(a: object, b: object, found: Comparison | ScoreComparison) -> None:
    """Print a comparison of the runs A and B."""
    put(f"A: {a}\nB: {b}")
    low, high = found.interval.low, found.interval.high
    bounds = f"95 % {percent(low)} to {percent(high)}"
    named: Sequence[tuple[str, Sequence[str]]]
    if isinstance(found, Comparison):
        rows = [
            ["both right", str(len(found.both_right))],
            ["both wrong", str(len(found.both_wrong))],
            ["only A right", str(len(found.lost))],
            ["only B right", str(len(found.gained))],
            [],
            ["compared", str(found.tasks)],
        ]
        print_table("", ["items", "count"], rows)
        if found.trials is not None:
            _print_trials(found.tasks, found.trials)
        over = f" over {found.clusters} questions; the items of one flip together" if found.clusters else ""
        put(f"B − A: {percent(found.difference)} ({bounds}); McNemar exact p = {found.p:.4g}{over}")
        named = (("Only A right", found.lost), ("Only B right", found.gained))
    elif found.trials is not None:
        _print_trials(found.items, found.trials)
        put(f"B − A: {percent(found.difference)} ({bounds}, paired bootstrap over items)")
        flips = [
            (f"Flip between the trials of {name}", one.flipping) for name, one in zip("AB", found.trials, strict=True)
        ]
        named = (("A right more often", found.lower), ("B right more often", found.higher), *flips)
    else:
        rows = [
            [f"{found.figure} of {name}", figure(mean, found.measure)]
            for name, mean in zip("AB", found.means, strict=True)
        ]
        print_table("", ["items", "value"], [*rows, [], ["compared", str(found.items)]])
        step, *ends = (_signed(value, found.measure) for value in (found.difference, low, high))
        put(f"B − A: {step} (95 % {ends[0]} to {ends[1]}, paired bootstrap)")
        named = (("A higher", found.lower), ("B higher", found.higher))
    for name, ids in named:
        if ids:
            put(_wrapped(f"{name}: ", ids))
    if found.uncompared:
        total = _compared(found) + len(found.uncompared)
        put(f"Not compared: {len(found.uncompared)} of {total}: {names(found.uncompared)}")


def _signed(value: float, measure: Measure) -> str:
    """A difference with its sign."""
    text = figure(value, measure)
    return text if text.startswith("-") else f"+{text}"


def _print_trials(items: int, figures: Sequence[TrialFigures]) -> None:
    rows = []
    for name, one in zip("AB", figures, strict=True):
        shares = [percent(share) for share in (one.pass_1, one.pass_at_k, one.pass_hat_k)]
        rows.append([name, str(items), str(one.trials), *shares, str(len(one.flipping))])
    print_table("", ["run", "items", "trials k", "pass@1", "pass@k", "pass^k", "flip"], rows)


def print_comparisons(first: object, others: Sequence[object], found: Sequence[Comparison | ScoreComparison]) -> None:
    """Print how several runs compare with the first one, a line each; p is adjusted for their number (Holm)."""
    put(f"A: {first}")
    if all(isinstance(one, Comparison) for one in found):
        pairs = [one for one in found if isinstance(one, Comparison)]
        adjusted = holm([one.p for one in pairs])
        columns = ["run", *_COMPARED, "only A right", "only it right", "difference", "95 %", "McNemar p, Holm"]
        rows = [
            [str(name), *_counts(one), str(len(one.lost)), str(len(one.gained)), *_step(one), f"{p:.4g}"]
            for name, one, p in zip(others, pairs, adjusted, strict=True)
        ]
    else:
        columns = ["run", *_COMPARED, "A higher", "it higher", "difference", "95 %"]
        rows = [
            [str(name), *_counts(one), *map(str, _sides(one)), *_step(one)]
            for name, one in zip(others, found, strict=True)
        ]
    print_table("", columns, rows)
    put("The difference is that run's less A's. Two runs alone name the items: medagent compare A B")


_COMPARED = ("compared", "not compared")


def _counts(found: Comparison | ScoreComparison) -> list[str]:
    return [str(_compared(found)), str(len(found.uncompared))]


def _step(found: Comparison | ScoreComparison) -> list[str]:
    return [percent(found.difference), f"{percent(found.interval.low)} to {percent(found.interval.high)}"]


def _compared(found: Comparison | ScoreComparison) -> int:
    return found.tasks if isinstance(found, Comparison) else found.items


def _sides(found: Comparison | ScoreComparison) -> tuple[int, int]:
    lost, gained = (found.lost, found.gained) if isinstance(found, Comparison) else (found.lower, found.higher)
    return len(lost), len(gained)


def _wrapped(head: str, ids: Sequence[str]) -> str:
    """Ids after a heading, in lines that break between ids."""
    import shutil
    import sys

    width = shutil.get_terminal_size().columns if sys.stdout.isatty() else WIDTH
    lines, line = [], head
    for number, name in enumerate(ids):
        part = name + ("," if number + 1 < len(ids) else "")
        if len(line) + len(part) > width and line.strip() != head.strip():
            lines.append(line.rstrip())
            line = "  "
        line += part + " "
    return "\n".join([*lines, line.rstrip()])
