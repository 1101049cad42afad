"""The results file, in the published form and with nothing else in it, derived from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.session import Turn
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.clock import wall_clock
from medagent.engine.files import write_whole
from refsol.medagentbench.constants import PUBLISHED


def write_results(folder: Path, dataset: Dataset, round_label: str, rows: Iterable[EpisodeRow]) -> list[Path]:
    """Write one results file a trial, in task order, of every episode; a file that says it all already stays as it is.

    Raises UserError where a file cannot be written.
    """
    tasks = {task.id: task for task in dataset.tasks}
    trials: dict[int, dict[str, dict[str, Any]]] = {}
    for row in rows:
        trials.setdefault(row.trial, {})[row.task_id] = result_item(row, tasks[row.task_id])
    paths = []
    for trial, items in sorted(trials.items()):
        results = [items[task.id] for task in dataset.tasks if task.id in items]
        document = {
            "version": dataset.version,
            "round": round_label,
            "timestamp": wall_clock(),
            "total_tasks": len(results),
            "results": results,
        }
        path = results_path(folder, trial)
        if not _holds(path, document):
            write_whole(path, json.dumps(document, indent=2) + "\n")
        paths.append(path)
    return paths


def _holds(path: Path, document: dict[str, Any]) -> bool:
    """Whether a file holds a document, but for the time when it was written."""
    try:
        kept = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(kept, dict) and {**kept, "timestamp": ""} == {**document, "timestamp": ""}


def result_item(row: EpisodeRow, task: Task) -> dict[str, Any]:
    """One entry of `results`; what failed for a reason that is not the agent's has no answer."""
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


def post_history(transcript: Sequence[Turn]) -> list[dict[str, str]]:
    """Every agent message that contains `POST` and the message that followed it, as a grader reads them."""
    history = []
    for number, turn in enumerate(transcript):
        acted = turn.content if turn.dispatched is None else turn.dispatched
        if turn.role == "agent" and "POST" in acted:
            history.append({"role": "agent", "content": acted})
            history += [{"role": next_.role, "content": next_.content} for next_ in transcript[number + 1 : number + 2]]
    return history
