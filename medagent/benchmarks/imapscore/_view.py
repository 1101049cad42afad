"""The display of imapScore's results: rich tables for people, dictionaries for `--json`."""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from itertools import groupby
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.table import Table
from rich.text import Text

from medagent.benchmarks.imapscore._details import number
from medagent.core.scrub import printable
from medagent.reports.tables import Table as TextTable
from medagent.reports.tables import print_table, put
from refsol.imapscore.correlate import Correlation, CorrelationRow
from refsol.imapscore.imap import Imap, normal
from refsol.imapscore.metrics import ON_IMAPS, UncomparedCounts
from refsol.imapscore.records import Recording
from refsol.imapscore.relations import Relation
from refsol.imapscore.score import ImapScore, TermScore

_COLOURS = {
    Relation.EXACT: "green",
    Relation.BELONGING: "cyan",
    Relation.CONTAINMENT: "yellow",
    Relation.UNMATCHED: "red",
}
_MEANINGS = {
    Relation.EXACT: "e  same meaning",
    Relation.BELONGING: "b  response more general",
    Relation.CONTAINMENT: "c  response more specific",
    Relation.UNMATCHED: "u  unmatched",
}


def as_json(recording: Recording, result: ImapScore) -> dict[str, Any]:
    """One item's result. Fractions are texts (`7/5`); the score is also a number."""
    return {
        "id": recording.id,
        "status": result.status,
        "score": None if result.value is None else float(result.value),
        "exact": None if result.value is None else str(result.value),
        "divisor": result.divisor,
        "terms": [_term_json(term) for term in result.terms],
        "reason": recording.reason,
        "warnings": list(recording.warnings),
    }


def _term_json(term: TermScore) -> dict[str, Any]:
    return {
        "term": term.term,
        "label": list(term.label),
        "response": list(term.response),
        "links": [
            {"label": link.pair.label, "response": link.pair.response, "relation": link.relation} for link in term.links
        ],
        "recall": str(term.recall),
        "precision": str(term.precision),
        "penalty": str(term.penalty),
        "score": str(term.value),
    }


def print_scores(recordings: Sequence[Recording], results: Sequence[ImapScore]) -> None:
    """One line per item, then the mean and the number of items per status."""
    rows = []
    for recording, result in zip(recordings, results, strict=True):
        number = ("–", "–") if result.value is None else (f"{float(result.value):.4f}", str(result.value))
        rows.append((recording.id, *number, result.status))
    print_table(TextTable(("item", "score", "exact", "status"), rows, "imapScore"))
    values = [result.value for result in results if result.value is not None]
    mean = f"{float(sum(values, Fraction(0)) / len(values)):.4f}" if values else "–"
    counts = Counter(result.status for result in results)
    statuses = ", ".join(f"{status} {count}" for status, count in counts.items()) or "no item"
    put(f"mean {mean} over {len(values)} of {len(results)} items · {statuses}")
    warned = [recording.id for recording in recordings if recording.warnings]
    if warned:
        put(f"items with warnings: {len(warned)} (first: {warned[0]}); `explain` shows them")


def print_explanation(recording: Recording, result: ImapScore) -> None:
    """One item: both imaps side by side, the links of each shared term, and the sum."""
    _print_explanation(Console(highlight=False, width=None if sys.stdout.isatty() else 120), recording, result)


def _text(text: str, style: str = "") -> Text:
    return Text(printable(text), style)


def _print_explanation(console: Console, recording: Recording, result: ImapScore) -> None:
    best = _best_relations(result)
    exact = "no score" if result.value is None else number(result.value)
    parts: list[RenderableType] = [_text(f"item {recording.id} · {result.status} · {exact}", style="bold")]
    if recording.reason:
        parts.append(_text(recording.reason))
    lines = [f"Query-{pair.term}-?" for pair in recording.question.query]
    lines += [f"Constraint-{pair.term}-{pair.value}" for pair in recording.question.constraint]
    parts.append(Panel(_text("\n".join(lines) or "–"), title="question", title_align="left"))
    sides = Table.grid(expand=True, padding=(0, 1))
    sides.add_column(ratio=1)
    sides.add_column(ratio=1)
    sides.add_row(
        Panel(_inform(recording.label, 1, best), title="label", title_align="left"),
        Panel(_inform(recording.response, 2, best), title="response", title_align="left"),
    )
    parts.append(sides)
    parts += [_term(term) for term in result.terms]
    parts += _sum(result)
    if recording.warnings:
        parts.append(_text("\n".join(f"warning: {warning}" for warning in recording.warnings), style="magenta"))
    console.print(Group(*parts))


def _best_relations(result: ImapScore) -> dict[tuple[int, str, str], Relation]:
    """The best relation of each matched value, by side (1 label, 2 response), normal term and normal value."""
    best: dict[tuple[int, str, str], Relation] = {}
    for relation in reversed(Relation):
        for term in result.terms:
            for link in term.links:
                if link.relation is relation:
                    best |= {(side, link.pair.key[0], link.pair.key[side]): relation for side in (1, 2)}
    return best


def _inform(imap: Imap, side: int, best: dict[tuple[int, str, str], Relation]) -> Text:
    if not imap.inform:
        return _text("Inform-None" if imap.explicit_none else "–")
    lines = []
    for pair in imap.inform:
        relation = best.get((side, *pair.key), Relation.UNMATCHED)
        lines.append(Text.assemble(f"Inform-{pair.term}-", (pair.value, _COLOURS[relation])))
    return Text("\n").join(lines)


def _term(term: TermScore) -> RenderableType:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), title_justify="left", show_header=False)
    for link in term.links:
        row = (link.pair.label, _MEANINGS[link.relation], link.pair.response)
        table.add_row(*(_text(cell) for cell in row), style=_COLOURS[link.relation])
    linked = {(side, link.pair.key[side]) for link in term.links for side in (1, 2)}
    unmatched = _COLOURS[Relation.UNMATCHED]
    for value in term.label:
        if (1, normal(value)) not in linked:
            table.add_row(_text(value), _MEANINGS[Relation.UNMATCHED], "", style=unmatched)
    for value in term.response:
        if (2, normal(value)) not in linked:
            table.add_row("", _MEANINGS[Relation.UNMATCHED], _text(value), style=unmatched)
    parts = f"recall {term.recall} + precision {term.precision} − λ {term.penalty} = {term.value}"
    return Group(Text.assemble("\n", (term.term, "bold"), f": {parts}"), table)


def _sum(result: ImapScore) -> list[RenderableType]:
    if result.value is None or not result.terms:
        return []
    summands = " + ".join(f"({term.value})" if term.value < 0 else str(term.value) for term in result.terms)
    divided = f"({summands}) / {result.divisor}" if result.divisor > 1 else summands
    return [_text(f"\nscore = {divided} = {number(result.value)}", style="bold")]


def print_correlations(coefficient: str, rows: Sequence[CorrelationRow]) -> None:
    """One coefficient × 100 with 95% intervals: one table per file, one row per metric, one column per dimension."""
    for file, group in groupby(rows, lambda row: row.file):
        of_file = list(group)
        lines = [(row.metric, *(_correlation(cell) for cell in row.cells.values())) for row in of_file]
        items = max(cell.n for row in of_file for cell in row.cells.values())
        title = f"{coefficient} × 100, {file}, n = {items}"
        print_table(TextTable(("metric", *rows[0].cells), lines, title))


def print_gains(coefficient: str, rows: Sequence[CorrelationRow]) -> None:
    """Each metric's gain on imaps (`+imap` minus the raw metric) × 100, one line per file or part."""
    by_metric = {(row.file, row.metric): row for row in rows}
    names = [
        row.metric for row in rows if (rows[0].file, row.metric + ON_IMAPS) in by_metric and row.file == rows[0].file
    ]
    lines = []
    for file in dict.fromkeys(row.file for row in rows):
        cells = [(_last(by_metric[file, name + ON_IMAPS]), _last(by_metric[file, name])) for name in names]
        gains = ["–" if None in pair else f"{(pair[0] or 0.0) - (pair[1] or 0.0):+.1f}" for pair in cells]
        lines.append([file, *gains])
    if names:
        print_table(TextTable(("", *names), lines, f"gain on imaps, {coefficient} × 100"))


def _last(row: CorrelationRow) -> float | None:
    """The average over the human dimensions, which is the last cell."""
    return list(row.cells.values())[-1].value


def print_uncompared(file: str, scored: UncomparedCounts) -> None:
    """Print how many items of a file count as 0, and how many are left out, with reasons."""
    counts = {"kept as 0": scored.empty, "left out": scored.left_out}
    parts = [", ".join([f"{n.total()} {what}", *(f"{why} {n[why]}" for why in n)]) for what, n in counts.items()]
    put(f"{file}: {'; '.join(parts)}")


def _correlation(cell: Correlation) -> str:
    if cell.value is None:
        return f"undefined: {cell.reason}"
    interval = "" if cell.interval is None else f" [{cell.interval.low:.1f}, {cell.interval.high:.1f}]"
    return f"{cell.value:.1f}{interval}"
