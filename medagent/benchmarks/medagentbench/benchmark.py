"""MedAgentBench as a benchmark with FHIR sessions: its sets, the published grader's rules, its published files."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import lru_cache, partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar

from medagent.benchmarks.clinical.agents import Solver, TypesAgent
from medagent.benchmarks.clinical.benchmark import ClinicalBenchmark
from medagent.benchmarks.clinical.grader import GradedEpisode
from medagent.benchmarks.clinical.items import Facts, FactsPlace, OpenSet, Situation, TaskItem
from medagent.benchmarks.clinical.sets import TaskSet
from medagent.benchmarks.clinical.tasks import Task
from medagent.benchmarks.medagentbench._metrics import grade_document, mab_metrics
from medagent.benchmarks.medagentbench.agents.reference import solver
from medagent.benchmarks.medagentbench.agents.replay import recorded_messages
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.benchmarks.medagentbench.results.copy_grader import CopyGrader
from medagent.benchmarks.medagentbench.results.files import write_grade, write_official, write_trials
from medagent.benchmarks.medagentbench.results.recorded_rows import RecordedRow
from medagent.benchmarks.medagentbench.settings import (
    AGENTS,
    MedAgentBenchGrading,
    MedAgentBenchSettings,
)
from medagent.benchmarks.medagentbench.tasks.dataset import (
    DATASETS,
    MEDAGENTBENCH,
    constants_of,
    dataset_folder,
    is_tasks_file,
    load_dataset,
    load_tasks_file,
    named,
    own_key,
    present_datasets,
    ref,
    rules_in_words,
    select,
    task_warnings,
)
from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.core.options import checked
from medagent.core.wire import without_password
from medagent.core.writing import file_digest, writing
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.data_sets import PresentSet
from medagent.engine.folder import Run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef, Report
from medagent.engine.scores import Grader, Metrics, Scored
from medagent.fhir_data.asking import http_ask
from medagent.fhir_data.embedded import EhrFile, imported_file
from medagent.fhir_data.facts import embedded_facts
from medagent.fhir_data.files import is_sqlite
from medagent.fhir_episodes.benchmark import FhirBenchmark
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.task import FhirItem
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import RuleSet
from refsol.clinical.pairs import Case
from refsol.clinical.recorded import RecordedSource, recorded, result_lines
from refsol.clinical.sources import NdjsonEhr, SearchEhr, Source
from refsol.clinical.task_type import TaskType, UngradableError, graded
from refsol.errors import DataFault, FactsError, InputError
from refsol.medagentbench import RULE_SETS, TYPES, Constants, failure_of, grade_item, rule_name
from refsol.medagentbench.grade import chart_of
from refsol.medagentbench.recorded import Created, RecordedEpisode
from refsol.medagentbench.twins import case_of
from refsol.verdict import Verdict


class MedAgentBench(ClinicalBenchmark[MedAgentBenchSettings]):
    """An LLM agent solves ten types of tasks on a hospital's FHIR server."""

    name = MEDAGENTBENCH
    example = "medagent run --version v2 --round r2 --model gpt-4o-mini"
    Settings = MedAgentBenchSettings
    Grading = MedAgentBenchGrading
    rules: ClassVar[Mapping[str, RuleSet]] = {str(name): rules for name, rules in RULE_SETS.items()}
    rule_sets = tuple(RULE_SETS)
    baseline_rules = "official"
    is_default = True
    agents = AGENTS
    kept_out = ("medagent/benchmarks/medagentbench/tasks/data/",)
    whole_reads = False
    imports = "a checkout of MedAgentBench's repository (data/medagentbench/test_data_v1.json and _v2.json)"

    def generator(self) -> MabGenerator:
        return MabGenerator()

    # The set

    def names_data(self, dataset: str) -> bool:
        return named(dataset) is not None or dataset.endswith(".json") or super().names_data(dataset)

    def present_sets(self) -> Sequence[PresentSet]:
        present = [
            PresentSet(dataset.name, dataset.part, len(dataset.tasks), dataset.digest, dataset.folder)
            for dataset in present_datasets()
        ]
        absent = [name for name in DATASETS if name not in {dataset.name for dataset in present}]
        return [*present, *(PresentSet(name, "", 0, "", dataset_folder(name)) for name in absent)]

    def check_set(self, path: Path) -> tuple[str, Sequence[str]]:
        """See `Benchmark.check_set`. A task file in the published format comes without facts."""
        if not is_tasks_file(str(path)):
            return super().check_set(path)
        tasks = load_tasks_file(path)
        types = ", ".join(f"{count} {name}" for name, count in Counter(task.type for task in tasks.tasks).items())
        line = f"{path}: {counted(len(tasks.tasks), 'tasks')} ({types}), digest {tasks.digest[:16]}"
        return f"{line}\n{rules_in_words(constants_of(tasks))}", [f"{path}: {text}" for text in task_warnings(tasks)]

    def task_set(self, source: MedAgentBenchSettings) -> TaskSet:
        return load_dataset(source.dataset, source.version)

    def situation(self, tasks: TaskSet, task: Task) -> Situation:
        """See `ClinicalBenchmark.situation`. All tasks have the time of the set."""
        return Situation(task.context, None)

    def data(self, source: MedAgentBenchSettings) -> DataRef:
        return ref(self.task_set(source))

    def patients(self, source: MedAgentBenchSettings, say: Say) -> EhrFile:
        """See `FhirBenchmark.patients`. Raises UserError for the official set, whose patients are not bundled."""
        if source.ehr is not None:
            return imported_file(source.ehr, say)
        tasks = self.task_set(source)
        if tasks.name == "official":
            raise UserError(
                "data set 'official' needs its own patients: name their FHIR server with --fhir, or a file of them "
                "(NDJSON) with --ehr"
            )
        return self.set_patients(tasks, say)

    def resources(self, source: MedAgentBenchSettings) -> Iterable[bytes]:
        tasks = self.task_set(source)
        if source.ehr is None and tasks.hospital is None and not tasks.over_bundled:
            raise UserError(
                f"data set {tasks.name!r} does not contain its patients, and the image needs them; export the "
                "bundled data set or a folder made by `medagent data new`"
            )
        return super().resources(source)

    def protocol(self, source: MedAgentBenchSettings, kind: str) -> Protocol:
        """See `FhirBenchmark.protocol`. A data set may have its own prompt and function list."""
        tasks = self.task_set(source)
        file = tasks.beside("protocol.toml") if kind == "text" else None
        return load_protocol(kind, file=file, functions=tasks.beside("functions.json"))

    def source(self, run: Run, overrides: Mapping[str, Any]) -> MedAgentBenchGrading:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        grading = checked(MedAgentBenchGrading, overrides)
        facts = (grading.fhir, grading.ehr, grading.key) != (None, None, None)
        server = {"fhir": grading.fhir, **({"ehr": grading.ehr} if facts else {})}
        named = {"dataset": grading.tasks and str(grading.tasks), "api_base": grading.base}
        renamed = {name: value for name, value in named.items() if value is not None}
        source: MedAgentBenchGrading = FhirBenchmark.source(self, run, {**overrides, **server, **renamed})
        return source if facts else source.model_copy(update={"ehr": self._own_patients(run, source)})

    def _own_patients(self, run: Run, source: MedAgentBenchGrading) -> Path | None:
        """The patients of a run, if its set comes without recorded searches. Raises UserError if they are missing."""
        if source.ehr is not None:
            if not source.ehr.is_file():
                raise UserError(f"{source.ehr}: the run's file of patients does not exist any more; name it with --ehr")
            return source.ehr
        if own_key(self.task_set(source)) is None and run.settings.get("ehr-digest") and not run.settings.get("fhir"):
            return self.patients(source, lambda _: None).path
        return None

    # The rules

    def task_types(self, tasks: TaskSet) -> Mapping[str, TaskType]:
        return _types(constants_of(tasks))

    def chart(self, opened: OpenSet, task: Task, source: Source, rules: str) -> Chart:
        return chart_of(task.published, source, self.rules[rules], constants_of(opened.tasks), opened.base)

    def case(self, opened: OpenSet, task: Task) -> Case:
        return case_of(task.published, constants_of(opened.tasks))

    def grade_episode(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> GradedEpisode:
        """See `ClinicalBenchmark.grade_episode`. A recording that is repeated may lack the GETs of its agent."""
        verdict, episode = graded(lambda: self._verdict(opened, item, row, rules)), _episode(row)
        failure = partial(failure_of, verdict, _answer(row), episode.status, episode.transcript, row.post_history)
        replayed = isinstance(item, TaskItem) and item.source.replayed
        is_known = not replayed or any(message.get_url for message in episode.transcript)
        return GradedEpisode(verdict, failure, episode.transcript if is_known else ())

    def _verdict(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> Verdict:
        if isinstance(row, RecordedRow) and row.problem:
            return Verdict(None, fault=row.problem)
        return grade_item(
            {**item.stored.published, "change": item.stored.change} if isinstance(item, TaskItem) else {"id": item.id},
            _answer(row),
            row.post_history,
            opened.facts.source,
            base=opened.base,
            rules=rule_name(rules),
            episode=_episode(row),
            constants=constants_of(opened.tasks),
        )

    def grader(self, source: Any, rules: str) -> Grader[EpisodeRow]:
        """See `Benchmark.grader`. With `--official`, a copy of the published grader grades too."""
        is_copy = isinstance(source, MedAgentBenchGrading) and source.official is not None
        return CopyGrader(self, source, self.open_set(source), rules) if is_copy else super().grader(source, rules)

    def metrics(self, scores: Sequence[Scored], source: Any, opened: OpenSet, rules: str) -> Metrics:
        return mab_metrics(scores, opened.tasks, rules, whole=isinstance(source, MedAgentBenchGrading))

    def facts_of(self, tasks: TaskSet, source: Any) -> FactsPlace:
        """See `ClinicalBenchmark.facts_of`. Facts may be named when a run is graded. Raises UserError, InputError."""
        grading = isinstance(source, MedAgentBenchGrading)
        key = source.key if isinstance(source, MedAgentBenchGrading) else None
        if key is not None and (source.fhir or source.ehr):
            raise UserError("--fhir, --ehr and --key all name the source of facts: pass only one of them")
        if source.ehr is not None:
            return _of_file(source.ehr, embed=not grading)
        set_key = None if grading and source.fhir is not None else own_key(tasks)
        if (path := key or set_key) is not None:
            if path != tasks.reads:
                self._check_key(path, RecordedSource.of_file(path), tasks)
            return FactsPlace(lambda: file_digest(path), lambda: Facts(RecordedSource.of_file(path)))
        if source.fhir is not None:
            address = sha256(without_password(source.fhir).encode()).hexdigest()
            return FactsPlace(
                lambda: address, lambda: Facts(SearchEhr(*http_ask(source.fhir, source.fhir_headers, source.ca_file)))
            )
        if not grading or tasks.has_twins:
            file = self.set_patients(tasks, lambda _: None)
            return FactsPlace(lambda: file.digest, lambda: Facts(embedded_facts(file.path)))
        raise UserError(f"{tasks.path}: this task set does not contain an answer key; pass --key, --ehr or --fhir")

    def _check_key(self, path: Path, recorded: RecordedSource, tasks: TaskSet) -> None:
        """Raises InputError if a file of recorded searches lacks one of a task."""
        opened = OpenSet(tasks, tasks.manifest.base, FactsPlace(str, lambda: Facts(recorded)))
        for task in tasks.tasks:
            try:
                with suppress(UngradableError, DataFault):
                    self.task_type(tasks, task).ruled(self.chart_of(opened, task, "official"))
            except FactsError:
                raise InputError(
                    f"{path}: is the answer key of another task set; name the right tasks (--tasks) or key (--key)"
                ) from None

    # Runs

    def solver(self, settings: MedAgentBenchSettings) -> Solver:
        return solver

    def scripted(self, settings: MedAgentBenchSettings, items: Sequence[FhirItem]) -> TypesAgent | None:
        """See `FhirBenchmark.scripted`. The agent `replay` needs a recording."""
        agent = super().scripted(settings, items)
        if agent is None or not settings.replayed:
            return agent
        if settings.replay is None:
            raise UserError("--agent replay needs a file, e.g. --agent replay results.json")
        return replace(agent, messages=recorded_messages(settings.replay))

    async def plan(self, settings: MedAgentBenchSettings, say: Say) -> Plan:
        return await FhirBenchmark.plan(self, settings, say)

    def selected(self, settings: MedAgentBenchSettings, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        return select(items, settings.types, settings, self.task_set(settings))

    def folder_name(self, settings: MedAgentBenchSettings) -> str:
        """See `FhirBenchmark.folder_name`. It is the version of the tasks."""
        return self.task_set(settings).part

    # Published files

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
        for trial, results in write_trials(run, scores[0].item.tasks, scores) if scores else ():
            done = [score for score in scores if score.trial == trial and score.status != "owed"]
            files += [results.name, write_grade(run, results, grade_document(done, "official")).name]
        return files

    def export_official(self, run: Run, scores: Sequence[Scored], out: Path) -> Sequence[Path]:
        """Write the run in the form of the official runner: runs.jsonl, error.jsonl, overall.json."""
        return write_official(run, scores, out)

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        from medagent.benchmarks.medagentbench.views import run_panels

        item = next((score.item for score in scores if isinstance(score.item, TaskItem)), None)
        if item is None:
            return []
        first, *more = run_panels(report, item.tasks)
        return [first, *super().panels(report, scores), *more]


@lru_cache(maxsize=16)
def _types(constants: Constants) -> Mapping[str, TaskType]:
    """The types with the constants of a set."""
    return {name: kind(constants) for name, kind in TYPES.items()}


def _answer(row: EpisodeRow) -> Any:
    """The answer that counts; None if the episode failed for a reason that is not the agent's."""
    return None if row.owed else row.answer


def _episode(row: EpisodeRow) -> RecordedEpisode:
    if isinstance(row, RecordedRow):
        return row.episode
    created = tuple(Created(write.url, None if write.stored is False else write.resource) for write in row.created)
    return RecordedEpisode(row.task_id, row.trial, row.status, created, row.history)


def _of_file(path: Path, *, embed: bool) -> FactsPlace:
    """The facts of a file of patients. An SQLite file, or any file if `embed`, is opened by the embedded server.

    Other files are read as NDJSON.
    """
    if not path.is_file():
        raise UserError(f"{path}: no such file")
    if embed or is_sqlite(path):
        file = imported_file(path)
        return FactsPlace(lambda: file.digest, lambda: Facts(embedded_facts(file.path)))
    return FactsPlace(lambda: file_digest(path), lambda: Facts(NdjsonEhr(path)))


def write_key(out: Path, source: MedAgentBenchGrading) -> tuple[int, int, int]:
    """Write the recorded searches of a task set over the patients of a source: the numbers of patients, searches and
    tasks. Raises UserError, FactsError.
    """
    benchmark = MedAgentBench()
    opened = benchmark.open_set(source)
    if opened.tasks.has_twins:
        raise UserError(f"{opened.tasks.path}: twins cannot share an answer key, because each comes with its own chart")
    cases = [(benchmark.case(opened, task), ()) for task in opened.tasks.tasks]
    results = recorded(cases, opened.facts.source, complete=False, whole=False)
    with writing(out):
        out.write_text("".join(result_lines(results)), encoding="utf-8", newline="\n")
    patients = {task.patient for task in opened.tasks.tasks if task.patient}
    return len(patients), len(results), len(opened.tasks.tasks)
