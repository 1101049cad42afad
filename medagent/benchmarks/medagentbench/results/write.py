"""The results file, in the published form and with nothing else in it, derived from the journal."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.session import Turn
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.core.clock import wall_clock
from medagent.engine.files import write_whole
from medagent.engine.journals import Run
from refsol.history import HistoryMessage
from refsol.medagentbench.constants import PUBLISHED
from refsol.medagentbench.episodes import Created, RecordedEpisode


def write_trials(
    run: Run, folder: Path, dataset: Dataset, round_label: str
) -> Iterator[tuple[int, Path, list[EpisodeRow]]]:
    """Write one results file a trial of a run into a folder; gives each trial, its file, and its rows.

    One trial's rows are in memory at a time, and each is read once. Raises UserError where a file cannot be written.
    """
    units: dict[int, list[str]] = {}
    for unit in run.units():
        units.setdefault(int(unit.rpartition("#")[2]), []).append(unit)
    for trial in sorted(units):
        rows = list(run.rows(EpisodeRow, units=units[trial]))
        path = results_path(folder, trial)
        write_results(path, dataset, round_label, rows)
        yield trial, path, rows


def write_results(path: Path, dataset: Dataset, round_label: str, rows: Iterable[EpisodeRow]) -> None:
    """Write the results file of one trial's episodes, in task order; one that says it all already stays as it is.

    Raises UserError where it cannot be written.
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


def recorded(row: EpisodeRow) -> RecordedEpisode:
    """What grading reads of a row."""
    said = tuple(HistoryMessage(turn.role, _acted(turn)) for turn in row.transcript)
    created = tuple(Created(write.url, write.resource) for write in row.created)
    return RecordedEpisode(row.task_id, row.trial, row.status, created, said)


def _acted(turn: Turn) -> str:
    return turn.content if turn.dispatched is None else turn.dispatched


def post_history(transcript: Sequence[Turn]) -> list[dict[str, str]]:
    """Every agent message that contains `POST` and the message that followed it, as a grader reads them."""
    history = []
    for number, turn in enumerate(transcript):
        acted = _acted(turn)
        if turn.role == "agent" and "POST" in acted:
            history.append({"role": "agent", "content": acted})
            history += [{"role": next_.role, "content": next_.content} for next_ in transcript[number + 1 : number + 2]]
    return history
