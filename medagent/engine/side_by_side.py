"""One run under several rule sets: a table of their totals, and the items on which they differ."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Figures, Scored
from refsol.stats import wilson

_NAMED = 20


def beside(figures: Figures, rules: str, scores: Sequence[Scored], others: Mapping[str, Sequence[Scored]]) -> Figures:
    """The figures, extended with the totals of other rule sets."""
    lines = [_line(name, some) for name, some in {rules: scores, **others}.items()]
    section = TableSection(title="The same items under each rule set", lines=tuple(lines))
    notes = [note for name, some in others.items() for note in _notes(name, scores, some)]
    details = {
        "others": {name: _rate(some) for name, some in others.items()},
        "differing": {name: differing(scores, some) for name, some in others.items()},
    }
    return replace(
        figures,
        table=[*figures.table, section],
        notes=[*notes, *figures.notes],
        details={**figures.details, **details},
    )


def differing(scores: Sequence[Scored], others: Sequence[Scored]) -> list[str]:
    """The items on which two rule sets differ, without items that one of them could not grade."""
    verdicts = {one.unit: one.correct for one in others}
    return [one.item.id for one in scores if {one.correct, verdicts.get(one.unit)} == {True, False}]


def _notes(name: str, scores: Sequence[Scored], others: Sequence[Scored]) -> Iterator[str]:
    if names := differing(scores, others):
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        yield f"Graded differently by {name}: {', '.join(names[:_NAMED])}{more}"
    ungraded = [one.score.reason for one in others if one.score is not None and one.correct is None]
    if ungraded:
        yield f"Not graded by {name}: {len(ungraded)}, the first because: {ungraded[0]}"


def _rate(scores: Sequence[Scored]) -> dict[str, Any]:
    line = _line("", scores)
    right, ungraded = line.counts["right"], line.more["not graded"]
    return {
        "right": right,
        "wrong": line.n - right,
        "ungraded": ungraded,
        "rate": line.value,
        "rate_of_all": line.more["rate of all"],
        "interval_95": list(line.interval or ()),
    }


def _line(name: str, scores: Sequence[Scored]) -> TableLine:
    outcomes = [one.correct for one in scores]
    right, graded = outcomes.count(True), len(outcomes) - outcomes.count(None)
    bounds = wilson(right, graded)
    return TableLine(
        name=name,
        n=graded,
        value=right / graded if graded else None,
        interval=(bounds.low, bounds.high) if graded else None,
        counts={"right": right},
        more={"not graded": outcomes.count(None), "rate of all": right / len(outcomes) if outcomes else None},
    )
