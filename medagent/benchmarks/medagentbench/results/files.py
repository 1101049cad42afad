"""A run's results files: in exactly the published format, one per trial, and in the format of the official runner.

The format of the official runner is `runs.jsonl` with one line per episode and its whole conversation, `error.jsonl`
with the episodes that failed for a reason that is not the agent's, and `overall.json` with the success rate. Tasks are
numbered by their position in the task file. The run's `run.json` is copied, because `medagent grade` reads the task set
from it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.clinical.tasks import Task
from medagent.core.clock import wall_clock
from medagent.core.errors import UserError
from medagent.core.writing import inside, write_changed, write_whole
from medagent.engine.folder import Run
from medagent.engine.scores import Scored
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.medagentbench.constants import PUBLISHED
from refsol.medagentbench.recorded import NOT_THE_AGENT, OFFICIAL_STATUSES

_NAMES = {ours: official for official, ours in reversed(OFFICIAL_STATUSES.items())}
_STATUSES = {**_NAMES, "cut": _NAMES["invalid_action"], "empty": _NAMES["invalid_action"]}
"""The official runner's names for the statuses of episodes. All others are `unknown`."""
_ALL = ("running", *dict.fromkeys(_STATUSES.values()), "unknown")


def results_path(folder: Path, trial: int) -> Path:
    """`results.json` for the first trial, `results.2.json` for the second."""
    return folder / ("results.json" if trial == 1 else f"results.{trial}.json")


def results_file(path: Path) -> Path:
    """The results file of a folder (a run's or another tool's), or the file itself. Raises UserError if missing."""
    file = path
    if path.is_dir():
        named = (results_path(path, 1), path / "agent_results.json", path / "overall.json", path / "runs.jsonl")
        file = next((named_file for named_file in named if inside(named_file).is_file()), named[0])
    if not file.is_file():
        raise UserError(f"{file}: no such file; name a finished run's folder or a results file")
    return file


def write_trials(run: Run, dataset: TaskSet, scores: Sequence[Scored]) -> list[tuple[int, Path]]:
    """Write one results file per trial into the run's folder. Returns each trial with its file.

    Only one trial's rows are in memory at a time. Raises UserError if a file cannot be written.
    """
    units: dict[int, list[str]] = {}
    for score in scores:
        units.setdefault(score.trial, []).append(score.unit)
    written = []
    for trial in sorted(units):
        if rows := list(run.rows(EpisodeRow, units=units[trial])):
            path = results_path(run.path, trial)
            write_results(path, dataset, str(run.settings.get("round")), rows)
            written.append((trial, path))
    return written


def write_grade(run: Run, results: Path, document: Mapping[str, Any]) -> Path:
    """Write the verdicts next to a results file (`grade.2.json` for `results.2.json`), with data, settings and versions
    of the run. Raises UserError.
    """
    measured = {name: run.document[name] for name in ("data", "settings", "versions")}
    path = results.with_name("grade" + results.name.removeprefix("results"))
    write_changed(path, json.dumps({**measured, **document}, indent=1) + "\n")
    return path


def write_results(path: Path, dataset: TaskSet, round_label: str, rows: Iterable[EpisodeRow]) -> None:
    """Write the results file of one trial's episodes, in task order, unless the file already contains this.

    Raises UserError if it cannot be written.
    """
    by_task = {row.task_id: row for row in rows}
    results = [result_item(by_task[task.id], task) for task in dataset.tasks if task.id in by_task]
    document = {
        "version": dataset.part,
        "round": round_label,
        "timestamp": wall_clock(),
        "total_tasks": len(results),
        "results": results,
    }
    if not _holds(path, document):
        write_whole(path, json.dumps(document, indent=2) + "\n")


def _holds(path: Path, document: dict[str, Any]) -> bool:
    """Whether a file contains this document, except for its timestamp."""
    try:
        stored = json.loads(path.read_bytes())
    except (OSError, ValueError, RecursionError):
        return False
    return isinstance(stored, dict) and {**stored, "timestamp": ""} == {**document, "timestamp": ""}


def result_item(row: EpisodeRow, task: Task) -> dict[str, Any]:
    """One entry of `results`. Its answer is missing if the episode failed for a reason that is not the agent's."""
    history = row.post_history
    return {
        "task_id": row.task_id,
        "answer": None if row.owed else row.answer,
        "expected_sol": task.fields.get("sol"),
        "eval_MRN": task.patient or None,
        "timestamp": row.timestamp,
        "post_history": [message._asdict() for message in history],
        "post_count": sum(
            message.role == "user" and PUBLISHED.acknowledgement in message.content for message in history
        ),
    }


def write_official(run: Run, scores: Sequence[Scored], out: Path) -> list[Path]:
    """Write the files of the official runner into `out`, or for several trials into `out/trial-1`, …. Returns the
    paths. Raises UserError.
    """
    dataset: TaskSet = scores[0].item.tasks
    trials: dict[int, list[EpisodeRow]] = {}
    for row in run.rows(EpisodeRow):
        trials.setdefault(row.trial, []).append(row)
    written = []
    for trial, rows in sorted(trials.items()):
        place = out / f"trial-{trial}" if len(trials) > 1 else out
        verdicts = {score.item.id: score.correct for score in scores if score.trial == trial}
        written += _export(place, dataset, rows, verdicts, (run.path / "run.json").read_text(encoding="utf-8"))
    return written


def _export(
    folder: Path, dataset: TaskSet, rows: Sequence[EpisodeRow], verdicts: Mapping[str, bool | None], settings: str
) -> list[Path]:
    places = {task.id: number for number, task in enumerate(dataset.tasks)}
    placed = sorted(((row, places[row.task_id]) for row in rows), key=lambda pair: pair[1])
    ended = [(row, place) for row, place in placed if row.status not in NOT_THE_AGENT]
    failed = [(row, place) for row, place in placed if row.status in NOT_THE_AGENT]
    right = {places[task_id]: correct for task_id, correct in verdicts.items() if task_id in places}
    outputs = [_output(row, place) for row, place in ended]
    files = {
        "runs.jsonl": [_line(row, place, output=_output(row, place)) for row, place in ended],
        "error.jsonl": [_line(row, place, error=row.status, info=row.error) for row, place in failed],
    }
    texts = {name: "".join(json.dumps(line) + "\n" for line in lines) for name, lines in files.items()}
    texts["overall.json"] = json.dumps(_overall(outputs, right), indent=4) + "\n" if outputs else ""
    texts["run.json"] = settings
    try:
        folder.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise UserError(f"{folder}: the folder cannot be created: {error.strerror}") from None
    if present := [name for name in texts if (folder / name).exists()]:
        raise UserError(f"{folder / present[0]}: already exists; name another folder")
    for name, text in texts.items():
        if text:
            write_whole(folder / name, text)
    return [folder / name for name, text in texts.items() if text]


def _output(row: EpisodeRow, place: int) -> dict[str, Any]:
    """An episode. If a message was changed before it was acted on, the changed text is written."""
    return {
        "index": place,
        "status": _STATUSES.get(row.status, "unknown"),
        "result": row.answer,
        "history": [message._asdict() for message in row.history],
    }


def _line(row: EpisodeRow, place: int, **fields: Any) -> dict[str, Any]:
    ended = datetime.fromisoformat(row.timestamp)
    time = {"timestamp": round(ended.timestamp() * 1000), "str": ended.strftime("%Y-%m-%d %H:%M:%S")}
    return {"index": place, "error": None, "info": None, "output": None, **fields, "time": time}


def _judged(output: dict[str, Any], right: Mapping[int, bool | None]) -> dict[str, Any]:
    """An output with the verdict in its status, as in the official summary."""
    verdict = "Correct" if right.get(output["index"]) else "Incorrect"
    return {**output, "status": output["status"] + verdict}


def _overall(outputs: Sequence[dict[str, Any]], right: Mapping[int, bool | None]) -> dict[str, Any]:
    """The official summary: the share of each status, and the success rate."""
    endings = Counter(output["status"] for output in outputs)
    lengths = [len(output["history"]) for output in outputs]
    judged = [output if output["result"] is None else _judged(output, right) for output in outputs]
    return {
        "total": len(outputs),
        "validation": {
            **{status: endings[status] / len(outputs) for status in _ALL},
            "average_history_length": sum(lengths) / len(lengths),
            "max_history_length": max(lengths),
            "min_history_length": min(lengths),
        },
        "custom": {
            "success rate": sum(output["status"].endswith("Correct") for output in judged) / len(judged),
            "raw_results": judged,
        },
    }
