"""MedAgentBench as a benchmark with FHIR sessions: tasks, agents, rules, results files and views."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict

from medagent.benchmarks.clinical import ClinicalBenchmark, OwnAgent, Solver
from medagent.benchmarks.medagentbench._figures import grade_document
from medagent.benchmarks.medagentbench._grader import TaskGrader
from medagent.benchmarks.medagentbench.agents.reference import solver
from medagent.benchmarks.medagentbench.agents.replay import recorded_messages
from medagent.benchmarks.medagentbench.data import (
    OpenFacts,
    TaskItem,
    dataset_of,
    item_of,
    open_facts,
    patients_file,
    task_dicts,
)
from medagent.benchmarks.medagentbench.results.files import write_grade, write_official, write_trials
from medagent.benchmarks.medagentbench.settings import (
    AGENTS,
    MedAgentBenchGrading,
    MedAgentBenchSettings,
)
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, Dataset, Task, select, set_of_run
from medagent.core.errors import UserError
from medagent.core.options import Setting, checked
from medagent.core.writing import file_digest
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.folder import Run
from medagent.engine.report import DataRef, Report
from medagent.engine.scores import Grader, Score, Scored
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_episodes.benchmark import Training
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.twins import changed
from refsol.files import read_json
from refsol.medagentbench import RULE_SETS, Baselines, KeyEhr, baselines, build_key, key_text
from refsol.medagentbench.constants import Constants
from refsol.schema import validator

TASK, KEY = "task.json", "key.json"


class PackedTask(BaseModel):
    """The content of `task.json`."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    task: Task
    constants: Constants


class MedAgentBench(ClinicalBenchmark[MedAgentBenchSettings]):
    """An LLM agent solves ten types of tasks on a hospital's FHIR server."""

    name = "medagentbench"
    example = "medagent run --version v2 --round r2 --model gpt-4o-mini"
    Settings = MedAgentBenchSettings
    Grading = MedAgentBenchGrading
    rule_sets = tuple(RULE_SETS)
    agents = AGENTS
    kept_out = ("medagent/benchmarks/medagentbench/tasks/data/",)

    @property
    def command(self) -> str:
        """See `Benchmark.command`. MedAgentBench is the default benchmark, so the command does not name it."""
        return "medagent run"

    def items(self, source: MedAgentBenchSettings) -> Sequence[TaskItem]:
        dataset = dataset_of(source)
        return [item_of(task, dataset, source) for task in dataset.tasks]

    def data(self, source: MedAgentBenchSettings) -> DataRef:
        return dataset_of(source).ref

    def item(self, source: MedAgentBenchSettings, task: Any) -> FhirItem:
        """See `FhirBenchmark.item`. A `Task` need not be in the data set."""
        return item_of(task, dataset_of(source), source) if isinstance(task, Task) else super().item(source, task)

    def now(self, source: MedAgentBenchSettings) -> datetime:
        return dataset_of(source).constants.now

    def patients(self, source: MedAgentBenchSettings, say: Say) -> EhrFile:
        return patients_file(dataset_of(source), source.ehr, say)

    def protocol(self, source: MedAgentBenchSettings, kind: str) -> Protocol:
        """See `FhirBenchmark.protocol`. A data set may have its own prompt and function list."""
        dataset = dataset_of(source)
        file = dataset.beside("protocol.toml") if kind == "text" else None
        return load_protocol(kind, file=file, functions=dataset.beside("functions.json"))

    def grader(self, source: MedAgentBenchSettings, rules: str) -> Grader[EpisodeRow]:
        return TaskGrader.of(source, rules)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> MedAgentBenchGrading:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        grading = checked(MedAgentBenchGrading, overrides)
        facts = (grading.fhir, grading.ehr, grading.key) != (None, None, None)
        own = {"fhir": grading.fhir, **({"ehr": grading.ehr} if facts else {})}
        named = {"dataset": grading.tasks and str(grading.tasks), "api_base": grading.base}
        renamed = {name: value for name, value in named.items() if value is not None}
        source: MedAgentBenchGrading = super().source(run, {**overrides, **own, **renamed})
        if "dataset" not in {**overrides, **renamed} and source.dataset == BUNDLED:
            source = source.model_copy(update={"dataset": set_of_run(run.settings)})
        return source if facts else source.model_copy(update={"ehr": self._own_patients(run, source)})

    def resources(self, source: MedAgentBenchSettings) -> Iterable[bytes]:
        dataset = dataset_of(source)
        if not dataset.over_bundled and dataset.hospital is None:
            raise UserError(
                f"data set {dataset.name!r} does not contain its patients, and the image needs them; export the "
                "bundled data set or a folder made by `medagent data new`"
            )
        return _lines(dataset)

    def pack(self, source: MedAgentBenchSettings, item: Any) -> Mapping[str, bytes]:
        """See `FhirBenchmark.pack`. The files have the task, the constants, and the facts as an answer key."""
        packed = PackedTask(task=item.stored.alone, constants=item.dataset.constants)
        facts = changed(open_facts(source, dataset_of(source)).facts, item.stored.change)
        key = build_key([packed.task.model_dump()], facts, packed.constants)
        return {TASK: packed.model_dump_json(indent=1).encode() + b"\n", KEY: key_text(key).encode()}

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        packed = read_json(
            folder / TASK, validator(PackedTask), expected="a task of the export is expected", error=UserError
        )
        source = MedAgentBenchSettings(dataset=str(folder / TASK))
        dataset = Dataset("packed", "packed", (packed.task,), "", folder / TASK, alone=True, fixed=packed.constants)
        facts = OpenFacts(KeyEhr(folder / KEY), "", at_once=True)
        return item_of(packed.task, dataset, source), TaskGrader(source, "official", dataset, facts)

    def training_item(self, stream: Training, number: int) -> tuple[Mapping[str, Any], FhirItem]:
        """See `FhirBenchmark.training_item`. One set after another is generated from the seed."""
        from medagent.benchmarks.medagentbench.generator.stream import training_task

        folder, task = training_task(stream, number)
        source = MedAgentBenchSettings(dataset=str(folder))
        return {"dataset": str(folder)}, item_of(task, dataset_of(source), source)

    def canary(self, source: MedAgentBenchSettings) -> str:
        manifest = dataset_of(source).manifest
        return manifest.canary if manifest else ""

    def solver(self, settings: MedAgentBenchSettings) -> Solver:
        return solver

    def baselines(self, settings: MedAgentBenchSettings) -> Baselines:
        dataset = dataset_of(settings)
        return baselines(task_dicts(dataset), open_facts(settings, dataset).facts, dataset.constants)

    def scripted(self, settings: MedAgentBenchSettings, items: Sequence[FhirItem]) -> OwnAgent | None:
        """See `FhirBenchmark.scripted`. The agent `replay` needs a recording."""
        own = super().scripted(settings, items)
        if own is None or not settings.replayed:
            return own
        if settings.replay is None:
            raise UserError("--agent replay needs a file, e.g. --agent replay results.json")
        return replace(own, messages=recorded_messages(settings.replay))

    def selected(self, settings: MedAgentBenchSettings, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        by_id = {item.id: item for item in items}
        dataset = dataset_of(settings)
        present = replace(dataset, tasks=tuple(task for task in dataset.tasks if task.id in by_id))
        tasks = select(present, settings.types, settings.ids, settings.limit, settings.per_type)
        return [by_id[task.id] for task in tasks]

    def folder_name(self, settings: MedAgentBenchSettings) -> str:
        """See `FhirBenchmark.folder_name`. It is the version of the tasks."""
        return dataset_of(settings).version

    def decides(self, settings: MedAgentBenchSettings) -> dict[str, Setting]:
        dataset = dataset_of(settings)
        return {
            "tasks-digest": dataset.digest,
            **({"seed-digest": dataset.manifest.seed_sha256} if dataset.manifest else {}),
            "replay-digest": file_digest(settings.replay) if settings.replay else None,
        }

    def import_data(self, path: Path) -> str | None:
        """See `Benchmark.import_data`. `path` is a checkout of the official repository."""
        from medagent.benchmarks.medagentbench.tasks.official import import_official, is_official

        if not is_official(path):
            return None
        folder = import_official(path)
        return f"{folder}: imported. Run it: medagent run --dataset official --fhir http://localhost:8080/fhir/"

    def graded_file(self, path: Path, options: Mapping[str, Any]) -> Report:
        from medagent.benchmarks.medagentbench.results_file import graded_file

        return graded_file(self, path, options).report

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """See `Benchmark.write`: a results file and a grade file for each trial."""
        files = []
        for trial, results in write_trials(run, scores[0].item.dataset, scores) if scores else ():
            done = [one for one in scores if one.trial == trial and one.status != "owed"]
            files += [results.name, write_grade(run, results, grade_document(done, "official")).name]
        return files

    def export_official(self, run: Run, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
        """Write the run in the form of the official runner: runs.jsonl, error.jsonl, overall.json."""
        return write_official(run, scores, out)

    def blocks(self, item: Any, row: EpisodeRow, score: Score | None) -> Sequence[Block]:
        from medagent.benchmarks.medagentbench.views import shown
        from medagent.fhir_episodes.views import episode_blocks

        return list(episode_blocks(item, row, score, lambda: shown(item))) if isinstance(item, TaskItem) else []

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        from medagent.benchmarks.medagentbench.views import run_panels

        item = next((one.item for one in scores if isinstance(one.item, TaskItem)), None)
        if item is None:
            return []
        first, *more = run_panels(report, item.dataset)
        return [first, *super().panels(report, scores), *more]

    def _own_patients(self, run: Run, source: MedAgentBenchGrading) -> Path | None:
        """The patients of a run, if its data set comes without an answer key. Raises UserError if they are missing."""
        if source.ehr is not None:
            if not source.ehr.is_file():
                raise UserError(f"{source.ehr}: the run's file of patients does not exist any more; name it with --ehr")
            return source.ehr
        dataset = dataset_of(source)
        if dataset.key is None and run.settings.get("ehr-digest") and not run.settings.get("fhir"):
            return patients_file(dataset).path
        return None


def _lines(dataset: Dataset) -> Iterable[bytes]:
    """The patients as lines of NDJSON."""
    if dataset.hospital is not None:
        with dataset.hospital.open("rb") as file:
            yield from file
        return
    from fhir_server.synthetic.bundled import hospital

    for line in hospital():
        yield f"{line.rstrip()}\n".encode()
