"""`medagent run promptcblue`, from the test file to the scores.

Lines are run through the engine into the journal; `test_predictions.json` is derived from it once every line has its
answer. Until then there is only `test_predictions.partial.json`, and nothing is parsed or scored: an unanswered line is
not a wrong answer.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sys
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

from medagent.errors import StopRunError, UserError
from medagent.promptcblue.config import PromptcblueConfig
from medagent.promptcblue.predict import LineRow, LineUnit, PredictionJob
from medagent.run.engine import Limits, Summary, run_units
from medagent.run.files import write_whole
from medagent.run.folder import RunFolder
from medagent.run.journal import Journal
from medagent.run.local import LocalExecutor
from medagent.run.progress import Progress
from medagent.session import strip_thinking
from refsol.promptcblue import TASKS, Problem, ProblemsError, parse_file, score_files
from refsol.promptcblue.files import Source, check_pair, read_structured
from refsol.promptcblue.parse import MISSING_ID, PARSERS, Line, is_fatal, parse_answer, read_lines
from refsol.promptcblue.tasks import Task

DONE, OWED = 0, 2
PREDICTIONS = "test_predictions.json"
PARTIAL = "test_predictions.partial.json"
RESULTS = "results.json"
SCORES = "scores.json"
_NAMED_FAILURES = 10


@dataclass(frozen=True, slots=True)
class DataFile:
    """The lines to answer, the tasks they belong to, and a digest of the file."""

    lines: Sequence[Line]
    tasks: tuple[Task, ...]
    digest: str

    def units(self) -> list[LineUnit]:
        """The lines as units."""
        return [_unit(line) for line in self.lines]


def run_promptcblue(config: PromptcblueConfig, *, quiet: bool = False) -> int:
    """Run it; returns the exit code: 0 done, 2 some lines are owed.

    Raises UserError, ProblemsError (all that is wrong with the test file or the gold, before the first call),
    StopRunError and KeyboardInterrupt; what was answered by then is on disk.
    """
    data = _read_data(config.data)
    if config.gold is not None:
        _check_gold(config.data, data, config.gold)
    settings = config.settings(data.digest)
    with RunFolder(
        config.folder, "medagent run promptcblue", settings, places=config.places(), overwrite=config.overwrite
    ) as folder:
        journal = Journal(folder.journal_path, LineRow)
        try:
            complete = _predict(config, data, journal, quiet=quiet)
        finally:
            journal.close()
        if complete and config.gold is not None:
            _score(folder.path, data, config.gold)
    return DONE if complete else OWED


def _read_data(path: Path) -> DataFile:
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    lines, found = read_lines(content, answered=False)
    found += [Problem(line.place, "input is no text") for line in lines if not isinstance(line.value["input"], str)]
    problems = [problem._replace(place=f"{path}: {problem.place}") for problem in found]
    if is_fatal(problems):
        raise ProblemsError(problems)
    if not lines:
        raise UserError(f"{path}: holds no line to answer")
    _warn(problems)
    named = {line.value["task_dataset"] for line in lines}
    return DataFile(lines, tuple(task for task in TASKS if task.name in named), hashlib.sha256(content).hexdigest())


def _check_gold(path: Path, data: DataFile, gold: Path) -> None:
    """Hold the gold against the ids of the test file, before anything is paid for."""
    unanswered: dict[str, list[dict[str, object]]] = {task: [] for task in PARSERS}
    for line in data.lines:
        task, sample_id = line.value["task_dataset"], line.value.get("sample_id", MISSING_ID)
        unanswered[task].append({"sample_id": sample_id, "answer": parse_answer(task, "", [])})
    check_pair(Source(str(path), unanswered), read_structured(gold), data.tasks)


def _unit(line: Line) -> LineUnit:
    return LineUnit(line.value["task_dataset"], line.number, line.value["input"])


def _predict(config: PromptcblueConfig, data: DataFile, journal: Journal[LineRow], *, quiet: bool) -> bool:
    """Answer the lines that are owed and write the predictions; whether all are answered."""
    folder, units = config.folder, data.units()
    if all(journal.status(unit.key) == "completed" for unit in units):
        if (folder / PREDICTIONS).exists():
            _say(f"{folder} is finished and stays as it is. Another run: another --round. Start anew: --overwrite.")
            return True
    else:
        for name in (PREDICTIONS, PARTIAL, RESULTS, SCORES):
            (folder / name).unlink(missing_ok=True)
        summary = _run(config, units, journal, quiet=quiet)
        if summary.owed:
            _write_predictions(folder / PARTIAL, config, data, journal)
            _say_owed(summary, folder, journal)
            return False
    _write_predictions(folder / PREDICTIONS, config, data, journal)
    _say(f"wrote {folder / PREDICTIONS}")
    return True


def _run(config: PromptcblueConfig, units: list[LineUnit], journal: Journal[LineRow], *, quiet: bool) -> Summary:
    job = PredictionJob(config.model, config.concurrency)
    progress = Progress(quiet=quiet, group=lambda row: row.unit.partition("#")[0])
    limits = Limits(config.max_cost, config.max_tokens_total)
    try:
        return asyncio.run(run_units(job, units, journal, LocalExecutor(config.concurrency), progress, limits))
    except StopRunError as error:
        raise StopRunError(f"{error} (the run stopped; what was answered is kept)") from None
    except KeyboardInterrupt:
        _say("Interrupted. Answered lines are kept; the same command continues.")
        raise


def _write_predictions(path: Path, config: PromptcblueConfig, data: DataFile, journal: Journal[LineRow]) -> None:
    """The answered lines in the order of the test file, `target` filled."""
    answers = {row.unit: row.answer or "" for row in journal.rows() if row.status == "completed"}
    written, broken = [], []
    for line in data.lines:
        answer = answers.get(_unit(line).key)
        if answer is None:
            continue
        target = strip_thinking(answer) if config.strip_thinking else answer
        whole = _whole(target)
        if whole != target:
            broken.append(Problem(f"{path}: {line.place}", "half of a surrogate pair became U+FFFD", fatal=False))
        written.append(json.dumps({**line.value, "target": whole}, ensure_ascii=False) + "\n")
    write_whole(path, "".join(written))
    _warn(broken)


def _whole(text: str) -> str:
    """The text with each half of a surrogate pair replaced: UTF-8 cannot hold one. The journal keeps the original."""
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


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
    _say("The same command continues.")


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
