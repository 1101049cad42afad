"""Makes the folder of a set from a file of task types, for `medagent data new --from`."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from tempfile import TemporaryDirectory

from fhir_server.synthetic import lines
from fhir_server.synthetic.bundled import PROFILE
from medagent.benchmarks.dealing import Dealt
from medagent.benchmarks.injected import injected
from medagent.benchmarks.made_folders import (
    HOSPITAL,
    MANIFEST,
    Made,
    Order,
    counted,
    differing_files,
    file_digests,
    make_folder,
    seed_digest,
    seed_number,
    write_manifest,
    written,
)
from medagent.benchmarks.ward.settings import WardSettings
from medagent.benchmarks.ward.tasks import TASKS, Task, TaskSet, WardManifest, read_manifest, tasks_of, tasks_text
from medagent.benchmarks.ward.twins import case_of
from medagent.core.errors import UserError
from medagent.fhir_data.embedded import imported_file
from medagent.fhir_data.store import stored_lines
from refsol.clinical.task_type import TaskType

VERSION = 1


@dataclass(frozen=True, slots=True)
class MadeSet:
    """A set that was made: its manifest, its tasks, and how each type was dealt."""

    manifest: WardManifest
    tasks: Sequence[Task]
    dealt: Mapping[str, Dealt]

    @property
    def branches(self) -> Iterator[str]:
        """For each type: how many patients are in each branch, and what is missing."""
        for name, dealt in self.dealt.items():
            counts = ", ".join(f"{count} {words}" for words, count in dealt.branches.items())
            yield f"{name}: {len(dealt.chosen)} tasks; patients: {counts or 'none'}"
            yield from (f"{name}: {words}" for words in dealt.missing)


def make(types: Sequence[TaskType], folder: Path, order: Order, ehr: Path | None) -> MadeSet:
    """Make a set in a new or empty folder, over a hospital from the seed or over the patients of a file.

    Raises UserError or RuleError, and then removes the files that it wrote.
    """
    if ehr is None:
        order.check_patients()
    return make_folder(folder, order.seed, lambda seed: _write(types, folder, order, seed, ehr))


def differing(types: Sequence[TaskType], folder: Path, seed: str, ehr: Path | None) -> list[str]:
    """How the files of a folder differ from what the seed gives, one text per file. Raises UserError, RuleError."""
    manifest = read_manifest(folder)
    if seed_digest(seed) != manifest.made.seed_sha256:
        return [f"the seed: its SHA-256 is not the one in {MANIFEST}"]
    made = manifest.made
    order = Order(None if made.private else seed, made.patients, made.per_type, made.injected)
    with TemporaryDirectory() as aside:
        _write(types, Path(aside), order, seed, ehr)
        return differing_files(folder, Path(aside), manifest.files)


def _write(types: Sequence[TaskType], folder: Path, order: Order, seed: str, ehr: Path | None) -> MadeSet:
    counts = Counter[str]()
    for _ in counted(written(_patients(seed, order, ehr), folder), counts):
        pass
    patients = TaskSet(WardSettings(ehr=folder / HOSPITAL), {})
    dealt = {kind.name: patients.deal(kind, order.per_type, seed) for kind in types}
    tasks = [task for kind in types for task in tasks_of(kind, dealt[kind.name])]
    if not tasks:
        raise UserError(f"no patient's chart allows a task: {missing(dealt)}")
    if order.injected:
        tasks = _with_instructions(tasks, types, patients, folder, order.injected, seed)
    (folder / TASKS).write_text(tasks_text(tasks), encoding="utf-8", newline="\n")
    private = order.seed is None
    made = Made.of(VERSION, seed, private, replace(order, patients=counts["Patient"]), counts)
    files = file_digests(folder, (HOSPITAL, TASKS))
    manifest = WardManifest(name=seed_digest(seed)[:12], now=patients.now, files=files, made=made)
    write_manifest(folder, manifest)
    return MadeSet(manifest, tasks, dealt)


def missing(dealt: Mapping[str, Dealt]) -> str:
    """What is missing of each type."""
    return "; ".join(f"{name}: {words}" for name, one in dealt.items() for words in one.missing)


def _with_instructions(
    tasks: Sequence[Task], types: Sequence[TaskType], patients: TaskSet, folder: Path, share: float, seed: str
) -> list[Task]:
    """The tasks. A share of them gets an instruction in the chart."""
    kinds, number = {kind.name: kind for kind in types}, seed_number(seed, f"ward {VERSION} injected")
    instructions = injected(
        tasks, lambda task: task.type, lambda task: case_of(kinds[task.type], task, patients), folder, share, number
    )
    return [task.model_copy(update={"injected": one}) for task, one in zip(tasks, instructions, strict=True)]


def _patients(seed: str, order: Order, ehr: Path | None) -> Iterator[str]:
    if ehr is not None:
        return map(_line, stored_lines(imported_file(ehr).path))
    number = seed_number(seed, f"ward {VERSION}")
    return lines(replace(PROFILE, seed=number, patients=order.patients))


def _line(stored: str) -> str:
    """A resource in the layout of a generated hospital: without spaces, its type first."""
    resource = json.loads(stored)
    return json.dumps({"resourceType": resource["resourceType"], **resource}, ensure_ascii=False, separators=(",", ":"))
