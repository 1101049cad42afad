"""`scores.jsonl`: the score of each finished unit, so that nothing is graded twice.

It is a cache, no evidence: it may be deleted, and a line that cannot be read counts as absent. A line names the journal
row that it scores (its checksum) and the digests of what the score depends on; a score of another row, or with other
digests, is stale and never used.
"""

from __future__ import annotations

import contextlib
import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.engine.files import write_changed_parts
from medagent.engine.scores import Score

SCORES = "scores.jsonl"


@pydantic_dataclass(frozen=True, slots=True)
class ScoreLine:
    """A line of the file; `row` is the checksum of the unit's row in the journal."""

    unit: str
    row: str
    digests: dict[str, str]
    score: Score


_LINE = TypeAdapter(ScoreLine)


class ScoreBook:
    """The scores of a run's folder. With `fresh` the stored ones are not read: everything is scored again."""

    def __init__(self, path: Path, *, fresh: bool = False) -> None:
        self._path = path
        self._lines: dict[str, ScoreLine] = {}
        if not fresh:
            self._read()

    def get(self, unit: str, row: str, digests: Mapping[str, str]) -> Score | None:
        """The score of a unit's row; None if there is none, or a stale one."""
        line = self._lines.get(unit)
        return line.score if line and line.row == row and line.digests == digests else None

    def put(self, unit: str, row: str, digests: Mapping[str, str], score: Score) -> None:
        """Take a score."""
        self._lines[unit] = ScoreLine(unit, row, dict(digests), score)

    def write(self) -> None:
        """Write the file, unless it holds these scores already. Raises UserError."""
        write_changed_parts(self._path, lambda: map(_text, self._lines.values()))

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._path.open("rb") as file:
            for raw in file:
                for line in _lines(raw):
                    self._lines[line.unit] = line


def _lines(raw: bytes) -> Iterator[ScoreLine]:
    try:
        yield _LINE.validate_json(raw)
    except ValidationError:
        with contextlib.suppress(ValueError, RecursionError):  # half of a surrogate pair is JSON for Python's reader
            yield _LINE.validate_python(json.loads(raw))


def _text(line: ScoreLine) -> str:
    """A line in ASCII, so that any text of a model can be written."""
    value: Any = _LINE.dump_python(line)
    return json.dumps(value, separators=(",", ":")) + "\n"
