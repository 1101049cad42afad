"""Finds contradictions in a pack: between its files, and between its settings and its rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from medagent.benchmarks.base import DEFAULT
from medagent.benchmarks.medagentbench.results.files import result_item, results_path
from medagent.benchmarks.medagentbench.settings import AGENTS
from medagent.benchmarks.medagentbench.submission._settings import PackSettings
from medagent.benchmarks.medagentbench.submission.pack import PackFile
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.plan import JOURNAL
from medagent.engine.report import Report
from medagent.engine.report_file import read_report
from medagent.engine.rows import RowHead
from medagent.fhir_episodes.episode import EpisodeRow

Rows = Mapping[str, EpisodeRow]
_REPORTED = (
    "data",
    "settings",
    "versions",
    "started",
    "ended",
    "slowest",
    "overall",
    "spent",
    "spending",
    "unpriced",
    "endings",
    "finish_reasons",
    "failed",
    "owed",
    "ungraded",
    "journals",
)
"""The fields of `report.json` that follow from `run.json` and the journal."""


def run_file_problems(run: Mapping[str, Any], about: PackFile, settings: PackSettings, tasks: Dataset) -> Iterator[str]:
    """Contradictions between `run.json`, `pack.json` and the data set."""
    if about.benchmark != DEFAULT:
        yield f"is a pack of {about.benchmark}; only packs of {DEFAULT} can be checked"
    stated = {"benchmark": about.benchmark, "data": about.data.model_dump(), "versions": about.versions}
    for name, value in stated.items():
        if run.get(name, {}) != value:
            yield f"pack.json: `{name}` differs from run.json"
    if run.get("data") != tasks.ref.model_dump():
        yield f"run.json: `data` is not {tasks.name} {tasks.version}"
    seed = tasks.manifest.seed_sha256 if tasks.manifest else None
    if settings.seed_digest != seed or about.seed_sha256 != seed:
        yield f"the seed's digest differs from that of {tasks.name} {tasks.version}"


def episode_problems(tasks: Dataset, rows: Rows, trials: object) -> Iterator[str]:
    """Episodes that are missing, unfinished or of an unknown task. A pack must have all tasks.

    `trials` is the number in `run.json`. The rows may have more trials, if a later command added them.
    """
    number = max([trials if isinstance(trials, int) else 1, *(row.trial for row in rows.values())])
    units = {f"{task.id}#{trial}" for task in tasks.tasks for trial in range(1, number + 1)}
    for unit in sorted(units - set(rows)):
        yield f"{unit}: its episode is missing"
    for unit, row in rows.items():
        if unit not in units:
            yield f"{unit}: the data set has no such task"
        elif row.owed:
            yield f"{unit}: is not finished ({row.status})"


def repeated(folder: Path) -> tuple[list[str], dict[str, int]]:
    """Problems of units with several rows, and how often an episode with each status was repeated.

    A completed episode with another row is a problem, because no run repeats it.
    """
    last: dict[str, str] = {}
    attempts: dict[str, int] = {}
    problems = []
    for line in (folder / JOURNAL).read_bytes().splitlines():
        if not line.strip():
            continue
        head = RowHead.model_validate_json(line)
        before = last.get(head.unit)
        if before == "completed":
            problems.append(f"{head.unit}: has another row after its completed one")
        elif before is not None:
            attempts[before] = attempts.get(before, 0) + 1
        last[head.unit] = head.status
    return problems, attempts


def settings_problems(settings: PackSettings, rows: Rows) -> Iterator[str]:
    """Settings that contradict the rows: a run of a model has model calls, a run of a bundled agent has none."""
    if settings.model is not None and settings.agent in AGENTS and settings.agent != "text":
        yield f"run.json: names the model {settings.model!a}, which the agent {settings.agent} does not use"
    for unit, row in rows.items():
        calls = row.spent.calls
        if settings.model is None and settings.agent in AGENTS and calls:
            yield f"{unit}: has {calls} model calls, but the run's agent {settings.agent} makes none"
        elif settings.model is not None and settings.agent is None:
            needed = row.rounds if settings.protocol != "tools" else min(row.rounds, 1)
            if calls < needed:
                yield f"{unit}: has {row.rounds} messages of {settings.model!a}, but {calls} model calls"


def results_problems(folder: Path, tasks: Dataset, rows: Rows, label: object) -> Iterator[str]:
    """Differences between the results files and the journal."""
    by_id = {task.id: task for task in tasks.tasks}
    trials: dict[int, dict[str, Any]] = {}
    for row in rows.values():
        if row.task_id in by_id:
            trials.setdefault(row.trial, {})[row.task_id] = result_item(row, by_id[row.task_id])
    held = sum(path.name.startswith("results") for path in folder.iterdir())
    if held != len(trials):
        yield f"there are {held} results files for {len(trials)} trials"
    for trial, items in trials.items():
        path = results_path(folder, trial)
        try:
            document = json.loads(path.read_bytes())
            listed = document["results"]
            stored = {item["task_id"]: item for item in listed}
            head = (document["version"], document["round"], document["total_tasks"])
        except (OSError, ValueError, LookupError, TypeError, RecursionError):
            yield f"{path.name}: cannot be read"
            continue
        if head != (tasks.version, str(label), len(items)):
            yield f"{path.name}: version, round or total_tasks differ from the run"
        if len(listed) != len(items) or set(stored) != set(items):
            yield f"{path.name}: its episodes are not those of the journal"
        for task_id in sorted(set(stored) & set(items)):
            if stored[task_id] != items[task_id]:
                yield f"{path.name}: {task_id} differs from the journal"


def report_problems(folder: Path, composed: Report) -> Iterator[str]:
    """Differences between `report.json` and a report that is recomputed from the other files."""
    stored = read_report(folder)
    if stored is None:
        yield "report.json: is missing"
        return
    for name in _REPORTED:
        if getattr(stored.report, name) != getattr(composed, name):
            yield f"report.json: `{name}` differs from the value computed from run.json and the journal"
