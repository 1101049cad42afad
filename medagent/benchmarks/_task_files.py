"""Reads task files: JSON lists of tasks with unique ids."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Annotated, Any, Protocol, Self, TypeVar

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from medagent.core.errors import UserError
from refsol.clinical.sources import Amendment
from refsol.files import read_json
from refsol.injection import Injected
from refsol.schema import validator

_ID = re.compile(r"[^\s#,]+")


def _check_id(value: object) -> object:
    if isinstance(value, str) and not _ID.fullmatch(value):
        raise ValueError("is not a valid id: it is empty, or contains white space, a comma or #")
    return value


def _check_entry(value: object) -> object:
    parts = (value.get("resourceType"), value.get("id")) if isinstance(value, dict) else str(value).split("/")
    if len(parts) != 2 or not all(isinstance(one, str) and one for one in parts):
        raise ValueError("is neither a FHIR resource with resourceType and id nor a reference such as Observation/12")
    return value


Entry = Annotated[str | Mapping[str, Any], BeforeValidator(_check_entry)]
TaskId = Annotated[str, BeforeValidator(_check_id)]
"""An id that commands can take in a list, and that keys of units (`ID#TRIAL`) can contain."""


class ChartTask(BaseModel):
    """The fields of a task whose chart may differ from the data: one of two twins, or with an injected instruction."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    twin: Annotated[str, Field(exclude_if=lambda one: not one)] = ""
    """The name that the two twins share."""
    change: Annotated[tuple[Entry, ...], Field(exclude_if=lambda one: not one)] = ()
    """What the chart of this twin contains instead of the data: FHIR resources that replace those with their type and
    id, and references (`Observation/12`) of those that it does not have.
    """

    injected: Annotated[Injected | None, Field(exclude_if=lambda one: one is None)] = None
    """An instruction for agents in the chart. What is right does not depend on it."""

    @property
    def amendment(self) -> Amendment:
        """What the session's chart contains instead of the data: the change, and the resource with the instruction."""
        return (*self.change, self.injected.resource) if self.injected else self.change

    @property
    def alone(self) -> Self:
        """The task without its twin and without an instruction."""
        return self.model_copy(update={"twin": "", "change": (), "injected": None})


class _HasId(Protocol):
    @property
    def id(self) -> str: ...


T = TypeVar("T", bound=_HasId)


def read_tasks(path: Path, task: type[T]) -> tuple[T, ...]:
    """Read the tasks of a file. Raises UserError with the place of each problem."""
    every: Any = tuple[task, ...]  # type: ignore[valid-type]  # pydantic needs the type as a value
    tasks: tuple[T, ...] = read_json(path, validator(every), expected="a JSON task file is expected", error=UserError)
    seen: set[str] = set()
    for one in tasks:
        if one.id in seen:
            raise UserError(f"{path}: duplicate task id {one.id}")
        seen.add(one.id)
    twins = Counter(twin for one in tasks if (twin := getattr(one, "twin", "")))
    if odd := [f"twin {name} occurs {count} times" for name, count in twins.items() if count != 2]:
        raise UserError(f"{path}: {odd[0]}; two tasks share the name of a twin")
    if not tasks:
        raise UserError(f"{path}: contains no tasks")
    return tasks
