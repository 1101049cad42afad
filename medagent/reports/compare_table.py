"""Comparisons of runs as tables and as JSON."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict

from medagent.engine.figures import figure, percent
from medagent.engine.report import Measure
from medagent.reports.compare import Comparison, GroundedComparison, ScoreComparison, TrialFigures
from medagent.reports.siblings import SetComparison
from medagent.reports.tables import WIDTH, print_table, put
from medagent.reports.tables import named as names
from refsol.intervals import FEWEST_TYPES
from refsol.stats import Interval, holm


def document(comparisons: Sequence[Comparison | ScoreComparison | SetComparison]) -> str:
    """Comparisons as JSON: an object if there is one, otherwise a list."""
    documents = [asdict(one) for one in comparisons]
    return json.dumps(documents[0] if len(documents) == 1 else documents, indent=1)


def print_comparison(a: object, b: object, comparison: Comparison | ScoreComparison) -> None:
    """Print a comparison of the runs A and B."""
    put(f"A: {a}\nB: {b}")
    low, high = comparison.interval.low, comparison.interval.high
    bounds = f"95 % {percent(low)} to {percent(high)}"
    named: Sequence[tuple[str, Sequence[str]]]
    if isinstance(comparison, Comparison):
        rows = [
            ["both right", str(len(comparison.both_right))],
            ["both wrong", str(len(comparison.both_wrong))],
            ["only A right", str(len(comparison.lost))],
            ["only B right", str(len(comparison.gained))],
            [],
            ["compared", str(comparison.tasks)],
        ]
        print_table("", ["items", "count"], rows)
        if comparison.trials is not None:
            _print_trials(comparison.tasks, comparison.trials)
        over = f" over {comparison.clusters} questions; the items of one flip together" if comparison.clusters else ""
        put(f"B − A: {percent(comparison.difference)} ({bounds}); McNemar exact p = {comparison.p:.4g}{over}")
        _print_other_types(comparison)
        named = (("Only A right", comparison.lost), ("Only B right", comparison.gained))
    elif comparison.trials is not None:
        _print_trials(comparison.items, comparison.trials)
        put(f"B − A: {percent(comparison.difference)} ({bounds}, paired bootstrap over items)")
        _print_other_types(comparison)
        flips = [
            (f"Flip between the trials of {name}", one.flipping)
            for name, one in zip("AB", comparison.trials, strict=True)
        ]
        named = (("A right more often", comparison.lower), ("B right more often", comparison.higher), *flips)
    else:
        rows = [
            [f"{comparison.figure} of {name}", figure(mean, comparison.measure)]
            for name, mean in zip("AB", comparison.means, strict=True)
        ]
        print_table("", ["items", "value"], [*rows, [], ["compared", str(comparison.items)]])
        step, *ends = (_signed(value, comparison.measure) for value in (comparison.difference, low, high))
        put(f"B − A: {step} (95 % {ends[0]} to {ends[1]}, paired bootstrap)")
        named = (("A higher", comparison.lower), ("B higher", comparison.higher))
    if comparison.grounded is not None:
        put(grounded_words(comparison.grounded))
    for name, ids in named:
        if ids:
            put(_wrapped(f"{name}: ", ids))
    if comparison.uncompared:
        total = _compared(comparison) + len(comparison.uncompared)
        put(f"Not compared: {len(comparison.uncompared)} of {total}: {names(comparison.uncompared)}")


def _signed(value: float, measure: Measure) -> str:
    """A difference with its sign."""
    text = figure(value, measure)
    return text if text.startswith("-") else f"+{text}"


def other_types_words(interval: Interval | None) -> str:
    """The interval for other types, in words."""
    if interval is None:
        return f"Other types: no interval below {FEWEST_TYPES} types"
    return f"Other types: 95 % {percent(interval.low)} to {percent(interval.high)}"


def grounded_words(comparison: GroundedComparison) -> str:
    """The comparison of grounded items, in words."""
    low, high = percent(comparison.interval.low), percent(comparison.interval.high)
    return (
        f"Grounded: A {comparison.first}, B {comparison.second} of {comparison.items}; "
        f"B − A: {percent(comparison.difference)} (95 % {low} to {high})"
    )


def _print_other_types(comparison: Comparison | ScoreComparison) -> None:
    put(f"The interval is that of these types and other patients. {other_types_words(comparison.other_types)}")


def _print_trials(items: int, figures: Sequence[TrialFigures]) -> None:
    rows = []
    for name, one in zip("AB", figures, strict=True):
        shares = [percent(share) for share in (one.pass_1, one.pass_at_k, one.pass_hat_k)]
        rows.append([name, str(items), str(one.trials), *shares, str(len(one.flipping))])
    print_table("", ["run", "items", "trials k", "pass@1", "pass@k", "pass^k", "flip"], rows)


def print_comparisons(
    first: object, others: Sequence[object], comparisons: Sequence[Comparison | ScoreComparison]
) -> None:
    """Print the comparison of each run with the first one on a line; p is adjusted for their number (Holm)."""
    put(f"A: {first}")
    if all(isinstance(one, Comparison) for one in comparisons):
        pairs = [one for one in comparisons if isinstance(one, Comparison)]
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
            for name, one in zip(others, comparisons, strict=True)
        ]
    print_table("", columns, rows)
    put("The difference is that run's less A's. Two runs alone name the items: medagent compare A B")


_COMPARED = ("compared", "not compared")


def _counts(comparison: Comparison | ScoreComparison) -> list[str]:
    return [str(_compared(comparison)), str(len(comparison.uncompared))]


def _step(comparison: Comparison | ScoreComparison) -> list[str]:
    return [
        percent(comparison.difference),
        f"{percent(comparison.interval.low)} to {percent(comparison.interval.high)}",
    ]


def _compared(comparison: Comparison | ScoreComparison) -> int:
    return comparison.tasks if isinstance(comparison, Comparison) else comparison.items


def _sides(comparison: Comparison | ScoreComparison) -> tuple[int, int]:
    lost, gained = (
        (comparison.lost, comparison.gained)
        if isinstance(comparison, Comparison)
        else (comparison.lower, comparison.higher)
    )
    return len(lost), len(gained)


def _wrapped(head: str, ids: Sequence[str]) -> str:
    """Ids after a heading. Lines break between ids."""
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
