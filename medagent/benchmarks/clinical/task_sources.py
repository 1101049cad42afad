"""The tasks of a source: those of a set, those that a run's folder lists, or ones sampled from its patients."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from fhir_server.synthetic.bundled import hospital
from medagent.benchmarks.clinical.generation import (
    accounts_of,
    living_patients,
    missing,
    sample_type,
    tasks_of,
)
from medagent.benchmarks.clinical.newest import newest_time
from medagent.benchmarks.clinical.sets import TaskSet, load_set, text_digest
from medagent.benchmarks.clinical.settings import PER_TYPE, ClinicalGrading
from medagent.benchmarks.clinical.tasks import TASKS, read_tasks, tasks_text
from medagent.core.errors import UserError
from medagent.core.paths import file_state
from medagent.engine.benchmark import Say
from medagent.engine.data_sets import MANIFEST, SetManifest, is_set, read_manifest
from medagent.fhir_data.asking import Ask, http_ask
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_data.facts import file_ask
from refsol.clinical.sources import SearchEhr
from refsol.clinical.task_type import RuleError, TaskType
from refsol.clinical.trial import other_names

OF_A_HOSPITAL = "{}: was made from a hospital's own server; run it with --fhir URL --writes private"
_SEED = "0"
"""The seed of the tasks of a run without a set."""


class Sampling(Protocol):
    """What a benchmark of task types says about its tasks."""

    @property
    def types(self) -> Sequence[TaskType]:
        """The task types."""

    @property
    def set_benchmark(self) -> str:
        """The name of the benchmark in the manifests of its sets."""

    def task_types(self, tasks: TaskSet) -> Mapping[str, TaskType]:
        """The types of a set, by name."""

    def check_types(self) -> None:
        """Raises RuleError for types with which no task can be made."""

    def patients(self, source: Any, say: Say) -> EhrFile:
        """The patients for the embedded server. Raises UserError."""


@dataclass(frozen=True)
class SourceTasks:
    """The tasks of a source, and what samples of its types lack."""

    tasks: TaskSet
    missing: Sequence[str]


def source_tasks(kind: type[Sampling], settings: Any) -> SourceTasks:
    """The tasks of a source: those of a set, those that a run's folder lists, or sampled ones. They are read again if
    a file changes. Raises UserError, FactsError, RuleError.
    """
    set_files = [] if settings.dataset is None else [Path(settings.dataset) / name for name in (MANIFEST, TASKS)]
    files = [*set_files, *filter(None, (settings.ehr, getattr(settings, "tasks", None)))]
    return _source_tasks(kind, settings, tuple((file.resolve(), file_state(file)) for file in files if file.exists()))


@lru_cache(maxsize=4)
def _source_tasks(kind: type[Sampling], settings: Any, states: object) -> SourceTasks:
    """See `source_tasks`. `states` are those of the files."""
    benchmark = kind()
    benchmark.check_types()
    listed = getattr(settings, "tasks", None)
    manifest = None if settings.dataset is None else read_manifest(Path(settings.dataset))
    of_types = manifest is not None and manifest.benchmark == benchmark.set_benchmark
    if is_of_server(settings.dataset) and not (settings.private or isinstance(settings, ClinicalGrading)):
        raise UserError(OF_A_HOSPITAL.format(settings.dataset))
    if listed is None and of_types:
        tasks, lacking = load_set(Path(settings.dataset)), list[str]()
    else:
        tasks, lacking = _sampled(benchmark, settings, listed, manifest if of_types else None)
    others = other_names(benchmark.types)
    known_tasks = [task for task in tasks.tasks if task.type not in others]
    unknown = next((task for task in known_tasks if task.type not in benchmark.task_types(tasks)), None)
    if unknown is not None:
        known = ", ".join(benchmark.task_types(tasks))
        raise UserError(f"{unknown.id}: the file does not contain the task type {unknown.type!r}; its types: {known}")
    if not known_tasks and lacking:
        raise RuleError(f"no patient's chart allows a task: {'; '.join(lacking)}")
    if not known_tasks:
        names = ", ".join(kind.name for kind in benchmark.types)
        raise UserError(f"{settings.dataset}: contains no task of {names}")
    stated = tasks if len(known_tasks) == len(tasks.tasks) else tasks.of(known_tasks, tasks.part)
    if settings.now is not None:
        stated = replace(stated, manifest=stated.manifest.model_copy(update={"clock": settings.now}))
    return SourceTasks(stated, lacking)


def _sampled(
    benchmark: Sampling, settings: Any, listed: Path | None, manifest: SetManifest | None
) -> tuple[TaskSet, list[str]]:
    """The tasks that a run's folder lists, or that are sampled from the patients, and what is missing."""
    clock = settings.now or (manifest.clock if manifest else newest_time(*patients_server(benchmark, settings)))
    lacking: list[str] = []
    accounts: dict[str, Any] = {}
    if listed is not None:
        tasks = read_tasks(listed)
    else:
        facts = SearchEhr(*patients_server(benchmark, settings))
        people, count = living_patients(facts), settings.per_type or PER_TYPE
        samples = {kind.name: sample_type(kind, people, facts, clock, count, _SEED) for kind in benchmark.types}
        tasks = tuple(task for kind in benchmark.types for task in tasks_of(kind, samples[kind.name].tasks))
        lacking, accounts = missing(samples), accounts_of(samples)
    stated = manifest or SetManifest(name="", benchmark=benchmark.set_benchmark, clock=clock, files={}, **accounts)
    path = Path(settings.dataset) / TASKS if manifest else listed or Path(TASKS)
    return TaskSet(stated.name, tasks, text_digest(tasks_text(tasks)), path, stated, alone=True), lacking


def patients_server(benchmark: Sampling, settings: Any) -> tuple[str, Ask]:
    """The base URL of the patients' server, and a function that sends GETs to it. Raises UserError."""
    if settings.fhir is not None:
        return http_ask(settings.fhir, settings.fhir_headers, settings.ca_file)
    return file_ask(benchmark.patients(settings, lambda _: None).path)


def patient_lines(file: Path | None) -> Iterator[bytes]:
    """The lines of a file of patients; None: the bundled hospital."""
    if file is None:
        yield from (f"{line.rstrip()}\n".encode() for line in hospital())
        return
    with file.open("rb") as lines:
        yield from lines


def patients_only(folder: Path, manifest: SetManifest) -> TaskSet:
    """A set's folder, of which only the patients are used."""
    return TaskSet(manifest.name, (), "", folder / TASKS, manifest)


def is_of_server(dataset: Any) -> bool:
    """Whether a set was made from a hospital's own server."""
    if dataset is None or not is_set(Path(dataset)):
        return False
    generated = read_manifest(Path(dataset)).generated
    return generated is not None and bool(generated.server)
