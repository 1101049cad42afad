"""A line of a journal: writes a row, and reads parts of it without parsing the whole line."""

from __future__ import annotations

import json
import re
import zlib
from collections.abc import Callable
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from medagent.core.errors import UserError
from medagent.engine.content import Content, content_of
from medagent.engine.rows import R, Row, RowHead
from refsol.json_values import unicode_json

M = TypeVar("M", bound=BaseModel)

FORMAT = 3
"""The format of rows. All released versions have this one."""
LONGEST_END = 96
UNREADABLE = (ValidationError, ValueError, RecursionError)
"""The exceptions that `parsed` raises."""
_END = re.compile(rb'(?:,"row":(?P<row>\d+))?(?P<end>,"format":(?P<format>\d+),"crc32":"(?P<crc32>[0-9a-f]{8})"\}\n)\Z')
_SHORT = 4_096
"""Lines of at most this number of bytes are parsed whole for their heads."""
_LAST_OF_HEAD = f',"{list(RowHead.model_fields)[-1]}":'.encode()


class StoredRow(Generic[R]):
    """A unit's row as a line of the journal, which is parsed when it is needed. `damaged` makes the error for a line
    that cannot be parsed.
    """

    __slots__ = ("_damaged", "_kind", "_raw", "_unit")

    def __init__(self, unit: str, raw: bytes, kind: type[R], damaged: Callable[[str], UserError]) -> None:
        self._unit, self._raw, self._kind, self._damaged = unit, raw, kind, damaged

    @property
    def head(self) -> RowHead:
        """The members that every row has: status, calls, times. Raises UserError."""
        return head_of(self._raw) or self.read()

    def read(self) -> R:
        """The whole row. Raises UserError."""
        try:
            return parsed(self._kind, self._raw)
        except UNREADABLE:
            raise self._damaged(self._unit) from None

    def content(self, *, spent: bool = False) -> Content | None:
        """The row's content, with its model calls if `spent`. None if the line does not have the form that this version
        writes.
        """
        end = line_end(self._raw)
        if end is None:
            return None
        key = self._kind.key_members(self._unit).encode()
        return content_of(self._raw, end.start(), key, self._kind.made_up, spent=spent)


def written(row: Row, number: int) -> bytes:
    """A row as a line in ASCII, so that no reader mistakes a character of a text for the end of the line."""
    text = json.dumps(row.model_dump(mode="json", exclude_none=True), separators=(",", ":"))
    body = text.encode()[:-1] + b',"row":%d' % number
    return body + b',"format":%d,"crc32":"%08x"}\n' % (FORMAT, zlib.crc32(body))


def line_end(raw: bytes) -> re.Match[bytes] | None:
    """The end of a row, with its number, format and checksum; None if the row has no such end."""
    first = max(0, len(raw) - LONGEST_END)
    for begin in (b',"row":', b',"format":'):  # much faster than a search with the expression
        place = raw.rfind(begin, first)
        if place >= 0 and (end := _END.match(raw, place)):
            return end
    return None


def head_of(raw: bytes) -> RowHead | None:
    """The head of a row, parsed from the start of its line; None if the whole line has to be parsed.

    Call it only for a line with a correct checksum, whose rest is then valid too.
    """
    if len(raw) <= _SHORT:
        return None
    last = raw.find(_LAST_OF_HEAD)
    end = raw.find(b",", last + len(_LAST_OF_HEAD))
    try:
        return RowHead.model_validate_json(raw[:end] + b"}") if 0 <= last < end else None
    except ValidationError:
        return None


def parsed(kind: type[M], raw: bytes) -> M:
    """A line as a pydantic model. Raises what `UNREADABLE` lists."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError:  # the texts of earlier versions may contain half of a surrogate pair
        return kind.model_validate_json(unicode_json(raw.decode()))
