"""Writes a set of twins of a data set or a task file."""

from __future__ import annotations

import json
from pathlib import Path
from shutil import copyfile
from typing import Any

from medagent.benchmarks.made_folders import HOSPITAL, canary, file_digests, seed_digest, write_manifest
from medagent.benchmarks.medagentbench.data import patients_file
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import (
    VERSIONS,
    Dataset,
    Task,
    dataset_folder,
    is_tasks_file,
    load_dataset,
)
from medagent.benchmarks.medagentbench.tasks.manifest import Manifest
from medagent.benchmarks.twins import Half, Twins, by_rules, copy_patients, open_hospital, twins_of
from refsol.clinical.pairs import Case
from refsol.clinical.twins import changed
from refsol.medagentbench.twins import answer_of, case_of


def write(source: MedAgentBenchSettings, folder: Path) -> Twins[Task]:
    """Write the twins of each version of a source's tasks into a folder. Returns the twins of the last one."""
    alone = is_tasks_file(source.dataset)
    names = [one for one in VERSIONS if alone or (dataset_folder(source.dataset) / f"test_data_{one}.json").is_file()]
    sets = {one: load_dataset(source.dataset, one) for one in (names[-1:] if alone else names) or [source.version]}
    last = list(sets.values())[-1]
    patients = patients_file(last, source.ehr).path
    hospital = open_hospital(patients)
    if not last.over_bundled or source.ehr is not None:
        copy_patients(patients, folder)
    for version, dataset in sets.items():

        def case(task: Task, dataset: Dataset = dataset) -> Case:
            return case_of(task.model_dump(), dataset.constants)

        twins = twins_of(dataset.tasks, by_rules(hospital, case))
        mark = dataset.manifest.canary if dataset.manifest else canary(dataset.digest)
        records = [_record(half, dataset, hospital.source) for half in twins.halves]
        text = json.dumps([{**one, "canary": mark} for one in records], ensure_ascii=False, indent=1) + "\n"
        (folder / f"test_data_{version}.json").write_text(text, encoding="utf-8", newline="\n")
    for name in ("functions.json", "protocol.toml"):
        if (own := last.beside(name)) is not None:
            copyfile(own, folder / name)
    files = file_digests(folder, [HOSPITAL, *(f"test_data_{version}.json" for version in sets)])
    write_manifest(folder, _manifest(last, files, len(hospital.patients)))
    return twins


def _record(half: Half[Task], dataset: Dataset, source: Any) -> dict[str, Any]:
    """The task of a half; "find a patient" gets the answer of its own chart."""
    task = half.task.model_copy(update={"id": half.id, "twin": half.twin, "change": half.change})
    record = {name: value for name, value in task.model_dump().items() if value not in (None, "")}
    if task.sol is not None:
        record["sol"] = [answer_of(half.task.model_dump(), changed(source, half.change), dataset.constants)]
    return record


def _manifest(dataset: Dataset, files: dict[str, str], patients: int) -> Manifest:
    """The manifest of the set that the twins were made from, with other files and another name."""
    name = f"twins-{dataset.digest[:12]}"
    if dataset.manifest is not None:
        return dataset.manifest.model_copy(update={"name": name, "files": files, "private": False})
    return Manifest(
        name=name,
        generator=0,
        like="bundled",
        split=None,
        seed_sha256=seed_digest(dataset.digest),
        private=False,
        patients=patients,
        per_type=1,
        resources={},
        canary=canary(dataset.digest),
        constants=dataset.constants,
        files=files,
    )
