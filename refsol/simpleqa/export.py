"""The scores as JSON and as HuSimpleQA's CSV format."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict
from typing import Any, get_args

from refsol.files import csv_text
from refsol.simpleqa.metrics import Bounds, Tally, Treatment, share
from refsol.simpleqa.score import VOTES, JudgedSet, Section, in_order, label_of, outcome_of, votes_of
from refsol.simpleqa.verdict import Rule

_COLUMNS = ("correct", "incorrect", "not_attempted", "correct given attempted", "F-Score", "count")
NAMELESS = "(none)"
"""The name in tables of the group of rows without a group."""
TREATMENTS: tuple[Treatment, ...] = get_args(Treatment)


def as_json(judged: JudgedSet, sections: Iterable[Section], rule: Rule, warnings: Sequence[str]) -> dict[str, Any]:
    """All scores of a judged set, as shares (0 to 1), not rounded."""
    return {
        "model": judged.model,
        "judges": list(judged.judges),
        "votes": {judge: {vote: votes[vote] for vote in VOTES} for judge, votes in votes_of(judged, rule).items()},
        "dataset": judged.dataset,
        "rules": rule,
        "warnings": list(warnings),
        "sections": section_documents(sections),
    }


def section_documents(sections: Iterable[Section]) -> list[dict[str, Any]]:
    """The scores of each section, as shares (0 to 1), not rounded."""
    return [
        {
            "name": section.name,
            "total": _figures(section.total, section.bounds),
            "groups": {name: _figures(tally, section.group_bounds[name]) for name, tally in section.groups.items()},
            "calibration": asdict(section.calibration),
        }
        for section in sections
    ]


def rows_as_json(judged: JudgedSet, rule: Rule) -> list[dict[str, Any]]:
    """Every row: its outcome, each judge's label (null: none), and the judges whose call failed."""
    return [
        {
            "id": row.id,
            "language": row.language,
            "group": row.group,
            "outcome": outcome_of(row, rule),
            "labels": {name: None if reply is None else label_of(reply, rule) for name, reply in row.judged.items()},
            "failed_judges": [name for name, reply in row.judged.items() if reply is None],
        }
        for row in judged.rows
    ]


def _figures(tally: Tally, bounds: Bounds) -> dict[str, Any]:
    return {
        "correct": share(tally.correct, tally.count),
        "correct_interval": asdict(bounds.correct),
        "incorrect": share(tally.incorrect, tally.count),
        "incorrect_interval": asdict(bounds.incorrect),
        "not_attempted": share(tally.not_attempted, tally.count),
        "not_attempted_interval": asdict(bounds.not_attempted),
        "correct_given_attempted": tally.correct_given_attempted,
        "correct_given_attempted_interval": asdict(bounds.correct_given_attempted),
        "f_score": tally.f_score,
        "count": tally.count,
        "rows": asdict(tally),
        "unscored_rows": {treatment: _treated(tally.treated(treatment)) for treatment in TREATMENTS},
    }


def _treated(tally: Tally) -> dict[str, Any]:
    return {
        "correct": share(tally.correct, tally.count),
        "correct_given_attempted": tally.correct_given_attempted,
        "f_score": tally.f_score,
        "count": tally.count,
    }


def as_csv(scored: Iterable[tuple[JudgedSet, Sequence[Section]]]) -> str:
    """One line per judged set and language: the total, then every group in its order.

    The first columns are the model, the language (`all` for several together) and the judges. Then come HuSimpleQA's
    columns.
    """
    lines = [(judged, section) for judged, sections in scored for section in sections]
    groups = in_order(name for _, section in lines for name in section.groups)
    figures = (f"{name or NAMELESS} {column}" for name in ("total", *groups) for column in _COLUMNS)
    rows = [["model", "language", "judge", *figures]]
    for judged, section in lines:
        tallies = [section.total, *(section.groups.get(name, Tally()) for name in groups)]
        cells = (cell for tally in tallies for cell in _cells(tally))
        rows.append([judged.model, section.name, " + ".join(judged.judges), *cells])
    return csv_text(rows)


def _cells(tally: Tally) -> list[str]:
    shares = [share(part, tally.count) for part in (tally.correct, tally.incorrect, tally.not_attempted)]
    figures = [*shares, tally.correct_given_attempted, tally.f_score]
    return [*(f"{figure:.4f}" for figure in figures), f"{float(tally.count)}"]
