"""Reads task files: JSON lists of tasks with unique ids."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BeforeValidator

from medagent.core.errors import UserError
from refsol.files import read_json
from refsol.schema import validator

_ID = re.compile(r"[^\s#,]+")


def _check_id(value: object) -> object:
    if isinstance(value, str) and not _ID.fullmatch(value):
        raise ValueError("is not a valid id: it is empty, or has white space, a comma or #")
    return value


TaskId = Annotated[str, BeforeValidator(_check_id)]
"""An id that commands can take in a list, and that keys of units (`ID#TRIAL`) can contain."""


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_HasId)


def read_tasks(path: Path, task: type[T]) -> tuple[T, ...]:
    """Read the tasks of a file. Raises UserError, which names the place of each problem."""
    every: Any = tuple[task, ...]  # type: ignore[valid-type]  # pydantic needs the type as a value
    tasks: tuple[T, ...] = read_json(path, validator(every), expected="a JSON task file is expected", error=UserError)
    seen: set[str] = set()
    for one in tasks:
        if one.id in seen:
            raise UserError(f"{path}: duplicate task id {one.id}")
        seen.add(one.id)
    if not tasks:
        raise UserError(f"{path}: has no tasks")
    return tasks
