"""The verifier: scores an episode's log with the facts of its item, as `medagent run` scores."""

from __future__ import annotations

import dataclasses
import json
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.core.waiting import blocking
from medagent.core.writing import write_whole
from medagent.engine.scores import graded
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.http_episodes import outcome_of
from medagent.integrations.harbor._log import read_log


def verify(benchmark: FhirBenchmark[Any], tests: Path, log: Path, out: Path) -> str:
    """Score a log, write `reward.json` (the score's value) and `verdict.json` into `out`; return the verdict's line.

    An episode without answers is wrong. If the log or the facts cannot be read, that is not a wrong answer: raises
    UserError and writes no reward.
    """
    item, grader = benchmark.unpack(tests)
    episode = read_log(log)
    outcome = outcome_of(episode.exchanges, episode.answers, API_BASE.rstrip("/"))
    outcome.changes = episode.changes
    row = EpisodeRow(unit=f"{item.id}#1", status=outcome.status or "unfinished", task_id=item.id)
    row.take(outcome)
    score = blocking(graded(grader, item, row))
    if score.value is None:
        raise UserError(f"{tests}: cannot be graded: {score.reason}")
    reason = score.details.get("verdict", score.reason)
    verdict_json = {
        "task": item.id,
        "correct": score.correct,
        "value": score.value,
        "reason": reason,
        "answers": episode.answers,
        "checks": [dataclasses.asdict(check) for check in score.checks],
        "requests": len(episode.exchanges),
    }
    write_whole(out / "verdict.json", json.dumps(verdict_json, indent=1) + "\n")
    write_whole(out / "reward.json", json.dumps({"reward": score.value}) + "\n")
    verdict = "right" if score.correct else "wrong"
    if score.correct is None:
        verdict = f"{score.value:.4f}"
    return f"{item.id}: {verdict}: {reason}"
