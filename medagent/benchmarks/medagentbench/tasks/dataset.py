"""Task and Dataset, read from the published form: a JSON list of `{id, instruction, context, eval_MRN?, sol?}`.

A data set is a folder with `test_data_v1.json` and `test_data_v2.json`, and beside them, where it has them, the answer
key `key_v1.json`, `key_v2.json`, the function list `functions.json` and the protocol `protocol.toml`. `synthetic` lies
in the package, `official` in the user's data folder after `medagent data import`; a folder of `medagent data new` is
named by its path, and has its patients and its constants with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated

from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationInfo, field_validator

from medagent.benchmarks.made_folders import SEED
from medagent.benchmarks.medagentbench.tasks.manifest import (
    HOSPITAL,
    Manifest,
    checked_file,
    is_made,
    read_manifest,
)
from medagent.core.errors import UserError
from medagent.core.paths import data_dir, file_state
from medagent.engine.report import DataRef
from medagent.engine.selection import mixed
from refsol.files import read_json
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.schema import validator

BUNDLED = "synthetic"
DATASETS = (BUNDLED, "official")
VERSIONS = ("v1", "v2")
OFFICIAL_DIGESTS = {
    "v1": "b539a3dece8cf2fe0518bbfe76e47dec53e3676755c9bb6d87ff261b2aad856a",
    "v2": "b6e89b2ef82f1bef27c5778a644a8a66c7b25738bbd6a48d03ab3e5182df6ca8",
}
"""The SHA-256 of the published task files, by version."""
TASK_TYPES = tuple(f"task{n}" for n in range(1, 11))
_ID = re.compile(r"[^\s#,]+")


def _usable_id(value: object) -> object:
    if isinstance(value, str) and not _ID.fullmatch(value):
        raise ValueError("is no id: it is empty, or has a blank, a comma or # in it")
    return value


class Task(BaseModel):
    """One task. An id `task5_7` says the type; any other id needs the field `type`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    id: Annotated[str, BeforeValidator(_usable_id)]
    """Unique in its file; without blanks, commas and #."""
    instruction: str
    """What the agent is asked."""
    context: str = ""
    """What the agent is told beside it."""
    eval_MRN: str | None = None
    """The patient it is about; all types but task1 need it."""
    sol: list[str] | None = None
    """The right answers; task1 needs it."""
    type: Annotated[str, Field(validate_default=True, json_schema_extra={"enum": list(TASK_TYPES)})] = ""
    """Which rules grade it; what stands before _ in the id, where that is a type."""

    @field_validator("type", mode="after")
    @classmethod
    def _known_type(cls, value: str, info: ValidationInfo) -> str:
        found = value or str(info.data.get("id", TASK_TYPES[0])).partition("_")[0]
        if found not in TASK_TYPES:
            raise ValueError(
                f"{found!r} is no task type; there are {TASK_TYPES[0]} to {TASK_TYPES[-1]}"
                if value
                else f"has no type: its id names none, so a field `type` must say which rules grade it "
                f"({TASK_TYPES[0]} to {TASK_TYPES[-1]})"
            )
        return found


@dataclass(frozen=True, slots=True)
class Dataset:
    """Tasks in their file's order. `digest` is the SHA-256 of the file's bytes; `folder` holds what lies beside it."""

    name: str
    version: str
    tasks: tuple[Task, ...]
    digest: str
    path: Path
    alone: bool = False
    """Whether it is a task file of a user's own: what lies beside it does not belong to it."""
    manifest: Manifest | None = None
    """What a made data set says of itself."""
    fixed: Constants | None = None
    """What it fixes, if no manifest says it."""

    @property
    def constants(self) -> Constants:
        """What it fixes beside tasks and patients."""
        return self.manifest.constants if self.manifest else self.fixed or PUBLISHED

    @property
    def bundled(self) -> bool:
        """Whether it is the bundled set, whose patients come with the package."""
        return self.name == BUNDLED and not self.alone

    @property
    def hospital(self) -> Path | None:
        """The patients that a folder's data set comes with, or None. Raises UserError where the file has changed.

        Where the file is not there, but the seed, they are made again into the cache folder.
        """
        if self.manifest is None or self.bundled:
            return None
        folder = self.path.parent
        if not (folder / HOSPITAL).exists() and (folder / SEED).is_file():
            from medagent.benchmarks.medagentbench.generator.write import hospital_again

            return hospital_again(folder, self.manifest)
        return checked_file(folder, self.manifest, HOSPITAL)

    @property
    def official_version(self) -> str | None:
        """The version of the published tasks that these are, wherever the file lies; None for other tasks."""
        return next((version for version, digest in OFFICIAL_DIGESTS.items() if digest == self.digest), None)

    @property
    def title(self) -> str:
        """What tables and reports call it: scores on data sets of different names do not compare."""
        if self.official_version is not None:
            return "MedAgentBench"
        return "MedAgentBench-Synthetic" if self.name == BUNDLED else self.name

    @property
    def ref(self) -> DataRef:
        """It, as a report names it."""
        version = self.official_version or ("" if self.version == self.name else self.version)
        note = "" if self.official_version else "not the published tasks: scores do not compare with published ones"
        return DataRef(name=self.title, version=version, digest=self.digest, note=note)

    def beside(self, name: str) -> Path | None:
        """A file that comes with the data set (`key_v2.json`, `functions.json`, `protocol.toml`), or None."""
        path = self.path.parent / name
        return path if not self.alone and path.is_file() else None

    @property
    def key(self) -> Path | None:
        """The answer key that comes with the data set, or None."""
        return self.beside(f"key_{self.version}.json")


def named(dataset: str) -> str | None:
    """The name of a data set that has one; None for any other text."""
    return dataset if dataset in DATASETS else None


def dataset_folder(name: str) -> Path:
    """The folder of a data set, named or given by its path. Raises UserError where there is none."""
    if name == BUNDLED:
        return Path(__file__).parent / "data" / name
    if name == "official":
        return data_dir() / "official"
    if is_made(Path(name)):
        return Path(name)
    raise UserError(
        f"unknown data set {name!r}; known: {', '.join(DATASETS)}, and folders that `medagent data new` made"
    )


def load_dataset(name: str, version: str) -> Dataset:
    """One version of a data set. Raises UserError for an unknown name or version, or one not imported yet."""
    folder = dataset_folder(name)
    if version not in VERSIONS:
        raise UserError(f"unknown version {version!r}; known: {', '.join(VERSIONS)}")
    path = folder / f"test_data_{version}.json"
    if is_made(folder):
        manifest = read_manifest(folder)
        title = name if name == BUNDLED else manifest.name
        return _read(checked_file(folder, manifest, path.name), title, version, manifest=manifest)
    if not path.is_file():
        raise UserError(
            f"data set {name!r} is not here ({path}); import it with "
            "`medagent data import DIR`, DIR being a checkout of the official repository"
        )
    return _read(path, name, version)


def load_tasks_file(path: Path) -> Dataset:
    """A user's own task file; its version is the file's stem. Raises UserError naming the place of what is wrong."""
    return _read(path, str(path.stem), path.stem, alone=True)


def _read(path: Path, name: str, version: str, *, alone: bool = False, manifest: Manifest | None = None) -> Dataset:
    tasks, digest = _tasks(path)
    return Dataset(name, version, tasks, digest, path, alone, manifest)


def _tasks(path: Path) -> tuple[tuple[Task, ...], str]:
    """The tasks of a file, and its digest; they are read once."""
    try:
        state = file_state(path)
    except OSError:
        state = ()  # reading says why
    return _tasks_of(path, state)


@lru_cache(maxsize=8)
def _tasks_of(path: Path, state: tuple[int, ...]) -> tuple[tuple[Task, ...], str]:
    tasks = read_json(path, validator(tuple[Task, ...]), expected="a JSON task file is expected", error=UserError)
    seen: set[str] = set()
    for task in tasks:
        if task.id in seen:
            raise UserError(f"{path}: the task id {task.id} stands there twice")
        seen.add(task.id)
    if not tasks:
        raise UserError(f"{path}: holds no task")
    return tasks, hashlib.sha256(path.read_bytes()).hexdigest()


def _ranges(dataset: Dataset) -> str:
    """The ids of a data set, from the first to the last of each type."""
    ids: dict[str, list[str]] = {}
    for task in dataset.tasks:
        ids.setdefault(task.type, []).append(task.id)
    return ", ".join(" … ".join(dict.fromkeys((some[0], some[-1]))) for some in ids.values())


def select(
    dataset: Dataset, types: Sequence[str], ids: Sequence[str], limit: int | None, per_type: int | None = None
) -> tuple[Task, ...]:
    """The tasks of the given types and ids (all, where none is given), in an order that mixes the types: at most
    `per_type` of each, at most `limit` in all.

    Raises UserError for an unknown type or id and for an empty selection, naming what there is.
    """
    present = tuple(dict.fromkeys(task.type for task in dataset.tasks))
    known = {task.id for task in dataset.tasks}
    if unknown := [name for name in types if name not in present]:
        raise UserError(f"unknown task type {', '.join(unknown)}; known: {', '.join(present)}")
    if unknown := [name for name in ids if name not in known]:
        raise UserError(f"unknown task id {', '.join(unknown)}; known: {_ranges(dataset)}")
    chosen = [t for t in dataset.tasks if (not types or t.type in types) and (not ids or t.id in ids)]
    by_id = {task.id: task for task in chosen}
    order = mixed(list(by_id), lambda task_id: by_id[task_id].type, per_group=per_type)[:limit]
    if not order:
        raise UserError(
            f"the selection is empty; {dataset.name} {dataset.version} has {len(known)} tasks of "
            f"{', '.join(present)}: mend --tasks, --ids or --limit"
        )
    return tuple(by_id[task_id] for task_id in order)
