"""The journal: append-only JSON lines, one row per finished unit. A unit counts as done when its row is on disk.

A row is written at once, so that it survives a kill of the process. Rows that finish together share one fsync (group
commit), which a thread makes, so that the event loop is not blocked. Memory holds each unit's last status, the place of
its last row, and the sums; it does not hold rows. If a crash left an incomplete last line, opening the journal removes
it, and its unit is owed again.

A line ends with its number, the journal's format and a checksum of the text before them. So lines that were changed,
removed, added or moved later are detected: a lost row would be paid for again, and its cost would be missing in the
sums. An empty line replaces a row that a person gave up.

The lock is the operating system's and belongs to the open file. It ends with its process, and removing a lock file does
not let another run in. Before each line is written, the file is checked: if it was removed, moved or truncated, nothing
more is written, so that nothing more is paid for.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import io
import json
import os
import re
import zlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Generic, NamedTuple, TypeVar

from pydantic import BaseModel, ValidationError

from medagent.core.errors import UserError
from medagent.core.writing import inside, opened
from medagent.engine.limits import Spending
from medagent.engine.rows import OWED, REFUSED, REFUSED_AGAIN, FailedUnit, R, Row, Spent
from refsol.files import DuplicateKeyError, check_keys
from refsol.json_values import unicode_json

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""The errors if another process holds the lock."""
_AT_ONCE = 1 << 18
"""The size of a read, in bytes."""
PROCESS = ".lock"
"""The file next to a journal that tells people which process has locked it."""


_REPLACED = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


class ReadOnlyError(UserError):
    """The file or its folder is read-only."""


class Line(NamedTuple):
    """One line with its newline: its start in the file, its number (from 1), its bytes."""

    start: int
    number: int
    raw: bytes


class JournalFile:
    """An open file of lines. A `writable` file is made if it is missing, and locked.

    Raises ReadOnlyError if it is read-only, UserError if it cannot be opened or another process has locked it.
    """

    def __init__(self, path: Path, *, writable: bool = True) -> None:
        self.path = path
        self.writable = writable
        self.size = 0
        """The bytes that were read or written: the expected size of the file."""
        self.crc32 = 0
        """CRC-32 of these bytes."""
        self.count = 0
        """The number of lines that were read."""
        self.rest = b""
        """The bytes after the last complete line: torn off by a crash, or being written."""
        try:
            self._file = _opened(path) if writable else inside(path).open("rb", buffering=0)
        except OSError as error:
            kind = ReadOnlyError if writable and error.errno in _READ_ONLY else UserError
            raise kind(f"{path}: cannot be {'written' if writable else 'read'}: {error.strerror}") from None

    def close(self) -> None:
        """Close the file and release the lock."""
        self._file.close()

    def lines(self) -> Iterator[Line]:
        """All complete lines from the start; sets `rest` to the bytes after them."""
        size = crc32 = count = 0
        self.rest = b""
        try:
            with self._reporting("read"), self.path.open("rb", buffering=_AT_ONCE) as file:
                for raw in file:
                    if not raw.endswith(b"\n"):
                        self.rest = raw
                        return
                    yield Line(size, count + 1, raw)
                    count += 1
                    size += len(raw)
                    crc32 = zlib.crc32(raw, crc32)
        finally:
            self.size = size
            self.crc32 = crc32
            self.count = count

    def read(self, start: int, length: int) -> bytes:
        """Read bytes that were read or written before. Raises UserError."""
        with self._reporting("read"):
            return os.pread(self._file.fileno(), length, start)

    def cut(self, size: int) -> None:
        """Shorten the file to `size` bytes if it is longer. Raises UserError."""
        with self._reporting("written"):
            if os.fstat(self._file.fileno()).st_size > size:
                os.ftruncate(self._file.fileno(), size)

    def append(self, raw: bytes) -> int:
        """Write a line; returns its start. Raises UserError if that fails (disk full) or the file was changed."""
        start = self.size
        with self._reporting("written"):
            self._check()
            self._write(raw)
        self.size += len(raw)
        self.crc32 = zlib.crc32(raw, self.crc32)
        return start

    def sync(self) -> None:
        """Write the file's data to the disk (fsync). Raises UserError."""
        with self._reporting("written"):
            os.fsync(self._file.fileno())

    def _write(self, raw: bytes) -> None:
        rest = raw
        try:
            while rest:
                rest = rest[self._file.write(rest) :]
        except OSError:
            with contextlib.suppress(OSError):
                os.ftruncate(self._file.fileno(), self.size)  # remove the incomplete row
            raise

    def _check(self) -> None:
        """Raises UserError if the file was moved, or if its size has changed."""
        here = os.fstat(self._file.fileno())
        try:
            there = os.stat(self.path)
        except OSError:
            there = None
        if there is None or (there.st_ino, there.st_dev) != (here.st_ino, here.st_dev):
            what = "was removed or replaced"
        elif here.st_size != self.size:
            what = f"was changed (it is {here.st_size:,} bytes long, and should be {self.size:,})"
        else:
            return
        raise UserError(f"{self.path}: {what} during the run, so the run stops; the rows in the file still count")

    @contextlib.contextmanager
    def _reporting(self, verb: str) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise UserError(f"{self.path}: cannot be {verb}: {error.strerror}") from None


def _opened(path: Path) -> io.FileIO:
    """Open and lock the file, and check that it is still at its path."""
    import fcntl

    while True:
        file = io.FileIO(opened(path, os.O_RDWR | os.O_CREAT | os.O_APPEND), "ab+")
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            file.close()
            if error.errno not in _BUSY:
                raise UserError(f"{path.parent}: {_no_lock(error)}") from None
            raise UserError(
                f"{path.parent}: process {_holder(path)} is writing to this folder; "
                "wait until it ends, or choose another --round"
            ) from None
        if path.exists() and os.path.samestat(os.fstat(file.fileno()), os.stat(path)):
            process = path.with_name(PROCESS)
            try:
                with contextlib.suppress(OSError), open(opened(process, _REPLACED), "w", encoding="ascii") as holder:
                    holder.write(f"{os.getpid()}\n")  # only for people; the journal reports a full disk
            except UserError:
                file.close()
                raise
            return file
        file.close()  # removed before it was locked


def _no_lock(error: OSError) -> str:
    """Why a file cannot be locked, and what to do."""
    if error.errno == errno.ENOLCK:
        return (
            "its file system does not support locks (ENOLCK), like NFS without a lock service; put the results on a "
            "local disk (--results-dir), or start the lock service (rpc.statd) on this machine"
        )
    return f"cannot be locked: {error.strerror}"


def _holder(path: Path) -> str:
    try:
        return inside(path.with_name(PROCESS)).read_text("ascii", "replace")[:32].strip() or "unknown"
    except (OSError, UserError):
        return "unknown"


M = TypeVar("M", bound=BaseModel)

FORMAT = 3
"""The format of rows. All released versions use this one."""
_END = re.compile(rb'(?:,"row":(?P<row>\d+))?(?P<end>,"format":(?P<format>\d+),"crc32":"(?P<crc32>[0-9a-f]{8})"\}\n)\Z')
_LONGEST_END = 96
_UNIT = re.compile(rb'\{"unit":"([ -!#-\[\]-~]*)"')
"""The beginning of a line whose unit is in ASCII without escapes."""
_CHECKSUM = slice(-11, -3)
"""The place of the checksum in a line."""
_WHOLE = re.compile(rb'"crc32":"[0-9a-f]{8}"\}.\Z', re.DOTALL)
"""The end of a row with another byte instead of its newline. A crash does not leave a row like this."""


class _Place(NamedTuple):
    """Where a unit's last row is in the file, and its checksum."""

    start: int
    length: int
    checksum: str


class Journal(Generic[R]):
    """An open journal at `path` with rows of type `row_type`. `file` is its file if a folder has opened it already.

    Raises UserError if the file cannot be opened or a line in it is damaged. If the journal is not `writable`, an
    incomplete last line, which another process may be writing, is ignored. With `only`, rows of other units are
    checked, but not read.
    """

    def __init__(
        self,
        path: Path,
        row_type: type[R],
        *,
        writable: bool = True,
        received: bool = False,
        file: JournalFile | None = None,
        only: Callable[[str], bool] | None = None,
    ) -> None:
        self.path = path
        self._only = only
        self._row_type = row_type
        self._received = received
        """Whether somebody else wrote the file. Then its rows are searched for duplicate keys, which takes as long as
        reading them.
        """
        self.slowest = 0.0
        """The seconds of the slowest unit."""
        self.began = ""
        self.ended = ""
        """The start of the first unit and the end of the last one."""
        self._waiting: list[tuple[R, asyncio.Future[None]]] = []
        self._syncing: asyncio.Task[None] | None = None
        self.spent = Spent()
        """What all rows spent, with rows not yet on disk and with repeated units, because all of it was paid."""
        self.spent_by: dict[str, Spent] = {}
        """The same by the model that was called, if rows call different ones."""
        self.paid = 0
        """The number of rows with calls."""
        self.unpriced = 0
        """The number of calls whose cost is unknown."""
        self._priced = 0.0
        self._tokens = 0
        self.written = 0
        """The number of rows appended since the journal was opened."""
        self._next_number = 1
        self._places: dict[str, _Place] = {}
        self._status: dict[str, str] = {}
        self._failures: dict[str, FailedUnit] = {}
        self._refusals: Counter[str] = Counter()
        self.unusual: dict[str, list[str]] = {}
        """By unit: the finish reasons, in its last row, of calls that the model did not end itself."""
        self.recorded: dict[str, bool] = {}
        """By unit: the verdict that the file of its answer contains."""
        self.repeated: dict[str, list[str]] = {}
        """By status: the unit of each row with this status that was followed by another row of the unit."""
        self._file = file or JournalFile(path, writable=writable)
        try:
            self._read()
            if self._file.writable:
                self._file.cut(self._file.size)
        except BaseException:
            self.close()
            raise

    def close(self) -> None:
        """Close the file. Rows whose futures are done are already on disk."""
        self._file.close()

    @property
    def writable(self) -> bool:
        """Whether rows can be appended."""
        return self._file.writable

    @property
    def state(self) -> str:
        """A fingerprint of the file: `SIZE:CRC32` of its complete lines."""
        return f"{self._file.size}:{self._file.crc32:08x}"

    @property
    def account(self) -> Spending:
        """The part of the sums that counts against the limits of a run."""
        return Spending(self._priced, self.unpriced, self._tokens, self.spent.uncounted or 0)

    def status(self, unit: str) -> str | None:
        """The last status of a unit; None before its first row."""
        return self._status.get(unit)

    def endings(self) -> Iterator[str]:
        """The last status of every unit."""
        return iter(self._status.values())

    def is_owed(self, unit: str) -> bool:
        """Whether a unit's row is missing, or its last row failed for a temporary reason that is not the agent's."""
        status = self._status.get(unit)
        return status is None or status in OWED or (status == REFUSED and self._refusals[unit] < REFUSED_AGAIN)

    def owed(self) -> Iterator[str]:
        """The owed units with a row."""
        return (unit for unit in self._status if self.is_owed(unit))

    def failures(self) -> Iterable[FailedUnit]:
        """Every unit whose last row contains an error."""
        return self._failures.values()

    def append(self, row: R) -> asyncio.Future[None]:
        """Write a row. The future is done when the row is on disk.

        The call or the future raises UserError if that fails (disk full), or if someone removed or changed the file.
        """
        line = _written(row, self._next_number)
        start = self._file.append(line)
        self._next_number += 1
        self._place(row.unit, start, line)
        self._count(row)
        self.written += 1
        durable: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.append((row, durable))
        if self._syncing is None or self._syncing.done():
            self._syncing = asyncio.create_task(self._sync_waiting())
        return durable

    @property
    def units(self) -> Iterable[str]:
        """The units with a row, in the order of their last rows."""
        return self._places.keys()

    def checksum(self, unit: str) -> str:
        """The checksum of a unit's last row, which identifies it among the rows of the unit."""
        return self._places[unit].checksum

    def row(self, unit: str) -> R:
        """The last row of a unit, which must exist. Raises UserError for a damaged row."""
        place = self._places[unit]
        try:
            return _parsed(self._row_type, self._file.read(place.start, place.length))
        except _UNREADABLE:
            raise UserError(f"{self.path}: the row of {unit} is damaged; {_RESTORE}") from None

    def rows(self, units: Iterable[str] | None = None) -> Iterator[R]:
        """The last row of every unit, in the order of the rows; or the existing ones of these units, in their order.

        Raises UserError for a damaged row.
        """
        return (self.row(unit) for unit in (list(self._places) if units is None else units) if unit in self._places)

    def _read(self) -> None:
        # The fields of every row are enough here, unless a type defines its own `payee`.
        kind: type[Row] = Row if self._row_type.payee is Row.payee else self._row_type
        for line in checked_lines(self._file):
            if self._only is not None and (unit := unit_of(line.raw)) is not None and not self._only(unit):
                continue
            if self._received:
                _check_keys(self.path, line)
            row = parsed_line(self.path, line, kind)
            if self._only is not None and not self._only(row.unit):
                continue
            self._place(row.unit, line.start, line.raw)
            self._settle(row)
            self._count(row)
        self._next_number = self._file.count + 1

    def _place(self, unit: str, start: int, line: bytes) -> None:
        self._places.pop(unit, None)  # the order is that of the last rows
        self._places[unit] = _Place(start, len(line), line[_CHECKSUM].decode("ascii"))

    def _count(self, row: Row) -> None:
        self.spent.merge(row.spent)
        self.spent_by.setdefault(row.payee, Spent()).merge(row.spent)
        self.slowest = max(self.slowest, row.seconds)
        self._tokens += row.spent.limited_tokens
        if row.spent.calls:
            self.paid += 1
            if row.spent.cost is None:
                self.unpriced += sum(call.cost is None for call in row.spent.each) or row.spent.calls
            self._priced += row.spent.cost or sum(call.cost or 0.0 for call in row.spent.each)
        self.began = min(filter(None, (self.began, row.started)), default="")
        self.ended = max(self.ended, row.timestamp)

    def _settle(self, row: Row) -> None:
        """Make a row its unit's last row."""
        if (before := self._status.get(row.unit)) is not None:
            self.repeated.setdefault(before, []).append(row.unit)
        self._status[row.unit] = row.status
        self.unusual.pop(row.unit, None)
        if unusual := row.spent.unusual:
            self.unusual[row.unit] = unusual
        self.recorded.pop(row.unit, None)
        if row.recorded is not None:
            self.recorded[row.unit] = row.recorded
        if row.status == REFUSED:
            self._refusals[row.unit] += 1
        if row.status == "completed":
            self._failures.pop(row.unit, None)
        elif row.status in OWED or row.error is not None:
            self._failures[row.unit] = FailedUnit(
                unit=row.unit, status=row.status, error=row.error or "", error_type=row.error_type or ""
            )

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


def unit_of(raw: bytes) -> str | None:
    """The unit with which a line begins, without reading the rest; None if that needs more than a look."""
    begins = _UNIT.match(raw)
    return None if begins is None else begins[1].decode("ascii")


def checked_lines(file: JournalFile) -> Iterator[Line]:
    """The rows of a journal, checked.

    Raises UserError for a row that is damaged or misplaced, or that a newer version wrote.
    """
    for line in file.lines():
        if line.raw == _GIVEN_UP:
            continue
        end = _END.search(line.raw, max(0, len(line.raw) - _LONGEST_END))
        if end is None:
            raise _unchecked(file.path, line)
        if int(end["format"]) > FORMAT:
            raise _newer(file.path, line, int(end["format"]))
        if int(end["format"]) < FORMAT:
            raise _damaged(file.path, line, f"unknown format {int(end['format'])}")
        if zlib.crc32(memoryview(line.raw)[: end.start("end")]) != int(end["crc32"], 16):
            raise _damaged(file.path, line, "its checksum does not match its content")
        if end["row"] is None:
            raise _damaged(file.path, line, "its number is missing")
        if int(end["row"]) != line.number:
            raise _misplaced(file.path, line, int(end["row"]))
        yield line
    if _WHOLE.search(file.rest[-_LONGEST_END:]):
        raise _damaged(file.path, Line(file.size, file.count + 1, file.rest), "its newline is missing")


def _check_keys(path: Path, line: Line) -> None:
    try:
        check_keys(line.raw)
    except DuplicateKeyError as error:
        raise _damaged(path, line, str(error)) from None
    except _UNREADABLE:
        raise _damaged(path, line) from None


def parsed_line(path: Path, line: Line, kind: type[M]) -> M:
    """A line as a row. Raises UserError if it is not a valid row."""
    try:
        return _parsed(kind, line.raw)
    except _UNREADABLE:
        raise _damaged(path, line) from None


def last_rows(path: Path, row_type: type[R], units: Iterable[str] | None = None) -> Iterator[R]:
    """The last row of every unit, in the order of the rows; or of these units, in their order.

    Another process may be writing to the journal. Raises UserError if the file cannot be read or a line is not a row.
    """
    journal = Journal(path, row_type, writable=False)
    try:
        yield from journal.rows(units)
    finally:
        journal.close()


def _written(row: Row, number: int) -> bytes:
    """A row as a line in ASCII, so that no reader mistakes a character of a text for the end of the line."""
    text = json.dumps(row.model_dump(mode="json", exclude_none=True), separators=(",", ":"))
    body = text.encode()[:-1] + b',"row":%d' % number
    return body + b',"format":%d,"crc32":"%08x"}\n' % (FORMAT, zlib.crc32(body))


def _parsed(kind: type[M], raw: bytes) -> M:
    """A line as a pydantic model. Raises what `_UNREADABLE` lists."""
    try:
        return kind.model_validate_json(raw)
    except ValidationError:  # the text of an exception may contain half of a surrogate pair
        return kind.model_validate_json(unicode_json(raw.decode()))


_UNREADABLE = (ValueError, RecursionError)
_GIVEN_UP = b"\n"
_RESTORE = (
    "restore it, or put an empty line in its place (its unit is then run again, and its cost is not counted in any "
    "total), or choose another --round"
)


def _unchecked(path: Path, line: Line) -> UserError:
    """The error for a line that does not end like a row."""
    try:
        row = json.loads(line.raw)
    except (ValueError, RecursionError):
        return _damaged(path, line)
    format_ = row.get("format") if isinstance(row, dict) else None
    if isinstance(format_, int) and format_ > FORMAT:
        return _newer(path, line, format_)
    return _damaged(path, line, "its checksum is missing")


def _damaged(path: Path, line: Line, why: str = "") -> UserError:
    return UserError(f"{path}:{line.number}: the row is damaged{f' ({why})' if why else ''}; {_RESTORE}")


def _misplaced(path: Path, line: Line, number: int) -> UserError:
    return UserError(
        f"{path}:{line.number}: this is row {number}, so lines before it were removed, added or moved; restore them, "
        "or put an empty line in the place of each lost row (its unit is then run again, and its cost is not counted "
        "in any total), or choose another --round"
    )


def _newer(path: Path, line: Line, format_: int) -> UserError:
    return UserError(
        f"{path}:{line.number}: written by a newer medagent (journal format {format_}; this version reads up to "
        f"{FORMAT}); use the newer version"
    )
