"""Files that are written whole or not at all, their digests, and the error of a user who cannot write there.

A run's folder may come from somebody else. So nothing is written through a link (`plain`, `opened`), and only regular
files inside it are read (`inside`).
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Callable, Iterable, Iterator
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


_KINDS = {
    stat.S_IFLNK: "a symbolic link",
    stat.S_IFDIR: "a folder",
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
}


def plain(path: Path) -> Path:
    """The path, at which nothing or a regular file is. Raises UserError for a link, a pipe and so on."""
    try:
        kind = stat.S_IFMT(path.lstat().st_mode)
    except (FileNotFoundError, NotADirectoryError):
        return path
    if kind != stat.S_IFREG:
        raise UserError(f"{path}: is {_KINDS.get(kind, 'no file')}; medagent writes only regular files here. Remove it")
    return path


def opened(path: Path, flags: int) -> int:
    """A descriptor of a regular file, which is opened without following a link. Raises UserError, OSError."""
    return os.open(plain(path), flags | os.O_NOFOLLOW | os.O_CLOEXEC, 0o666)


def inside(path: Path) -> Path:
    """The path, at which nothing is or a regular file that lies inside its folder after links are resolved.

    Raises UserError for another one, because the folder may come from somebody else.
    """
    target = path.resolve()
    if path.is_symlink() and not target.is_relative_to(path.parent.resolve()):
        raise UserError(f"{path}: is a link to a file outside its folder, which medagent does not follow. Remove it")
    plain(target)
    return path


def followed(path: Path) -> Path:
    """The path that the user named for a file to write, or what it links to."""
    return path.resolve() if path.is_symlink() else path


@contextmanager
def replacing(path: Path) -> Iterator[Path]:
    """The path of a new file, which replaces `path` at the end. If that fails, it is removed. Raises UserError."""
    aside = plain(path).with_name(f".{os.getpid()}.{path.name}")
    try:
        aside.unlink(missing_ok=True)
        yield aside
        aside.replace(path)
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror or error}") from None
    finally:
        with suppress(OSError):
            aside.unlink(missing_ok=True)


@contextmanager
def locked(lock: Path, wait: Callable[[], None]) -> Iterator[None]:
    """Let one process at a time make a file of the cache folder: `lock` lies next to it. If another process makes it
    now, `wait` is called first. On a file system without locks, each process makes its own. Raises OSError.
    """
    import fcntl

    with lock.open("wb") as file:
        try:
            fcntl.flock(file.fileno(), fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            wait()
            fcntl.flock(file.fileno(), fcntl.LOCK_EX)
        except OSError:
            pass
        yield


APPENDED = os.O_WRONLY | os.O_CREAT | os.O_APPEND
"""Flags of a file to which text is appended."""
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
    with writing(folder / MANIFEST), open(opened(folder / MANIFEST, APPENDED), "a", encoding="utf-8") as manifest:
        manifest.write(f"{path.name}\n")


def written_files(folder: Path) -> set[str]:
    """The names of the files that a run wrote into its folder. Raises UserError."""
    path = inside(folder / MANIFEST)
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
    if not plain(path).is_file() or path.read_bytes() != text.encode():
        write_whole(path, text)


def file_digest(path: Path) -> str:
    """SHA-256 of a file. Raises UserError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
