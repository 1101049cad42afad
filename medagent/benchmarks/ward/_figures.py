"""The figures of own task types: by type and by what was right to do, beside agents that read nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medagent.core.figures import percent
from medagent.engine.intervals import above, shown
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Figures, Scored, grounded_line, mean_by_group, mean_line
from medagent.fhir_episodes.verdicts import conduct_notes
from refsol.clinical.floor import BASELINES
from refsol.stats import wilson

BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""A text for each branch: what was right to do."""


def figures(scores: Sequence[Scored]) -> Figures:
    """The figures of all trials."""
    means = mean_by_group(scores)
    if means.overall is None or not scores:
        return replace(means, notes=["No episode has ended, so nothing is graded."])
    overall = means.overall
    types = {one.item.group: [other for other in scores if other.item.group == one.item.group] for one in scores}
    branches = {
        words: [one for one in scores if _part(one).get("branch") == branch] for branch, words in BRANCHES.items()
    }
    sections = [
        [mean_line(type_words(some[0]), some) for some in types.values()],
        [mean_line(words, some) for words, some in branches.items() if some],
        list(_baselines(scores)),
        [overall, *grounded_line(overall)],
    ]
    table = [TableSection(lines=tuple(lines)) for lines in sections]
    return replace(
        means, table=table, notes=[*_above_blind(scores, overall), *means.notes, *conduct_notes(scores)], count="of"
    )


def type_words(one: Scored) -> str:
    """A type's id, and its name in words if that says more."""
    words, name = one.item.kind.words, one.item.group
    return name if words == name.replace("_", " ") else f"{name} {words}"


def _baselines(scores: Sequence[Scored]) -> Iterator[TableLine]:
    """The scores of agents that read nothing, on these items."""
    parts = {one.item.id: part for one in scores if (part := _part(one))}
    for name in BASELINES:
        known = [part[name] for part in parts.values() if part.get(name) is not None]
        right, n = sum(known), len(known)
        bounds = wilson(right, n)
        yield TableLine(
            name=f"baseline {name}",
            n=n,
            value=right / n if n else None,
            interval=(bounds.low, bounds.high) if n else None,
            counts={"right": right},
        )


def _above_blind(scores: Sequence[Scored], overall: TableLine) -> Iterator[str]:
    blind = {one.item.id: part.get("blind") for one in scores if (part := _part(one))}
    margin = above(scores, blind)
    if margin is not None:
        points = shown(margin[1], unit="")
        yield f"Score: {percent(overall.value)}; above blind: {100 * margin[0]:+.1f} points (95 % {points})"


def _part(one: Scored) -> Mapping[str, Any]:
    """What the grader said about a unit besides the verdict; nothing if the grader failed."""
    return (one.score.part or {}) if one.score else {}
