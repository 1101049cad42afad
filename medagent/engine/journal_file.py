"""The file of a journal: complete lines, appended by the one process that has locked the file.

The operating system's lock belongs to the open file. It ends with its process, and removing a lock file does not let
another run in. Before each line is written, the file is checked: if it was removed, moved or truncated, nothing more is
written, so that nothing more is paid for.
"""

from __future__ import annotations

import contextlib
import errno
import io
import os
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from medagent.core.errors import UserError

_READ_ONLY = (errno.EACCES, errno.EPERM, errno.EROFS)
_BUSY = (errno.EWOULDBLOCK, errno.EAGAIN, errno.EACCES)
"""The errors if another process has the lock."""
_AT_ONCE = 1 << 18
"""The size of a read, in bytes."""
PROCESS = ".lock"
"""The file beside a journal that tells people which process has locked it."""


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
            self._file = _opened(path) if writable else path.open("rb", buffering=0)
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
            self.size, self.crc32, self.count = size, crc32, count

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
            what = f"was changed (it has {here.st_size:,} bytes, and should have {self.size:,})"
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
        file = path.open("ab+", buffering=0)
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
            with contextlib.suppress(OSError):  # only for people; the journal reports a full disk
                path.with_name(PROCESS).write_text(f"{os.getpid()}\n", encoding="ascii")
            return file
        file.close()  # removed before it was locked


def _no_lock(error: OSError) -> str:
    """Why a file cannot be locked, and what to do."""
    if error.errno == errno.ENOLCK:
        return (
            "its file system has no locks (ENOLCK), like NFS without a lock service; put the results on a local disk "
            "(--results-dir), or start the lock service (rpc.statd) on this machine"
        )
    return f"cannot be locked: {error.strerror}"


def _holder(path: Path) -> str:
    try:
        return path.with_name(PROCESS).read_text(encoding="ascii", errors="replace")[:32].strip() or "unknown"
    except OSError:
        return "unknown"
