"""The results of task types: by type and by what was right to do, compared with agents that read nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from medagent.core.number_formats import difference, difference_spread, percent
from medagent.engine.intervals import above
from medagent.engine.report import TableLine, TableSection
from medagent.engine.scores import Metrics, Scored, grounded_line, mean_by_group, mean_line
from medagent.fhir_episodes.verdicts import conduct_notes, kind_notes
from refsol.clinical.floor import BASELINES
from refsol.clinical.one_page import ONE_PAGE
from refsol.stats import Interval, wilson

BRANCHES = {"query": "queries", "order": "an order was due", "no order": "doing nothing was right"}
"""A text for each branch: what was right to do."""


BASELINE_WORDS: dict[str, str] = {str(name): f"baseline {name}" for name in BASELINES}
BASELINE_WORDS[ONE_PAGE] = "One page of each search"
"""The lines of the baselines."""


def clinical_metrics(scores: Sequence[Scored], names: Mapping[str, str]) -> Metrics:
    """The results of all trials. `names` are those of the types in words."""
    means = mean_by_group(scores)
    if means.overall is None or not scores:
        return replace(means, notes=["No episode has ended, so nothing is graded."])
    overall = means.overall
    types = by_type(scores, dict.fromkeys(score.item.group for score in scores))
    branches = {branch: mean_line(BRANCHES[branch], members) for branch, members in by_branch(scores).items()}
    queries = [branches.pop("query")] if "query" in branches else []
    baselines = dict(_baselines(scores))
    return replace(
        means,
        table=[
            TableSection(lines=tuple(mean_line(name, members) for name, members in types.items())),
            TableSection(lines=tuple(queries), detail=True),
            TableSection(lines=tuple(branches.values())),
            TableSection(lines=tuple(baselines.values()), detail=True),
            TableSection(lines=(overall, *grounded_line(overall)), detail=True),
        ],
        notes=list(conduct_notes(scores)),
        background=[*above_blind_notes(above_blind(scores), overall.value), *means.background, *kind_notes(scores)],
        count="of",
        group_names={name: names[name] for name in types if name in names},
        baselines={name: line.value for name, line in baselines.items()},
    )


def _baselines(scores: Sequence[Scored]) -> Iterator[tuple[str, TableLine]]:
    for name, verdicts in baseline_verdicts(scores).items():
        known = [verdict for verdict in verdicts if verdict is not None]
        right, n = sum(known), len(known)
        bounds = wilson(right, n)
        interval = (bounds.low, bounds.high) if n else None
        value = right / n if n else None
        yield name, TableLine(name=BASELINE_WORDS[name], n=n, value=value, interval=interval, counts={"right": right})


def by_type(scores: Sequence[Scored], types: Iterable[str]) -> dict[str, list[Scored]]:
    """The scores of each type that has any, in the order of the types."""
    groups = {kind: [score for score in scores if score.item.group == kind] for kind in types}
    return {kind: members for kind, members in groups.items() if members}


def by_branch(scores: Sequence[Scored]) -> dict[str, list[Scored]]:
    """The scores of each branch that has any: `query`, `order`, `no order`."""
    groups = {branch: [score for score in scores if part_of(score).get("branch") == branch] for branch in BRANCHES}
    return {branch: members for branch, members in groups.items() if members}


def baseline_verdicts(scores: Sequence[Scored]) -> dict[str, list[bool | None]]:
    """Whether agents that read nothing, or one page of each search, are right on each of these items."""
    parts = {score.item.id: part for score in scores if (part := part_of(score))}
    verdicts = {name: [part.get(name) for part in parts.values()] for name in BASELINE_WORDS}
    if not any(verdict is not None for verdict in verdicts[ONE_PAGE]):
        del verdicts[ONE_PAGE]  # the set does not contain it, or the run had other pages
    return verdicts


def above_blind(scores: Sequence[Scored]) -> tuple[float, Interval] | None:
    """The rate minus the blind baseline's rate on the same items (-1 to 1), with its 95% interval."""
    return above(scores, {score.item.id: part.get("blind") for score in scores if (part := part_of(score))})


def above_blind_notes(margin: tuple[float, Interval] | None, rate: float | None) -> Iterator[str]:
    """The rate compared with the blind baseline's, if both are known. `margin` is that of `above_blind`."""
    if margin is not None:
        step, ends = difference(margin[0]), difference_spread((margin[1].low, margin[1].high))
        yield f"Score: {percent(rate)}; compared with blind: {step} (95% {ends})"


def part_of(scored: Scored) -> Mapping[str, Any]:
    """What the grader said about a unit besides the verdict; nothing if the grader failed."""
    return (scored.score.part or {}) if scored.score else {}
