"""The test file: read and checked, also against the gold, before the first call is paid for."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from refsol.files import Encoding, read_text
from refsol.promptcblue import Problem, ProblemsError
from refsol.promptcblue.files import Source, check_pair, read_structured
from refsol.promptcblue.parse import MISSING_ID, Edition, Line, is_fatal, parse_answer, read_lines
from refsol.promptcblue.public import edition_of_lines
from refsol.promptcblue.tasks import TaskSpec, specs_of


@dataclass(frozen=True, slots=True)
class DataFile:
    """The lines to answer, the tasks they belong to, a digest of the file, and what was odd about it."""

    path: Path
    lines: Sequence[Line]
    tasks: tuple[TaskSpec, ...]
    digest: str
    warnings: Sequence[Problem]
    edition: Edition


def read_data(path: Path, encoding: Encoding = "utf-8") -> DataFile:
    """Read a test file; its targets are not looked at. Raises UserError or ProblemsError (all that is wrong)."""
    try:
        content = path.read_bytes()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    if encoding != "utf-8":
        content = read_text(path, encoding=encoding).encode()
    edition = edition_of_lines(content)
    found = list(read_lines(content, answered=False, edition=edition))
    lines = [one for one in found if isinstance(one, Line)]
    choices: dict[str, Any] = {}  # lines of a task mostly share theirs, which take more memory than their texts
    for line in lines:
        own = line.value["answer_choices"]
        line.value["answer_choices"] = choices.setdefault(repr(own), own)
    problems = [one for one in found if isinstance(one, Problem)]
    problems += [Problem(line.place, "input is no text") for line in lines if not isinstance(line.value["input"], str)]
    problems = [problem._replace(place=f"{path}: {problem.place}") for problem in problems]
    if any("probably GBK" in problem.text for problem in problems):
        raise UserError(f"{path}: not UTF-8 but probably GBK: --encoding gbk (or gb18030)")
    if is_fatal(problems):
        raise ProblemsError(problems)
    named = {line.value["task_dataset"] for line in lines}
    tasks = tuple(task for task in specs_of(edition) if task.name in named)
    return DataFile(path, lines, tasks, hashlib.sha256(content).hexdigest(), problems, edition)


def check_gold(data: DataFile, gold: Path) -> None:
    """Hold a gold file against the ids of the test file. Raises ProblemsError."""
    unanswered: dict[str, list[dict[str, Any]]] = {task: [] for task in data.edition.parsers}
    for line in data.lines:
        task, sample_id = line.value["task_dataset"], line.value.get("sample_id", MISSING_ID)
        unanswered[task].append({"sample_id": sample_id, "answer": parse_answer(task, "", [], data.edition)})
    check_pair(Source(str(data.path), unanswered), read_structured(gold, data.edition), data.tasks)
