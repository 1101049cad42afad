"""Errors of a user's own class in one line: the exception, the line of their file, and the data file that was read."""

from __future__ import annotations

import sys
import sysconfig
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import TypeVar

from medagent.core.errors import MedagentError, UserError
from refsol.errors import RefsolError

T = TypeVar("T")

_CODE = (".py", ".pyc", ".so")


def in_one_line(name: str, owner: type, read: Callable[[], T]) -> T:
    """The result of code that reads data. Its exception is raised as a UserError: `quiz.py:Quiz: JSONDecodeError: …
    (quiz.py:12, quiz.jsonl)`. To find the data file, the code runs a second time.
    """
    try:
        return read()
    except (MedagentError, RefsolError):
        raise
    except Exception as error:
        file = last_file(read)
        raise UserError(f"{name}: {error_words(error, owner, file)}") from error


def error_words(error: Exception, owner: type, *places: Path | None) -> str:
    """An exception with the last line of the owner's file that it passed, otherwise its own, and further places."""
    frames = traceback.extract_tb(error.__traceback__)
    file = getattr(sys.modules.get(owner.__module__), "__file__", None)
    frame = next((frame for frame in reversed(frames) if frame.filename == file), frames[-1] if frames else None)
    line = [f"{frame.filename}:{frame.lineno}"] if frame else []
    return f"{type(error).__name__}: {error} ({', '.join([*line, *(str(place) for place in places if place)])})"


def last_file(read: Callable[[], object]) -> Path | None:
    """The last file of data that this code opens; None if it opens none. Its exceptions are ignored."""
    opened: list[Path] = []
    is_recording = True
    library = Path(sysconfig.get_paths()["stdlib"])

    def record(event: str, arguments: tuple[object, ...]) -> None:
        if is_recording and event == "open" and isinstance(arguments[0], str):
            path = Path(arguments[0])
            if path.suffix not in _CODE and library not in path.parents:
                opened.append(path)

    sys.addaudithook(record)  # cannot be removed again, so it is told to stop
    with suppress(Exception):
        read()
    is_recording = False
    return next((path for path in reversed(opened) if path.is_file()), None)
