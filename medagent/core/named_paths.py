"""Which paths a run's folder may name. The folder may come from a stranger, and it must not decide what is read.

A path in `run.json` is accepted if it is in the run's folder, in the package or in the user's data folder, or if the
user has named it on this machine: as an option of a command, in a program, or with `medagent data allow`. The data
folder contains one file for each path that the user named.
"""

from __future__ import annotations

from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from medagent.core.errors import UserError
from medagent.core.options import options
from medagent.core.paths import data_dir

_PACKAGE = Path(__file__).parents[1]


def remember(path: Path) -> None:
    """Allow folders of runs to name this path. Raises OSError."""
    note = _note(path)
    if not _lies_in(path, _PACKAGE, data_dir()) and not note.exists():
        note.parent.mkdir(parents=True, exist_ok=True)
        note.write_text(f"{path.resolve()}\n", encoding="utf-8", errors="surrogateescape")


def remember_options(settings: BaseModel) -> None:
    """The same for all options of settings that name a file or a folder. If nothing can be written, the user has to
    name them again.
    """
    for option in options(type(settings)):
        value: Any = getattr(settings, option.name) if option.option.kind == "path" else None
        if value is None or value == option.info.get_default(call_default_factory=True):
            continue
        for path in value if isinstance(value, list) else [value]:
            with suppress(OSError, ValueError):  # some options accept a text or a file name
                if Path(path).exists():
                    remember(Path(path))


def named_path(run: Path, flag: str, value: str) -> str:
    """A path, or the name of a data set, that a run's folder states. Raises UserError if it is not allowed."""
    path = Path(value)
    is_name = path.name == value and ((data_dir() / value).exists() or not path.exists())
    if is_name or _lies_in(path, run, _PACKAGE, data_dir()) or _note(path).exists():
        return value
    raise UserError(
        f"{run / 'run.json'}: names --{flag} {value}, a path outside its folder that you have not named on this "
        f"machine; to allow it: medagent data allow {value}"
    )


def _note(path: Path) -> Path:
    return data_dir() / "named" / sha256(str(path.resolve()).encode(errors="surrogateescape")).hexdigest()


def _lies_in(path: Path, *folders: Path) -> bool:
    return any(path.resolve().is_relative_to(folder.resolve()) for folder in folders)
