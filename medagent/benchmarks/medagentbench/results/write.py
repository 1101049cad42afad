"""Writes results files in exactly the published form, from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.results.paths import grade_path, results_path
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.core.clock import wall_clock
from medagent.engine.files import write_changed, write_whole
from medagent.engine.folder import read_run
from medagent.engine.journals import Run
from medagent.engine.scores import Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.history import post_history
from refsol.medagentbench import ResultItem
from refsol.medagentbench.constants import PUBLISHED


def write_trials(run: Run, folder: Path, dataset: Dataset, scores: Sequence[Scored]) -> list[tuple[int, Path]]:
    """Write one results file per trial into a folder. Returns each trial with its file.

    Only one trial's rows are in memory at a time. Raises UserError if a file cannot be written.
    """
    units: dict[int, list[str]] = {}
    for one in scores:
        units.setdefault(one.trial, []).append(one.unit)
    written = []
    for trial in sorted(units):
        rows = list(run.rows(EpisodeRow, units=units[trial]))
        if rows:
            path = results_path(folder, trial)
            write_results(path, dataset, str(run.settings.get("round")), rows)
            written.append((trial, path))
    return written


def write_grade(results: Path, document: Mapping[str, Any]) -> Path:
    """Write the verdicts beside a results file, with data, settings and versions of `run.json`. Raises UserError."""
    run = read_run(results.parent)
    measured = {name: run.get(name, {}) for name in ("data", "settings", "versions")}
    path = grade_path(results)
    write_changed(path, json.dumps({**measured, **document}, indent=1) + "\n")
    return path


def write_results(path: Path, dataset: Dataset, round_label: str, rows: Iterable[EpisodeRow]) -> None:
    """Write the results file of one trial's episodes, in task order, unless it already has this content.

    Raises UserError if it cannot be written.
    """
    by_task = {row.task_id: row for row in rows}
    results = [result_item(by_task[task.id], task) for task in dataset.tasks if task.id in by_task]
    document = {
        "version": dataset.version,
        "round": round_label,
        "timestamp": wall_clock(),
        "total_tasks": len(results),
        "results": results,
    }
    if not _holds(path, document):
        write_whole(path, json.dumps(document, indent=2) + "\n")


def _holds(path: Path, document: dict[str, Any]) -> bool:
    """Whether a file has this document, except for its timestamp."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {**stored, "timestamp": ""} == {**document, "timestamp": ""}


def result_item(row: EpisodeRow, task: Task) -> dict[str, Any]:
    """One entry of `results`. It has no answer if the episode failed for a reason that is not the agent's."""
    history = post_history(row.transcript)
    return {
        "task_id": row.task_id,
        "answer": None if row.owed else row.answer,
        "expected_sol": task.sol,
        "eval_MRN": task.eval_MRN,
        "timestamp": row.timestamp,
        "post_history": history,
        "post_count": sum(turn["role"] == "user" and PUBLISHED.acknowledgement in turn["content"] for turn in history),
    }


def result_of(row: EpisodeRow, task: Task) -> ResultItem:
    """A row as an entry of `results`."""
    return ResultItem.model_validate(result_item(row, task))
