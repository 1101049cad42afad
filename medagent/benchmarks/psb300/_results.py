"""`results.json`: for each episode what the rules read, and the verdict. The second trial is in `results.2.json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from medagent.benchmarks.psb300._charts import NOT_APPLIED
from medagent.core.writing import write_changed
from medagent.engine.folder import Run
from medagent.engine.scores import Scored
from medagent.fhir_episodes.episode import EpisodeRow


def write_results(run: Run, scores: Sequence[Scored]) -> list[str]:
    """Write one file per trial. Returns the file names. Raises UserError."""
    settings, data = run.document["settings"], run.document.get("data") or {}
    head = {
        "benchmark": "psb-300",
        "dataset": data.get("name"),
        "split": settings.get("split"),
        "digest": data.get("digest"),
        "rules": "official",
        "clock": settings.get("clock"),
        "unfinished": settings.get("unfinished"),
        "cut_off": "not applied" if NOT_APPLIED in (data.get("note") or "") else "applied",
    }
    names = []
    for trial in sorted({score.trial for score in scores}):
        done = {score.unit: score for score in scores if score.trial == trial and score.score is not None}
        results = [_result(row, done[row.unit]) for row in run.rows(EpisodeRow, units=list(done))]
        names.append("results.json" if trial == 1 else f"results.{trial}.json")
        document = {**head, "trial": trial, "results": results}
        write_changed(run.path / names[-1], json.dumps(document, indent=1) + "\n")
    return names


def _result(row: EpisodeRow, scored: Scored) -> dict[str, Any]:
    score = scored.score
    assert score is not None
    return {
        "task_id": row.task_id,
        "status": row.status,
        "result": row.answer,
        "history": [message._asdict() for message in row.post_history],
        "correct": score.correct,
        "branch": score.part["branch"],
        "kind": score.kind,
        "reason": score.reason,
        "because": score.because,
        **{name: score.part.get(name) for name in ("nop", "constant", "blind", "grounded")},
    }
