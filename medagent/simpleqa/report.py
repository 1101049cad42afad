"""The figures and the agreement as tables for a person."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from typing import Any

from rich.console import Console
from rich.table import Table

from refsol.simpleqa.agree import UNREAD, Agreement, Key
from refsol.simpleqa.export import TREATMENTS
from refsol.simpleqa.metrics import Calibration, Tally, share
from refsol.simpleqa.score import JudgedSet, Section
from refsol.simpleqa.verdict import LABELS, Rule
from refsol.stats import wilson

_LISTED = 20
# Wide enough for every table, where no terminal says how wide it is.
_PIPE_WIDTH = 160


def print_json(value: Any) -> None:
    """Print JSON, indented."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_scores(judged: JudgedSet, sections: Sequence[Section], rule: Rule) -> None:
    """Print a judged set: figures by group, the three denominators, the calibration."""
    out = _Printer()
    for section in sections:
        out.line(
            f"{judged.model} on {judged.dataset}: {section.name}, judged by {', '.join(judged.judges)}, rules {rule}"
        )
        _print_figures(out, section)
        if rule == "robust":
            _print_denominators(out, section.total)
        _print_calibration(out, section.calibration)


class _Printer:
    """Standard output: a terminal at its width, a pipe at a width that breaks no row."""

    def __init__(self) -> None:
        console = Console(highlight=False, markup=False)
        self._console = console if console.is_terminal else Console(width=_PIPE_WIDTH, highlight=False, markup=False)

    def line(self, text: str) -> None:
        self._console.print(text, soft_wrap=True)

    def table(self, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
        table = Table()
        for place, name in enumerate(columns):
            table.add_column(name, justify="right" if place else "left")
        for row in rows:
            table.add_row(*row)
        self._console.print(table)


def _print_figures(out: _Printer, section: Section) -> None:
    outside = [name for name in ("unscored", "left_out", "judge_errors", "unanswered") if getattr(section.total, name)]
    columns = ["group", "correct", "incorrect", "not attempted", "correct given attempted", "F", "N"]

    def cells(name: str, tally: Tally) -> list[str]:
        shares = [_share(part, tally.count) for part in (tally.correct, tally.incorrect, tally.not_attempted)]
        figures = [_share(tally.correct, tally.attempted), f"{tally.f_score:.4f}", str(tally.count)]
        return [name, *shares, *figures, *(str(getattr(tally, field)) for field in outside)]

    groups = [cells(name or "(none)", tally) for name, tally in section.groups.items()]
    out.table([*columns, *(name.replace("_", " ") for name in outside)], [cells("total", section.total), *groups])


def _share(part: int, whole: int) -> str:
    interval = wilson(part, whole)
    return f"{share(part, whole):.4f} ({interval.low:.3f}–{interval.high:.3f})"


def _print_denominators(out: _Printer, tally: Tally) -> None:
    out.line(f"{tally.unscored} unscored rows, counted in three ways:")
    rows = []
    for treatment in TREATMENTS:
        treated = tally.treated(treatment)
        figures = (share(treated.correct, treated.count), treated.correct_given_attempted, treated.f_score)
        rows.append([treatment, *(f"{figure:.4f}" for figure in figures), str(treated.count)])
    out.table(["unscored", "correct", "correct given attempted", "F", "N"], rows)


def _print_calibration(out: _Printer, calibration: Calibration) -> None:
    if calibration.brier is None or calibration.ece is None:
        out.line(f"no calibration: {calibration.left_out} attempted rows, none of them with a confidence")
        return
    out.line(
        f"calibration: Brier {calibration.brier:.4f}, expected calibration error {calibration.ece:.4f}"
        f" ({calibration.left_out} attempted rows without a confidence left out)"
    )
    rows = [
        [f"{row.low * 100:.0f}–{row.high * 100:.0f}", str(row.count), f"{row.confidence:.4f}", f"{row.accuracy:.4f}"]
        for row in calibration.bins
    ]
    out.table(["confidence", "rows", "mean confidence", "correct"], rows)


def print_agreement(first: str, second: str, found: Agreement) -> None:
    """Print the confusion table, the agreement with kappa, and every row where the two differ."""
    out = _Printer()
    names = (*LABELS, UNREAD)
    out.line(f"rows: {first}; columns: {second}")
    out.table(["", *names], ([name, *(str(found.table.get((name, other), 0)) for other in names)] for name in names))
    agreed = share(found.agreed, found.labelled)
    out.line(f"agreement {agreed:.4f} ({found.agreed} of the {found.labelled} rows that both labelled)")
    if found.interval is not None:
        low, high = _number(found.interval.low), _number(found.interval.high)
        out.line(f"Cohen's kappa {_number(found.kappa)} (95 %: {low} to {high})")
    for name, keys in ((first, found.only_first), (second, found.only_second)):
        if keys:
            out.line(f"only in {name}: {_names(keys)}")
    for key, one, other in found.differ:
        out.line(f"{_name(key)}: {one} / {other}")


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _name(key: Key) -> str:
    return " ".join(part for part in key if part)


def _names(keys: Sequence[Key]) -> str:
    named = ", ".join(map(_name, keys[:_LISTED]))
    return f"{len(keys)} rows ({named}{', …' if len(keys) > _LISTED else ''})"
