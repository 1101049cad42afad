"""Defaults from files: `medagent.toml`, `[tool.medagent]` in `pyproject.toml`, or the file of `--config`.

`[run]` contains options for all benchmarks, `[run.NAME]` options for one. Keys are option names. Precedence: the
command line, `--config`, `medagent.toml`, `pyproject.toml`.

The user names only the file of `--config`. The other files are in the current folder, which may come from a stranger.
They may not set addresses or secrets, code to import, or paths outside their folder.
"""

from __future__ import annotations

import os
import tomllib
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError

NAME = "medagent.toml"
PROJECT = "pyproject.toml"


def defaults(benchmark: Any, config: Path | None) -> dict[str, Any]:
    """The defaults for a benchmark's options, by field name. Raises UserError with file and key."""
    values: dict[str, Any] = {}
    for file in (Path(PROJECT), Path(NAME)):
        if file.is_file() and not (config is not None and config.is_file() and config.samefile(file)):
            values |= _values(file, benchmark, trusted=False)
    if config is not None:
        values |= _values(config, benchmark, trusted=True)
    return values


def _read(path: Path) -> dict[str, Any]:
    try:
        content = tomllib.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise UserError(f"{path}: cannot be read: {error.strerror}") from None
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise UserError(f"{path}: not valid TOML: {error}") from None
    if path.name == PROJECT:
        content = _table(path, "tool.medagent", _table(path, "tool", content.get("tool", {})).get("medagent", {}))
    if unknown := set(content) - {"run"}:
        raise UserError(f"{path}: {min(unknown)}: unknown table; use [run] or [run.NAME]")
    return _table(path, "run", content.get("run", {}))


def _table(path: Path, name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise UserError(f"{path}: {name}: not a table; write [{name}]")
    return value


def _values(path: Path, benchmark: Any, *, trusted: bool) -> dict[str, Any]:
    from medagent.core.options import by_field, options
    from medagent.engine.settings import RunSettings

    run = _read(path)
    table_name = f"run.{benchmark.name}"
    shared = {name: value for name, value in run.items() if not isinstance(value, dict)}
    tables = (
        ("run", RunSettings, shared),
        (table_name, benchmark.Settings, _table(path, table_name, run.get(benchmark.name, {}))),
    )
    values: dict[str, Any] = {}
    for table, model, entries in tables:
        fields = list(options(model, "run"))
        known = {flag: field for field in fields for flag in field.names}
        for name, value in entries.items():
            if name not in known:
                flags = ", ".join(sorted(field.flag for field in fields))
                raise UserError(f"{path}: {table}.{name}: unknown option; the options are {flags}")
            if not trusted and (problem := _problem(known[name].option.kind, value)):
                raise UserError(
                    f"{path}: {table}.{name}: {problem}; this is allowed only in a file that you name with "
                    f"--config {path}"
                )
        values |= by_field(fields, {name.replace("-", "_"): value for name, value in entries.items()})
    return values


def _problem(kind: str, value: Any) -> str:
    """Why a file that the user did not name may not set this value; empty if it may."""
    from medagent.core.plugins import is_import_path

    if kind == "address":
        return "sets where requests go or who may send them"
    if kind == "secret":
        return "sets which secret is used"
    texts = [str(element) for element in (value if isinstance(value, list) else [value])]
    if kind == "code":
        if any(map(is_import_path, texts)):
            return "names code to run"
        texts = [text.removeprefix("scripted:") for text in texts if text.startswith("scripted:")]
    if kind in ("path", "code") and not all(map(_is_inside, texts)):
        return "points outside this folder"
    return ""


def _is_inside(text: str) -> bool:
    """Whether a path is in the current folder, links resolved. True for a text that is not a path."""
    here = os.path.realpath(os.curdir)
    try:
        return os.path.commonpath([here, os.path.realpath(os.path.expanduser(text))]) == here
    except (OSError, ValueError):  # a NUL character: no file can have this name
        return False
