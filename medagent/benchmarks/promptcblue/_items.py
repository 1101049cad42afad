"""The lines of a test file as items."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from medagent.benchmarks.promptcblue._data import DataFile, DataLine, read_data
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.core.writing import file_digest
from medagent.engine.scores import Item
from refsol.promptcblue.files import ProblemsError, read_structured
from refsol.promptcblue.public import EDITIONS


@dataclass(frozen=True, kw_only=True)
class LineItem(Item):
    """A line with its source. `target` is the right answer if the line has one as text."""

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
    """The gold answers by line key; None if the source names none. Raises InputError."""
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
        for task, some in keys.items()
        for key, answer in zip(some, read.value.get(task, ()), strict=False)
    }
