"""A task of a set, and `tasks.jsonl`, which contains one task per line."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field

from medagent.core.errors import UserError
from refsol.clinical.sources import Amendment
from refsol.files import read_jsonl
from refsol.injection import Injected
from refsol.schema import validator

TASKS = "tasks.jsonl"
_ID = re.compile(r"[^\s#,]+")


def _check_id(value: object) -> object:
    if isinstance(value, str) and not _ID.fullmatch(value):
        raise ValueError("is not a valid id: it is empty, or contains white space, a comma or #")
    return value


def _check_entry(value: object) -> object:
    parts = (value.get("resourceType"), value.get("id")) if isinstance(value, dict) else str(value).split("/")
    if len(parts) != 2 or not all(isinstance(part, str) and part for part in parts):
        raise ValueError("is neither a FHIR resource with resourceType and id nor a reference such as Observation/12")
    return value


Entry = Annotated[str | Mapping[str, Any], BeforeValidator(_check_entry)]
TaskId = Annotated[str, BeforeValidator(_check_id)]
"""An id that commands can take in a list, and that keys of units (`ID#TRIAL`) can contain."""
_if_set = Field(exclude_if=lambda value: not value)


class Task(BaseModel):
    """A task: a type's rule, applied to a patient. `tasks.jsonl` contains one per line."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    id: TaskId
    """Unique in the set; without white space, commas and #."""
    type: str
    """The task type, which selects the rule that decides what is right."""
    patient: Annotated[str, _if_set] = ""
    """The id of the Patient; empty if the task does not state it, as in "find a patient"."""
    mrn: Annotated[str, _if_set] = ""
    """The identifier that the text shows instead of the patient's id."""
    text: str
    """The question or instruction for the agent."""
    context: Annotated[str, _if_set] = ""
    """Further information for the agent."""
    fields: Annotated[Mapping[str, Any], _if_set] = {}
    """Further fields that the rule of the type reads."""
    twin: Annotated[str, _if_set] = ""
    """The name that the twins of a pair or a triple share."""
    change: Annotated[tuple[Entry, ...], _if_set] = ()
    """What the chart of this twin contains instead of the data: FHIR resources that replace those with their type and
    id, and references (`Observation/12`) of those that it does not have.
    """
    injected: Annotated[Injected | None, Field(exclude_if=lambda value: value is None)] = None
    """An instruction for agents in the chart. What is right does not depend on it."""
    one_page: Annotated[bool | None, Field(exclude_if=lambda value: value is None)] = None
    """Whether the reference agent would be right if it opened one page of 20 of each search and did not sort; None if
    that was not computed.
    """
    canary: Annotated[str, _if_set] = ""
    """The text that identifies the set in training data. Agents do not see it."""

    @property
    def amendment(self) -> Amendment:
        """What the session's chart contains instead of the data: the change, and the resource with the instruction."""
        return (*self.change, self.injected.resource) if self.injected else self.change

    @property
    def alone(self) -> Self:
        """The task without its twin and without an instruction."""
        return self.model_copy(update={"twin": "", "change": (), "injected": None})

    @property
    def stated_patient(self) -> str:
        """The patient as the text names it; empty if the text does not."""
        shown = self.mrn or self.patient
        return shown if shown in self.text else ""

    @property
    def published(self) -> dict[str, Any]:
        """The task in the format of published task files, which refsol reads. It does not contain the change."""
        return {
            "id": self.id,
            "type": self.type,
            "instruction": self.text,
            "context": self.context,
            "eval_MRN": self.patient or None,
            "sol": self.fields.get("sol"),
        }

    @property
    def line(self) -> str:
        """The task as a line of `tasks.jsonl`."""
        return json.dumps(self.model_dump(mode="json"), ensure_ascii=False) + "\n"


def tasks_text(tasks: Iterable[Task]) -> str:
    """The content of `tasks.jsonl`."""
    return "".join(task.line for task in tasks)


def read_tasks(path: Path) -> tuple[Task, ...]:
    """Read a `tasks.jsonl`. Raises UserError with the line and the field of each problem."""
    lines = read_jsonl(path, validator(Task), expected="each line must be a task", error=UserError)
    return checked_tasks(path, [task for _, task in lines])


def checked_tasks(path: Path, tasks: Sequence[Task]) -> tuple[Task, ...]:
    """The tasks of a file. Raises UserError if there are none, for a duplicate id, and for a missing twin."""
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise UserError(f"{path}: duplicate task id {task.id}")
        seen.add(task.id)
    twins = Counter(task.twin for task in tasks if task.twin)
    size, words = (3, "three") if 3 in twins.values() else (2, "two")
    if odd := [f"twin {name} occurs {count} times" for name, count in twins.items() if count != size]:
        raise UserError(f"{path}: {odd[0]}; {words} tasks share the name of a twin")
    if not tasks:
        raise UserError(f"{path}: contains no tasks")
    return tuple(tasks)
