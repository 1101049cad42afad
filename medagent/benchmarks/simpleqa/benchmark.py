"""SimpleQA as a benchmark: a stage that asks, stages that let judges label every answer, then refsol's scores.

The same command again asks and judges only what is owed. Judges, gold and rules are not settings of a run: they may
change, and then only the affected answers are judged again.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import ClassVar

from medagent.agents.calls import Call, CallJob, trial_keys
from medagent.agents.choice import AgentChoice
from medagent.agents.single_turn import Examples, few_shot, who_answers
from medagent.benchmarks.judge_check import checked_judges
from medagent.benchmarks.simpleqa._folder import Question, RunFiles, shared_ids
from medagent.benchmarks.simpleqa._grader import QuestionGrader, is_judged
from medagent.benchmarks.simpleqa._items import QuestionItem, question_items, questions_digest
from medagent.benchmarks.simpleqa._recipes import score_line
from medagent.benchmarks.simpleqa._rubric import SimpleqaRubric, prompt_name
from medagent.benchmarks.simpleqa.settings import SimpleqaSettings
from medagent.core.options import Setting
from medagent.core.writing import write_changed
from medagent.engine.benchmark import Say
from medagent.engine.blocks import Block
from medagent.engine.folder import Run
from medagent.engine.plan import Plan, Stage
from medagent.engine.report import BackgroundNote, DataRef, Report, ShownMessage
from medagent.engine.scores import Grader, Score, Scored
from medagent.engine.settings import selected
from medagent.judging.benchmark import JudgedBenchmark, judged_plan
from medagent.judging.rows import ExchangeRow
from medagent.judging.rubric import Subject
from medagent.models.base import Message
from refsol.answers import AskedItem
from refsol.simpleqa.data import without_groups
from refsol.simpleqa.export import as_json, rows_as_json
from refsol.simpleqa.prompts import ModelPrompt
from refsol.simpleqa.score import score, warnings_of


class Simpleqa(JudgedBenchmark[SimpleqaSettings, ExchangeRow]):
    """Short factual questions, answered by a model and judged by a panel."""

    name = "simpleqa"
    example = "medagent run simpleqa --lang en,hu --model gpt-4o-mini --judge gpt-4o --round r1"
    Settings = SimpleqaSettings
    row = ExchangeRow
    rubric = SimpleqaRubric()
    unit_noun = "calls"
    kinds: ClassVar[Mapping[str, str]] = {
        "incorrect": "the answer differs from the gold answer",
        "not attempted": "the reply does not contain an answer",
    }

    def items(self, source: SimpleqaSettings) -> Sequence[QuestionItem]:
        return question_items(source)

    def data(self, source: SimpleqaSettings) -> DataRef:
        return DataRef(name=f"SimpleQA {source.variant}", digest=questions_digest(source))

    def grader(self, source: SimpleqaSettings, rules: str) -> Grader[ExchangeRow]:
        return QuestionGrader(source)

    async def plan(self, settings: SimpleqaSettings, say: Say) -> Plan:
        """See `Benchmark.plan`. Raises InputError for invalid data or prompts."""
        prompt = settings.model_prompt()
        panel = settings.panel(self.rubric, settings)
        items = self.items(settings)
        by_id = {item.id: item for item in items}
        languages = settings.asked_languages()
        asked_items = [_asked_item(item) for language in languages for item in items if item.language == language]
        examples = few_shot(settings, asked_items)
        groups = {item.name: item.group for item in items}
        names = [name for name in groups if not _taken(name, examples)]
        chosen = [
            by_id[f"{name}/{language}"]
            for name in selected(names, settings, groups.__getitem__)
            for language in languages
        ]
        who = who_answers(settings, asked_items, beside=settings.judges(settings))
        folder = settings.run_folder(f"simpleqa-{settings.variant}", who.label)
        files = RunFiles(folder)
        keys = trial_keys([item.id for item in chosen], settings.trials)
        calls = [
            Call(
                key,
                prompt.fill(item.language, item.question),
                who.label,
                trial,
                item.asked,
                _turns(prompt, item.language, examples),
            )
            for item, (key, trial) in zip(chosen * settings.trials, keys, strict=True)
        ]
        data = self.data(settings)

        def prepare() -> None:
            before = {question.unit: question for question in files.questions()}
            trials = max([settings.trials, *(question.trial for question in before.values())])
            units = before.keys() | {call.key for call in calls}
            whole = zip(list(items) * trials, trial_keys([item.id for item in items], trials), strict=True)
            files.keep_questions([_question(item, key) for item, (key, _) in whole if key in units])

        job = CallJob({who.label: _asked(who, settings, folder)}, settings.concurrency, ExchangeRow, tell_unusable=True)
        plan = Plan(
            settings=settings,
            folder=folder,
            data=data,
            stages=(Stage(job, lambda: calls, title=f"Calling {who.label}"),),
            items=items,
            decides={**_decided(settings, prompt, data), **who.digests()},
            command=self.command,
            prepare=prepare,
            warnings=[
                *without_groups([item.gold for item in items], settings.variant),
                *shared_ids([_question(item, item.id) for item in chosen]),
            ],
        )
        return judged_plan(plan, self, panel, model=who.label, batches=settings.batches(folder))

    def write(self, run: Run, scores: Sequence[Scored]) -> Sequence[str]:
        """Write the scores and all judged rows, if there are any."""
        if not any(is_judged(score) for score in scores):
            return []
        judged, _ = RunFiles(run.path).judged()
        rule = judged.rule
        document = as_json(judged, score(judged.rows, rule), rule, warnings_of(judged, rule))
        text = json.dumps({**document, "rows": rows_as_json(judged, rule)}, ensure_ascii=False, indent=2)
        write_changed(run.path / "results.json", text + "\n")
        return ["results.json"]

    def notes(self, run: Run) -> Iterator[str]:
        """See `Benchmark.notes`: what the score is comparable with, the digests of the prompts in use, and the results
        of checks of the judges.
        """
        files = RunFiles(run.path)
        panels = files.judged()[1]
        if panels:
            yield score_line(run.settings, len({question.name for question in files.questions()}), panels)
        for panel in panels:
            yield BackgroundNote(f"judge prompt: {prompt_name(panel.prompt)}, sha256 {panel.prompt.digest}")
            yield from checked_judges(run.path.parent, self.name, panel)

    def blocks(self, item: QuestionItem, row: ExchangeRow, score: Score | None) -> Sequence[Block]:
        from medagent.benchmarks.simpleqa._details import question_blocks

        return list(question_blocks(item, row, score))

    def panels(self, report: Report, scores: Sequence[Scored]) -> Sequence[Block]:
        from medagent.benchmarks.simpleqa._details import outcome_panels

        return list(outcome_panels(scores))

    def subjects(self, run: Run) -> Iterator[Subject]:
        return RunFiles(run.path).subjects()

    def messages(self, row: ExchangeRow) -> Sequence[ShownMessage]:
        """The prompt and the answer."""
        answer = [] if row.reply is None else [ShownMessage("answer", row.reply, row.reasoning)]
        return [ShownMessage("prompt", row.message), *answer]


def _decided(settings: SimpleqaSettings, prompt: ModelPrompt, data: DataRef) -> dict[str, Setting]:
    """The settings that decide the answers; judges are not among them."""
    first: dict[str, Setting] = {"variant": settings.variant, "round": settings.round}
    return {
        **first,
        **{name: value for name, value in settings.decides().items() if name not in first},
        "questions-digest": data.digest,
        "model-prompt-digest": prompt.digest,
    }


def _asked(who: AgentChoice, settings: SimpleqaSettings, folder: Path) -> AgentChoice:
    """The model that answers; through a batch API if requested and answers are not recorded ones."""
    return who if who.known is not None else who.batched(settings.batches(folder))


def _asked_item(item: QuestionItem) -> AskedItem:
    """An item that recorded answers are matched with."""
    return AskedItem(item.id, item.question, frozenset({item.name, item.gold.id}), item.language, item.target)


def _question(item: QuestionItem, unit: str) -> Question:
    gold = item.gold
    return Question(unit, gold.id, item.language, gold.line, gold.question, gold.answer, gold.group)


def _taken(name: str, examples: Examples) -> bool:
    return any(key.rpartition("/")[0] == name for key in examples.taken)


def _turns(prompt: ModelPrompt, language: str, examples: Examples) -> tuple[Message, ...]:
    """The examples as messages. The answers are in JSON if the prompt asks for JSON."""
    as_json = '"confidence_score"' in prompt.templates[language].text
    turns = []
    for question, answer in examples.of(language):
        reply = json.dumps({"answer": answer, "confidence_score": 100}, ensure_ascii=False) if as_json else answer
        turns += [Message("user", prompt.fill(language, question)), Message("assistant", reply)]
    return tuple(turns)
