"""The data of a source: its tasks as items, its patients, and the facts by which episodes are graded."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from medagent.benchmarks.data_sources import former
from medagent.benchmarks.medagentbench.agents.stated import stated_mrn
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading, MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import (
    DATASETS,
    VERSIONS,
    Dataset,
    Task,
    dataset_folder,
    load_dataset,
)
from medagent.core.errors import UserError
from medagent.core.wire import without_password
from medagent.core.writing import file_digest
from medagent.fhir_data.asking import http_ask
from medagent.fhir_data.embedded import EhrFile, bundled_file, imported_file
from medagent.fhir_data.facts import embedded_facts
from medagent.fhir_data.files import is_sqlite
from medagent.fhir_episodes.task import FhirItem
from refsol.medagentbench import KeyEhr, NdjsonEhr, SearchEhr, Source


@dataclass(frozen=True, kw_only=True)
class TaskItem(FhirItem):
    """A task of a data set."""

    stored: Task
    dataset: Dataset = field(repr=False, compare=False)
    source: MedAgentBenchSettings = field(repr=False, compare=False)

    @property
    def record(self) -> Task:
        return self.stored


def item_of(task: Task, dataset: Dataset, source: MedAgentBenchSettings) -> TaskItem:
    """Make an item of a task."""
    return TaskItem(
        id=task.id,
        group=task.type,
        cluster=task.twin or task.type,
        pair=task.twin,
        change=task.amendment,
        injected=task.injected,
        question=task.instruction,
        context=task.context,
        mrn=stated_mrn(task.instruction),
        stored=task,
        dataset=dataset,
        source=source,
    )


def dataset_of(source: MedAgentBenchSettings) -> Dataset:
    """Load the data set of a source. Raises UserError."""
    return load_dataset(source.dataset, source.version)


def task_dicts(dataset: Dataset) -> list[dict[str, Any]]:
    """The tasks in the form that refsol reads."""
    return [task.model_dump() for task in dataset.tasks]


class _NotBuiltError(Exception):
    """Stops `bundled_file` before it builds the file."""


def present_datasets() -> list[Dataset]:
    """Every version of every data set on this machine. Raises UserError if a file is damaged."""
    return [
        load_dataset(name, version)
        for name in DATASETS
        for version in VERSIONS
        if (dataset_folder(name) / f"test_data_{version}.json").is_file()
    ]


def patients_file(dataset: Dataset, ehr: Path | None = None, report: Callable[[str], None] = lambda _: None) -> EhrFile:
    """The patients of a run: the user's file (`ehr`), the data set's file, or the bundled hospital.

    Raises UserError if the file cannot be read, and for the official data set, whose patients are not bundled.
    """
    own = ehr or dataset.hospital
    if own is not None:
        return imported_file(own, report)
    if dataset.former:
        raise former(dataset.name)
    if dataset.name == "official":
        raise UserError(
            "data set 'official' needs its own patients: name their FHIR server with --fhir, or a file of them "
            "(NDJSON) with --ehr"
        )
    return bundled_file(report)


def built_hospital() -> Path | None:
    """The bundled hospital's file, or None if it has not been built yet. Raises UserError."""

    def stop(_: str) -> None:
        raise _NotBuiltError

    try:
        return bundled_file(stop).path
    except _NotBuiltError:
        return None


@dataclass(frozen=True, slots=True)
class OpenFacts:
    """Facts, and the digest of their source. `at_once`: they are in memory, so reading them does not block."""

    facts: Source
    digest: str
    at_once: bool = False


def open_facts(source: MedAgentBenchSettings, dataset: Dataset) -> OpenFacts:
    """Open the facts of a source: from the place that it names, otherwise from the data set's key.

    Raises UserError, InputError.
    """
    grading = isinstance(source, MedAgentBenchGrading)
    key = source.key if isinstance(source, MedAgentBenchGrading) else None
    if key is not None and (source.fhir or source.ehr):
        raise UserError("--fhir, --ehr and --key all name the source of facts: pass only one of them")
    if source.ehr is not None:
        return _of_file(source.ehr, keep=not grading)
    own = None if grading and source.fhir is not None else dataset.key
    if (path := key or own) is not None:
        answers = KeyEhr(path)
        answers.check([task.model_dump() for task in dataset.tasks])
        return OpenFacts(answers, file_digest(path), at_once=True)
    if source.fhir is not None:
        address = hashlib.sha256(without_password(source.fhir).encode()).hexdigest()
        return OpenFacts(SearchEhr(*http_ask(source.fhir, source.fhir_headers, source.ca_file)), address)
    if not grading or dataset.has_twins:
        file = patients_file(dataset)
        return OpenFacts(embedded_facts(file.path), file.digest or "")
    raise UserError(f"{dataset.path}: this task set does not contain an answer key; pass --key, --ehr or --fhir")


def _of_file(path: Path, *, keep: bool) -> OpenFacts:
    """The facts of a file of patients. An SQLite file, or any file if `keep`, is opened by the embedded server.

    Other files are read as NDJSON.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if keep or is_sqlite(path):
        file = imported_file(path)
        return OpenFacts(embedded_facts(file.path), file.digest or "")
    return OpenFacts(NdjsonEhr(path), file_digest(path), at_once=True)
