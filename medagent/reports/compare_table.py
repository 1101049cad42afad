"""Comparisons of runs, printed and as JSON."""

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
        _print_other_types(found)
        named = (("Only A right", found.lost), ("Only B right", found.gained))
    elif found.trials is not None:
        _print_trials(found.items, found.trials)
        put(f"B − A: {percent(found.difference)} ({bounds}, paired bootstrap over items)")
        _print_other_types(found)
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
    if found.grounded is not None:
        put(grounded_words(found.grounded))
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


def other_types_words(interval: Interval | None) -> str:
    """The interval for other types, in words."""
    if interval is None:
        return f"Other types: no interval below {FEWEST_TYPES} types"
    return f"Other types: 95 % {percent(interval.low)} to {percent(interval.high)}"


def grounded_words(found: GroundedComparison) -> str:
    """How the grounded items compare, in words."""
    low, high = percent(found.interval.low), percent(found.interval.high)
    return (
        f"Grounded: A {found.first}, B {found.second} of {found.items}; B − A: {percent(found.difference)} "
        f"(95 % {low} to {high})"
    )


def _print_other_types(found: Comparison | ScoreComparison) -> None:
    put(f"The interval is that of these types and other patients. {other_types_words(found.other_types)}")


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
