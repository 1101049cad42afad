"""`scores.jsonl`: the score of each finished unit, so that nothing is graded twice.

It is a cache, no evidence: it may be deleted, and a line that cannot be read counts as absent. A line names the journal
row that it scores (its checksum) and the digests of what the score depends on; a score of another row, or with other
digests, is stale and never used.
"""

from __future__ import annotations

import contextlib
import json
import re
import weakref
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

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
_UNIT = re.compile(rb'\{"unit":("[^"\\]*"),"row":')
"""How a line begins; one that begins otherwise is parsed whole for its unit."""


class ScoreBook:
    """The scores of a run's folder.

    Of a stored score only its place in the file is in memory.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._lines: dict[str, ScoreLine | int] = {}
        """A new line, or where a stored one begins."""
        self._file: BinaryIO | None = None
        self._read()

    def get(self, unit: str, row: str, digests: Mapping[str, str]) -> Score | None:
        """The score of a unit's row; None if there is none, or a stale one."""
        line = self._line(unit)
        return line.score if line and line.row == row and line.digests == digests else None

    def put(self, unit: str, row: str, digests: Mapping[str, str], score: Score) -> None:
        """Take a score."""
        self._lines[unit] = ScoreLine(unit, row, dict(digests), score)

    def write(self) -> None:
        """Write the file, unless it holds these scores already. Raises UserError."""
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

    def _line(self, unit: str) -> ScoreLine | None:
        place = self._lines.get(unit)
        return next(iter(_lines(self._raw(place))), None) if isinstance(place, int) else place

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
