"""The lines of a test file as items. A line's texts are read on access."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from functools import lru_cache
from pathlib import Path
from typing import Any

from medagent.benchmarks.promptcblue._data import DataFile, read_data
from medagent.benchmarks.promptcblue._lines import DataLine, DataLines
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.core.lazy import LazySequence
from medagent.engine.files import file_digest
from medagent.engine.scores import Item
from refsol.promptcblue.files import ProblemsError, read_structured
from refsol.promptcblue.public import EDITIONS


class LineItem(Item):
    """A line. The texts of a hundred thousand lines would take most of a run's memory, so they stay in the file."""

    source: PromptcblueSettings

    def __init__(self, key: str, task: str, lines: DataLines, source: PromptcblueSettings) -> None:
        for name, value in {"id": key, "group": task, "cluster": "", "source": source, "_lines": lines}.items():
            object.__setattr__(self, name, value)

    @property
    def line(self) -> DataLine:
        """The line. Raises UserError if the file has changed since the start."""
        line: DataLine | None = vars(self)["_lines"].find(self.id)
        assert line is not None
        return line

    @property
    def question(self) -> str:
        """The line's prompt."""
        return str(self.line.value["input"])

    @property
    def target(self) -> str:
        """The right answer, if the line has one as text."""
        target = self.line.value.get("target")
        return target if isinstance(target, str) else ""


def line_items(whole: DataFile, source: PromptcblueSettings) -> Sequence[LineItem]:
    """The items of a test file, each created on access."""
    keys = list(zip(whole.lines.line_keys(), whole.lines.tasks, strict=True))
    return LazySequence(len(keys), lambda place: LineItem(*keys[place], whole.lines, source))


def data_of(source: PromptcblueSettings) -> DataFile:
    """The test file, read once unless it changes. Raises UserError or ProblemsError."""
    digest = file_digest(source.data) if source.data.is_file() else ""
    return _read(source.data, source.encoding, source.edition, digest)


@lru_cache(maxsize=2)
def _read(path: Path, encoding: Any, edition: str | None, digest: str) -> DataFile:
    return read_data(path, encoding, EDITIONS[edition] if edition else None)


class GoldAnswers(Mapping[str, Any]):
    """The gold answers by line key, each as JSON text: objects would take ten times the memory.

    Raises ProblemsError for a file that cannot be used.
    """

    def __init__(self, whole: DataFile, path: Path) -> None:
        read = read_structured(path, whole.edition)
        if any(problem.fatal for problem in read.problems):
            raise ProblemsError(read.problems)
        structured = read.value
        self._texts: dict[str, str] = {}
        for task in dict.fromkeys(whole.lines.tasks):
            keys = [key for key, one in zip(whole.lines.line_keys(), whole.lines.tasks, strict=True) if one == task]
            for key, answer in zip(keys, structured.get(task, ()), strict=False):
                self._texts[key] = json.dumps(answer.get("answer"), ensure_ascii=False)

    def __getitem__(self, key: str) -> Any:
        return json.loads(self._texts[key])

    def __iter__(self) -> Iterator[str]:
        return iter(self._texts)

    def __len__(self) -> int:
        return len(self._texts)


def gold_of(source: PromptcblueSettings) -> GoldAnswers | None:
    """The gold answers; None if the source names none. Raises InputError."""
    gold = source.right_answers
    return None if gold is None else _gold(source, file_digest(gold))


@lru_cache(maxsize=2)
def _gold(source: PromptcblueSettings, digest: str) -> GoldAnswers:
    assert source.right_answers is not None
    return GoldAnswers(data_of(source), source.right_answers)
