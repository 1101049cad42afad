"""The test file, read and checked before the first paid call, its lines as items, and the rows of their answers."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.base import Move
from medagent.agents.calls import CallRow
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.core.errors import UserError
from medagent.core.writing import file_digest
from medagent.engine.scores import Item
from refsol.files import Encoding, read_text
from refsol.promptcblue import Problem
from refsol.promptcblue.files import ProblemsError, StructuredFile, check_pair, read_structured
from refsol.promptcblue.parse import MISSING_ID, Edition, is_fatal, parse_answer, read_lines
from refsol.promptcblue.public import EDITIONS, edition_of_lines
from refsol.promptcblue.tasks import TaskSpec, specs_of


@dataclass(frozen=True, kw_only=True)
class LineItem(Item):
    """A line with its source. `target` is the right answer if the line contains one as text."""

    line: DataLine
    source: PromptcblueSettings


def line_items(whole: DataFile, source: PromptcblueSettings) -> Sequence[LineItem]:
    """The items of a test file."""
    return [
        LineItem(
            id=line.key,
            group=line.task,
            question=line.value["input"],
            target=target if isinstance(target := line.value.get("target"), str) else "",
            line=line,
            source=source,
        )
        for line in whole.lines
    ]


def data_of(source: PromptcblueSettings) -> DataFile:
    """The test file, read once unless it changes. Raises UserError or ProblemsError."""
    digest = file_digest(source.data) if source.data.is_file() else ""
    return _read(source.data, source.encoding, source.edition, digest)


@lru_cache(maxsize=2)
def _read(path: Path, encoding: Any, edition: str | None, digest: str) -> DataFile:
    return read_data(path, encoding, EDITIONS[edition] if edition else None)


def gold_of(source: PromptcblueSettings) -> Mapping[str, Any] | None:
    """The gold answers by line key; None without a gold file. Raises InputError."""
    gold = source.right_answers
    return None if gold is None else _gold(source, gold, file_digest(gold))


@lru_cache(maxsize=2)
def _gold(source: PromptcblueSettings, path: Path, digest: str) -> Mapping[str, Any]:
    whole = data_of(source)
    read = read_structured(path, whole.edition)
    if any(problem.fatal for problem in read.problems):
        raise ProblemsError(read.problems)
    keys: dict[str, list[str]] = {}
    for line in whole.lines:
        keys.setdefault(line.task, []).append(line.key)
    return {
        key: answer.get("answer")
        for task, entries in keys.items()
        for key, answer in zip(entries, read.value.get(task, ()), strict=False)
    }


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
    """Check that a gold file contains the ids of the test file. Raises ProblemsError."""
    unanswered: dict[str, list[dict[str, Any]]] = {task: [] for task in data.edition.parsers}
    for line in data.lines:
        answer = parse_answer(line.task, "", [], data.edition)
        unanswered[line.task].append({"sample_id": line.value.get("sample_id", MISSING_ID), "answer": answer})
    check_pair(StructuredFile(str(data.path), unanswered), read_structured(gold, data.edition), data.tasks)


class LineRow(CallRow):
    """A row of `episodes.jsonl`: the model's unchanged text, and what the endpoint returned separately."""

    too_long_is_final: ClassVar[bool] = False  # a missing answer is not a wrong answer

    answer: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None

    def take(self, move: Move) -> None:
        self.answer = move.text
        self.reasoning = move.reasoning
        self.finish_reason = move.finish_reason
