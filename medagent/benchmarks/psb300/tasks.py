"""Task sets of psb-300: the bundled one, the published one that a user imports, and folders of `medagent data new`.

A set is a folder with `tasks.json` (a list of `{id, instruction, context, eval_MRN}`) and `dataset.json` with the
constants of the set and the digest of each file.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Annotated, Literal

from pydantic import AwareDatetime, BaseModel, ConfigDict, Field, field_validator

from medagent.benchmarks._task_files import ChartTask, TaskId, read_tasks
from medagent.benchmarks.made_folders import HOSPITAL, MANIFEST, Made, checked_file
from medagent.core.errors import UserError
from medagent.core.paths import data_dir
from medagent.core.writing import file_digest
from medagent.engine.report import DataRef
from refsol.files import read_json
from refsol.psb300 import PUBLISHED, TYPES, Constants
from refsol.schema import validator

BUNDLED, IMPORTED = "synthetic", "published"
FORMER = "synthetic-1"
"""The bundled set of generator 1 with its charts. Runs over it can be graded; its patients cannot be made any more."""
SETS = (BUNDLED, IMPORTED)
TASK_FILE = "tasks.json"
PUBLISHED_DIGEST = "c1645ea5415b808fc3b2f0ba819dca85eff50eddf85a0863c515f7fe876b0d37"
"""The SHA-256 of the published task file."""
PER_TYPE = 30
"""Tasks of each type in a set with splits."""
Split = Literal["dev", "val", "id_test", "ood"]
_IN_SPLIT: dict[str, slice] = {"dev": slice(0, 12), "val": slice(12, 22), "id_test": slice(22, 30)}
_OOD = ("task5", "task7")


class Task(ChartTask):
    """One task. Its id begins with its type, as in `task5_7`."""

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
    def type(self) -> str:
        """The task type, which selects the rule that grades the task."""
        return self.id.partition("_")[0]

    @property
    def mrn(self) -> str:
        """The patient's MRN if the instruction states it, as in the task that an agent gets."""
        return self.eval_MRN if self.eval_MRN in self.instruction else ""


class Psb300Manifest(BaseModel):
    """The content of `dataset.json`. `files` lists the SHA-256 of each file by name."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    name: str
    now: AwareDatetime = PUBLISHED.default_now
    """The scenario's now, for tasks whose context states no time."""
    clock: AwareDatetime | None = None
    """The time of grading for task1. None: the time at which the run starts."""
    cut_off: AwareDatetime | None = PUBLISHED.cut_off
    files: dict[str, str]
    made: Made | None = None


@dataclass(frozen=True, slots=True)
class TaskSet:
    """The tasks of a set or of one split, in the order of their file. `digest` is the SHA-256 of the file."""

    name: str
    split: Split | None
    tasks: tuple[Task, ...]
    digest: str
    folder: Path
    manifest: Psb300Manifest

    @property
    def constants(self) -> Constants:
        """The set's constants for grading."""
        return Constants(cut_off=self.manifest.cut_off, default_now=self.manifest.now)

    @property
    def clock(self) -> datetime | None:
        """The time of grading for task1, if the set contains one."""
        return self.manifest.clock

    @property
    def is_published(self) -> bool:
        """Whether the task file consists of exactly the published bytes."""
        return self.digest == PUBLISHED_DIGEST

    @property
    def hospital(self) -> Path | None:
        """The set's file of patients, or None. Raises UserError if the file has changed."""
        return checked_file(self.folder, self.manifest.files, HOSPITAL) if HOSPITAL in self.manifest.files else None

    @property
    def ref(self) -> DataRef:
        """The data set's name in a report."""
        note = "" if self.is_published else "not the published tasks: not comparable with published scores"
        return DataRef(name=f"psb-300 {self.name}", version=self.split or "", digest=self.digest, note=note)

    def beside(self, name: str) -> Path | None:
        """Another file of the set, such as `functions.json`, or None if the set does not have it."""
        return self.folder / name if name in self.manifest.files else None


def folder_of(name: str) -> Path:
    """The folder of a set, by the set's name or path. Raises UserError if there is none."""
    if name in (BUNDLED, FORMER):
        return Path(__file__).parent / "data" / name
    if name == IMPORTED:
        folder = imported_folder()
        if not (folder / MANIFEST).is_file():
            raise UserError(
                f"data set {name!r} is not imported yet ({folder} does not exist); import it with `medagent data "
                "import DIR`, where DIR is a checkout that contains new_patient_tasks.json"
            )
        return folder
    if is_set(Path(name)):
        return Path(name)
    raise UserError(
        f"unknown data set {name!r}; known: {', '.join(SETS)}, and folders made by `medagent data new --like psb-300`"
    )


def imported_folder() -> Path:
    """The folder of the published set after its import."""
    return data_dir() / "psb-300" / IMPORTED


def present_sets() -> list[TaskSet]:
    """The bundled set, and the published set if it is imported. Raises UserError if a file is damaged."""
    folders = {BUNDLED: folder_of(BUNDLED), IMPORTED: imported_folder()}
    return [load_tasks(name) for name, folder in folders.items() if is_set(folder)]


def load_tasks(name: str, split: Split | None = None) -> TaskSet:
    """Load a set, or one split of it. Raises UserError with the file and the place of a problem."""
    folder = folder_of(name)
    manifest = read_manifest(folder)
    path = checked_file(folder, manifest.files, TASK_FILE)
    tasks = read_tasks(path, Task)
    chosen = tasks if split is None else split_tasks(tasks, split, str(path))
    title = name if name in SETS else BUNDLED if name == FORMER else manifest.name
    return TaskSet(title, split, chosen, file_digest(path), folder, manifest)


def is_set(folder: Path) -> bool:
    """Whether a folder contains the files of a psb-300 set."""
    return (folder / MANIFEST).is_file() and (folder / TASK_FILE).is_file()


def read_manifest(folder: Path) -> Psb300Manifest:
    """Read a folder's `dataset.json`. Raises UserError."""
    return read_json(
        folder / MANIFEST,
        validator(Psb300Manifest),
        expected="the manifest of a set of psb-300 is expected",
        error=UserError,
    )


def split_tasks(tasks: Sequence[Task], split: Split, path: str) -> tuple[Task, ...]:
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
    dice = random.Random(42)
    chosen: set[str] = set()
    for name in sorted(set(by_type) - set(_OOD)):
        ids = [task.id for task in by_type[name]]
        dice.shuffle(ids)
        chosen.update(ids[_IN_SPLIT[split]])
    return tuple(task for task in tasks if task.id in chosen)
