"""The content of a journal line, without its key and times: equal for units that ended equally, such as trials."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

_HEAD = re.compile(
    rb'\{"unit":"[^"\\]*",(?P<ended>"status":.*?),(?P<spent>"spent":\{.*?\}),'
    rb'"started":"[^"]*","timestamp":"[^"]*","seconds":[^,"]*,',
    re.DOTALL,
)
"""The members of a row's head. In JSON, a quotation mark inside a text has a backslash before it."""


@dataclass(frozen=True, slots=True)
class MadeUp:
    """A value that a FHIR server generates, such as a Bundle's id: the bytes before it in a line, and its pattern.

    `behind` are bytes of the line behind which it is searched; empty for the whole line.
    """

    before: bytes
    value: re.Pattern[bytes]
    behind: bytes = b""


@dataclass(frozen=True, slots=True)
class Content:
    """The SHA-256 of a row without its key, its times and the generated values; `values` are the latter."""

    digest: bytes
    values: tuple[bytes, ...] = ()


def content_of(raw: bytes, end: int, key: bytes, made_up: Sequence[MadeUp], *, spent: bool) -> Content | None:
    """The content of a line whose row ends before `end`. `key` are the members that repeat the unit's key. The model
    calls are included only with `spent`. None if the line does not have the form that this version writes.
    """
    head = _HEAD.match(raw)
    if head is None:
        return None
    start = head.end() + (len(key) if raw.startswith(key, head.end()) else 0)
    digest = hashlib.sha256(raw[head.start("ended") : head.end("spent" if spent else "ended")])
    line, values = memoryview(raw), []
    for first, last in sorted(_places(raw, start, end, made_up)):
        digest.update(line[start:first])
        values.append(raw[first:last])
        start = last
    digest.update(line[start:end])
    return Content(digest.digest(), tuple(values))


def _places(raw: bytes, start: int, end: int, made_up: Sequence[MadeUp]) -> Iterator[tuple[int, int]]:
    """The start and end of each generated value."""
    for one in made_up:
        first = raw.rfind(one.behind, start, end) if one.behind else start
        place = raw.find(one.before, first, end) if first >= 0 else -1
        while place >= 0:
            place += len(one.before)
            if value := one.value.match(raw, place, end):
                yield value.span()
            place = raw.find(one.before, place, end)
