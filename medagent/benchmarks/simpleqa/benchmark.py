"""SimpleQA as a benchmark: a stage that asks, a stage that has every answer judged, then refsol's figures.

The same command again asks and judges what is owed; a finished run costs nothing. Judges, gold and rules are no
settings of a run: they may change, and only what they change is judged anew.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, ClassVar

from medagent.agents.calls import Call, CallJob
from medagent.agents.choice import AgentChoice
from medagent.agents.single_turn import Examples, allowed_of, few_shot, who_answers
from medagent.benchmarks.base import Benchmark, failure_lines, selected
from medagent.benchmarks.simpleqa.findings import scored
from medagent.benchmarks.simpleqa.folder import Question, RunFiles, shared_ids
from medagent.benchmarks.simpleqa.rubric import SimpleqaRubric
from medagent.benchmarks.simpleqa.settings import SimpleqaSettings
from medagent.core.errors import UserError
from medagent.engine.journals import JournalKind, Run
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import DataRef, ItemView, Report, ShownMessage
from medagent.engine.run import Findings, Say, Standing
from medagent.judging.judging import judged_journals
from medagent.judging.plans import judged_plan
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import JudgedBenchmark, Subject
from medagent.models.base import Message
from medagent.reports.page.blocks import Details
from refsol.agreement import Labelled
from refsol.answers import AskedItem
from refsol.simpleqa.data import GoldQuestion, duplicate_ids, read_items
from refsol.simpleqa.opencompass import is_opencompass, read_opencompass
from refsol.simpleqa.prompts import ModelPrompt, model_prompt
from refsol.simpleqa.score import label_of
from refsol.simpleqa.verdict import CORRECT


class Simpleqa(Benchmark, JudgedBenchmark):
    """Short facts, answered by a model and judged by a panel."""

    name = "simpleqa"
    example = "medagent run simpleqa --lang en,hu --model gpt-4o-mini --judge gpt-4o --round r1"
    Settings = SimpleqaSettings
    journals: ClassVar[Mapping[str, JournalKind]] = judged_journals(ExchangeRow)
    rubric = SimpleqaRubric()
    unit_noun = "calls"

    async def plan(self, settings: Any, say: Say) -> Plan:
        """See `Benchmark.plan`. Raises InputError for bad data or prompts."""
        items = read_items(settings.data, settings.variant, encoding=settings.encoding)
        prompt = model_prompt(settings.variant, settings.prompt)
        panel = settings.panel(self.rubric, settings)
        names = _names(items)
        asked_items = _asked_items(items, names, settings.languages_of(prompt))
        examples = few_shot(settings, asked_items)
        groups = {name: item.group for name, item in zip(names, items, strict=True)}
        chosen = selected([name for name in names if not _taken(name, examples)], settings, lambda name: groups[name])
        who = who_answers(settings, asked_items, beside=settings.judges(settings))
        folder = settings.run_folder(f"simpleqa-{settings.variant}", who.label)
        files = RunFiles(folder)
        units = {
            _unit(name, language, trial): None
            for trial in range(1, settings.trials + 1)
            for name in chosen
            for language in settings.languages_of(prompt)
        }
        asked = [one for one in _questions(items, names, prompt.templates, settings.trials) if one.unit in units]
        by_unit = {one.unit: one for one in asked}
        turns = {language: _turns(prompt, language, examples) for language in prompt.templates}
        calls = [
            Call(one.unit, prompt.fill(one.language, one.question), who.label, one.trial, one, turns[one.language])
            for one in map(by_unit.__getitem__, units)
        ]

        def prepare() -> None:
            before = {question.unit: question for question in files.questions()}
            trials = max([settings.trials, *(question.trial for question in before.values())])
            whole = _questions(items, names, prompt.templates, trials)
            files.keep_questions([one for one in whole if one.unit in units or one.unit in before])

        decides = {**settings.decided(prompt, items), **who.digests()}
        plan = Plan(
            settings=settings,
            folder=folder,
            data=DataRef(name=f"SimpleQA {settings.variant}", digest=str(decides["questions-digest"])),
            stages=(
                Stage(
                    CallJob(
                        {who.label: _asked(who, settings, folder)},
                        settings.concurrency,
                        ExchangeRow,
                        tell_unusable=True,
                    ),
                    lambda: calls,
                    title=f"Calling {who.label}",
                ),
            ),
            decides=decides,
            command="medagent run simpleqa",
            prepare=prepare,
            warnings=shared_ids(asked),
            context=1.0 if settings.agent == "empty" else settings.allow_empty,
        )
        return _with_first_look(judged_plan(plan, self, panel, model=who.label, batches=settings.batches(folder)))

    def finish(self, plan: Plan, run: Run, standing: Standing) -> Findings:
        """Score what is judged, and write `results.json`."""
        if standing.stopped:
            return Findings(notes=["Nothing is scored before every answer is judged."])
        return scored(
            RunFiles(run.path), write=True, allow_empty=allowed_of(run.path) if plan.context is None else plan.context
        )

    def grade(self, run: Run) -> Findings:
        """Score a folder as it was judged last."""
        return scored(RunFiles(run.path), write=False, allow_empty=allowed_of(run.path))

    def details(self, run: Run, report: Report, **wanted: Any) -> Details:
        """See `Benchmark.details`."""
        from medagent.benchmarks.simpleqa.details import question_details

        return question_details(run)

    def subjects(self, run: Run) -> Iterator[Subject]:
        """See `JudgedBenchmark.subjects`."""
        return RunFiles(run.path).subjects()

    def recorded(self, path: Path, rule: str) -> Mapping[str, Sequence[Labelled]]:
        """See `JudgedBenchmark.recorded`: the labels of OpenCompass' output."""
        rule, labels = self.rubric.known_rule(rule), dict[str, list[Labelled]]()
        for judged in read_opencompass(path) if is_opencompass(path) else ():
            for row in judged.rows:
                for judge, reply in row.judged.items():
                    label = None if reply is None else self.rubric.read(reply, rule)
                    labels.setdefault(judge, []).append(Labelled(f"{row.id}/{row.language}", label, (row.id,)))
        return labels

    def messages(self, row: ExchangeRow) -> Sequence[ShownMessage]:
        """The prompt and the answer."""
        answer = [] if row.reply is None else [ShownMessage("answer", row.reply, row.reasoning)]
        return [ShownMessage("prompt", row.message), *answer]

    def show(self, run: Run, item: str) -> ItemView:
        """One question in one language: what was asked and answered, and each judge's words."""
        files = RunFiles(run.path)
        asked = [one for one in files.questions() if item in (one.unit, one.name, one.id)]
        if not asked:
            raise UserError(f"{run.path}: holds no episode {item}")
        question = asked[0]
        row = next(run.rows(ExchangeRow, units=[question.unit]), None)
        said = [ShownMessage("question", question.question), ShownMessage("gold", question.gold)]
        lines = [f"status: {row.status}" + (f" ({row.error})" if row.error else "") if row else "status: not asked yet"]
        if row is not None and row.reply is not None:
            said.append(ShownMessage("answer", row.reply, row.reasoning))
        judged = files.judged_set()
        for one in judged.rows:
            if (one.id, one.language) == (question.name, question.language):
                for judge, reply in one.judged.items():
                    said.append(ShownMessage(f"judge {judge}", reply or "(the call failed)"))
                    label = None if reply is None else label_of(reply, "robust")
                    lines.append(f"judge {judge}: {label or 'no label'}")
        others = [one.unit for one in asked[1:]]
        lines += [f"also: {', '.join(others)}"] if others else []
        return ItemView(said, [*lines, *(failure_lines(row) if row else [])])


def _with_first_look(plan: Plan) -> Plan:
    answers, *judging = plan.stages
    return replace(plan, stages=(answers, *(replace(stage, grade=_is_correct) for stage in judging)))


async def _is_correct(judgement: ExchangeRow) -> bool | None:
    return None if judgement.reply is None else label_of(judgement.reply, "robust") == CORRECT


def _asked(who: AgentChoice, settings: SimpleqaSettings, folder: Path) -> AgentChoice:
    """Who answers; through a batch API where one is asked for and answers are not known (their judges may be)."""
    return who if who.known is not None else who.batched(settings.batches(folder))


def _asked_items(items: Sequence[GoldQuestion], names: Sequence[str], languages: Sequence[str]) -> list[AskedItem]:
    """Every question in every language, as an answer from elsewhere may know it."""
    return [
        AskedItem(f"{name}/{language}", item.question, frozenset({name, item.id}), language, item.answer)
        for language in languages
        for item, name in zip(items, names, strict=True)
    ]


def _taken(name: str, examples: Examples) -> bool:
    return any(key.rpartition("/")[0] == name for key in examples.taken)


def _turns(prompt: ModelPrompt, language: str, examples: Examples) -> tuple[Message, ...]:
    """The examples as said and answered: in the JSON that the prompt asks for, where it asks for that."""
    as_json = '"confidence_score"' in prompt.templates[language].text
    turns = []
    for question, answer in examples.of(language):
        said = json.dumps({"answer": answer, "confidence_score": 100}, ensure_ascii=False) if as_json else answer
        turns += [Message("user", prompt.fill(language, question)), Message("assistant", said)]
    return tuple(turns)


def _unit(name: str, language: str, trial: int) -> str:
    return f"{name}/{language}" if trial == 1 else f"{name}/{language}#{trial}"


def _names(items: Sequence[GoldQuestion]) -> list[str]:
    """A name for each item: its id, with the line where several rows share the id."""
    shared = duplicate_ids(items)
    return [f"{item.id}#{item.line}" if item.id in shared else item.id for item in items]


def _questions(
    items: Sequence[GoldQuestion], names: Sequence[str], languages: Iterable[str], trials: int
) -> Iterator[Question]:
    listed = list(languages)
    for trial in range(1, trials + 1):
        for item, name in zip(items, names, strict=True):
            for language in listed:
                yield Question(
                    unit=_unit(name, language, trial),
                    id=item.id,
                    language=language,
                    line=item.line,
                    question=item.question,
                    gold=item.answer,
                    group=item.group,
                )
