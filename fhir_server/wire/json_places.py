"""The ends of the values in a JSON text: line and column after each value, as in messages of HL7's validator."""

from __future__ import annotations

import re
from bisect import bisect_right
from json.decoder import scanstring  # type: ignore[attr-defined]  # missing in the stubs
from typing import TypeAlias

Path: TypeAlias = tuple[str | int, ...]

_BLANK = re.compile(r"[\s,:]*")
_SCALAR = re.compile(r"[^\s,\]}]+")


def ends(text: str) -> dict[Path, tuple[int, int]]:
    """Line and column (from 1) after each value of a valid JSON text, by the path of the value."""
    places: dict[Path, int] = {}
    _value(text, _skip(text, 0), (), places)
    starts = [0, *(match.end() for match in re.finditer("\n", text))]
    return {path: _line_and_column(starts, end) for path, end in places.items()}


def _line_and_column(starts: list[int], end: int) -> tuple[int, int]:
    line = bisect_right(starts, end)
    return line, end - starts[line - 1] + 1


def _skip(text: str, at: int) -> int:
    match = _BLANK.match(text, at)
    return match.end() if match else at


def _value(text: str, at: int, path: Path, places: dict[Path, int]) -> int:
    """Adds the ends of the value that begins at `at`, and of those inside it. Returns its end."""
    if text[at] == "{":
        end = _skip(text, at + 1)
        while text[end] != "}":
            key, end = scanstring(text, end + 1)
            end = _skip(text, _value(text, _skip(text, end), (*path, key), places))
        end += 1
    elif text[at] == "[":
        end, number = _skip(text, at + 1), 0
        while text[end] != "]":
            end = _skip(text, _value(text, end, (*path, number), places))
            number += 1
        end += 1
    elif text[at] == '"':
        _, end = scanstring(text, at + 1)
    else:
        match = _SCALAR.match(text, at)
        end = match.end() if match else at + 1
    places[path] = end
    return end
