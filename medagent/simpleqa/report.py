"""The figures and the agreement as tables for a person."""

from __future__ import annotations

import json
import math
from collections.abc import Sequence
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from refsol.simpleqa.agree import UNREAD, Agreement, Key
from refsol.simpleqa.export import TREATMENTS
from refsol.simpleqa.metrics import Calibration, Tally, share
from refsol.simpleqa.score import JudgedSet, Section
from refsol.simpleqa.verdict import LABELS, Rule
from refsol.stats import wilson

_LISTED = 20
# Wide enough for every table, where no terminal says how wide it is.
_PIPE_WIDTH = 150


def print_json(value: Any) -> None:
    """Print JSON, indented."""
    print(json.dumps(value, ensure_ascii=False, indent=2))


def print_scores(judged: JudgedSet, sections: Sequence[Section], rule: Rule) -> None:
    """Print a judged set: figures by group, the three denominators, the calibration."""
    console = _console()
    for section in sections:
        console.print(
            _figures(
                f"{judged.model} on {judged.dataset}, {section.name}; judge {', '.join(judged.judges)}; rules {rule}",
                section,
            )
        )
        if rule == "robust":
            console.print(_denominators(section.total))
        console.print(_calibration(section.calibration))


def _console() -> Console:
    out = Console(highlight=False)
    return out if out.is_terminal else Console(width=_PIPE_WIDTH, highlight=False)


def _figures(title: str, section: Section) -> Table:
    table = Table(title=title, title_justify="left")
    table.add_column("group")
    for name in ("correct", "incorrect", "not attempted", "correct given attempted", "F", "N"):
        table.add_column(name, justify="right")
    outside = [name for name in ("unscored", "left_out", "judge_errors", "unanswered") if getattr(section.total, name)]
    for name in outside:
        table.add_column(name.replace("_", " "), justify="right")
    for group, tally in (("total", section.total), *section.groups.items()):
        shares = [_share(part, tally.count) for part in (tally.correct, tally.incorrect, tally.not_attempted)]
        given = _share(tally.correct, tally.attempted)
        counts = [str(getattr(tally, name)) for name in outside]
        table.add_row(group, *shares, given, f"{tally.f_score:.4f}", str(tally.count), *counts)
    return table


def _share(part: int, whole: int) -> str:
    interval = wilson(part, whole)
    return f"{share(part, whole):.4f} ({interval.low:.3f}–{interval.high:.3f})"


def _denominators(tally: Tally) -> Table:
    table = Table(title=f"{tally.unscored} unscored rows", title_justify="left")
    for name in ("counted", "correct", "correct given attempted", "F", "N"):
        table.add_column(name, justify="left" if name == "counted" else "right")
    for treatment in TREATMENTS:
        treated = tally.treated(treatment)
        figures = (share(treated.correct, treated.count), treated.correct_given_attempted, treated.f_score)
        table.add_row(treatment, *(f"{figure:.4f}" for figure in figures), str(treated.count))
    return table


def _calibration(calibration: Calibration) -> Table | Text:
    left_out = f"{calibration.left_out} attempted rows without a confidence"
    if calibration.brier is None or calibration.ece is None:
        return Text(f"no calibration: {left_out}\n")
    table = Table(
        title=f"calibration: Brier {calibration.brier:.4f}, ECE {calibration.ece:.4f}, {left_out}",
        title_justify="left",
    )
    for name in ("confidence", "rows", "mean confidence", "correct"):
        table.add_column(name, justify="right")
    for row in calibration.bins:
        span = f"{row.low * 100:.0f}–{row.high * 100:.0f}"
        table.add_row(span, str(row.count), f"{row.confidence:.4f}", f"{row.accuracy:.4f}")
    return table


def print_agreement(first: str, second: str, found: Agreement) -> None:
    """Print the confusion table, the agreement with kappa, and every row where the two differ."""
    table = Table(title=f"rows: {first}; columns: {second}", title_justify="left")
    names = (*LABELS, UNREAD)
    table.add_column("")
    for name in names:
        table.add_column(name, justify="right")
    for name in names:
        table.add_row(name, *(str(found.table.get((name, other), 0)) for other in names))
    agreed = share(found.agreed, found.labelled)
    lines = [f"agreement {agreed:.4f} ({found.agreed} of the {found.labelled} rows that both labelled)"]
    if found.interval is not None:
        low, high = _number(found.interval.low), _number(found.interval.high)
        lines.append(f"Cohen's kappa {_number(found.kappa)} (95 %: {low} to {high})")
    for name, keys in ((first, found.only_first), (second, found.only_second)):
        if keys:
            lines.append(f"only in {name}: {_names(keys)}")
    lines += [f"{_name(key)}: {one} / {other}" for key, one, other in found.differ]
    console = _console()
    console.print(table)
    console.print(Text("\n".join(lines)))


def _number(value: float) -> str:
    return "–" if math.isnan(value) else f"{value:.4f}"


def _name(key: Key) -> str:
    return " ".join(part for part in key if part)


def _names(keys: Sequence[Key]) -> str:
    named = ", ".join(map(_name, keys[:_LISTED]))
    return f"{len(keys)} rows ({named}{', …' if len(keys) > _LISTED else ''})"
