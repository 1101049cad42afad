"""Files that are written whole or not at all, their digests, and the error of a user who cannot write there."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medagent.core.errors import UserError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises UserError if a file cannot be written.

    The error shows `path` if the system's error does not say which file.
    """
    try:
        yield
    except OSError as error:
        raise UserError(f"{error.filename or path}: cannot be written: {error.strerror or error}") from None


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a new file, which replaces `path` at the end. If that fails, it is removed. Raises UserError."""
    aside = path.with_name(f".{os.getpid()}.{path.name}")
    try:
        yield aside
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


MANIFEST = ".files"
"""The file in a run's folder with the names of the files that the run wrote, one per line."""
_open_folders: set[Path] = set()
"""The run folders to which this process writes."""


@contextmanager
def noted(folder: Path) -> Iterator[None]:
    """Until the block ends, list every new file of a folder in the folder's manifest before it is written."""
    place = folder.resolve()
    _open_folders.add(place)
    try:
        yield
    finally:
        _open_folders.discard(place)


def note(path: Path) -> None:
    """List a file in the manifest before it is written, if its folder is an open run's. Raises UserError."""
    folder = path.parent.resolve()
    if folder not in _open_folders or path.name in written_files(folder):
        return
    with writing(folder / MANIFEST), (folder / MANIFEST).open("a", encoding="utf-8") as manifest:
        manifest.write(f"{path.name}\n")


def written_files(folder: Path) -> set[str]:
    """The names of the files that a run wrote into its folder. Raises UserError."""
    path = folder / MANIFEST
    try:
        names = path.read_text(encoding="utf-8").split("\n") if path.exists() else []
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: cannot be read: {error}") from None
    return {name for name in names if name and "/" not in name and name not in (".", "..")}


def write_whole(path: Path, text: str) -> None:
    """Write `text` as UTF-8 to `path`. If that fails, the old file stays. Raises UserError with the path."""
    write_parts(path, [text])


def write_parts(path: Path, parts: Iterable[str]) -> None:
    """The same for a text in parts, which is not in memory as a whole. Raises UserError."""
    note(path)
    with replacing(path) as aside, aside.open("w", encoding="utf-8", newline="\n") as file:
        file.writelines(parts)
        file.flush()
        os.fsync(file.fileno())


def write_changed(path: Path, text: str) -> None:
    """Write `text` unless the file already contains it. An equal file keeps its modification time. Raises UserError."""
    if not path.is_file() or path.read_bytes() != text.encode():
        write_whole(path, text)


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
