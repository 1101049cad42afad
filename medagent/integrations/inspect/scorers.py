"""The project's scores as Inspect's scorers. They read the row in a sample's store, and call no model except judges.

So a log of `inspect eval` and one of `medagent export inspect` are scored by the same code, and `inspect score` can
score them again without a model. The headline metric is the benchmark's own overall figure.
"""

from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

from inspect_ai.event import SampleLimitEvent, ToolEvent
from inspect_ai.log import transcript
from inspect_ai.scorer import (
    CORRECT,
    INCORRECT,
    Metric,
    SampleScore,
    Scorer,
    Target,
    grouped,
    mean,
    metric,
    scorer,
    stderr,
)
from inspect_ai.scorer import Score as InspectScore
from inspect_ai.solver import TaskState
from pydantic import TypeAdapter

from medagent.engine.rows import OWED
from medagent.engine.scores import GROUNDED, Score, Scored
from medagent.fhir_episodes.session import clean
from medagent.integrations.inspect._records import UNFINISHED, unfinished_record
from medagent.integrations.inspect.source import STORED, Source, source_of

NOT_GRADED = OWED | {"refused", UNFINISHED}
"""Statuses of rows without an answer."""
HEADLINE = "overall"
_SCORE = TypeAdapter(Score)


@metric
def overall() -> Metric:
    """The benchmark's own overall figure (0 to 1 for rates), computed by the code that prints a run's table."""

    def compute(scores: list[SampleScore]) -> float:
        units: list[Scored] = []
        source: Source | None = None
        for sample_score in scores:
            entry = (sample_score.score.metadata or {}).get(STORED)
            if entry is None:
                continue
            source = source_of(entry["benchmark"], entry["options"])
            item = source.item(str(sample_score.sample_id))
            score = _SCORE.validate_python(entry["score"])
            if is_unreadable(score):
                score = replace(score, value=0.0)
            units.append(Scored(item, 1, item.id, entry["status"], score))
        if source is None:
            return math.nan
        metrics = source.grader.metrics(units)
        value = metrics.overall.value if metrics.overall is not None else None
        return math.nan if value is None else value

    return compute


@metric
def grounded() -> Metric:
    """The share of the samples that need a reading for which the agent is right and had read the deciding data."""

    def compute(scores: list[SampleScore]) -> float:
        flags = [(score.score.metadata or {}).get(STORED, {}).get("score", {}).get("grounded") for score in scores]
        known = [flag for flag in flags if flag is not None]
        return sum(known) / len(known) if known else math.nan

    return compute


@scorer(metrics=[overall(), grounded(), stderr(cluster="cluster"), grouped(mean(), "group", all=False)])
def medagent_score() -> Scorer:
    """The score of an item: right or wrong, or a number."""
    return _scored


def metric_definitions() -> list[dict[str, Any]]:
    """The metrics of the scorer, as a log's header names them."""
    nested = {"type": "metric", "name": "mean", "params": {}}
    return [
        {"name": f"medagent/{HEADLINE}", "options": {}},
        {"name": f"medagent/{GROUNDED}", "options": {}},
        {"name": "inspect_ai/stderr", "options": {"cluster": "cluster"}},
        {"name": "inspect_ai/grouped", "options": {"metric": nested, "group_key": "group", "all": False}},
    ]


async def _scored(state: TaskState, target: Target) -> InspectScore:
    """The score of a sample, from its store. If the solver left the episode open, the solver's own answer is graded. If
    there is no such answer, the sample is unscored, since it is unknown what the solver would have answered.
    """
    if (opened := unfinished_record(state)) is not None:
        answers = final_answer(state)
        if answers is not None:
            await opened.answer(answers)
        else:
            opened.row.error = _limit() or "the solver ended without finish, submit or a last line FINISH([…])"
            opened.keep()
    entry = state.store.get(STORED)
    if entry is None:
        why = _limit() or "the sample was not carried out by a medagent solver"
        return InspectScore.unscored(reason="no_row", explanation=why)
    source = source_of(entry["benchmark"], entry["options"])
    row = source.benchmark.row.model_validate(entry["row"])
    if row.status in NOT_GRADED:
        return InspectScore.unscored(reason=row.status, explanation=row.error or row.status)
    score = await source.score(str(state.sample_id), row, entry.get("judged"))
    return as_score(source.name, source.options, score, source.benchmark.answer(row), row.status)


def final_answer(state: TaskState) -> str | None:
    """The answers of a solver that did not call `finish`, as the text of a JSON list: the argument of `submit`, or of a
    FINISH at the end of its output. None if there is neither.
    """
    text = clean(state.output.completion)
    if text.endswith(")") and (start := text.rfind("FINISH(")) >= 0:
        return text[start + len("FINISH(") : -1]
    calls = [event for event in transcript().events if isinstance(event, ToolEvent) and event.function == "submit"]
    if not calls or calls[-1].error is not None:
        return None
    answer = str(calls[-1].arguments.get("answer", calls[-1].result))
    try:
        value = json.loads(answer)
    except ValueError:
        value = answer
    return json.dumps(value if isinstance(value, list) else [value], ensure_ascii=False)


def _limit() -> str:
    """A sentence with the Inspect limit that ended the sample; empty if none did."""
    events = [event for event in transcript().events if isinstance(event, SampleLimitEvent)]
    return f"Inspect's {events[-1].type} limit ended the sample: {events[-1].message}" if events else ""


def is_unreadable(score: Score) -> bool:
    """Whether there is no value because the agent's reply could not be read."""
    return score.value is None and score.graded and bool(score.kind)


def as_score(
    benchmark: str, options: dict[str, Any], score: Score | None, answer: str | None, status: str
) -> InspectScore:
    """A score in Inspect's form. Its metadata contains the whole score as JSON, from which the metrics are computed."""
    if score is None:
        return InspectScore.unscored(answer=answer, explanation="the judges left no verdict")
    entry = {"benchmark": benchmark, "options": options, "status": status, "score": _SCORE.dump_python(score)}
    shown = ("kind", "because", "checks", "grounded", "reading", "harmed")
    details = {name: value for name, value in entry["score"].items() if name in shown and value not in (None, "", ())}
    metadata = {"status": status, **details, STORED: entry}
    value: float | str
    if score.correct is not None:
        value = CORRECT if score.correct else INCORRECT
    elif score.value is not None:
        value = score.value
    elif is_unreadable(score):
        value = 0.0  # an unscored sample would be left out of every metric
    else:
        return InspectScore.unscored(answer=answer, explanation=score.reason, metadata=metadata)
    return InspectScore(value=value, answer=answer, explanation=score.reason, metadata=metadata)
