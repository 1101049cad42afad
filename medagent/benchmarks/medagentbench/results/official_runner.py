"""Writes a run of MedAgentBench in the form of the official runner: `runs.jsonl`, `error.jsonl` and `overall.json`.

`runs.jsonl` has one line per episode with its whole conversation. `error.jsonl` has the episodes that failed for a
reason that is not the agent's. `overall.json` has the success rate. Tasks are numbered by their position in the task
file. The run's `run.json` is copied, because `medagent grade` reads the task set from it.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.core.errors import UserError
from medagent.engine.files import write_whole
from medagent.engine.journals import Run
from medagent.engine.scores import Scored
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.medagentbench.episodes import NOT_THE_AGENT
from refsol.medagentbench.recorded import OFFICIAL_STATUSES

_NAMES = {ours: official for official, ours in reversed(OFFICIAL_STATUSES.items())}
_STATUSES = {**_NAMES, "cut": _NAMES["invalid_action"], "empty": _NAMES["invalid_action"]}
"""The official runner's names for the statuses of episodes. All others are `unknown`."""
_ALL = ("running", *dict.fromkeys(_STATUSES.values()), "unknown")


def write_official(run: Run, scores: Sequence[Scored], out: Path) -> list[Path]:
    """Write the files into `out`, or for several trials into `out/trial-1`, …. Returns the paths. Raises UserError."""
    dataset: Dataset = scores[0].item.dataset
    trials: dict[int, list[EpisodeRow]] = {}
    for row in run.rows(EpisodeRow):
        trials.setdefault(row.trial, []).append(row)
    written = []
    for trial, rows in sorted(trials.items()):
        place = out / f"trial-{trial}" if len(trials) > 1 else out
        verdicts = {one.item.id: one.correct for one in scores if one.trial == trial}
        written += _export(place, dataset, rows, verdicts, (run.path / "run.json").read_text(encoding="utf-8"))
    return written


def _export(
    folder: Path, dataset: Dataset, rows: Sequence[EpisodeRow], verdicts: Mapping[str, bool | None], settings: str
) -> list[Path]:
    places = {task.id: number for number, task in enumerate(dataset.tasks)}
    placed = sorted(((row, places[row.task_id]) for row in rows), key=lambda one: one[1])
    ended = [one for one in placed if one[0].status not in NOT_THE_AGENT]
    failed = [one for one in placed if one[0].status in NOT_THE_AGENT]
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
        if present := [name for name in texts if (folder / name).exists()]:
            raise UserError(f"{folder / present[0]}: already exists; name another folder")
    except OSError as error:
        raise UserError(f"{folder}: the folder cannot be created: {error.strerror}") from None
    for name, text in texts.items():
        if text:
            write_whole(folder / name, text)
    return [folder / name for name, text in texts.items() if text]


def _output(row: EpisodeRow, place: int) -> dict[str, Any]:
    """An episode. If a message was changed before it was acted on, the changed text is written."""
    history = [(turn.role, turn.content if turn.dispatched is None else turn.dispatched) for turn in row.transcript]
    return {
        "index": place,
        "status": _STATUSES.get(row.status, "unknown"),
        "result": row.answer,
        "history": [{"role": role, "content": content} for role, content in history],
    }


def _line(row: EpisodeRow, place: int, **fields: Any) -> dict[str, Any]:
    ended = datetime.fromisoformat(row.timestamp)
    time = {"timestamp": round(ended.timestamp() * 1000), "str": ended.strftime("%Y-%m-%d %H:%M:%S")}
    return {"index": place, "error": None, "info": None, "output": None, **fields, "time": time}


def _overall(outputs: Sequence[dict[str, Any]], right: Mapping[int, bool | None]) -> dict[str, Any]:
    """The official summary: the share of each status, and the success rate."""
    endings = Counter(one["status"] for one in outputs)
    lengths = [len(one["history"]) for one in outputs]
    judged = [
        {**one, "status": one["status"] + ("Correct" if right.get(one["index"]) else "Incorrect")}
        if one["result"] is not None
        else one
        for one in outputs
    ]
    return {
        "total": len(outputs),
        "validation": {
            **{status: endings[status] / len(outputs) for status in _ALL},
            "average_history_length": sum(lengths) / len(lengths),
            "max_history_length": max(lengths),
            "min_history_length": min(lengths),
        },
        "custom": {
            "success rate": sum(one["status"].endswith("Correct") for one in judged) / len(judged),
            "raw_results": judged,
        },
    }
