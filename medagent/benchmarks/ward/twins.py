"""Writes a set of twins of own task types."""

from __future__ import annotations

from pathlib import Path

from medagent.benchmarks.made_folders import HOSPITAL, Made, Order, file_digests, write_manifest
from medagent.benchmarks.twins import Twins, by_rules, copy_patients, open_hospital, twins_of
from medagent.benchmarks.ward.settings import WardSettings
from medagent.benchmarks.ward.tasks import (
    TASKS,
    Task,
    TaskSet,
    WardManifest,
    own_manifest,
    patients_file,
    task_set,
    tasks_text,
)
from refsol.clinical.pairs import Case, plausible
from refsol.clinical.task_type import TaskType


def write(source: WardSettings, types: tuple[TaskType, ...], folder: Path) -> Twins[Task]:
    """Write the twins of a source's tasks into a folder, with the patients. Raises UserError, RuleError."""
    tasks = task_set(source, types)
    patients = patients_file(source).path
    hospital = open_hospital(patients)
    copy_patients(patients, folder)
    items = {item.id: item for item in tasks.items}
    twins = twins_of(
        [item.stored for item in tasks.items],
        by_rules(hospital, lambda task: case_of(items[task.id].kind, task, tasks)),
    )
    halves = [
        one.task.model_copy(update={"id": one.id, "twin": one.twin, "change": one.change}) for one in twins.halves
    ]
    (folder / TASKS).write_text(tasks_text(halves), encoding="utf-8", newline="\n")
    files = file_digests(folder, (HOSPITAL, TASKS))
    manifest = own_manifest(source.dataset) or _manifest(tasks, len(hospital.patients))
    name = f"twins-{files[TASKS][:12]}"
    write_manifest(folder, manifest.model_copy(update={"name": name, "now": tasks.now, "files": files}))
    return twins


def case_of(kind: TaskType, task: Task, tasks: TaskSet) -> Case:
    """A task as a case."""
    return Case(kind, lambda source: [tasks.chart_over(source, task.patient)], plausible)


def _manifest(tasks: TaskSet, patients: int) -> WardManifest:
    made = Made.of(0, tasks.digest, False, Order(patients=patients), {})
    return WardManifest(name="", now=tasks.now, files={}, made=made)
