"""A benchmark as a task of another tool: its items by id, the unit of each epoch, and the grade of one row.

A plan of `medagent run` gives items and units, so prompts, order and settings are those of a run.
"""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, lru_cache
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import Any, ClassVar
from weakref import finalize

from medagent.agents.calls import Call, CallJob
from medagent.agents.choice import AgentChoice, ModelChoice
from medagent.api import blocking
from medagent.benchmarks.base import Benchmark, find
from medagent.benchmarks.imapscore.job import ExtractionJob, ItemRow, ItemUnit
from medagent.benchmarks.medagentbench.episode import EpisodeRow, EpisodeUnit
from medagent.benchmarks.medagentbench.plan import GradingContext
from medagent.benchmarks.medagentbench.results.write import recorded, result_item
from medagent.benchmarks.promptcblue.benchmark import PredictionContext, sample_scores
from medagent.benchmarks.promptcblue.rows import LineRow
from medagent.benchmarks.simpleqa.folder import RunFiles
from medagent.benchmarks.simpleqa.judging import Judging, Panel, Question
from medagent.benchmarks.simpleqa.rows import ExchangeRow
from medagent.benchmarks.simpleqa.settings import named_prompt
from medagent.core.errors import UserError
from medagent.core.options import checked
from medagent.engine.journals import Run
from medagent.engine.plan import Plan
from medagent.engine.rows import Row
from medagent.models.wording import strip_thinking
from refsol.imapscore.graph import Linker
from refsol.imapscore.records import recording_of
from refsol.imapscore.score import score_recordings
from refsol.medagentbench import grade_item
from refsol.medagentbench.failures import failure_of
from refsol.promptcblue.files import read_structured
from refsol.promptcblue.parse import parse_answer
from refsol.promptcblue.score import score
from refsol.simpleqa.score import JudgedAnswer, outcome_of

MODEL = "medagent.integrations.inspect.model:InspectModel"
STORED = "medagent"
"""The key of a sample's store under which its row lies."""
Judged = Mapping[str, str | None]
"""Each judge's reply, None where its call failed."""
JUDGE = "medagent.integrations.inspect.model:InspectGrader"


@dataclass(frozen=True, slots=True)
class Item:
    """What is asked, and the group whose figure it counts in."""

    id: str
    question: str
    target: str
    group: str


@dataclass(frozen=True, slots=True)
class Grade:
    """The grade of one row; `value` is 0 to 1, None where it could not be graded. `details` is JSON."""

    value: float | None
    answer: str | None = None
    explanation: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


class Adapter(ABC):
    """One benchmark with its options, which are those of `medagent run`. Raises UserError for what cannot be used."""

    name: ClassVar[str]
    row: ClassVar[type[Row]]
    needs: ClassVar[tuple[str, ...]] = ()
    """The options that grading depends on: of a finished run they are read from its folder."""
    right_or_wrong: ClassVar[bool] = True
    """Whether an item is right or wrong, not a number."""

    def __init__(self, options: Mapping[str, Any]) -> None:
        self.given = {name: value for name, value in options.items() if value is not None}
        """The options as they were given, for a log."""
        self._plans: dict[int, Plan] = {}

    @cached_property
    def benchmark(self) -> Benchmark:
        """The benchmark itself."""
        return find(self.name)

    def plan(self, trials: int = 1) -> Plan:
        """The plan of so many trials."""
        if trials not in self._plans:
            settings = checked(self.benchmark.Settings, {**self._models(), **self.given, "trials": trials})
            self._plans[trials] = blocking(self.benchmark.plan(settings, lambda _: None))
        return self._plans[trials]

    @cached_property
    def items(self) -> Sequence[Item]:
        """All items, in the order in which a run does them."""
        return [self.item(unit) for unit in self._units(1)]

    def unit(self, item: str, epoch: int = 1) -> Any:
        """The unit of an item in an epoch: what a run does in that trial, with that trial's seed."""
        return self._units(epoch)[self._places[item] + (epoch - 1) * len(self.items)]

    @cached_property
    def _places(self) -> Mapping[str, int]:
        return {item.id: place for place, item in enumerate(self.items)}

    def _units(self, trials: int) -> Sequence[Any]:
        """Units come trial by trial, each trial in the same order."""
        return self.plan(trials).stages[0].units()

    @classmethod
    def of_run(cls, run: Mapping[str, Any]) -> dict[str, Any]:
        """The options that grading a finished run depends on, from its `run.json`."""
        kept = {**run.get("places", {}), **run.get("settings", {})}
        named = {name: kept.get(name.replace("_", "-")) for name in cls.needs}
        return {name: value for name, value in named.items() if value is not None}

    def _models(self) -> Mapping[str, Any]:
        """Who answers."""
        return {"model": MODEL}

    def stored(self, row: Row) -> dict[str, Any]:
        """What a log keeps of a sample, so that it can be graded from there alone."""
        return stored(self.name, self.given, row)

    @abstractmethod
    def item(self, unit: Any) -> Item:
        """What a unit asks."""

    @staticmethod
    def cluster(item: str, group: str) -> str:
        """What items have in common that are no independent draws: here their group."""
        return group

    def job(self, model: str) -> Any:
        """The job that carries units out, for one of the models that are evaluated."""
        return self.plan().stages[0].job

    @staticmethod
    def judged(run: Run) -> Mapping[str, Judged]:
        """The judges' replies of a finished run, by unit; nothing where there are no judges."""
        return {}

    @abstractmethod
    async def grade(self, item: str, row: Any, judged: Judged | None = None) -> Grade:
        """Grade the row of an item. `judged` are the judges' replies where they are known; else they are asked."""


class MedAgentBenchAdapter(Adapter):
    """Verdicts by the official rules, with every check."""

    name = "medagentbench"
    row = EpisodeRow
    needs = ("version", "dataset", "tasks_file", "ehr", "fhir", "api_base")

    def item(self, unit: EpisodeUnit) -> Item:
        """See `Adapter.item`."""
        task = unit.task
        return Item(
            task.id, f"{task.context}\n\n{task.instruction}" if task.context else task.instruction, "", task.type
        )

    async def grade(self, item: str, row: EpisodeRow, judged: Judged | None = None) -> Grade:
        """See `Adapter.grade`."""
        context: GradingContext = self.plan().context
        task = next((task for task in context.dataset.tasks if task.id == item), None)
        if task is None:
            raise UserError(f"{item}: is no task of {context.dataset.name} {context.dataset.version}")
        result, episode = result_item(row, task), recorded(row)
        verdict = grade_item(
            task.model_dump(),
            result["answer"],
            result["post_history"],
            context.facts,
            base=context.api_base,
            episode=episode,
            constants=context.dataset.constants,
        )
        failure = failure_of(verdict, result["answer"], episode.status, episode.transcript)
        checks = [
            {"name": one.name, "passed": one.passed, "expected": one.expected, "actual": one.actual}
            for one in verdict.checks
        ]
        return Grade(
            None if verdict.correct is None else float(verdict.correct),
            row.answer,
            verdict.reason if failure is None else failure.reason,
            {"status": row.status, "kind": "" if failure is None else failure.kind, "checks": checks},
        )


class PromptcblueAdapter(Adapter):
    """The main figure of each line alone; the official score is that of all lines together (`scorers.points`)."""

    name = "promptcblue"
    row = LineRow
    needs = ("data", "gold", "encoding", "strip_thinking")
    right_or_wrong = False

    def item(self, unit: Call) -> Item:
        """See `Adapter.item`."""
        task = unit.item["task_dataset"]
        return Item(unit.key, unit.item["input"], str(unit.item.get("target", "")), task)

    async def grade(self, item: str, row: LineRow, judged: Judged | None = None) -> Grade:
        """See `Adapter.grade`."""
        context: PredictionContext = self.plan().context
        answer = row.answer or ""
        if context.gold is None:
            return Grade(None, answer, "not scored: gold=FILE names the right answers")
        line, gold = self._gold[item]
        task = line["task_dataset"]
        text = strip_thinking(answer) if context.strip_thinking else answer
        parsed = parse_answer(task, text, line.get("answer_choices"), context.whole.edition)
        spec = next(one for one in context.whole.tasks if one.name == task)
        entry = {"sample_id": gold.get("sample_id"), "answer": parsed}
        value = sample_scores(score({task: [gold]}, {task: [entry]}, (spec,)).tasks[0].measured)[0]
        return Grade(value, answer, f"read as: {parsed!r}", {"task": task, "gold": gold, "parsed": entry})

    @cached_property
    def _gold(self) -> Mapping[str, tuple[dict[str, Any], dict[str, Any]]]:
        """The lines by key, each with its right answer: a task's answers stand in the order of its lines."""
        context: PredictionContext = self.plan().context
        assert context.gold is not None
        answers = {task: iter(given) for task, given in read_structured(context.gold).value.items()}
        return {line.key: (line.value, next(answers[line.task])) for line in context.whole.lines}


class SimpleqaAdapter(Adapter):
    """The label that the judges give; they are asked when the answer is scored."""

    name = "simpleqa"
    row = ExchangeRow

    def _models(self) -> Mapping[str, Any]:
        """See `Adapter._models`; who judges is the model of a role."""
        return {"model": MODEL, "judge": [JUDGE]}

    def item(self, unit: Call) -> Item:
        """See `Adapter.item`."""
        question: Question = unit.item
        return Item(unit.key, question.question, question.gold, question.group or question.language)

    @staticmethod
    def cluster(item: str, group: str) -> str:
        """See `Adapter.cluster`: one question in several languages."""
        return item.rpartition("/")[0]

    @staticmethod
    def judged(run: Run) -> Mapping[str, Judged]:
        """See `Adapter.judged`."""
        files = RunFiles(run.path)
        rows = zip(files.questions(), files.judged_set().rows, strict=True)
        return {question.unit: row.judged for question, row in rows}

    async def grade(self, item: str, row: ExchangeRow, judged: Judged | None = None) -> Grade:
        """See `Adapter.grade`."""
        replies = await self._asked(self.unit(item).item, row.reply) if judged is None else dict(judged)
        outcome = outcome_of(JudgedAnswer(item, "", "", row.reply, replies), "robust")
        value = {"correct": 1.0, "incorrect": 0.0, "not_attempted": 0.0}.get(outcome)
        return Grade(value, row.reply, outcome.replace("_", " "), {"status": row.status, "judged": replies})

    async def _asked(self, question: Question, prediction: str | None) -> dict[str, str | None]:
        """What each judge says of an answer."""
        if prediction is None:
            return {}
        settings: Any = self.plan().settings
        judging = Judging(judges=settings.judges, prompt=named_prompt(settings.judge_prompt))
        judges = {judge.name: AgentChoice(ModelChoice.of(judge)) for judge in judging.judges}
        replies: dict[str, str | None] = {}
        async with CallJob(judges, 1, ExchangeRow).open() as worker:
            for call in Panel(judging).calls(question, prediction):
                row = ExchangeRow.begin(call)
                await worker.run(call, row)
                replies[call.model] = row.reply
        return replies


class ImapscoreAdapter(Adapter):
    """imapScore of the imaps that the model extracted."""

    name = "imapscore"
    row = ItemRow
    needs = ("data", "graph", "encoding")
    right_or_wrong = False

    def item(self, unit: ItemUnit) -> Item:
        """See `Adapter.item`."""
        item = unit.item
        return Item(item.id, f"{item.question}\n\n{item.response}", item.label, "all")

    @staticmethod
    def cluster(item: str, group: str) -> str:
        """See `Adapter.cluster`."""
        return item

    def _models(self) -> Mapping[str, Any]:
        """See `Adapter._models`; replies are kept for this process alone, as Inspect has a cache of its own."""
        folder = Path(mkdtemp(prefix="medagent-imapscore-"))
        finalize(self, rmtree, folder, ignore_errors=True)
        return {"model": MODEL, "results_dir": folder}

    def job(self, model: str) -> ExtractionJob:
        """See `Adapter.job`."""
        job: ExtractionJob = super().job(model)
        return replace(job, identity={**job.identity, "name": model})

    async def grade(self, item: str, row: ItemRow, judged: Judged | None = None) -> Grade:
        """See `Adapter.grade`."""
        if row.recording is None:
            return Grade(None, explanation=row.error or row.status)
        graph = self.plan().context.graph
        found = score_recordings([recording_of(row.recording)], None if graph is None else Linker(graph))[0]
        value = None if found.value is None else float(found.value)
        return Grade(value, row.recording.response, row.recording.reason or found.status, {"status": row.status})


def stored(benchmark: str, options: Mapping[str, Any], row: Row) -> dict[str, Any]:
    """See `Adapter.stored`. What it cost is left out: a log has the usage of its own calls."""
    kept = row.model_dump(mode="json", exclude={"spent"})
    return {"benchmark": benchmark, "options": dict(options), "row": kept}


ADAPTERS: Mapping[str, type[Adapter]] = {
    one.name: one for one in (MedAgentBenchAdapter, PromptcblueAdapter, SimpleqaAdapter, ImapscoreAdapter)
}


def adapter_class(name: str) -> type[Adapter]:
    """The adapter of a benchmark. Raises UserError for one that has none."""
    if name not in ADAPTERS:
        raise UserError(f"benchmark {name!r} has no Inspect task; there are {', '.join(ADAPTERS)}")
    return ADAPTERS[name]


def adapter(name: str, options: Mapping[str, Any]) -> Adapter:
    """A benchmark with options; the same one for the same options. Raises UserError."""
    adapter_class(name)
    return _adapter(name, json.dumps(options, sort_keys=True))


@lru_cache(maxsize=16)
def _adapter(name: str, options: str) -> Adapter:
    return ADAPTERS[name](json.loads(options))
