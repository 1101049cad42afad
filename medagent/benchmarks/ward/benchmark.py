"""A file of task types as a benchmark with FHIR sessions."""

from __future__ import annotations

import inspect
import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cache, partial
from hashlib import sha256
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

from medagent.benchmarks.clinical import ClinicalBenchmark, Solver
from medagent.benchmarks.made_folders import HOSPITAL
from medagent.benchmarks.ward._grader import WardGrader, baselines
from medagent.benchmarks.ward.reads import asked, read_origin, rules_at_fault, ruling_text
from medagent.benchmarks.ward.settings import AGENTS, WardGrading, WardSettings
from medagent.benchmarks.ward.tasks import (
    TASKS,
    TaskSet,
    WardItem,
    hospital_reads,
    own_manifest,
    patients_file,
    task_set,
    tasks_text,
    try_rule,
)
from medagent.core import plugins
from medagent.core.errors import ChartChangedError, UserError
from medagent.core.options import checked
from medagent.core.plugins import Plugin, is_import_path
from medagent.core.writing import write_whole
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.folder import Run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.scores import Grader, Score
from medagent.fhir_data.embedded import EhrFile
from medagent.fhir_data.record import EhrSession
from medagent.fhir_episodes.episode import ChartCheck, EpisodeRow
from medagent.fhir_episodes.rule_agent import Solve
from medagent.fhir_episodes.task import FhirItem, FhirTask
from refsol.clinical.chart import Chart
from refsol.clinical.evidence import Deciding
from refsol.clinical.floor import Baselines
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.searches import ref
from refsol.clinical.sources import SessionEhr, Source
from refsol.clinical.task_type import Solution, TaskType
from refsol.clinical.trial import created, types_of
from refsol.errors import DataFault
from refsol.files import json_object, read_json

_SOURCE = "source.json"


class Ward(ClinicalBenchmark[WardSettings]):
    """The base of the benchmarks that are made of files. Each defines its plug-in and its types."""

    Settings = WardSettings
    Grading = WardGrading
    agents = AGENTS
    plugin: ClassVar[Plugin]
    types: ClassVar[tuple[TaskType, ...]]

    def tasks(self, source: WardSettings) -> TaskSet:
        """The tasks of a source. Raises UserError, FactsError, RuleError."""
        return task_set(source, self.types)

    def items(self, source: WardSettings) -> Sequence[WardItem]:
        return self.tasks(source).items

    def data(self, source: WardSettings) -> DataRef:
        """See `Benchmark.data`. The digest is of the texts."""
        tasks = self.tasks(source)
        texts = json.dumps(
            [[one.id, one.mrn, one.context, one.question, *filter(None, [one.change])] for one in tasks.items]
        )
        return DataRef(name=self.name, version=tasks.name, digest=sha256(texts.encode()).hexdigest())

    def now(self, source: WardSettings) -> datetime:
        return self.tasks(source).now

    def patients(self, source: WardSettings, say: Say) -> EhrFile:
        return patients_file(source, say)

    def grader(self, source: WardSettings, rules: str) -> Grader[EpisodeRow]:
        tasks = self.tasks(source)
        digests = {"types": self.plugin.digest, "facts": tasks.digest, "now": tasks.now.isoformat()}
        return WardGrader(tasks, source.private, digests)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> WardGrading:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        source: WardGrading = super().source(run, {"fhir": None, **overrides})
        by_address = run.document["settings"].get("fhir") and hospital_reads(source.dataset) is None
        if by_address and not overrides.keys() & {"fhir", "ehr"}:
            raise UserError(f"{run.path}: the run used a FHIR server; name its patients with --fhir URL or --ehr FILE")
        tasks = run.path / TASKS
        own = {"tasks": tasks} if tasks.is_file() else {}
        return source.model_copy(update={"writes": run.settings.get("writes", "ack"), **own})

    def pack(self, source: WardSettings, item: Any) -> Mapping[str, bytes]:
        """See `FhirBenchmark.pack`. The files are the task, its time, and the resources that the rule reads."""
        chart = item.chart
        with suppress(DataFault):
            item.kind.ruled(chart)
        resources = [*chart.touched.values(), {"resourceType": "Patient", "id": item.patient}]
        own = {ref(one): one for one in reversed(resources)}
        packed = {"now": item.now.isoformat(), "api_base": source.api_base}
        return {
            TASKS: tasks_text([item.stored.alone]).encode(),
            _SOURCE: json.dumps(packed).encode(),
            HOSPITAL: "".join(f"{json.dumps(one)}\n" for one in own.values()).encode(),
        }

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        packed = read_json(folder / _SOURCE, json_object, expected="a packed task is expected", error=UserError)
        source = checked(WardGrading, {**packed, "ehr": folder / HOSPITAL, "tasks": folder / TASKS})
        return self.items(source)[0], self.grader(source, "")

    def canary(self, source: WardSettings) -> str:
        manifest = own_manifest(source.dataset)
        return "" if manifest is None else manifest.made.canary

    def solver(self, settings: WardSettings) -> Solver:
        reads = hospital_reads(settings.dataset)
        return partial(_solver, self.plugin, "" if reads is None else read_origin(reads).id_system)

    def baselines(self, settings: WardSettings) -> Baselines:
        return baselines(self.tasks(settings))

    def chart_check(self, settings: WardSettings) -> ChartCheck | None:
        if hospital_reads(settings.dataset) is None:
            return None
        items = self.tasks(settings).items
        charts = {item.id: (item.patient, ruling_text(item.kind, item.chart)) for item in items}
        return HospitalCheck(self.plugin, settings.api_base, charts)

    async def plan(self, settings: WardSettings, say: Say) -> Plan:
        """See `FhirBenchmark.plan`. The run's folder lists the tasks, so that a corrected rule can grade it again."""
        with rules_at_fault(settings.private):
            plan = await super().plan(settings, say)
            tasks = self.tasks(settings)
            for item in tasks.items if settings.dataset else ():
                try_rule(item)
        text = tasks_text([one.stored for one in tasks.items])
        return replace(
            plan,
            prepare=lambda: write_whole(plan.folder / TASKS, text),
            decides={**plan.decides, "now": tasks.now.isoformat()},
            warnings=[*plan.warnings, *tasks.missing],
        )

    def blocks(self, item: Any, row: EpisodeRow, score: Score | None) -> Sequence[Block]:
        from medagent.fhir_episodes.views import episode_blocks

        return list(episode_blocks(item, row, score, _shown(item))) if isinstance(item, WardItem) else []


def _shown(item: WardItem) -> Callable[[], Any]:
    from medagent.fhir_episodes.views import Shown

    def shown() -> Shown | None:
        chart = item.chart
        item.kind.ruled(chart)
        test = Deciding.of(chart)
        return None if test is None else Shown(test, item.patient, chart.now, chart.source)

    return shown


def types_in(plugin: Plugin) -> tuple[TaskType, ...]:
    """The task types of a plug-in: all of a file, or one. Raises UserError, RuleError."""
    loaded = plugin.load()
    if isinstance(loaded, ModuleType):
        return types_of(loaded, plugin.path)
    if isinstance(loaded, type) and issubclass(loaded, TaskType):
        return (created(loaded),)
    raise UserError(f"{plugin.path}: is not a subclass of medagent.Benchmark or medagent.clinical.TaskType")


@cache
def _class_of(plugin: Plugin) -> type[Ward]:
    """The benchmark class of a plug-in: one for each, because episodes share their parts by class."""
    types = types_in(plugin)
    name = plugin.file.stem if plugin.source is not None else plugin.path.partition(":")[0].rpartition(".")[2]
    own = "" if len(types) > 1 or not plugin.name else f"-{types[0].name}"
    lines = [f"{one.name}: {(inspect.getdoc(type(one)) or one.words).splitlines()[0]}" for one in types]
    about = {"__doc__": "Task types:\n\n" + "\n\n".join(lines), "name": name + own, "plugin": plugin, "types": types}
    return type("WardOfFile", (Ward,), about)


def types_named(reference: str) -> tuple[TaskType, ...]:
    """The task types of a file, `FILE.py`, or one of them, `FILE.py:Name`. Raises UserError, RuleError."""
    plugin = plugins.whole_file(reference) or (plugins.find(reference, "") if is_import_path(reference) else None)
    if plugin is None:
        raise UserError(f"--from {reference}: is not a file of task types; write FILE.py or FILE.py:Name")
    return types_in(plugin)


def ward_of(plugin: Plugin) -> Ward:
    """The benchmark of a file of task types, or of one of them. Raises UserError, RuleError."""
    return _class_of(plugin)()


def _solver(plugin: Plugin, id_system: str, base: str) -> Solve:
    """Solves tasks by the rules of a plug-in's types, over the session at a FHIR base. `id_system` is the system of the
    identifiers that texts show instead of the ids of Patients.
    """
    types = {kind.name: kind for kind in types_in(plugin)}
    base = base.rstrip("/") + "/"

    def solve(task: FhirTask, get: Callable[[str], Any]) -> Solution:
        assert task.now is not None
        ehr, patient = SessionEhr(base, get), task.mrn
        if id_system:
            patient = str(ehr.search("Patient", identifier=f"{id_system}|{task.mrn}")[0]["id"])
        return types[task.type].solve(Chart(ehr, patient, task.now, CLINICAL, base=base))

    return solve


@dataclass(frozen=True, slots=True)
class HospitalCheck(ChartCheck):
    """Runs the rules again on the server. `charts` lists for each item the Patient's id and the set's ruling."""

    plugin: Plugin
    base: str
    charts: Mapping[str, tuple[str, str]]

    async def check(self, task: FhirTask, ehr: EhrSession) -> None:
        (patient, before), now = self.charts[task.id], task.now
        assert now is not None
        kind = next(kind for kind in types_in(self.plugin) if kind.name == task.type)

        def ruling(source: Source) -> str:
            return ruling_text(kind, Chart(source, patient, now, CLINICAL))

        if await asked(ehr, self.base, {}, ruling) != before:
            raise ChartChangedError("chart changed: the rule gives another ruling than when the set was made")
