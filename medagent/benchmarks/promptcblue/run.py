"""`medagent run promptcblue`, from the test file to the scores.

Lines are run through the engine into the journal; `test_predictions.json` is derived from it once every line has its
answer. Until then there is only `test_predictions.partial.json`, and nothing is parsed or scored: an unanswered line is
not a wrong answer.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable
from pathlib import Path

from medagent.benchmarks.promptcblue.config import PromptcblueConfig
from medagent.benchmarks.promptcblue.data import DataFile, check_gold, line_unit, read_data
from medagent.benchmarks.promptcblue.predict import LineRow, PredictionJob
from medagent.engine.engine import Summary, carry_out, run_units
from medagent.engine.files import write_whole
from medagent.engine.folder import RunFolder
from medagent.engine.journal import Journal
from medagent.engine.local import LocalExecutor
from medagent.engine.progress import Progress
from medagent.models.wording import strip_thinking
from refsol.promptcblue import Problem, parse_file, score_files

DONE, OWED = 0, 2
PREDICTIONS = "test_predictions.json"
PARTIAL = "test_predictions.partial.json"
RESULTS = "results.json"
SCORES = "scores.json"
_NAMED_FAILURES = 10


def run_promptcblue(config: PromptcblueConfig, *, quiet: bool = False) -> int:
    """Run it; returns the exit code: 0 done, 2 some lines are owed.

    Raises UserError, ProblemsError (all that is wrong with the test file or the gold, before the first call),
    StopRunError and KeyboardInterrupt; what was answered by then is on disk.
    """
    data = read_data(config.data)
    _warn(data.warnings)
    if config.gold is not None:
        check_gold(data, config.gold)
    settings = config.settings(data.digest)
    with RunFolder(
        config.folder, "medagent run promptcblue", settings, places=config.places(), overwrite=config.overwrite
    ) as folder:
        journal = Journal(folder.journal_path, LineRow)
        try:
            complete = _predict(config, data, journal, folder.command, quiet=quiet)
        finally:
            journal.close()
        if complete and config.gold is not None:
            _score(folder.path, data, config.gold)
    return DONE if complete else OWED


def _predict(
    config: PromptcblueConfig, data: DataFile, journal: Journal[LineRow], command: str, *, quiet: bool
) -> bool:
    """Answer the lines that are owed and write the predictions; whether all are answered."""
    folder, units = config.folder, data.units()
    if all(journal.status(unit.key) == "completed" for unit in units):
        if (folder / PREDICTIONS).exists():
            _say(f"{folder} is finished and stays as it is. Another run: another --round. Start anew: --overwrite.")
            return True
    else:
        for name in (PREDICTIONS, PARTIAL, RESULTS, SCORES):
            (folder / name).unlink(missing_ok=True)
        job = PredictionJob(config.model, config.concurrency)
        progress = Progress(quiet=quiet, group=lambda row: row.unit.partition("#")[0])
        executor = LocalExecutor(config.concurrency)
        summary = carry_out(run_units(job, units, journal, executor, progress, config.limits), command)
        if summary.owed:
            _write_predictions(folder / PARTIAL, config, data, journal)
            _say_owed(summary, folder, journal)
            _say(f"Continue: {command}")
            return False
    _write_predictions(folder / PREDICTIONS, config, data, journal)
    _say(f"wrote {folder / PREDICTIONS}")
    return True


def _write_predictions(path: Path, config: PromptcblueConfig, data: DataFile, journal: Journal[LineRow]) -> None:
    """The answered lines in the order of the test file, `target` filled."""
    answers = {row.unit: row.answer or "" for row in journal.rows() if row.status == "completed"}
    written = []
    for line in data.lines:
        answer = answers.get(line_unit(line).key)
        if answer is not None:
            target = strip_thinking(answer) if config.strip_thinking else answer
            written.append(json.dumps({**line.value, "target": target}, ensure_ascii=False) + "\n")
    write_whole(path, "".join(written))


def _say_owed(summary: Summary, folder: Path, journal: Journal[LineRow]) -> None:
    if summary.stopped:
        _say(summary.stopped)
    owed = set(summary.owed)
    failed = [row for row in journal.rows() if row.unit in owed]
    for row in failed[:_NAMED_FAILURES]:
        _say(f"{row.unit}: {row.error or row.status}")
    if len(failed) > _NAMED_FAILURES:
        _say(f"and {len(failed) - _NAMED_FAILURES} more, see {journal.path}")
    _say(
        f"{len(owed)} of {summary.total} lines are owed, so nothing is parsed or scored; the others: {folder / PARTIAL}"
    )


def _score(folder: Path, data: DataFile, gold: Path) -> None:
    """Parse the predictions, print the table, and keep the official score file where all 16 tasks are there."""
    _warn(parse_file(folder / PREDICTIONS, folder / RESULTS))
    scores = score_files(folder / RESULTS, gold, data.tasks)
    _warn(scores.warnings)
    if scores.official:
        write_whole(folder / SCORES, json.dumps(scores.to_json(), ensure_ascii=False, indent=2) + "\n")
    print(scores.table())


def _warn(problems: Iterable[Problem]) -> None:
    for problem in problems:
        _say(str(problem))


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)
