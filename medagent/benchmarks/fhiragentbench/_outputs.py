"""Converts rows of a run to rows of the published output file, and back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from medagent.benchmarks.fhiragentbench.settings import FhirAgentBenchSettings
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.reads import read_ids
from refsol.fhiragentbench import Output
from refsol.json_values import json_value

NOTHING = "No answer was found."
"""The text for an empty list of answers."""
_ENDINGS = {
    "round_limit": "No final answer reached within iteration limit.",
}
"""The answer of a row without one, by the status of its episode. Evaluators know these texts."""


class OutputRow(EpisodeRow):
    """The row of an output in a published output file."""

    output: Output


def output_of(row: EpisodeRow, source: FhirAgentBenchSettings) -> Output:
    """An agent's output for a question. The found ids are ids of resources that it read, not ids that it names.

    An episode that ended without an answer gets an `error`, unless it reached the limit of rounds.
    """
    if isinstance(row, OutputRow):
        return row.output
    ids = read_ids(row.reads or (), last=source.found_in_effect == "last")
    answer = row.answer if row.answer is None or source.strategy else in_words(row.answer)
    if answer is None:
        answer = _ENDINGS.get(row.status)
    error = None
    if row.status not in ("completed", *_ENDINGS):
        error = f"{row.status}: {row.error}" if row.error else row.status
    return Output(row.task_id, answer, ids, error, trace=_trace(row), usage=_usage(row))


def in_words(answer: str) -> str:
    """An answer as a clinician would read it. A JSON list becomes its value, or its values separated by commas."""
    values = json_value(answer)
    if not isinstance(values, list):
        return answer
    if len(values) == 1:
        return values[0] if isinstance(values[0], str) else json.dumps(values[0], ensure_ascii=False)
    return json.dumps(values, ensure_ascii=False)[1:-1] or NOTHING


def _trace(row: EpisodeRow) -> list[dict[str, Any]]:
    roles: Mapping[str, str] = {"agent": "assistant", "user": "user"}
    return [{"role": roles[turn.role], "content": turn.content} for turn in row.transcript]


def _usage(row: EpisodeRow) -> dict[str, Any]:
    spent = row.spent
    return {
        "prompt_tokens": spent.prompt,
        "completion_tokens": spent.completion,
        "total_tokens": spent.prompt + spent.completion,
        "cost": spent.cost or 0.0,
        "llm_calls": spent.calls,
    }
