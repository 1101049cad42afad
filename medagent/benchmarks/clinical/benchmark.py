"""The base of the benchmarks that are sets of clinical task types.

A subclass needs a name and task types. Its items, agents, grader, table, sets from a seed, twins and exports follow
from the types. A published benchmark overrides what it does differently.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from hashlib import sha256
from pathlib import Path
from typing import Any, ClassVar, TypeVar, final

from pydantic import create_model

from medagent.benchmarks.clinical.agents import Solver, TypesAgent, solve_by_types
from medagent.benchmarks.clinical.asking import RulingCheck, rules_at_fault, ruling_text
from medagent.benchmarks.clinical.generation import (
    ClinicalGenerator,
    TypesGenerator,
    types_case,
)
from medagent.benchmarks.clinical.grader import ClinicalGrader, GradedEpisode, not_the_agent
from medagent.benchmarks.clinical.items import Facts, FactsPlace, OpenSet, Situation, TaskItem, opened_once
from medagent.benchmarks.clinical.metrics import clinical_metrics
from medagent.benchmarks.clinical.plugin_types import types_digest, types_in
from medagent.benchmarks.clinical.sampling import Candidate, candidate, is_alike
from medagent.benchmarks.clinical.sets import TaskSet, load_set, set_files
from medagent.benchmarks.clinical.settings import AGENTS, ClinicalGrading, ClinicalSettings
from medagent.benchmarks.clinical.task_sources import (
    OF_A_HOSPITAL,
    is_of_server,
    patient_lines,
    patients_only,
    source_tasks,
)
from medagent.benchmarks.clinical.tasks import TASKS, Task, tasks_text
from medagent.benchmarks.clinical.training import training_task
from medagent.benchmarks.clinical.twins import Twins, check_originals, write_twins
from medagent.benchmarks.generated_sets import stored_seed
from medagent.core.errors import UserError
from medagent.core.number_formats import counted
from medagent.core.options import checked
from medagent.core.plugins import Plugin
from medagent.core.suggest import did_you_mean
from medagent.core.tell import Tell, untold
from medagent.core.wire import without_password
from medagent.core.writing import write_whole
from medagent.engine.accounts import Account
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.data_sets import SetManifest, is_set, read_manifest
from medagent.engine.folder import Run
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef
from medagent.engine.scores import Grader, Metrics, Score, Scored
from medagent.fhir_data.asking import http_ask
from medagent.fhir_data.embedded import EhrFile, bundled_file, imported_file
from medagent.fhir_data.facts import embedded_facts
from medagent.fhir_episodes.benchmark import FhirBenchmark, Training
from medagent.fhir_episodes.episode import ChartCheck, EpisodeRow
from medagent.fhir_episodes.settings import FhirSettings
from medagent.fhir_episodes.task import FhirItem
from medagent.reports.tables import say
from refsol.clinical.chart import Chart
from refsol.clinical.evidence import Deciding
from refsol.clinical.examples import learned_examples
from refsol.clinical.failures import failure_of
from refsol.clinical.floor import Baselines, FloorItem
from refsol.clinical.meanings import CLINICAL, RuleSet
from refsol.clinical.neighbours import Examples
from refsol.clinical.pairs import Case
from refsol.clinical.recorded import RecordedSource, recorded, result_lines
from refsol.clinical.rulings import Reply
from refsol.clinical.sources import Resource, SearchEhr, Source
from refsol.clinical.task_type import RuleError, TaskType, UngradableError, graded
from refsol.clinical.trial import check_types, tried
from refsol.clinical.twins import changed
from refsol.errors import DataFault, FactsError, InputError
from refsol.failures import KIND_WORDS
from refsol.history import ACCEPTED
from refsol.verdict import Verdict

SettingsT = TypeVar("SettingsT", bound=FhirSettings)


class ClinicalBenchmark(FhirBenchmark[SettingsT]):
    """A set of tasks of clinical types."""

    Settings: type[SettingsT] = ClinicalSettings  # type: ignore[assignment]  # a subclass may have settings of its own
    Grading: ClassVar[type[FhirSettings]] = ClinicalGrading
    agents = AGENTS
    tool_agents = ("reference",)
    kinds: ClassVar[Mapping[str, str]] = {str(kind): words for kind, words in KIND_WORDS.items()}
    types: ClassVar[Sequence[TaskType]] = ()
    """The task types, created: `types = (RepeatPotassium(), LastMagnesium())`."""
    plugin: ClassVar[Plugin | None] = None
    """The user's file of the types, if they are not part of an installed class."""
    rules: ClassVar[Mapping[str, RuleSet]] = {"": CLINICAL}
    """The rule sets by name, the one that counts first."""
    manifest_name: ClassVar[str] = ""
    """The name of the benchmark in the manifests of its sets; empty: its name."""
    baseline_rules: ClassVar[str] = ""
    """The rule set of the baselines; empty: the one by which a run is graded."""
    whole_reads: ClassVar[bool] = True
    """Whether a set records complete results of searches, because the rules may change later."""

    def __init_subclass__(cls, **keywords: Any) -> None:
        """Add the options of grading to the settings of a subclass that does not define `Grading`."""
        super().__init_subclass__(**keywords)
        if not issubclass(cls.Grading, cls.Settings):
            bases = (ClinicalGrading, cls.Settings) if issubclass(cls.Settings, ClinicalSettings) else cls.Settings
            cls.Grading = create_model(f"{cls.Settings.__name__}Grading", __base__=bases, __module__=cls.__module__)

    def generator(self) -> ClinicalGenerator:
        """See `Benchmark.generator`. Raises RuleError for types with which no task can be made."""
        self.check_types()
        return TypesGenerator(self.set_benchmark, self.types)

    @final
    def check_types(self) -> None:
        """Raises RuleError for types with which no task can be made. Those of a user's file were checked before."""
        if self.plugin is None:
            kind = type(self)
            names_patient = kind.situation is not ClinicalBenchmark.situation
            check_types(self.types, f"{kind.__module__}:{kind.__qualname__}", with_patient=not names_patient)

    @property
    @final
    def set_benchmark(self) -> str:
        """The name of the benchmark in the manifests of its sets."""
        return self.manifest_name or self.name

    # The set

    def task_set(self, source: Any) -> TaskSet:
        """The tasks of a source. Raises UserError, FactsError, RuleError."""
        return source_tasks(type(self), source).tasks

    @final
    def open_set(self, source: Any) -> OpenSet:
        """The tasks of a source with the facts by which they are graded. Raises UserError, FactsError, RuleError.

        A set is opened once in a process, unless its tasks or facts change. A FHIR server may change at any time.
        """
        tasks = self.task_set(source)
        base, whole_charts = source.api_base.rstrip("/") + "/", partial(self._whole_charts, tasks)
        opened = OpenSet(tasks, base, self.facts_of(tasks, source), whole_charts)
        if source.fhir is not None:
            return opened
        known = (type(self), tasks.path, tasks.part, tasks.digest, tasks.manifest.model_dump_json(), opened.digest)
        return opened_once(replace(opened, identity=(*known, *opened.place.decides.items())))

    def items(self, source: Any) -> Sequence[FhirItem]:
        return self.items_of(self.task_set(source), source)

    @final
    def items_of(self, tasks: TaskSet, source: Any) -> Sequence[TaskItem]:
        """The items of a set."""
        return [self.item_of(tasks, task, source) for task in tasks.tasks]

    @final
    def item_of(self, tasks: TaskSet, task: Task, source: Any) -> TaskItem:
        """A task as an item."""
        situation = self.situation(tasks, task)
        return TaskItem(
            id=task.id,
            group=task.type,
            cluster=task.twin,
            patient=task.patient,
            pair=task.twin,
            change=task.amendment,
            injected=task.injected,
            question=task.text,
            context=situation.context,
            mrn=task.stated_patient,
            now=situation.now,
            stored=task,
            tasks=tasks,
            source=source,
        )

    def item(self, source: Any, task: Any) -> FhirItem:
        """See `FhirBenchmark.item`. A `Task` need not be in the set."""
        if isinstance(task, Task):
            return self.item_of(self.task_set(source), task, source)
        return super().item(source, task)

    def situation(self, tasks: TaskSet, task: Task) -> Situation:
        """What agents read before the text of a task, and the clock of its episode."""
        context = f"The current time is {tasks.clock.isoformat()}. {task.context}".rstrip()
        return Situation(context, tasks.clock)

    def data(self, source: Any) -> DataRef:
        tasks = self.task_set(source)
        return DataRef(name=self.name, version=tasks.name, digest=tasks.digest, accounts=self._accounts(tasks))

    def _accounts(self, tasks: TaskSet) -> dict[str, Account]:
        """By type of this benchmark from which patients its tasks were sampled, as far as it is known. A set of twins
        was made from these tasks, and may have other numbers of them.
        """
        counts = Counter(task.type for task in tasks.tasks)
        return {
            kind.name: account.model_copy(update={"items": counts[kind.name]})
            for kind in self.types
            if counts[kind.name] and (account := tasks.manifest.accounts.get(kind.name)) is not None
        }

    def _checked_accounts(self, opened: OpenSet) -> dict[str, Account]:
        """The accounts of a set. If a type measures nothing by its account, its tasks are checked: the charts of twins,
        and all charts at another time, differ from the ones that the account counts.
        """
        accounts = self._accounts(opened.tasks)
        for name, account in accounts.items():
            if account.is_useless and (people := list(self._people(opened, name))):
                due = account.due or sum(person.due for person in people)
                accounts[name] = account.model_copy(update={"due": due, "alike": is_alike(people)})
        return accounts

    def _people(self, opened: OpenSet, type_name: str) -> Iterator[Candidate]:
        """The patients of the tasks of a type, as far as their charts allow a ruling."""
        for task in opened.tasks.tasks:
            with suppress(UngradableError, DataFault, FactsError, RuleError):
                chart = self.chart_of(opened, task, next(iter(self.rules)))
                if task.type == type_name and (person := candidate(self.task_type(opened.tasks, task), chart)):
                    yield person

    def patients(self, source: Any, say: Say) -> EhrFile:
        """See `FhirBenchmark.patients`."""
        if source.ehr is not None:
            return imported_file(source.ehr, say)
        manifest = None if source.dataset is None else read_manifest(Path(source.dataset))
        if manifest is None:
            return bundled_file(say)
        if manifest.generated is not None and manifest.generated.server:
            raise UserError(OF_A_HOSPITAL.format(source.dataset))
        return self.set_patients(patients_only(Path(source.dataset), manifest), say)

    @final
    def set_patients(self, tasks: TaskSet, say: Say) -> EhrFile:
        """The patients of a set: its own, made again if only the seed is there, or the bundled hospital's."""
        if tasks.lost_hospital:
            again = self.generator().hospital_again(tasks.folder, tasks.manifest, stored_seed(tasks.folder))
            return imported_file(again, say)
        hospital = tasks.hospital
        return bundled_file(say) if hospital is None else imported_file(hospital, say)

    def resources(self, source: Any) -> Iterable[bytes]:
        """See `FhirBenchmark.resources`. Those of a set are the lines of its file."""
        tasks = self.task_set(source)
        if source.ehr is not None or (tasks.hospital is None and not tasks.over_bundled):
            return super().resources(source)
        return patient_lines(tasks.hospital)

    def manifest(self, source: Any) -> SetManifest:
        return self.task_set(source).manifest

    # The rules

    def task_types(self, tasks: TaskSet) -> Mapping[str, TaskType]:
        """The types of a set, by name."""
        return {kind.name: kind for kind in self.types}

    @final
    def task_type(self, tasks: TaskSet, task: Task) -> TaskType:
        """The type of a task. Raises UngradableError."""
        types = self.task_types(tasks)
        if task.type not in types:
            raise UngradableError(f"unknown task type {task.type!r}; known: {', '.join(types)}")
        return types[task.type]

    def chart(self, opened: OpenSet, task: Task, source: Source, rules: str) -> Chart:
        """A new chart of a task's patient over a source, by one of the rule sets. Raises UngradableError."""
        return Chart(source, task.patient, opened.tasks.clock, self.rules[rules], base=opened.base)

    def case(self, opened: OpenSet, task: Task) -> Case:
        """A task as a case for twins, instructions in charts, and recorded searches."""
        return types_case(self.task_type(opened.tasks, task), task, opened.tasks.clock, opened.base)

    @final
    def chart_of(self, opened: OpenSet, task: Task, rules: str) -> Chart:
        """A new chart of a task, over the set's facts with the task's change."""
        return self.chart(opened, task, changed(opened.facts.source, task.change), rules)

    @final
    def reply(self, row: EpisodeRow, rules: RuleSet) -> Reply:
        """What the agent of an episode did."""
        reply = Reply.of(row.answer, row.post_history, rules, ACCEPTED)
        return replace(reply, changes=tuple(row.changes) if isinstance(row.changes, list) else None)

    def grade_episode(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> GradedEpisode:
        """The verdict on an episode, and what follows from it. Raises UserError for a rule at fault."""
        verdict = graded(lambda: self._verdict(opened, item, row, rules))
        failure = partial(failure_of, verdict, row.answer, row.status, row.history)
        return GradedEpisode(verdict, failure, row.history)

    def _verdict(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> Verdict:
        """The verdict by the rule of the task's type. Raises UngradableError, FactsError, UserError."""
        if problem := not_the_agent(row.status):
            return Verdict(None, fault=problem)
        kind = self.task_type(opened.tasks, item.stored)
        with rules_at_fault(item.source.private):
            with suppress(DataFault, FactsError):
                tried(kind, lambda: self.chart_of(opened, item.stored, rules))
            return kind.judge(self.chart_of(opened, item.stored, rules), self.reply(row, self.rules[rules]))

    @final
    def examples(self, opened: OpenSet, kind: str, rules: str) -> Examples:
        """Examples of what the rule of a type looks for: those of the set, otherwise among what the rule reads."""
        if opened.examples:
            return opened.examples
        if (kind, rules) not in opened.learned:
            opened.learned[kind, rules] = learned_examples(self._ruled_charts(opened, kind, rules))
        return opened.learned[kind, rules]

    def _ruled_charts(self, opened: OpenSet, kind: str, rules: str) -> Sequence[Chart]:
        """The charts of a type's tasks, with the records of its rule."""
        charts = list[Chart]()
        for task in opened.tasks.tasks:
            if task.type == kind:
                with suppress(UngradableError, DataFault, FactsError, RuleError):
                    charts.append(self.chart_of(opened, task, rules))
                    self.task_type(opened.tasks, task).ruled(charts[-1])
        return charts

    @final
    def patient(self, opened: OpenSet, source: Any, task: Task, rules: str) -> Resource | None:
        """The Patient of a task, as far as the set or a file contains it: a hospital's server is asked nothing more."""
        facts = opened.facts.source
        if isinstance(facts, RecordedSource) or source.fhir is None:
            chart = self.chart_of(opened, task, rules)
            with suppress(FactsError, LookupError):
                return next(iter(facts.search("Patient", **{chart.identifier: chart.patient})), None)
        identifier = [{"value": task.mrn}]
        return {"resourceType": "Patient", "id": task.patient, "identifier": identifier} if task.mrn else None

    @final
    def baselines(self, opened: OpenSet, rules: str) -> Baselines:
        """The scores of agents that read nothing, on the tasks of a set, by `baseline_rules`."""
        rules = self.baseline_rules or rules
        if rules not in opened.baselines:
            kinds = {task.id: task.type for task in opened.tasks.tasks}
            opened.baselines[rules] = Baselines(kinds, lambda kind: list(self._floor_items(opened, kind, rules)))
        return opened.baselines[rules]

    def _floor_items(self, opened: OpenSet, type_name: str, rules: str) -> Iterator[FloorItem]:
        """The tasks of a type that can be graded."""
        for task in opened.tasks.tasks:
            if task.type == type_name:
                with suppress(UngradableError):
                    words = f"{self.situation(opened.tasks, task).context}\n\n{task.text}"
                    kind = self.task_type(opened.tasks, task)
                    yield FloorItem(task.id, kind, words, self.chart_of(opened, task, rules))

    def grader(self, source: Any, rules: str) -> Grader[EpisodeRow]:
        if rules not in self.rules:
            raise InputError(
                f"unknown rules {rules!r}; known: {', '.join(self.rules)}.{did_you_mean(rules, self.rules)}"
            )
        return ClinicalGrader(self, source, self.open_set(source), rules)

    def metrics(self, scores: Sequence[Scored], source: Any, opened: OpenSet, rules: str) -> Metrics:
        """The results of all trials."""
        names = {kind.name: kind.words for kind in self.task_types(opened.tasks).values()}
        return clinical_metrics(scores, names)

    # The facts

    def facts_of(self, tasks: TaskSet, source: Any) -> FactsPlace:
        """The place of a set's facts, and what else a stored score depends on. Raises UserError."""
        types = types_digest(tuple(map(type, self.types))) if self.plugin is None else self.plugin.digest
        return replace(self.place_of(tasks, source), decides={"now": tasks.clock.isoformat(), "types": types})

    @final
    def place_of(self, tasks: TaskSet, source: Any) -> FactsPlace:
        """The file, the server or the recorded searches with a set's facts. Raises UserError."""
        if source.ehr is not None:
            file = imported_file(source.ehr)
            return FactsPlace(lambda: file.digest, lambda: Facts(embedded_facts(file.path)))
        generated = tasks.manifest.generated
        if source.fhir is not None and not (generated and generated.server):
            fhir = source.fhir
            digest = sha256(without_password(fhir).encode()).hexdigest()
            return FactsPlace(
                lambda: digest, lambda: Facts(SearchEhr(*http_ask(fhir, source.fhir_headers, source.ca_file)))
            )
        if (reads := tasks.reads) is not None:
            return FactsPlace(lambda: tasks.manifest.files[reads.name], lambda: Facts(RecordedSource.of_file(reads)))
        patients = self.patients(source, lambda _: None)
        return FactsPlace(lambda: patients.digest, lambda: Facts(embedded_facts(patients.path)))

    @final
    def _whole_charts(self, tasks: TaskSet) -> Source | None:
        """The whole charts of a set that contains searches, of which each recorded only a part of a chart.

        None if there are no such searches, or no patients.
        """
        recorded_only = tasks.reads is not None and not self.whole_reads
        if recorded_only and (tasks.over_bundled or tasks.hospital is not None):
            return embedded_facts(self.set_patients(tasks, lambda _: None).path)
        return None

    # Sets, twins, packs

    def changing(self, source: Any, items: Sequence[FhirItem]) -> Sequence[FhirItem]:
        """See `FhirBenchmark.changing`. Raises UserError for a rule at fault."""
        opened = self.open_set(source)
        with rules_at_fault(private=False):
            return [item for item in items if isinstance(item, TaskItem) and self._is_of_state(opened, item.stored)]

    def _is_of_state(self, opened: OpenSet, task: Task) -> bool:
        """Whether a task is graded by how the chart has changed, if its chart allows a ruling."""
        with suppress(UngradableError, DataFault, FactsError):
            chart = self.chart_of(opened, task, next(iter(self.rules)))
            return self.task_type(opened.tasks, task).ruled(chart).is_of_state
        return False

    def names_data(self, dataset: str) -> bool:
        return is_set(Path(dataset)) and read_manifest(Path(dataset)).benchmark == self.set_benchmark

    @final
    def named_source(self, dataset: str, ehr: Path | None) -> Any:
        """The settings that name a data set (empty: the default one), over other patients. Raises UserError."""
        return checked(self.Settings, {"ehr": ehr, **({"dataset": dataset} if dataset else {})})

    def new_twins(
        self, dataset: str, ehr: Path | None, folder: Path, *, triples: bool = False, tell: Tell = untold
    ) -> Twins[Task]:
        """See `Benchmark.new_twins`. Raises UserError, FactsError."""
        source = self.named_source(dataset, ehr)
        opened = self.open_set(source)
        check_originals(opened.tasks.tasks)
        patients = self.patients(source, lambda _: None)
        return write_twins(
            opened,
            partial(self.case, opened),
            patients,
            folder,
            whole=self.whole_reads,
            triples=triples,
            tell=tell,
        )

    def check_set(self, path: Path) -> tuple[str, Sequence[str]]:
        """See `Benchmark.check_set`. Each task is read, and its rule runs on its chart."""
        opened = self.open_set(self.named_source(str(path), None))
        tasks = opened.tasks
        types = ", ".join(f"{count} {name}" for name, count in Counter(task.type for task in tasks.tasks).items())
        sizes = Counter(task.twin for task in tasks.tasks if task.twin)
        noun = "triples" if 3 in sizes.values() else "pairs"
        pairs = f"; twins: {counted(len(sizes), noun)}" if sizes else ""
        line = f"{path}: {counted(len(tasks.tasks), 'tasks')} ({types}), digest {tasks.digest[:16]}{pairs}"
        accounts = self._checked_accounts(opened)
        lines = [line, *(account.words(name) for name, account in accounts.items())]
        warnings = [words for name, account in accounts.items() for words in account.warnings(name)]
        return "\n".join(lines), [*warnings, *self._ungradable(opened)]

    def _ungradable(self, opened: OpenSet) -> Iterator[str]:
        """The tasks whose charts allow no ruling, each with the reason."""
        for task in opened.tasks.tasks:
            try:
                chart = self.chart_of(opened, task, next(iter(self.rules)))
                self.task_type(opened.tasks, task).ruled(chart)
            except (UngradableError, DataFault, FactsError, RuleError) as error:
                yield f"{task.id}: {error}"

    def pack(self, source: Any, item: Any) -> Mapping[str, bytes]:
        """See `FhirBenchmark.pack`. The files are a set of one task, with the searches of its rule over its chart."""
        opened = self.open_set(source)
        return self.packed_set(opened, item, opened.tasks.manifest.constants)

    @final
    def packed_set(self, opened: OpenSet, item: Any, constants: Mapping[str, Any]) -> Mapping[str, bytes]:
        """The files of a set of one task, which is graded by these constants."""
        facts, task = changed(opened.facts.source, item.stored.change), item.stored.alone
        reads = recorded([(self.case(opened, task), ())], facts, complete=True, whole=self.whole_reads)
        stated = {
            "name": "packed",
            "base": opened.base,
            "clock": opened.tasks.clock,
            "constants": constants,
            "parts": {},
            "generated": None,
        }
        return set_files([task], opened.tasks.manifest.model_copy(update=stated), result_lines(reads))

    def unpack(self, folder: Path) -> tuple[FhirItem, Grader[EpisodeRow]]:
        tasks = load_set(folder)
        source = self.named_source(str(folder), None)
        opened = OpenSet(tasks, tasks.manifest.base, self.facts_of(tasks, source))
        item = self.item_of(tasks, tasks.tasks[0], source)
        return item, ClinicalGrader(self, source, opened, next(iter(self.rules)))

    # Runs

    def training_item(self, stream: Training, number: int) -> tuple[Mapping[str, Any], FhirItem]:
        """See `FhirBenchmark.training_item`. One set after another is generated from the seed."""
        folder, task = training_task(self.generator(), stream, number, say)
        source = self.named_source(str(folder), None)
        return {"dataset": str(folder)}, self.item_of(self.task_set(source), task, source)

    def source(self, run: Run, overrides: Mapping[str, Any]) -> Any:
        """See `Benchmark.source`. A FHIR server must be named by an option: no address is read from a run's folder."""
        source = super().source(run, {"fhir": None, **overrides})
        by_address = run.document["settings"].get("fhir") and not is_of_server(source.dataset)
        if by_address and not overrides.keys() & {"fhir", "ehr"}:
            raise UserError(f"{run.path}: the run used a FHIR server; name its patients with --fhir URL or --ehr FILE")
        tasks = run.path / TASKS
        saved_tasks = {"tasks": tasks} if tasks.is_file() else {}
        return source.model_copy(update=saved_tasks)

    @property
    @final
    def types_source(self) -> Callable[[], Sequence[TaskType]]:
        """A function that returns the task types. It can be pickled."""
        return partial(_types_of, type(self)) if self.plugin is None else partial(types_in, self.plugin)

    def solver(self, settings: Any) -> Solver:
        """The reference agent's solver: it knows what the tasks state, and the rules of their types."""
        generated = None if settings.dataset is None else read_manifest(Path(settings.dataset)).generated
        return partial(solve_by_types, self.types_source, "" if generated is None else generated.id_system)

    def scripted(self, settings: Any, items: Sequence[FhirItem]) -> TypesAgent | None:
        agent = settings.agent
        if agent is None or agent == "text" or agent not in self.agents:
            return None
        answers = {}
        if agent == "constant":
            floors = self.baselines(self.open_set(settings), next(iter(self.rules)))
            answers = {kind: behaviour.answer for kind, behaviour in floors.behaviours("constant").items()}
        return TypesAgent(agent, self.solver(settings), settings.protocol == "code", answers)

    def chart_check(self, settings: Any) -> ChartCheck | None:
        if not is_of_server(settings.dataset):
            return None
        opened = self.open_set(settings)
        types = self.task_types(opened.tasks)
        charts = {
            task.id: (task.patient, ruling_text(types[task.type], self.chart_of(opened, task, "")))
            for task in opened.tasks.tasks
        }
        return RulingCheck(self.types_source, settings.api_base, charts)

    async def plan(self, settings: Any, say: Say) -> Plan:
        """See `FhirBenchmark.plan`. The run's folder lists the tasks, so that a corrected rule can grade it again."""
        with rules_at_fault(settings.private):
            plan = await super().plan(settings, say)
            chosen = {unit.task.id for unit in plan.stages[0].units()}
            self.check_writes(
                settings, [item for item in plan.items if isinstance(item, TaskItem) and item.id in chosen]
            )
            tasks = self.task_set(settings)
            for task in tasks.tasks if settings.dataset else ():
                self.try_rule(self.open_set(settings), task)
            accounts = self._checked_accounts(self.open_set(settings))
        warnings = [words for name, account in accounts.items() for words in account.warnings(name)]
        text = tasks_text(tasks.tasks)
        return replace(
            plan,
            prepare=lambda: write_whole(plan.folder / TASKS, text),
            decides={**plan.decides, "now": tasks.clock.isoformat()},
            data=plan.data.model_copy(update={"accounts": accounts}),
            notes=[account.words(name) for name, account in accounts.items()],
            warnings=[*plan.warnings, *warnings, *source_tasks(type(self), settings).missing],
        )

    @final
    def try_rule(self, opened: OpenSet, task: Task) -> None:
        """Run the rule of a task. Raises RuleError for a rule at fault, and FactsError."""
        with suppress(DataFault):  # the item is then ungraded, with the reason
            tried(self.task_type(opened.tasks, task), lambda: self.chart_of(opened, task, next(iter(self.rules))))

    def blocks(self, item: Any, row: EpisodeRow, score: Score | None) -> Sequence[Block]:
        from medagent.fhir_episodes.views import episode_blocks

        return list(episode_blocks(item, row, score, partial(self._shown, item))) if isinstance(item, TaskItem) else []

    def _shown(self, item: TaskItem) -> Any:
        """The picture of an item. None if no test decides it, or if its chart allows no ruling."""
        from medagent.fhir_episodes.views import Shown

        opened, task = self.open_set(item.source), item.stored
        source = changed(opened.whole_charts, task.change)
        try:
            chart = self.chart(opened, task, source, next(iter(self.rules)))
            self.task_type(opened.tasks, task).ruled(chart)
        except (UngradableError, DataFault, FactsError):
            return None
        test = Deciding.of(chart)
        return None if test is None else Shown(test, task.patient, chart.now, source)


def _types_of(kind: type[ClinicalBenchmark[Any]]) -> Sequence[TaskType]:
    return kind.types
