"""The results of own task types: by type and by what was right to do, compared with agents that read nothing."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain
from typing import Any

from medagent.core.figures import difference, difference_spread, percent
from medagent.engine.intervals import above
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Figures, Scored, grounded_line, mean_by_group, mean_line
from medagent.fhir_episodes.verdicts import conduct_notes, kind_notes
from refsol.clinical.floor import BASELINES
from refsol.stats import wilson

BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""A text for each branch: what was right to do."""


def figures(scores: Sequence[Scored]) -> Figures:
    """The results of all trials."""
    means = mean_by_group(scores)
    if means.overall is None or not scores:
        return replace(means, notes=["No episode has ended, so nothing is graded."])
    overall = means.overall
    types = {one.item.group: [other for other in scores if other.item.group == one.item.group] for one in scores}
    branches = {
        branch: [mean_line(words, some)]
        for branch, words in BRANCHES.items()
        if (some := [one for one in scores if _part(one).get("branch") == branch])
    }
    queries = branches.pop("query", [])
    baselines = list(_baselines(scores))
    return replace(
        means,
        table=[
            TableSection(lines=tuple(mean_line(name, some) for name, some in types.items())),
            TableSection(lines=tuple(queries), detail=True),
            TableSection(lines=tuple(chain.from_iterable(branches.values()))),
            TableSection(lines=tuple(baselines), detail=True),
            TableSection(lines=(overall, *grounded_line(overall)), detail=True),
        ],
        notes=list(conduct_notes(scores)),
        background=[*_above_blind(scores, overall), *means.background, *kind_notes(scores)],
        count="of",
        group_names={name: some[0].item.kind.words for name, some in types.items()},
        baselines={line.name.removeprefix("baseline "): line.value for line in baselines},
    )


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
        step, ends = difference(margin[0]), difference_spread((margin[1].low, margin[1].high))
        yield f"Score: {percent(overall.value)}; compared with blind: {step} (95% {ends})"


def _part(one: Scored) -> Mapping[str, Any]:
    """What the grader said about a unit besides the verdict; nothing if the grader failed."""
    return (one.score.part or {}) if one.score else {}
