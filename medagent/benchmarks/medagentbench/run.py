"""`medagent run`, from the configuration to the table.

Units are run through the engine into the journal; the results files are derived from the journal, the grades from the
results files. A run that was interrupted leaves only its journal.
"""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path

from medagent.benchmarks.medagentbench.config import RunConfig
from medagent.benchmarks.medagentbench.episode import EpisodeRow
from medagent.benchmarks.medagentbench.finish import finish
from medagent.benchmarks.medagentbench.plan import Plan, executor, make_plan
from medagent.benchmarks.medagentbench.results.paths import results_path
from medagent.benchmarks.medagentbench.results.write import result_item, write_results
from medagent.engine.engine import Summary, carry_out, run_units
from medagent.engine.folder import RunFolder
from medagent.engine.journal import Journal
from medagent.engine.progress import Progress
from medagent.engine.rows import OWED, Row
from refsol.medagentbench import grade_item

DONE, FAILED = 0, 2


def run_medagentbench(config: RunConfig, *, quiet: bool = False, as_json: bool = False) -> int:
    """Run it and print what came of it; returns the exit code: 0 done, 2 some episodes failed or were not reached.

    Raises UserError, StopRunError and KeyboardInterrupt; what was finished by then is on disk.
    """
    plan = make_plan(config, report=_say)
    path = config.folder(plan.dataset)
    with RunFolder(path, "medagent run", plan.settings, places=config.places(), overwrite=config.overwrite) as folder:
        journal = Journal(folder.journal_path, EpisodeRow)
        try:
            return _run(plan, folder, journal, quiet=quiet, as_json=as_json)
        finally:
            journal.close()


def _run(plan: Plan, folder: RunFolder, journal: Journal[EpisodeRow], *, quiet: bool, as_json: bool) -> int:
    path = folder.path
    if _finished(plan, path, journal):
        _say(f"{path} is finished and stays as it is. Another run: another --round. Start anew: --overwrite.")
    else:
        summary = _episodes(plan, journal, folder.command, quiet)
        if summary.stopped:
            _say(f"{summary.stopped}; {len(summary.owed)} of {summary.total} episodes are still owed.")
            _say(f"Continue with a higher limit, or none: {folder.command}")
        write_results(path, plan.dataset, plan.config.round, journal)
    graded = finish(plan, folder, journal, as_json=as_json)
    return DONE if graded and not _owed(plan, journal) else FAILED


def _owed(plan: Plan, journal: Journal[EpisodeRow]) -> bool:
    """Whether an episode has failed or was not reached."""
    statuses = [journal.status(unit.key) for unit in plan.units]
    return any(status is None or status in OWED for status in statuses)


def _finished(plan: Plan, path: Path, journal: Journal[EpisodeRow]) -> bool:
    """Whether nothing is owed and the results files hold every episode of the journal."""
    if _owed(plan, journal):
        return False
    files = [results_path(path, trial) for trial in range(1, plan.config.trials + 1)]
    return all(file.exists() and file.stat().st_mtime_ns >= journal.path.stat().st_mtime_ns for file in files)


def _episodes(plan: Plan, journal: Journal[EpisodeRow], command: str, quiet: bool) -> Summary:
    """Run what is owed, grading each episode as it ends for the eye of whoever watches."""
    right: dict[str, bool | None] = {}
    tasks = {task.id: task for task in plan.dataset.tasks}

    async def grade(row: EpisodeRow) -> None:
        if row.owed:
            return
        task = tasks[row.task_id]
        item = result_item(row, task)
        verdict = await asyncio.to_thread(
            grade_item, task.model_dump(), item["answer"], item["post_history"], plan.facts, base=plan.config.api_base
        )
        right[row.unit] = verdict.correct

    progress = Progress(quiet=quiet, group=_task_type, right=lambda row: right.pop(row.unit, None))
    limits = plan.config.limits
    running = run_units(plan.job, plan.units, journal, executor(plan.config), progress, limits, grade)
    summary = carry_out(running, command)
    for note in progress.notes:
        _say(note)
    return summary


def _task_type(row: Row) -> str:
    return row.unit.partition("_")[0]


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
