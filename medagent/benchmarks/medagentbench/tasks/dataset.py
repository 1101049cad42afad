"""The sets of MedAgentBench: bundled, imported, made by `medagent data new`, and task files in the published format.

A published file is a JSON list of `{id, instruction, context, eval_MRN?, sol?}`; it becomes a `TaskSet`. `official` is
in the user's data folder after `medagent data import`, with one task file per version.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from pathlib import Path
from typing import Annotated, Any

from pydantic import BaseModel, ConfigDict, Field, TypeAdapter, ValidationInfo, field_validator

from medagent.benchmarks.clinical.sets import TaskSet, load_set
from medagent.benchmarks.clinical.tasks import Task, TaskId, checked_tasks
from medagent.core.errors import UserError
from medagent.core.paths import data_dir, file_state
from medagent.engine.data_sets import SetManifest, is_set, read_manifest
from medagent.engine.report import DataRef
from medagent.engine.settings import RunSettings, mixed
from medagent.fhir_episodes.task import FhirItem
from refsol.files import read_json
from refsol.medagentbench import TYPES
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.schema import validator

MEDAGENTBENCH, BUNDLED, OFFICIAL = "medagentbench", "synthetic", "official"
DATASETS = (BUNDLED, OFFICIAL)
VERSIONS = ("v1", "v2")
WHOLE = "v2"
"""The version that is the whole set; the other one is a part of it."""
OFFICIAL_DIGESTS = {
    "v1": "b539a3dece8cf2fe0518bbfe76e47dec53e3676755c9bb6d87ff261b2aad856a",
    "v2": "b6e89b2ef82f1bef27c5778a644a8a66c7b25738bbd6a48d03ab3e5182df6ca8",
}
"""The SHA-256 of the published task files, by version."""
TASK_TYPES = tuple(TYPES)
_BUNDLED_FOLDER = Path(__file__).parent / "data" / BUNDLED
_CONSTANTS = TypeAdapter(Constants)
_OF_THE_SET = ("now", "base")
"""The constants that a manifest contains under other names."""


class PublishedTask(BaseModel):
    """One task of a published file. An id such as `task5_7` includes the type; any other id needs the field `type`."""

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
    def task(self) -> Task:
        """The task of a set."""
        fields = {} if self.sol is None else {"sol": self.sol}
        patient = self.eval_MRN or ""
        return Task(
            id=self.id, type=self.type, patient=patient, text=self.instruction, context=self.context, fields=fields
        )


def stated_constants(constants: Constants) -> dict[str, Any]:
    """Constants as a manifest contains them."""
    stated: dict[str, Any] = _CONSTANTS.dump_python(constants, mode="json")
    return {name: value for name, value in stated.items() if name not in _OF_THE_SET}


def constants_of(tasks: TaskSet) -> Constants:
    """The constants of a set. Raises UserError."""
    manifest = tasks.manifest
    return _constants(manifest.clock, manifest.base, json.dumps(dict(manifest.constants)), manifest.name)


@lru_cache(maxsize=16)
def _constants(clock: datetime, base: str, stated: str, name: str) -> Constants:
    try:
        return _CONSTANTS.validate_python({**json.loads(stated), "now": clock, "base": base})
    except ValueError as error:
        raise UserError(f"{name}: constants: {error}") from None


def is_bundled(tasks: TaskSet) -> bool:
    """Whether it is the bundled set."""
    return tasks.folder == _BUNDLED_FOLDER and not tasks.alone


def official_version(tasks: TaskSet) -> str | None:
    """The version of the published tasks, if the file consists of their bytes. None for other tasks."""
    return next((version for version, digest in OFFICIAL_DIGESTS.items() if digest == tasks.digest), None)


def title(tasks: TaskSet) -> str:
    """The name in tables and reports. Scores on data sets with different names cannot be compared."""
    if official_version(tasks) is not None:
        return "MedAgentBench"
    return "MedAgentBench-Synthetic" if is_bundled(tasks) else tasks.name


def ref(tasks: TaskSet) -> DataRef:
    """The set's name in a report."""
    published = official_version(tasks)
    version = published or ("" if tasks.part == tasks.name else tasks.part)
    kind = "synthetic patients" if is_bundled(tasks) else "not the published tasks"
    note = "" if published else f"{kind}: not comparable with published scores"
    return DataRef(name=title(tasks), version=version, digest=tasks.digest, note=note)


def own_key(tasks: TaskSet) -> Path | None:
    """The recorded searches of a set; of the imported one, those that the user put next to its task file."""
    return tasks.reads or tasks.beside(f"reads_{tasks.part}.jsonl")


def named(dataset: str) -> str | None:
    """The same text if it is the name of a data set, otherwise None."""
    return dataset if dataset in DATASETS else None


def set_of_run(settings: Mapping[str, Any]) -> str:
    """The data set of a run's settings."""
    return str(settings.get("dataset") or BUNDLED)


def is_tasks_file(dataset: str) -> bool:
    """Whether it is a user's own task file, and neither the name nor the folder of a data set."""
    return named(dataset) is None and (dataset.endswith(".json") or Path(dataset).is_file())


def dataset_folder(name: str) -> Path:
    """The folder of a data set, by the set's name or path. Raises UserError if there is none."""
    if name == BUNDLED:
        return _BUNDLED_FOLDER
    if name == OFFICIAL:
        return data_dir() / OFFICIAL
    if is_set(Path(name)):
        stated = read_manifest(Path(name)).benchmark
        if stated == MEDAGENTBENCH:
            return Path(name)
        raise UserError(f"{name}: is a set of {stated}; run it with that benchmark")
    raise UserError(
        f"unknown data set {name!r}; known: {', '.join(DATASETS)}, folders made by `medagent data new`, task files"
    )


def load_dataset(name: str, version: str) -> TaskSet:
    """Load one version of a data set, or a user's own task file. Raises UserError if the name or version is unknown or
    not imported yet.
    """
    if is_tasks_file(name):
        return load_tasks_file(Path(name))
    folder = dataset_folder(name)
    if version not in VERSIONS:
        raise UserError(f"unknown version {version!r}; known: {', '.join(VERSIONS)}")
    if is_set(folder):
        return replace(load_set(folder), part=version) if version == WHOLE else load_set(folder, version)
    path = folder / f"test_data_{version}.json"
    if not path.is_file():
        raise UserError(
            f"data set {name!r} is not imported yet ({path} does not exist); import it with `medagent data import "
            "DIR`, where DIR is a checkout of the official repository"
        )
    return _published(path, name, version)


def load_tasks_file(path: Path) -> TaskSet:
    """Load a user's own task file. Its version is the file name without suffix.

    Raises UserError with the place of each problem.
    """
    return _published(path, str(path.stem), path.stem, alone=True)


def present_datasets() -> list[TaskSet]:
    """Every version of every data set on this machine. Raises UserError if a file is damaged."""
    imported = [version for version in VERSIONS if (dataset_folder(OFFICIAL) / f"test_data_{version}.json").is_file()]
    return [load_dataset(BUNDLED, version) for version in VERSIONS] + [
        load_dataset(OFFICIAL, version) for version in imported
    ]


def _published(path: Path, name: str, version: str, *, alone: bool = False) -> TaskSet:
    """A task file in the published format as a set with the published constants. An unchanged file is read once."""
    try:
        state = file_state(path)
    except OSError:
        state = ()  # reading the file raises the error
    tasks, digest = _tasks_of(path, state)
    manifest = SetManifest(name=name, benchmark=MEDAGENTBENCH, clock=PUBLISHED.now, files={})
    return TaskSet(name, tasks, digest, path, manifest, version, alone)


@lru_cache(maxsize=8)
def _tasks_of(path: Path, state: tuple[int, ...]) -> tuple[tuple[Task, ...], str]:
    every = tuple[PublishedTask, ...]
    listed = read_json(path, validator(every), expected="a JSON task file is expected", error=UserError)
    tasks = checked_tasks(path, [task.task for task in listed])
    return tasks, hashlib.sha256(path.read_bytes()).hexdigest()


def _ranges(ids: Iterable[Sequence[str]]) -> str:
    """The first and the last id of each type, as text."""
    return ", ".join(" … ".join(dict.fromkeys((of_type[0], of_type[-1]))) for of_type in ids)


def select(
    items: Sequence[FhirItem], chosen_types: Sequence[str], settings: RunSettings, tasks: TaskSet
) -> Sequence[FhirItem]:
    """The items that `--types`, `--ids`, `--per-type` and `--limit` select, in an order that mixes the types.

    Raises UserError, with the known values, for an unknown type or id and for an empty selection.
    """
    by_type: dict[str, list[str]] = {}
    for item in items:
        by_type.setdefault(item.group, []).append(item.id)
    by_id = {item.id: item for item in items}
    if unknown := [name for name in chosen_types if name not in by_type]:
        raise UserError(f"unknown task type {', '.join(unknown)}; known: {', '.join(by_type)}")
    if unknown := [name for name in settings.ids if name not in by_id]:
        raise UserError(f"unknown task id {', '.join(unknown)}; known: {_ranges(by_type.values())}")
    types, ids = chosen_types or by_type, settings.ids or by_id
    chosen = [item.id for item in items if item.group in types and item.id in ids]
    order = mixed(chosen, lambda item_id: by_id[item_id].group, per_group=settings.per_type)[: settings.limit]
    if not order:
        raise UserError(
            f"the selection is empty; {tasks.name} {tasks.part} contains {len(by_id)} tasks of "
            f"{', '.join(by_type)}: change --types, --ids or --limit"
        )
    return [by_id[item_id] for item_id in order]


def task_schema() -> dict[str, Any]:
    """The JSON schema of a task file."""
    form = TypeAdapter(tuple[PublishedTask, ...]).json_schema()
    return {
        "$schema": "https://json-schema.org/draft/2020-12/schema",
        "title": "A task file of MedAgentBench",
        **form,
    }


def task_warnings(tasks: TaskSet) -> Iterator[str]:
    """Tasks of a user's own file that cannot be graded or answered."""
    for number, task in enumerate(tasks.tasks):
        place = f"[{number}] {task.id!a}"
        if task.type == "task1" and "sol" not in task.fields:
            yield f"{place}: sol is missing, so it cannot be graded"
        if task.type != "task1" and not task.patient:
            yield f"{place}: eval_MRN is missing, so it cannot be graded"
        if not task.text.strip():
            yield f"{place}: the instruction is empty"


def rules_in_words(constants: Constants) -> str:
    """The published clock, codes and thresholds by which the ten types grade a task file."""
    labs = (constants.magnesium, constants.potassium, constants.glucose, constants.a1c)
    codes = ", ".join([*(lab.code for lab in labs), constants.blood_pressure_code])
    return (
        f"graded with the published rules: it is {constants.now.isoformat()}; the codes are {codes}; magnesium is low "
        f"up to {constants.magnesium_doses[-1][0]} {constants.magnesium.unit}, potassium below "
        f"{constants.potassium_low} {constants.potassium.unit}; a result is recent for {constants.look_back_hours} "
        f"hours, an HbA1c for {constants.a1c_months} months. If your patients need other rules, write your own "
        "task types (docs/clinical.md)"
    )
