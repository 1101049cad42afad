"""Task sets of psb-300: the bundled one, the published one that a user imports, and folders of `medagent data new`."""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from medagent.benchmarks.clinical.sets import TaskSet, load_set
from medagent.benchmarks.clinical.tasks import Task, TaskId, checked_tasks
from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.engine.data_sets import is_set, read_manifest
from medagent.engine.report import DataRef
from refsol.files import read_json
from refsol.psb300 import PUBLISHED, TYPES, RuleConstants
from refsol.schema import validator

PSB300, BUNDLED, IMPORTED = "psb-300", "synthetic", "published"
SETS = (BUNDLED, IMPORTED)
PUBLISHED_DIGEST = "c1645ea5415b808fc3b2f0ba819dca85eff50eddf85a0863c515f7fe876b0d37"
"""The SHA-256 of the published task file."""
PER_TYPE = 30
"""Tasks of each type in a set with splits."""
PsbSplit = Literal["dev", "val", "id_test", "ood"]
_IN_SPLIT: dict[str, slice] = {"dev": slice(0, 12), "val": slice(12, 22), "id_test": slice(22, 30)}
_OOD = ("task5", "task7")


class PsbPublishedTask(BaseModel):
    """A task of the published file. Its id begins with its type, as in `task5_7`."""

    model_config = ConfigDict(frozen=True)

    id: TaskId
    instruction: str
    context: str = ""
    eval_MRN: Annotated[str, Field(min_length=1)]

    @field_validator("id")
    @classmethod
    def _has_a_type(cls, value: str) -> str:
        if value.partition("_")[0] not in TYPES:
            raise ValueError(f"{value!r} does not begin with a type of psb-300; the types are {', '.join(TYPES)}")
        return value

    @property
    def task(self) -> Task:
        """The task of a set."""
        kind = self.id.partition("_")[0]
        return Task(id=self.id, type=kind, patient=self.eval_MRN, text=self.instruction, context=self.context)


def read_published(path: Path) -> tuple[Task, ...]:
    """Read a task file in the published format. Raises UserError with the place of each problem."""
    every = tuple[PsbPublishedTask, ...]
    listed = read_json(path, validator(every), expected="a JSON task file is expected", error=UserError)
    return checked_tasks(path, [task.task for task in listed])


class PsbConstants(BaseModel):
    """The `constants` in the manifest of a set."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    cut_off: AwareDatetime | None = PUBLISHED.cut_off
    """Resources stored later do not count; None: all count."""
    grading_clock: AwareDatetime | None = None
    """The time of grading for task1; None: the time at which the run starts."""
    unfinished: Literal["empty", "wrong"] = "empty"
    """In a packed task: how an episode without FINISH counts."""
    published: str = ""
    """The SHA-256 of the file from which the set was imported."""


def psb_constants(tasks: TaskSet) -> PsbConstants:
    """The constants of a set. Raises UserError."""
    try:
        return PsbConstants.model_validate(dict(tasks.manifest.constants))
    except ValueError as error:
        raise UserError(f"{tasks.folder}: constants: {error}") from None


def constants_of(tasks: TaskSet) -> RuleConstants:
    """The constants for grading."""
    return RuleConstants(cut_off=psb_constants(tasks).cut_off, default_now=tasks.clock)


def grading_clock(tasks: TaskSet) -> datetime | None:
    """The time of grading for task1, if the set states one."""
    return psb_constants(tasks).grading_clock


def is_published(tasks: TaskSet) -> bool:
    """Whether the tasks are exactly the published ones."""
    return psb_constants(tasks).published == PUBLISHED_DIGEST


def ref(tasks: TaskSet) -> DataRef:
    """A set's name in a report."""
    note = "" if is_published(tasks) else "not the published tasks: not comparable with published scores"
    return DataRef(name=f"psb-300 {tasks.name}", version=tasks.part, digest=tasks.digest, note=note)


def folder_of(name: str) -> Path:
    """The folder of a set, by the set's name or path. Raises UserError if there is none."""
    if name == BUNDLED:
        return Path(__file__).parent / "data" / name
    if name == IMPORTED:
        folder = imported_folder()
        if not is_set(folder):
            raise UserError(
                f"data set {name!r} is not imported yet ({folder} does not exist); import it with `medagent data "
                "import DIR`, where DIR is a checkout that contains new_patient_tasks.json"
            )
        return folder
    if is_set(Path(name)) and read_manifest(Path(name)).benchmark == PSB300:
        return Path(name)
    raise UserError(
        f"unknown data set {name!r}; known: {', '.join(SETS)}, and folders made by `medagent data new --like psb-300`"
    )


def imported_folder() -> Path:
    """The folder of the published set after its import."""
    return data_dir() / PSB300 / IMPORTED


def load_tasks(name: str, split: PsbSplit | None = None) -> TaskSet:
    """Load a set, or one split of it. Raises UserError with the file and the place of a problem."""
    tasks = load_set(folder_of(name))
    if split is None:
        return tasks
    return replace(tasks, tasks=split_tasks(tasks.tasks, split, str(tasks.path)), part=split)


def split_tasks(tasks: Sequence[Task], split: PsbSplit, path: str) -> tuple[Task, ...]:
    """The tasks of a split of the GRASP study. Raises UserError for a set without splits.

    Types 5 and 7 are `ood`. The ids of each other type are shuffled by one random generator, types sorted as texts: the
    first 12 are `dev`, the next 10 `val` and the last 8 `id_test`.
    """
    by_type: dict[str, list[Task]] = {name: [task for task in tasks if task.type == name] for name in TYPES}
    if odd := [name for name, members in by_type.items() if len(members) != PER_TYPE]:
        raise UserError(
            f"--split {split}: {path} cannot be split: {odd[0]} contains {len(by_type[odd[0]])} tasks, not {PER_TYPE}"
        )
    if split == "ood":
        return tuple(task for task in tasks if task.type in _OOD)
    random_order = random.Random(42)
    chosen: set[str] = set()
    for name in sorted(set(by_type) - set(_OOD)):
        ids = [task.id for task in by_type[name]]
        random_order.shuffle(ids)
        chosen.update(ids[_IN_SPLIT[split]])
    return tuple(task for task in tasks if task.id in chosen)
