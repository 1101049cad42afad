"""What a run's prompt gives away beyond the published one: doses, limits, codes, answers.

Only the lines that the run adds are searched, so a text that repeats the published prompt gives nothing away.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import NamedTuple

_NUMBER = r"\d+(?:[.,]\d+)?"
_UNIT = r"(?:mcg|µg|ug|mg|g|kg|mEq|mmol|mol|mL|ml|L|dL|IU|units?|%|hours?|h|days?|months?|years?)(?:/\w+)?"
_LIMIT_WORDS = (
    r"(?:[<>]=?|≤|≥|below|under|less than|lower than|at most|up to|above|over|more than|greater than|higher than"
    r"|at least|within|older than|younger than)"
)
_KINDS = {
    "limits": re.compile(rf"{_LIMIT_WORDS}\s*(?:of\s+)?{_NUMBER}\s*{_UNIT}(?!\w)", re.IGNORECASE),
    "doses": re.compile(rf"(?<![\w.]){_NUMBER}\s*{_UNIT}(?!\w)"),
    "codes": re.compile(r"(?<![\w-])(?:\d{4,5}-\d{3,4}-\d{1,2}|\d{3,6}-\d|\d{6,18})(?![\w-])"),
    "answers": re.compile(r"\[\s*(?:-?\d+(?:\.\d+)?|\"[^\"\]]+\")(?:\s*,\s*(?:-?\d+(?:\.\d+)?|\"[^\"\]]+\"))*\s*\]"),
}
"""What is found, in this order: the number of a limit is not a dose too."""
_SHOWN = 80
"""Shown characters of a line."""


class GivenAway(NamedTuple):
    """A part of a prompt that gives something away: its kind, its text, and the line that contains it."""

    kind: str
    text: str
    line: str

    @property
    def words(self) -> str:
        """`doses: 1 g (in: If magnesium is low, give 1 g over 1 h)`."""
        return f"{self.kind}: {self.text} (in: {self.line[:_SHOWN]})"


def given_away(published: str, text: str) -> Sequence[GivenAway]:
    """What the lines of a run's prompt give away that the published prompt does not have."""
    known = {_plain(line) for line in published.splitlines()}
    added = [line for line in map(_plain, text.splitlines()) if line and line not in known]
    parts = dict.fromkeys(part for line in added for part in _in_line(line))
    return [part for part in parts if part.text not in published]


def _in_line(line: str) -> Iterator[GivenAway]:
    rest = line
    for kind, pattern in _KINDS.items():
        for match in pattern.finditer(rest):
            yield GivenAway(kind, match[0], line)
        rest = pattern.sub(" ", rest)


def _plain(line: str) -> str:
    return " ".join(line.split())
