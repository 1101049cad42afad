"""Writes a set of twins of a task set."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile

from medagent.benchmarks.made_folders import HOSPITAL, file_digests, write_manifest
from medagent.benchmarks.psb300._charts import open_charts, patients_file
from medagent.benchmarks.psb300._items import task_set_of
from medagent.benchmarks.psb300.settings import Psb300Settings
from medagent.benchmarks.psb300.tasks import BUNDLED, TASK_FILE, Task
from medagent.benchmarks.twins import Half, Twins, by_rules, copy_patients, open_hospital, twins_of
from refsol.psb300.twins import case_of


def write(source: Psb300Settings, folder: Path) -> Twins[Task]:
    """Write the twins of a source's tasks into a folder."""
    tasks = task_set_of(source)
    clock, constants = source.clock or tasks.clock or tasks.manifest.now, open_charts(source, tasks).constants
    patients = patients_file(tasks, source.ehr).path
    hospital = open_hospital(patients)
    if tasks.name != BUNDLED or source.ehr is not None:
        copy_patients(patients, folder)
    twins = twins_of(tasks.tasks, by_rules(hospital, lambda task: case_of(task.model_dump(), clock, constants)))
    mark = {"canary": tasks.manifest.made.canary} if tasks.manifest.made else {}
    records = [{**_task(half).model_dump(), **mark} for half in twins.halves]
    text = json.dumps(records, ensure_ascii=False, indent=1) + "\n"
    (folder / TASK_FILE).write_text(text, encoding="utf-8", newline="\n")
    names = [HOSPITAL, TASK_FILE, "functions.json"]
    if (own := tasks.beside("functions.json")) is not None:
        copyfile(own, folder / "functions.json")
    files, name = file_digests(folder, names), f"twins-{tasks.digest[:12]}"
    write_manifest(folder, tasks.manifest.model_copy(update={"name": name, "files": files, "clock": clock}))
    return twins


def _task(half: Half[Task]) -> Task:
    return half.task.model_copy(update={"id": half.id, "twin": half.twin, "change": half.change})
