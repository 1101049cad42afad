"""Files that are written, with an error that a user can fix if that fails."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from medagent.core.errors import UserError


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Raises UserError if a file cannot be written. It names `path` if the system's error names no file."""
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
