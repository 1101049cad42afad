"""psb-300 as a benchmark with FHIR sessions: its sets, its tools, its clock and cut-off, and its published files."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

from medagent.benchmarks.clinical.agents import Solver
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.grader import GradedEpisode
from medagent.benchmarks.clinical.items import Facts, FactsPlace, OpenSet, Situation, TaskItem
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.clinical.task_sources import patients_server
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.psb300._charts import (
    judged_by_cut_off,
    missing_patients,
    saved_charts,
)
from medagent.benchmarks.psb300._metrics import Grading, psb_metrics
from medagent.benchmarks.psb300._results import write_results
from medagent.benchmarks.psb300.agents.reference import solver
from medagent.benchmarks.psb300.generator.write import PsbGenerator
from medagent.benchmarks.psb300.settings import AGENTS, Psb300Grading, Psb300Settings, Unfinished
from medagent.benchmarks.psb300.tasks import (
    IMPORTED,
    PSB300,
    SETS,
    grading_clock,
    imported_folder,
    load_tasks,
    psb_constants,
    ref,
)
from medagent.core.errors import UserError
from medagent.core.options import stated
from medagent.core.wire import without_password
from medagent.core.writing import file_digest, write_whole
from medagent.engine.benchmark import Say
from medagent.engine.data_sets import ImportedData, PresentSet, is_set
from medagent.engine.folder import Run, read_run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.rows import FAILED
from medagent.engine.scores import Metrics, Scored
from medagent.fhir_data.asking import Ask
from medagent.fhir_data.embedded import EhrFile, imported_file
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.reports.tables import named
from refsol.clinical.chart import Chart
from refsol.clinical.failures import failure_of
from refsol.clinical.floor import BASELINES
from refsol.clinical.meanings import RuleSet
from refsol.clinical.pairs import Case
from refsol.clinical.recorded import READS, RecordedSource, result_lines
from refsol.clinical.sources import SearchEhr, Source
from refsol.clinical.task_type import graded
from refsol.errors import FactsError
from refsol.psb300 import RULE_SETS, TYPES, chart_of, grade_item, rule_name, stated_now
from refsol.psb300.twins import case_of
from refsol.verdict import Check, Verdict

_TOOLS = Path(__file__).parent / "prompts" / "tools.json"
_NAMED = 5


class Psb300(ClinicalBenchmark[Psb300Settings]):
    """An LLM agent reads a patient's chart over FHIR, decides whether something is due, and orders it if so."""

    name = PSB300
    example = "medagent run psb-300 --agent reference"
    Settings = Psb300Settings
    Grading = Psb300Grading
    types = tuple(TYPES.values())
    rules: ClassVar[Mapping[str, RuleSet]] = {str(name): rules for name, rules in RULE_SETS.items()}
    rule_sets = tuple(RULE_SETS)
    agents = AGENTS
    whole_reads = False
    kept_out = ("medagent/benchmarks/psb300/data/",)
    imports = "the task file of psb-300 (new_patient_tasks.json), or a checkout that contains it"

    def generator(self) -> PsbGenerator:
        return PsbGenerator()

    def names_data(self, dataset: str) -> bool:
        return dataset == IMPORTED or super().names_data(dataset)

    def present_sets(self) -> Sequence[PresentSet]:
        """See `Benchmark.present_sets`: the bundled set, and the published one if it is imported."""
        names = [name for name in SETS if name != IMPORTED or is_set(imported_folder())]
        sets = [load_tasks(name) for name in names]
        return [
            PresentSet(ref(task_set).name, "", len(task_set.tasks), task_set.digest, task_set.folder)
            for task_set in sets
        ]

    def task_set(self, source: Psb300Settings) -> TaskSet:
        return load_tasks(source.dataset, source.split)

    def situation(self, tasks: TaskSet, task: Task) -> Situation:
        return Situation(task.context, stated_now(task.context) or tasks.clock)

    def data(self, source: Psb300Settings) -> DataRef:
        return ref(self.task_set(source))

    def patients(self, source: Psb300Settings, say: Say) -> EhrFile:
        """See `FhirBenchmark.patients`. Raises UserError for the published set, whose patients are not bundled."""
        if source.ehr is not None:
            return imported_file(source.ehr, say)
        tasks = self.task_set(source)
        if tasks.manifest.generated is None:
            raise UserError(
                f"data set {IMPORTED!r} needs its own patients: name their FHIR server with --fhir, or a copy of it "
                "with --ehr FILE (made by medagent ehr copy)"
            )
        return self.set_patients(tasks, say)

    def protocol(self, source: Psb300Settings, kind: str) -> Protocol:
        """See `FhirBenchmark.protocol`: psb-300's tools, or the text prompt with the data set's function list."""
        if kind == "tools":
            return load_protocol(kind, tools=_TOOLS).model_copy(update={"finish": "value"})
        return load_protocol(kind, functions=self.task_set(source).beside("functions.json"))

    def import_data(self, path: Path) -> ImportedData | None:
        """See `Benchmark.import_data`. `path` is the published task file, or a checkout that contains it."""
        from medagent.benchmarks.psb300._imported import import_from

        return import_from(path)

    def chart(self, opened: OpenSet, task: Task, source: Source, rules: str) -> Chart:
        """See `ClinicalBenchmark.chart`. The published grader reads the time of grading for task1."""
        cut_off = opened.facts.details
        return chart_of(task.published, source, self.rules[rules], cut_off.clock, cut_off.constants)

    def case(self, opened: OpenSet, task: Task) -> Case:
        cut_off = opened.facts.details
        return case_of(task.published, cut_off.clock, cut_off.constants)

    def grade_episode(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> GradedEpisode:
        """See `ClinicalBenchmark.grade_episode`. If the chart is at fault, every reply is wrong."""
        verdict = graded(lambda: self._verdict(opened, item, row, rules))
        part: dict[str, Any] = {}
        if verdict.correct is False and verdict.basis is None:
            part = dict.fromkeys(BASELINES, False)
        if item.group == "task1" and rules == "official":  # also graded at the scenario's now
            now = stated_now(item.context) or opened.facts.details.constants.default_now
            part["by scenario"] = self._graded(opened, item, row, rules, now).correct
        failure = partial(failure_of, verdict, _result(row), row.status, row.history)
        return GradedEpisode(verdict, failure, row.history, part)

    def _verdict(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> Verdict:
        """The verdict on an episode. One without FINISH counts as the answer `[]`, or as wrong."""
        settings = item.source
        verdict = self._graded(opened, item, row, rules, opened.facts.details.clock)
        finished = row.status == "completed"
        if not finished and (row.status == FAILED or _unfinished_counts_as(settings, opened.tasks) == "wrong"):
            return _unfinished(verdict, row.status)
        return verdict

    def _graded(self, opened: OpenSet, item: TaskItem, row: EpisodeRow, rules: str, clock: datetime) -> Verdict:
        constants = opened.facts.details.constants
        task = {**item.stored.published, "change": item.stored.change}
        source, name = opened.facts.source, rule_name(rules)
        return grade_item(task, row.history, _result(row), source, clock=clock, rules=name, constants=constants)

    def metrics(self, scores: Sequence[Scored], source: Any, opened: OpenSet, rules: str) -> Metrics:
        unfinished = _unfinished_counts_as(source, opened.tasks)
        grading = Grading(rule_name(rules), _clock(source, opened.tasks), unfinished)
        return psb_metrics(scores, opened.tasks, grading, opened.facts if scores else None)

    def facts_of(self, tasks: TaskSet, source: Any) -> FactsPlace:
        """See `ClinicalBenchmark.facts_of`. The charts of a run on a FHIR server are those before its first episode."""
        clock = _clock(source, tasks)
        place = self._charts_of(tasks, source)
        decides = {"clock": clock.isoformat(), "unfinished": _unfinished_counts_as(source, tasks)}
        return FactsPlace(place.digest, lambda: judged_by_cut_off(place.read().source, tasks, clock), decides)

    def _charts_of(self, tasks: TaskSet, source: Any) -> FactsPlace:
        saved = source.charts if isinstance(source, Psb300Grading) else None
        if saved is not None:
            return FactsPlace(lambda: file_digest(saved), lambda: Facts(RecordedSource.of_file(saved)))
        if source.fhir is not None:
            server = patients_server(self, source)
            return FactsPlace(lambda: without_password(source.fhir), lambda: Facts(saved_charts(tasks, server)))
        return self.place_of(tasks, source)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Psb300Grading:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        saved = run.path / READS
        is_saved = not {"fhir", "ehr"} & overrides.keys()
        facts = {"fhir": None, **({"ehr": None} if not is_saved or saved.is_file() else {})}
        source: Psb300Grading = FhirBenchmark.source(self, run, {**facts, **overrides})
        return source.model_copy(update={"charts": saved}) if is_saved and saved.is_file() else source

    def pack(self, source: Any, item: Any) -> Mapping[str, bytes]:
        """See `FhirBenchmark.pack`. The files state the cut-off and the clock of grading."""
        opened = self.open_set(source)
        constants = {
            **psb_constants(opened.tasks).model_dump(mode="json"),
            "cut_off": _iso(opened.facts.details.constants.cut_off),
            "grading_clock": _clock(source, opened.tasks).isoformat(),
            "unfinished": _unfinished_counts_as(source, opened.tasks),
        }
        return self.packed_set(opened, item, constants)

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """See `Benchmark.write`: one results file per trial."""
        return write_results(run, scores)

    def folder_name(self, settings: Psb300Settings) -> str:
        """See `FhirBenchmark.folder_name`. Each split gets its own folder."""
        return f"{self.name}-{settings.split}" if settings.split else self.name

    def solver(self, settings: Psb300Settings) -> Solver:
        return partial(solver, settings.clock or grading_clock(self.task_set(settings)))

    async def plan(self, settings: Psb300Settings, say: Say) -> Plan:
        """See `FhirBenchmark.plan`. A run on a FHIR server saves the charts before its first episode."""
        plan = await FhirBenchmark.plan(self, settings, say)
        tasks = self.task_set(settings)
        clock = settings.clock or _recorded_clock(plan.folder, settings) or _clock(settings, tasks)
        try:
            examined = await asyncio.to_thread(self._examined, settings, tasks, plan)
        except FactsError as error:
            raise UserError(str(error)) from None
        charts = plan.folder / READS if settings.fhir else None
        source = Psb300Grading(**{**stated(settings), "clock": clock, "charts": charts})
        note = "; ".join(filter(None, (plan.data.note, examined.note)))
        return replace(
            plan,
            source=source,
            data=plan.data.model_copy(update={"note": note}),
            decides={**plan.decides, "clock": clock.isoformat()},
            warnings=[*plan.warnings, *examined.warnings],
            prepare=examined.save,
        )

    def _examined(self, settings: Psb300Settings, tasks: TaskSet, plan: Plan) -> _Examined:
        """Check the charts before the first episode. Raises UserError, FactsError."""
        if settings.fhir is None and settings.ehr is None:
            return _Examined()
        server, clock = patients_server(self, settings), _clock(settings, tasks)
        warnings = [*_missing(settings, server, plan)]
        file = plan.folder / READS
        if settings.fhir is None:
            charts, save = judged_by_cut_off(SearchEhr(*server), tasks, clock), _nothing
        elif file.is_file() and not settings.overwrite:
            charts, save = judged_by_cut_off(RecordedSource.of_file(file), tasks, clock), _nothing
        else:
            source = saved_charts(tasks, server)
            charts = judged_by_cut_off(source, tasks, clock)
            save = partial(write_whole, file, "".join(result_lines(source.results)))
        if charts.details.empty and not settings.ids:
            raise UserError(f"{settings.fhir or settings.ehr}: {charts.notes[0]} To run anyway, name items with --ids")
        return _Examined([*warnings, *charts.notes], "" if charts.details.applied else charts.notes[0], save)


@dataclass(frozen=True, slots=True)
class _Examined:
    """The result of looking at a run's charts before its first episode. `save` writes them to the run's folder."""

    warnings: Sequence[str] = ()
    note: str = ""
    save: Callable[[], None] = lambda: None


def _nothing() -> None:
    """Save nothing."""


def _missing(settings: Psb300Settings, server: tuple[str, Ask], plan: Plan) -> Iterator[str]:
    """A warning if patients of the run's items are not on the server. Raises UserError unless --ids lists the items."""
    chosen = {unit.task.id for unit in plan.stages[0].units()}
    mrns = [item.stored.patient for item in plan.items if isinstance(item, TaskItem) and item.id in chosen]
    if missing := missing_patients(server, mrns):
        text = f"{len(missing)} of {len(set(mrns))} patients are not on the server: {named(missing, _NAMED)}"
        if not settings.ids:
            raise UserError(f"{settings.fhir or settings.ehr}: {text}; to run anyway, name items with --ids")
        yield text


def _result(row: EpisodeRow) -> Any:
    return row.answer if row.status == "completed" else "[]"


def _unfinished(verdict: Verdict, status: str) -> Verdict:
    """The verdict, changed to wrong because the episode did not end with FINISH."""
    if verdict.correct is None:
        return verdict
    check = Check("completed", False, "an episode that ends with FINISH", status)
    return replace(verdict, correct=False, checks=(check, *verdict.checks), fault=f"ended as {status}, without FINISH")


def _clock(source: Psb300Settings, tasks: TaskSet) -> datetime:
    """The time of grading for task1."""
    return source.clock or grading_clock(tasks) or datetime.now(UTC).replace(microsecond=0)


def _unfinished_counts_as(source: Psb300Settings, tasks: TaskSet) -> Unfinished:
    """How an episode without FINISH counts: as the settings say, otherwise as a packed task says."""
    return source.unfinished if "unfinished" in source.model_fields_set else psb_constants(tasks).unfinished


def _iso(time: datetime | None) -> str | None:
    return None if time is None else time.isoformat()


def _recorded_clock(folder: Path, settings: Psb300Settings) -> datetime | None:
    """The clock that `run.json` records, if the run is continued."""
    if settings.overwrite or not (folder / "run.json").is_file():
        return None
    recorded = read_run(folder)["settings"].get("clock")
    return datetime.fromisoformat(recorded) if recorded else None
