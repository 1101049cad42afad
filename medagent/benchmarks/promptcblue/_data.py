"""Read and check the test file, also against the gold, before the first paid call."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from refsol.files import Encoding, read_text
from refsol.promptcblue import Problem, ProblemsError
from refsol.promptcblue.files import Source, check_pair, read_structured
from refsol.promptcblue.parse import MISSING_ID, Edition, is_fatal, parse_answer, read_lines
from refsol.promptcblue.public import edition_of_lines
from refsol.promptcblue.tasks import TaskSpec, specs_of


@dataclass(frozen=True, slots=True)
class DataLine:
    """A valid line of a test file: its number, its task and its JSON object."""

    number: int
    task: str
    value: dict[str, Any]

    @property
    def key(self) -> str:
        """`MedDG#17`. Sample ids may be missing or duplicate; line numbers are not."""
        return f"{self.task}#{self.number}"


@dataclass(frozen=True, slots=True)
class DataFile:
    """The lines to answer in the file's order, their tasks, a digest of the file, and warnings."""

    path: Path
    lines: Sequence[DataLine]
    tasks: tuple[TaskSpec, ...]
    digest: str
    warnings: Sequence[Problem]
    edition: Edition


def read_data(path: Path, encoding: Encoding = "utf-8", edition: Edition | None = None) -> DataFile:
    """Read a test file; its targets are ignored. The default edition is detected from the file's tasks.

    Raises UserError, InputError or ProblemsError (with all problems).
    """
    try:
        raw = path.read_bytes() if encoding == "utf-8" else read_text(path, encoding=encoding).encode()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    file = io.BytesIO(raw)
    edition = edition or edition_of_lines(file)
    problems: list[Problem] = []
    no_texts: list[Problem] = []
    lines: list[DataLine] = []
    for result in read_lines(file, answered=False, edition=edition):
        if isinstance(result, Problem):
            problems.append(result)
            continue
        lines.append(DataLine(result.number, result.value["task_dataset"], result.value))
        if not isinstance(result.value["input"], str):
            no_texts.append(Problem(result.place, "input is not a text"))
    problems = [problem._replace(place=f"{path}: {problem.place}") for problem in [*problems, *no_texts]]
    if any("probably GBK" in problem.text for problem in problems):
        raise UserError(f"{path}: not UTF-8, probably GBK; try --encoding gbk (or gb18030)")
    if is_fatal(problems):
        raise ProblemsError(problems)
    named = {line.task for line in lines}
    tasks = tuple(task for task in specs_of(edition) if task.name in named)
    return DataFile(path, lines, tasks, sha256(raw).hexdigest(), problems, edition)


def check_gold(data: DataFile, gold: Path) -> None:
    """Check that a gold file has the ids of the test file. Raises ProblemsError."""
    unanswered: dict[str, list[dict[str, Any]]] = {task: [] for task in data.edition.parsers}
    for line in data.lines:
        answer = parse_answer(line.task, "", [], data.edition)
        unanswered[line.task].append({"sample_id": line.value.get("sample_id", MISSING_ID), "answer": answer})
    check_pair(Source(str(data.path), unanswered), read_structured(gold, data.edition), data.tasks)
