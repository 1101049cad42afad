"""`scores.jsonl`: the score of each finished unit, so that no unit is graded twice.

The file is a cache: it may be deleted, and unreadable lines are ignored. A line has the checksum of its journal row and
the digests of the score's inputs. A score with another checksum or other digests is stale and not used.
"""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Iterator, Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, BinaryIO

from pydantic import TypeAdapter, ValidationError
from pydantic.dataclasses import dataclass as pydantic_dataclass

from medagent.engine.files import write_changed_parts
from medagent.engine.scores import Score

SCORES = "scores.jsonl"


@pydantic_dataclass(frozen=True, slots=True)
class ScoreLine:
    """A line of the file. `row` is the checksum of the unit's row in the journal."""

    unit: str
    row: str
    digests: dict[str, str]
    score: Score


_LINE = TypeAdapter(ScoreLine)
_MOST_SCORES = 2_000
"""The number of parsed scores in memory. Trials of an item often share one."""
_UNIT = re.compile(rb'\{"unit":("[^"\\]*"),"row":')
"""The start of a line. A line with another start is parsed to get its unit."""


class ScoreBook:
    """The scores of a run's folder. For a stored score, only its place in the file is in memory."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, ScoreLine | int] = {}
        """By unit: a new line, or the start of a stored one in the file."""
        self._file: BinaryIO | None = None
        self._score_of = lru_cache(_MOST_SCORES)(_score_of)
        self._read()

    def get(self, unit: str, row: str, digests: Mapping[str, str]) -> Score | None:
        """The score of a unit's row; None if there is none, or a stale one. Equal scores may be one object."""
        place = self._lines.get(unit)
        if isinstance(place, int):
            raw = self._raw(place)
            head = _head(unit, row, digests)
            if raw.startswith(head):
                return self._score_of(raw[len(head) :])
            line = next(iter(_lines(raw)), None)
        else:
            line = place
        return line.score if line and line.row == row and line.digests == digests else None

    def put(self, unit: str, row: str, digests: Mapping[str, str], score: Score) -> None:
        """Add a score."""
        self._lines[unit] = ScoreLine(unit, row, dict(digests), score)

    def write(self) -> None:
        """Write the file, unless it already has these scores. Raises UserError."""
        write_changed_parts(self._path, self._texts)

    def _read(self) -> None:
        with contextlib.suppress(OSError):
            self._file = self._path.open("rb")
            weakref.finalize(self, self._file.close)
            start = 0
            for raw in self._file:
                name = _UNIT.match(raw)
                units = [str(json.loads(name[1]))] if name else [line.unit for line in _lines(raw)]
                self._lines.update(dict.fromkeys(units, start))
                start += len(raw)

    def _raw(self, start: int) -> bytes:
        if self._file is None:
            return b""
        self._file.seek(start)
        return self._file.readline()

    def _texts(self) -> Iterator[str]:
        for place in self._lines.values():
            if not isinstance(place, int):
                yield _text(place)
            elif (raw := self._raw(place)).isascii():
                yield raw.decode("ascii")
            else:
                yield from map(_text, _lines(raw))


def _head(unit: str, row: str, digests: Mapping[str, str]) -> bytes:
    """The start of a line with a score of this row and these digests."""
    known = {"unit": unit, "row": row, "digests": dict(digests)}
    return f'{json.dumps(known, separators=(",", ":"))[:-1]},"score":'.encode()


def _score_of(rest: bytes) -> Score | None:
    """The score at the end of a line; None if it cannot be read."""
    return next((line.score for line in _lines(b'{"unit":"","row":"","digests":{},"score":' + rest)), None)


def _lines(raw: bytes) -> Iterator[ScoreLine]:
    with contextlib.suppress(ValidationError):
        yield _LINE.validate_json(raw)


def _text(line: ScoreLine) -> str:
    """A line in ASCII."""
    value: Any = _LINE.dump_python(line)
    return json.dumps(value, separators=(",", ":")) + "\n"
