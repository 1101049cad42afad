"""Files written whole (aside, synced, then renamed, so that a reader never sees half of one), and their digests."""

from __future__ import annotations

import contextlib
import hashlib
import os
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from pathlib import Path

from medagent.core.errors import UserError


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`, or leave what was there. Raises UserError naming the file when it cannot."""
    _write(path, [text])


def write_changed(path: Path, text: str) -> None:
    """Write `text` whole, unless the file holds it already: then it stays as it is, its time included.

    Raises UserError.
    """
    write_changed_parts(path, lambda: [text])


def write_changed_parts(path: Path, parts: Callable[[], Iterable[str]]) -> None:
    """The same for a text of many parts, which is never in memory as a whole; where it differs, the parts are asked
    for twice. Raises UserError.
    """
    if not _holds(path, _larger(parts())):
        _write(path, _larger(parts()))


def _write(path: Path, parts: Iterable[str]) -> None:
    aside = path.with_name(f".{path.name}.{os.getpid()}")
    try:
        with aside.open("w", encoding="utf-8", newline="\n") as file:
            file.writelines(parts)
            file.flush()
            os.fsync(file.fileno())
        aside.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            aside.unlink(missing_ok=True)
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None


def _holds(path: Path, parts: Iterable[str]) -> bool:
    """Whether a file is there and holds these parts and no more."""
    if not path.exists():
        return False
    with path.open("rb") as file:
        for part in parts:
            raw = part.encode("utf-8", "surrogatepass")
            if file.read(len(raw)) != raw:
                return False
        return not file.read(1)


def _larger(parts: Iterable[str]) -> Iterator[str]:
    """The same text in fewer parts."""
    left = iter(parts)
    while some := list(islice(left, 1_000)):
        yield "".join(some)


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises UserError where it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
