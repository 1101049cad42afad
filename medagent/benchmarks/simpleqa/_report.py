"""The scores as tables for a person."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from medagent.reports.tables import Cell, Table, print_table, put, put_json
from refsol.simpleqa.export import NAMELESS, TREATMENTS
from refsol.simpleqa.metrics import Bounds, Calibration, Tally, share
from refsol.simpleqa.score import VOTES, JudgedSet, Section, votes_of
from refsol.simpleqa.verdict import Rule
from refsol.stats import Interval


def print_json(value: Any) -> None:
    """Print indented JSON."""
    put_json(value)


def print_scores(judged: JudgedSet, sections: Sequence[Section], rule: Rule) -> None:
    """Print a judged set: scores by group, the three denominators, the calibration, each judge's votes in a panel."""
    for section in sections:
        put(f"{judged.model} on {judged.dataset}: {section.name}, judged by {', '.join(judged.judges)}, rules {rule}")
        _print_figures(section)
        if rule == "robust":
            _print_denominators(section.total)
        _print_calibration(section.calibration)
    if len(judged.judges) > 1:
        votes = votes_of(judged, rule)
        columns = ["votes of", *(vote.replace("_", " ") for vote in VOTES)]
        print_table(Table(columns, [[judge, *(votes[judge][vote] for vote in VOTES)] for judge in judged.judges]))


def _print_figures(section: Section) -> None:
    aside = ("unscored", "left_out", "judge_errors", "unanswered", "not_judged")
    outside = [name for name in aside if getattr(section.total, name)]
    columns = ["group", "correct", "incorrect", "not attempted", "correct given attempted", "F", "N"]

    def cells(name: str, tally: Tally, bounds: Bounds) -> list[Cell]:
        shares = [
            _share(tally.correct, tally.count, bounds.correct),
            _share(tally.incorrect, tally.count, bounds.incorrect),
            _share(tally.not_attempted, tally.count, bounds.not_attempted),
            _share(tally.correct, tally.attempted, bounds.correct_given_attempted),
        ]
        return [name, *shares, tally.f_score, tally.count, *(getattr(tally, field) for field in outside)]

    groups = [
        cells(name or NAMELESS, tally, section.group_bounds[name])
        for name, tally in section.groups.items()
        if tally != Tally()
    ]
    whole = cells("total", section.total, section.bounds)
    print_table(Table([*columns, *(name.replace("_", " ") for name in outside)], [whole, *groups], measure="score"))


def _share(part: int, whole: int, interval: Interval) -> str:
    return f"{share(part, whole):.4f} ({interval.low:.3f}–{interval.high:.3f})"


def _print_denominators(tally: Tally) -> None:
    if not tally.unscored:
        put("0 unscored rows: left out, as not attempted or as wrong, the scores are the same")
        return
    put(f"{tally.unscored} unscored rows, counted in three ways:")
    rows = []
    for treatment in TREATMENTS:
        treated = tally.treated(treatment)
        figures = (share(treated.correct, treated.count), treated.correct_given_attempted, treated.f_score)
        rows.append([treatment, *figures, treated.count])
    print_table(Table(["unscored", "correct", "correct given attempted", "F", "N"], rows, measure="score"))


def _print_calibration(calibration: Calibration) -> None:
    if calibration.brier is None or calibration.ece is None:
        put(f"no calibration: {calibration.left_out} attempted rows, none of them with a confidence")
        return
    put(
        f"calibration: Brier {calibration.brier:.4f}, expected calibration error {calibration.ece:.4f}"
        f" ({calibration.left_out} attempted rows without a confidence left out)"
    )
    rows: list[list[Cell]] = [
        [f"{row.low * 100:.0f}–{row.high * 100:.0f}", row.count, row.confidence, row.accuracy]
        for row in calibration.bins
    ]
    print_table(Table(["confidence", "rows", "mean confidence", "correct"], rows, measure="score"))
