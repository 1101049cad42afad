"""The project's own grading as Inspect's scorers: they read the row in a sample's store, and ask nobody but judges.

So a log of `inspect eval` and one of `medagent export inspect` are scored by the same code, and again by
`inspect score` without a model.
"""

from __future__ import annotations

import math
from collections import defaultdict
from typing import Any

from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Score,
    Scorer,
    Target,
    accuracy,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.solver import TaskState

from medagent.engine.rows import OWED
from medagent.integrations.inspect.adapters import STORED, Adapter, Grade, adapter
from refsol.promptcblue.parse import CCKS
from refsol.promptcblue.public import PUBLIC
from refsol.promptcblue.score import score
from refsol.promptcblue.tasks import specs_of

NOT_GRADED = OWED | {"refused"}
"""Statuses of rows that are no answer."""


@metric
def points() -> Metric:
    """PromptCBLUE's official figure: the mean of the tasks' main figures, each over all its lines (0 to 1).

    Of several epochs it is the first one's.
    """

    def compute(scores: list[SampleScore]) -> float:
        gold: dict[str, list[Any]] = defaultdict(list)
        parsed: dict[str, list[Any]] = defaultdict(list)
        for one in scores:
            said = one.score.metadata or {}
            if "parsed" in said:
                gold[said["task"]].append(said["gold"])
                parsed[said["task"]].append(said["parsed"])
        specs = {spec.name: spec for edition in (PUBLIC, CCKS) for spec in specs_of(edition)}
        if not gold:
            return math.nan
        return score(gold, parsed, tuple(specs[name] for name in gold)).overall

    return compute


@scorer(metrics=[accuracy(), stderr(cluster="cluster"), grouped(accuracy(), "group", all=False)])
def refsol() -> Scorer:
    """Right or wrong: MedAgentBench by its rules, SimpleQA by its judges."""
    return _graded


@scorer(metrics=[points(), grouped(mean(), "group", all=False)])
def refsol_points() -> Scorer:
    """PromptCBLUE: each line's figure, and the official one over all."""
    return _graded


@scorer(metrics=[mean(), stderr()])
def refsol_score() -> Scorer:
    """imapScore: the mean score."""
    return _graded


SCORERS = {
    "medagentbench": (refsol, "accuracy"),
    "simpleqa": (refsol, "accuracy"),
    "promptcblue": (refsol_points, "points"),
    "imapscore": (refsol_score, "mean"),
}
"""Each benchmark's scorer, and its headline metric."""


def metric_definitions(benchmark: str) -> list[dict[str, Any]]:
    """The metrics of a benchmark's scorer, as a log's header names them."""
    by_group = {"group_key": "group", "all": False}
    grouped_by = {"refsol": "accuracy", "refsol_points": "mean"}
    first: dict[str, list[tuple[str, dict[str, Any]]]] = {
        "refsol": [("inspect_ai/accuracy", {}), ("inspect_ai/stderr", {"cluster": "cluster"})],
        "refsol_points": [("medagent/points", {})],
        "refsol_score": [("inspect_ai/mean", {}), ("inspect_ai/stderr", {})],
    }
    name = SCORERS[benchmark][0].__name__
    found = list(first[name])
    if name in grouped_by:
        nested = {"type": "metric", "name": grouped_by[name], "params": {}}
        found.append(("inspect_ai/grouped", {"metric": nested, **by_group}))
    return [{"name": metric_name, "options": options} for metric_name, options in found]


async def _graded(state: TaskState, target: Target) -> Score:
    """The score of a sample, from what its store holds."""
    kept = state.store.get(STORED)
    if kept is None:
        return Score.unscored(reason="no_row", explanation="the sample was not carried out by a medagent solver")
    source = adapter(kept["benchmark"], kept["options"])
    row = source.row.model_validate(kept["row"])
    if row.status in NOT_GRADED:
        return Score.unscored(reason=row.status, explanation=row.error or row.status)
    return as_score(source, await source.grade(str(state.sample_id), row, kept.get("judged")))


def as_score(source: type[Adapter] | Adapter, grade: Grade) -> Score:
    """A grade as Inspect keeps it."""
    details = dict(grade.details)
    if grade.value is None:
        return Score.unscored(answer=grade.answer, explanation=grade.explanation, metadata=details)
    value = (CORRECT if grade.value == 1 else INCORRECT) if source.right_or_wrong else grade.value
    return Score(value=value, answer=grade.answer, explanation=grade.explanation, metadata=details)
