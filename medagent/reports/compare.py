"""Two runs over the same items, compared item by item."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace

from medagent.core.errors import UserError
from medagent.engine.figures import natural, percent
from medagent.engine.report import ItemOutcome, by_trial
from medagent.reports.siblings import SetComparison
from medagent.reports.tables import WIDTH, print_table, put
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
    interval over items. `trials` has the figures of both runs where one has several trials.
    """

    both_right: tuple[str, ...]
    both_wrong: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    difference: float
    interval: Interval
    trials: tuple[TrialFigures, TrialFigures] | None = None

    @property
    def tasks(self) -> int:
        """How many items were compared."""
        return len(self.both_right) + len(self.both_wrong) + len(self.gained) + len(self.lost)


@dataclass(frozen=True, slots=True)
class ScoreComparison:
    """Items that both runs have a score for; `difference` is the second's mean less the first's, paired.

    Of runs whose items flip between trials, the score of an item is the share of its trials that are right, and
    `trials` has the figures of both.
    """

    items: int
    means: tuple[float, float]
    higher: tuple[str, ...]
    lower: tuple[str, ...]
    same: tuple[str, ...]
    difference: float
    interval: Interval
    trials: tuple[TrialFigures, TrialFigures] | None = None


def compare(first: Mapping[str, bool], second: Mapping[str, bool]) -> Comparison:
    """Pair the verdicts by item. Raises UserError where no item is in both."""
    shared = _shared(first, second)
    steps = [second[item] - first[item] for item in shared]
    cells: dict[tuple[bool, bool], list[str]] = {}
    for item in shared:
        cells.setdefault((first[item], second[item]), []).append(item)
    gained, lost = cells.get((False, True), []), cells.get((True, False), [])
    return Comparison(
        both_right=tuple(cells.get((True, True), [])),
        both_wrong=tuple(cells.get((False, False), [])),
        gained=tuple(gained),
        lost=tuple(lost),
        p=mcnemar_exact(len(gained), len(lost)),
        difference=sum(steps) / len(steps),
        interval=bootstrap(lambda items: sum(steps[i] for i in items) / len(items), len(steps)),
    )


def compare_scores(first: Mapping[str, float], second: Mapping[str, float]) -> ScoreComparison:
    """Pair the scores by item. Raises UserError where no item is in both."""
    shared = _shared(first, second)
    steps = [second[item] - first[item] for item in shared]
    return ScoreComparison(
        items=len(shared),
        means=(sum(first[item] for item in shared) / len(shared), sum(second[item] for item in shared) / len(shared)),
        higher=tuple(item for item in shared if second[item] > first[item]),
        lower=tuple(item for item in shared if second[item] < first[item]),
        same=tuple(item for item in shared if second[item] == first[item]),
        difference=sum(steps) / len(steps),
        interval=bootstrap(lambda items: sum(steps[i] for i in items) / len(items), len(steps)),
    )


def compare_trials(
    first: Mapping[str, Sequence[bool]], second: Mapping[str, Sequence[bool]]
) -> Comparison | ScoreComparison:
    """Pair the items of runs with several trials: by verdict where each item ends alike in all its trials, else by the
    shares of right trials. Raises UserError where no item is in both.
    """
    shared = _shared(first, second)
    a, b = ({item: run[item] for item in shared} for run in (first, second))
    figures = (_trial_figures(a), _trial_figures(b))
    if any(one.flipping for one in figures):
        return replace(compare_scores(reliability(a), reliability(b)), trials=figures)
    return replace(compare(*({item: trials[0] for item, trials in run.items()} for run in (a, b))), trials=figures)


def _trial_figures(outcomes: Mapping[str, Sequence[bool]]) -> TrialFigures:
    found = rates(outcomes)
    return TrialFigures(found.trials, found.pass1, found.at[-1], found.hat[-1], flipping(outcomes))


def compare_outcomes(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> Comparison | ScoreComparison:
    """Compare two runs' items: verdicts, the shares of right trials where a run has several, or scores, of which the
    first trial's. Raises UserError where there is nothing to pair.
    """
    if not any(item.correct is not None for item in (*first, *second)):
        return compare_scores(_scores(first), _scores(second))
    verdicts = by_trial(tuple(first)), by_trial(tuple(second))
    if any(item.trial > 1 for item in (*first, *second)):
        return compare_trials(*verdicts)
    a, b = ({item: trials[0] for item, trials in run.items()} for run in verdicts)
    return compare(a, b)


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
        put(f"B − A: {percent(found.difference)} ({bounds}); McNemar exact p = {found.p:.4g}")
        named = (("Only A right", found.lost), ("Only B right", found.gained))
    elif found.trials is not None:
        _print_trials(found.items, found.trials)
        put(f"B − A: {percent(found.difference)} ({bounds}, paired bootstrap over items)")
        flips = [
            (f"Flip between the trials of {name}", one.flipping) for name, one in zip("AB", found.trials, strict=True)
        ]
        named = (("A right more often", found.lower), ("B right more often", found.higher), *flips)
    else:
        rows = [["mean of A", f"{found.means[0]:.4f}"], ["mean of B", f"{found.means[1]:.4f}"], []]
        print_table("", ["items", "value"], [*rows, ["compared", str(found.items)]])
        put(f"B − A: {found.difference:+.4f} (95 % {low:+.4f} to {high:+.4f}, paired bootstrap)")
        named = (("A higher", found.lower), ("B higher", found.higher))
    for name, ids in named:
        if ids:
            put(_wrapped(f"{name}: ", ids))


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
        columns = ["run", "compared", "only A right", "only it right", "difference", "95 %", "McNemar p, Holm"]
        rows = [
            [str(name), str(one.tasks), str(len(one.lost)), str(len(one.gained)), *_step(one), f"{p:.4g}"]
            for name, one, p in zip(others, pairs, adjusted, strict=True)
        ]
    else:
        columns = ["run", "compared", "A higher", "it higher", "difference", "95 %"]
        rows = [
            [str(name), str(_compared(one)), *map(str, _sides(one)), *_step(one)]
            for name, one in zip(others, found, strict=True)
        ]
    print_table("", columns, rows)
    put("The difference is that run's less A's. Two runs alone name the items: medagent compare A B")


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
