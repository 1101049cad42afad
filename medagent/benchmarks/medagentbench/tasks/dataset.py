"""Reads tasks and data sets in the published form: a JSON list of `{id, instruction, context, eval_MRN?, sol?}`.

A data set is a folder with the task files `test_data_v1.json` and `test_data_v2.json`. It may also have the answer keys
`key_v1.json` and `key_v2.json`, the function list `functions.json` and the protocol `protocol.toml`. `synthetic` is in
the package. `official` is in the user's data folder after `medagent data import`. A folder made by `medagent data new`
is named by its path and also contains its patients and constants.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, TypeAdapter, ValidationInfo, field_validator

from medagent.benchmarks._task_files import ChartTask, TaskId, read_tasks
from medagent.benchmarks.made_folders import HOSPITAL, SEED, checked_file
from medagent.benchmarks.medagentbench.tasks.manifest import Manifest, is_made, read_manifest
from medagent.core.errors import UserError
from medagent.core.paths import data_dir, file_state
from medagent.engine.report import DataRef
from medagent.engine.settings import mixed
from refsol.medagentbench import TYPES
from refsol.medagentbench.constants import PUBLISHED, Constants

BUNDLED = "synthetic"
FORMER = "synthetic-3"
"""The bundled set of generator 3. Runs over it can be read and graded; its patients cannot be made any more."""
DATASETS = (BUNDLED, "official")
VERSIONS = ("v1", "v2")
OFFICIAL_DIGESTS = {
    "v1": "b539a3dece8cf2fe0518bbfe76e47dec53e3676755c9bb6d87ff261b2aad856a",
    "v2": "b6e89b2ef82f1bef27c5778a644a8a66c7b25738bbd6a48d03ab3e5182df6ca8",
}
"""The SHA-256 of the published task files, by version."""
TASK_TYPES = tuple(TYPES)


class Task(ChartTask):
    """One task. An id such as `task5_7` includes the type; any other id needs the field `type`."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    id: TaskId
    """Unique in the file; without white space, commas and #."""
    instruction: str
    """The question or instruction for the agent."""
    context: str = ""
    """Further information for the agent."""
    eval_MRN: str | None = None
    """The patient's MRN. All types except task1 need it."""
    sol: list[str] | None = None
    """The right answers. task1 needs them."""
    type: Annotated[str, Field(validate_default=True, json_schema_extra={"enum": list(TASK_TYPES)})] = ""
    """The task type, which selects the rules for grading. By default the part of the id before _."""

    @field_validator("type", mode="after")
    @classmethod
    def _known_type(cls, value: str, info: ValidationInfo) -> str:
        kind = value or str(info.data.get("id", TASK_TYPES[0])).partition("_")[0]
        if kind not in TASK_TYPES:
            raise ValueError(
                f"{kind!r} is not a task type; the types are {TASK_TYPES[0]} to {TASK_TYPES[-1]}"
                if value
                else f"its type is missing and its id does not begin with one, so add the field `type` "
                f"({TASK_TYPES[0]} to {TASK_TYPES[-1]})"
            )
        return kind

    @property
    def mrn(self) -> str:
        """The patient's MRN if the instruction states it, as in the task that an agent gets."""
        return self.eval_MRN if self.eval_MRN and self.eval_MRN in self.instruction else ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """The tasks of a file, in its order. `digest` is the SHA-256 of the file."""

    name: str
    version: str
    tasks: tuple[Task, ...]
    digest: str
    path: Path
    alone: bool = False
    """Whether it is a user's own task file. Other files in its folder do not belong to it."""
    manifest: Manifest | None = None
    """The manifest of a generated data set."""
    fixed: Constants | None = None
    """The constants of a data set without a manifest, if they are not the published ones."""

    @property
    def constants(self) -> Constants:
        """The data set's constants for grading."""
        return self.manifest.constants if self.manifest else self.fixed or PUBLISHED

    @property
    def bundled(self) -> bool:
        """Whether it is the bundled data set."""
        return self.name == BUNDLED and not self.alone

    @property
    def over_bundled(self) -> bool:
        """Whether its patients are the package's: the bundled set, and sets made from it, such as its twins."""
        return self.bundled or (self.manifest is not None and HOSPITAL not in self.manifest.files)

    @property
    def former(self) -> bool:
        """Whether it is the former bundled data set."""
        return self.name == FORMER and not self.alone

    @property
    def hospital(self) -> Path | None:
        """The file of patients of a generated data set, or None. Raises UserError if the file has changed.

        If the file is missing but the folder contains the seed, the patients are regenerated into the cache folder.
        """
        if self.manifest is None or self.bundled or self.former or HOSPITAL not in self.manifest.files:
            return None
        folder = self.path.parent
        if not (folder / HOSPITAL).exists() and (folder / SEED).is_file():
            from medagent.benchmarks.medagentbench.generator.write import hospital_again

            return hospital_again(folder, self.manifest)
        return checked_file(folder, self.manifest.files, HOSPITAL)

    @property
    def official_version(self) -> str | None:
        """The version of the published tasks, if the file consists of their bytes. None for other tasks."""
        return next((version for version, digest in OFFICIAL_DIGESTS.items() if digest == self.digest), None)

    @property
    def title(self) -> str:
        """The name in tables and reports. Scores on data sets with different names cannot be compared."""
        if self.official_version is not None:
            return "MedAgentBench"
        return "MedAgentBench-Synthetic" if self.bundled or self.former else self.name

    @property
    def ref(self) -> DataRef:
        """The data set's name in a report."""
        version = self.official_version or ("" if self.version == self.name else self.version)
        tasks = "synthetic patients" if self.title.endswith("Synthetic") else "not the published tasks"
        note = "" if self.official_version else f"{tasks}: not comparable with published scores"
        return DataRef(name=self.title, version=version, digest=self.digest, note=note)

    def beside(self, name: str) -> Path | None:
        """Another file of the data set (`key_v2.json`, `functions.json`, `protocol.toml`), or None."""
        path = self.path.parent / name
        return path if not self.alone and path.is_file() else None

    @property
    def has_twins(self) -> bool:
        """Whether its tasks are twins. They do not share an answer key: each is graded by its own chart."""
        return any(task.twin for task in self.tasks)

    @property
    def key(self) -> Path | None:
        """The answer key of the data set, or None."""
        return self.beside(f"key_{self.version}.json")


def named(dataset: str) -> str | None:
    """The same text if it is the name of a data set, otherwise None."""
    return dataset if dataset in (*DATASETS, FORMER) else None


def set_of_run(settings: Mapping[str, Any]) -> str:
    """The data set of a run's settings. A run over the bundled set has the former one, if its tasks are those."""
    name = str(settings.get("dataset") or BUNDLED)
    digest = settings.get("tasks-digest")
    if name == BUNDLED and digest in {load_dataset(FORMER, version).digest for version in VERSIONS}:
        return FORMER
    return name


def is_tasks_file(dataset: str) -> bool:
    """Whether it is a user's own task file, and neither the name nor the folder of a data set."""
    return named(dataset) is None and (dataset.endswith(".json") or Path(dataset).is_file())


def dataset_folder(name: str) -> Path:
    """The folder of a data set, by the set's name or path. Raises UserError if there is none."""
    if name in (BUNDLED, FORMER):
        return Path(__file__).parent / "data" / name
    if name == "official":
        return data_dir() / "official"
    if is_made(Path(name)):
        return Path(name)
    raise UserError(
        f"unknown data set {name!r}; known: {', '.join(DATASETS)}, folders made by `medagent data new`, task files"
    )


def load_dataset(name: str, version: str) -> Dataset:
    """Load one version of a data set, or a user's own task file. Raises UserError if the name or version is unknown or
    not imported yet.
    """
    if is_tasks_file(name):
        return load_tasks_file(Path(name))
    folder = dataset_folder(name)
    if version not in VERSIONS:
        raise UserError(f"unknown version {version!r}; known: {', '.join(VERSIONS)}")
    path = folder / f"test_data_{version}.json"
    if is_made(folder):
        manifest = read_manifest(folder)
        title = name if name in (BUNDLED, FORMER) else manifest.name
        return _read(checked_file(folder, manifest.files, path.name), title, version, manifest=manifest)
    if not path.is_file():
        raise UserError(
            f"data set {name!r} is not imported yet ({path} does not exist); import it with `medagent data import "
            "DIR`, where DIR is a checkout of the official repository"
        )
    return _read(path, name, version)


def load_tasks_file(path: Path) -> Dataset:
    """Load a user's own task file. Its version is the file name without suffix.

    Raises UserError with the place of each problem.
    """
    return _read(path, str(path.stem), path.stem, alone=True)


def _read(path: Path, name: str, version: str, *, alone: bool = False, manifest: Manifest | None = None) -> Dataset:
    tasks, digest = _tasks(path)
    return Dataset(name, version, tasks, digest, path, alone, manifest)


def _tasks(path: Path) -> tuple[tuple[Task, ...], str]:
    """The tasks of a file, and its digest. An unchanged file is read once."""
    try:
        state = file_state(path)
    except OSError:
        state = ()  # reading the file raises the error
    return _tasks_of(path, state)


@lru_cache(maxsize=8)
def _tasks_of(path: Path, state: tuple[int, ...]) -> tuple[tuple[Task, ...], str]:
    tasks = read_tasks(path, Task)
    return tasks, hashlib.sha256(path.read_bytes()).hexdigest()


def _ranges(dataset: Dataset) -> str:
    """The first and the last id of each type, as text."""
    ids: dict[str, list[str]] = {}
    for task in dataset.tasks:
        ids.setdefault(task.type, []).append(task.id)
    return ", ".join(" … ".join(dict.fromkeys((some[0], some[-1]))) for some in ids.values())


def select(
    dataset: Dataset, types: Sequence[str], ids: Sequence[str], limit: int | None, per_type: int | None = None
) -> tuple[Task, ...]:
    """The tasks of these types and ids (all if both are empty), in an order that mixes the types.

    At most `per_type` tasks of each type, and at most `limit` in total. Raises UserError, with the known values, for an
    unknown type or id and for an empty selection.
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
            f"the selection is empty; {dataset.name} {dataset.version} contains {len(known)} tasks of "
            f"{', '.join(present)}: change --types, --ids or --limit"
        )
    return tuple(by_id[task_id] for task_id in order)


def task_schema() -> dict[str, Any]:
    """The JSON schema of a task file."""
    form = TypeAdapter(tuple[Task, ...]).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A task file of MedAgentBench",
        **form,
    }


def task_warnings(dataset: Dataset) -> Iterator[str]:
    """Tasks of a user's own file that cannot be graded or answered."""
    for number, task in enumerate(dataset.tasks):
        place = f"[{number}] {task.id!a}"
        if task.type == "task1" and task.sol is None:
            yield f"{place}: sol is missing, so it cannot be graded"
        if task.type != "task1" and not task.eval_MRN:
            yield f"{place}: eval_MRN is missing, so it cannot be graded"
        if not task.instruction.strip():
            yield f"{place}: the instruction is empty"
