"""The journal: append-only JSON lines, one row a finished unit, durable before the unit counts as done.

A row is written at once, so that no kill of the process loses it. Rows that finish together share one fsync (group
commit), made in a thread so that the event loop goes on. In memory are each unit's last status, the place of its last
row, and the sums, so a run of any length costs the same. A last line that a crash tore off is cut away when the journal
is opened: its unit is owed again.

A line ends with its number, the format of the journal and a checksum of all that stands before it, so that what was
changed, removed, added or moved after it was written is found: a row that is lost would be paid for again, and what it
cost be missing in the sums. An empty line stands for a row that a person has given up. Opening reads only the head of
such a row; the whole row is read once, when results are made.
"""

from __future__ import annotations

import asyncio
import json
import re
import zlib
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from medagent.core.errors import UserError
from medagent.engine._limits import Account
from medagent.engine.content import Content, content_of
from medagent.engine.journal_file import JournalFile, Line
from medagent.engine.rows import OWED, REFUSED, REFUSED_AGAIN, Row, RowHead, Spent

M = TypeVar("M", bound=BaseModel)
R = TypeVar("R", bound=Row)

FORMAT = 3
"""Of the rows. No version with another one was released."""
_END = re.compile(rb'(?:,"row":(?P<row>\d+))?(?P<end>,"format":(?P<format>\d+),"crc32":"(?P<crc32>[0-9a-f]{8})"\}\n)\Z')
_LONGEST_END = 96
_CHECKSUM = b'00000000"}\n'
"""How a line ends, from its checksum on."""
_WHOLE = re.compile(rb'"crc32":"[0-9a-f]{8}"\}.\Z', re.DOTALL)
"""The end of a row whose newline became something else: no crash tears a row off so."""
_SHORT = 4_096
"""Bytes of a line that is parsed whole for its head."""
_LENGTH_BITS = 40
_LAST_OF_HEAD = f',"{list(RowHead.model_fields)[-1]}":'.encode()


class Journal(Generic[R]):
    """An open journal at `path` whose rows are of type `row_type`; `file` is its file, where a folder has it open.

    Raises UserError when the file cannot be opened or a line inside it is damaged. One that is not `writable` is only
    read: a last line that is torn off, or being written just now, is left out.
    """

    def __init__(
        self, path: Path, row_type: type[R], *, writable: bool = True, file: JournalFile | None = None
    ) -> None:
        self.path = path
        self._row_type = row_type
        self.slowest = 0.0
        """Seconds of the unit that took longest."""
        self.began = ""
        self.ended = ""
        """When the first unit began and the last one ended."""
        self._waiting: list[tuple[R, asyncio.Future[None]]] = []
        self._syncing: asyncio.Task[None] | None = None
        self.spent = Spent()
        """What all rows spent, those not yet on disk and repeated units included: it was paid."""
        self.spent_by: dict[str, Spent] = {}
        """The same by the model that was called, where rows differ in it."""
        self.paid = 0
        """How many rows have calls."""
        self.unpriced = 0
        """How many calls have no known cost."""
        self._priced = 0.0
        self.written = 0
        """How many rows were appended since it was opened."""
        self._next_number = 1
        self._places: dict[str, int] = {}
        """Where the last row of each unit begins, and its length, as one number: a pair takes four times the memory."""
        self._status: dict[str, str] = {}
        self._errors: dict[str, str] = {}
        self._refusals: Counter[str] = Counter()
        self.unusual: dict[str, list[str]] = {}
        """Of the last row of a unit, the finish reasons of calls that the model did not end itself."""
        self._file = file or JournalFile(path, writable=writable)
        try:
            self._read()
            if self._file.writable:
                self._file.cut(self._file.size)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file; every appended row is already durable."""
        self._file.close()

    @property
    def writable(self) -> bool:
        """Whether rows can be appended."""
        return self._file.writable

    @property
    def state(self) -> str:
        """What the file holds, in short: its bytes and their CRC-32."""
        return f"{self._file.size}:{self._file.crc32:08x}"

    @property
    def account(self) -> Account:
        """What of the sums counts against the limits of a run."""
        return Account(self._priced, self.unpriced, self.spent.usage.total, self.spent.uncounted or 0)

    def status(self, unit: str) -> str | None:
        """The last status of a unit, None if it has no row."""
        return self._status.get(unit)

    def endings(self) -> Iterator[str]:
        """The last status of every unit."""
        return iter(self._status.values())

    def is_owed(self, unit: str) -> bool:
        """Whether a unit has no row, or its last one failed for a reason that is not the agent's and may pass."""
        status = self._status.get(unit)
        return status is None or status in OWED or (status == REFUSED and self._refusals[unit] < REFUSED_AGAIN)

    def owed(self) -> Iterator[str]:
        """The units that have a row and are owed."""
        return (unit for unit in self._status if self.is_owed(unit))

    def failures(self) -> Iterator[tuple[str, str, str]]:
        """Every unit whose last row has an error: its key, status and error."""
        return ((unit, self._status[unit], error) for unit, error in self._errors.items())

    def append(self, row: R) -> asyncio.Future[None]:
        """Write a row; the future is done when it is on disk. Both raise UserError where that fails (disk full), or
        where the file was removed or changed by somebody else.
        """
        line = _line(row, self._next_number)
        start = self._file.append(line)
        self._next_number += 1
        self._places.pop(row.unit, None)  # the order is that of the last rows
        self._places[row.unit] = start << _LENGTH_BITS | len(line)
        self._count(row)
        self.written += 1
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, durable))
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.create_task(self._sync_waiting())
        return durable

    @property
    def units(self) -> Iterable[str]:
        """The units that have a row, in the order of their last rows."""
        return self._places.keys()

    def checksum(self, unit: str) -> str:
        """The checksum of a unit's last row, which tells it from every other row of the unit."""
        start, length = divmod(self._places[unit], 1 << _LENGTH_BITS)
        return self._file.read(start + length - len(_CHECKSUM), 8).decode("ascii", "replace")

    def content(self, unit: str, *, spent: bool = False) -> Content | None:
        """The content of a unit's last row, with its calls if `spent`. None if it is not as this version writes it."""
        raw, kind = self._raw(unit), self._row_type
        end = _end(raw)
        return end and content_of(raw, end.start(), kind.key_members(unit).encode(), kind.made_up, spent=spent)

    def rows(self, units: Iterable[str] | None = None) -> Iterator[R]:
        """The last row of every unit, in the order of those rows, or of these units in theirs (those that have one).

        Raises UserError for a row that is damaged.
        """
        for unit in list(self._places) if units is None else units:
            if unit in self._places:
                try:
                    yield _parsed(self._row_type, self._raw(unit))
                except (ValidationError, ValueError, RecursionError):
                    raise UserError(f"{self.path}: the row of {unit} is damaged; {_WAY_ON}") from None

    def _raw(self, unit: str) -> bytes:
        start, length = divmod(self._places[unit], 1 << _LENGTH_BITS)
        return self._file.read(start, length)

    def _read(self) -> None:
        # Whom a row paid is the row's to say where its type has an answer of its own.
        short: type[RowHead | R] = RowHead if self._row_type.payee is Row.payee else self._row_type
        for line in checked_lines(self._file):
            head = _head(line.raw) if short is RowHead else None
            head = head or parsed_line(self.path, line, short)
            self._places.pop(head.unit, None)
            self._places[head.unit] = line.start << _LENGTH_BITS | len(line.raw)
            self._settle(head)
            self._count(head)
        self._next_number = self._file.count + 1

    def _count(self, row: RowHead | R) -> None:
        self.spent.merge(row.spent)
        self.spent_by.setdefault(row.payee, Spent()).merge(row.spent)
        self.slowest = max(self.slowest, row.seconds)
        if row.spent.calls:
            self.paid += 1
            if row.spent.cost is None:
                self.unpriced += sum(call.cost is None for call in row.spent.each) or row.spent.calls
            self._priced += row.spent.cost or sum(call.cost or 0.0 for call in row.spent.each)
        self.began = min(filter(None, (self.began, row.started)), default="")
        self.ended = max(self.ended, row.timestamp)

    def _settle(self, row: RowHead | R) -> None:
        """Take a row as its unit's last."""
        self._status[row.unit] = row.status
        self.unusual.pop(row.unit, None)
        if unusual := row.spent.unusual:
            self.unusual[row.unit] = unusual
        if row.status == REFUSED:
            self._refusals[row.unit] += 1
        if row.status == "completed":
            self._errors.pop(row.unit, None)
        elif row.status in OWED or row.error is not None:
            self._errors[row.unit] = row.error or ""

    async def _sync_waiting(self) -> None:
        while self._waiting:
            batch, self._waiting = self._waiting, []
            try:
                await asyncio.to_thread(self._file.sync)
            except UserError as error:
                for _, durable in batch:
                    if not durable.done():
                        durable.set_exception(error)
            else:
                for row, durable in batch:
                    self._settle(row)
                    if not durable.done():
                        durable.set_result(None)


def checked_lines(file: JournalFile) -> Iterator[Line]:
    """Every row of a journal that is what was written, in its place.

    Raises UserError for a row that is damaged or out of its place, or that a newer version wrote.
    """
    for line in file.lines():
        if line.raw == _GIVEN_UP:
            continue
        end = _end(line.raw)
        if end is None:
            raise _unchecked(file.path, line)
        if int(end["format"]) > FORMAT:
            raise _newer(file.path, line, int(end["format"]))
        if int(end["format"]) < FORMAT:
            raise _damaged(file.path, line, f"there is no format {int(end['format'])}")
        if zlib.crc32(line.raw[: end.start("end")]) != int(end["crc32"], 16):
            raise _damaged(file.path, line, "its checksum is not that of its content")
        if end["row"] is None:
            raise _damaged(file.path, line, "it has no number")
        if int(end["row"]) != line.number:
            raise _misplaced(file.path, line, int(end["row"]))
        yield line
    if _WHOLE.search(file.rest[-_LONGEST_END:]):
        raise _damaged(file.path, Line(file.size, file.count + 1, file.rest), "it has no newline")


def _end(raw: bytes) -> re.Match[bytes] | None:
    """The end of a row that says what it is; None where it has none."""
    first = max(0, len(raw) - _LONGEST_END)
    for begin in (b',"row":', b',"format":'):  # looked for so, it takes a fifth of a search by the expression
        place = raw.rfind(begin, first)
        if place >= 0 and (end := _END.match(raw, place)):
            return end
    return None


def parsed_line(path: Path, line: Line, kind: type[M]) -> M:
    """A row of a line. Raises UserError where it is none."""
    try:
        return _parsed(kind, line.raw)
    except (ValidationError, ValueError, RecursionError):
        raise _damaged(path, line) from None


def _head(raw: bytes) -> RowHead | None:
    """The head of a row, which its line begins with, without the rest; None where it has to be parsed whole.

    Only of a line whose checksum is right: the rest is then what was written.
    """
    if len(raw) <= _SHORT:
        return None
    last = raw.find(_LAST_OF_HEAD)
    end = raw.find(b",", last + len(_LAST_OF_HEAD))
    try:
        return RowHead.model_validate_json(raw[:end] + b"}") if 0 <= last < end else None
    except ValidationError:
        return None


def last_rows(path: Path, row_type: type[R], units: Iterable[str] | None = None) -> Iterator[R]:
    """The last row of every unit in a journal that may still be written to, in the order of those rows, or of these
    units in theirs.

    Raises UserError where the file cannot be read or a line is no row.
    """
    journal = Journal(path, row_type, writable=False)
    try:
        yield from journal.rows(units)
    finally:
        journal.close()


_GIVEN_UP = b"\n"
_WAY_ON = (
    "put back what it was, or an empty line in its place (its unit is then run again, and what it cost is in no sum), "
    "or choose another --round"
)


def _unchecked(path: Path, line: Line) -> UserError:
    """What is wrong with a line that does not end as a row does."""
    try:
        row = json.loads(line.raw)
    except (ValueError, RecursionError):
        return _damaged(path, line)
    format_ = row.get("format") if isinstance(row, dict) else None
    if isinstance(format_, int) and format_ > FORMAT:
        return _newer(path, line, format_)
    return _damaged(path, line, "it has no checksum")


def _damaged(path: Path, line: Line, why: str = "") -> UserError:
    return UserError(f"{path}:{line.number}: is damaged{f' ({why})' if why else ''}; {_WAY_ON}")


def _misplaced(path: Path, line: Line, number: int) -> UserError:
    return UserError(
        f"{path}:{line.number}: is row {number}, so that lines before it were removed, added or moved; put back what "
        "was there, or an empty line for each row that is lost (its unit is then run again, and what it cost is in no "
        "sum), or choose another --round"
    )


def _newer(path: Path, line: Line, format_: int) -> UserError:
    return UserError(
        f"{path}:{line.number}: was written by a newer medagent (format {format_} of journals; "
        f"this one reads up to {FORMAT}): use that version"
    )


def _line(row: Row, number: int) -> bytes:
    """A row as it is written: in ASCII, so that no reader takes a character of a text for the end of a line."""
    try:
        text = row.model_dump_json(exclude_none=True)
    except ValueError:  # half of a surrogate pair
        text = ""
    if not text or not text.isascii():
        text = json.dumps(row.model_dump(exclude_none=True), separators=(",", ":"))
    body = text.encode()[:-1] + b',"row":%d' % number
    return body + b',"format":%d,"crc32":"%08x"}\n' % (FORMAT, zlib.crc32(body))


def _parsed(kind: type[M], raw: bytes) -> M:
    """A model of a line. Raises ValidationError, ValueError."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError:  # half of a surrogate pair, which models produce, is JSON for Python's own reader alone
        return kind.model_validate(json.loads(raw))
