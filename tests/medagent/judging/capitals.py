"""A judged benchmark as a user writes one: capitals, right if the judges say so."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, ClassVar

from medagent import Benchmark, DataRef, Findings, ItemOutcome, Plan, ReplyRow, Run, RunSettings, TableLine
from medagent.judging import (
    Case,
    JudgedBenchmark,
    PanelSettings,
    Prompt,
    Query,
    Rubric,
    Subject,
    judged_journals,
    judged_plan,
    judgements_of,
)

CAPITALS = {"Hungary": "Budapest", "Austria": "Vienna", "Norway": "Oslo"}


class CapitalsSettings(PanelSettings, RunSettings):
    """The options of `medagent run capitals`."""


class CapitalsRubric(Rubric[Prompt]):
    """Right or wrong."""

    labels = ("right", "wrong")
    bundled = Prompt({"user": "Capital of {country}: {gold}. Reply: {reply}. Is the reply right or wrong?"})

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        return (Query(prompt.fill(country=subject.item, gold=CAPITALS[subject.item], reply=subject.answer)),)

    def cases(self, prompt: Prompt) -> Sequence[Case]:
        return [
            Case(f"{one}-{said}", "all", query, ("right" if said == gold else "wrong",), said)
            for one, gold in CAPITALS.items()
            for said in CAPITALS.values()
            for query in self.queries(Subject(one, one, said), prompt, {})
        ]


class Capitals(Benchmark, JudgedBenchmark):
    """Capitals of countries."""

    name = "capitals"
    Settings = CapitalsSettings
    journals = judged_journals(ReplyRow)
    rubric: ClassVar[Rubric[Prompt]] = CapitalsRubric()

    async def plan(self, settings: Any, say: Any) -> Plan:
        prompts = {country: f"What is the capital of {country}?" for country in CAPITALS}
        plan = self.single_turn(settings, prompts, DataRef(name="capitals", digest="0"))
        return judged_plan(plan, self, settings.panel(self.rubric, settings))

    def subjects(self, run: Run) -> Iterator[Subject]:
        for row in run.rows(ReplyRow):
            if row.reply is not None:
                yield Subject(row.unit, row.unit, row.reply)

    def grade(self, run: Run) -> Findings:
        judged = judgements_of(run, self)
        items = [
            ItemOutcome(item=unit, correct=one.majority == "right" if one.complete else None, reason=one.state)
            for unit, one in judged.items()
        ]
        right = [one.correct for one in items if one.correct is not None]
        line = TableLine(name="all", n=len(right), value=sum(right) / len(right) if right else None)
        return Findings(overall=line, items=items, ungraded=len(items) - len(right))


class TwoStepRubric(Rubric[Prompt]):
    """Asks whether there is an answer, and only then whether it is right."""

    labels = ("yes", "no")
    rounds = 2
    retries = 1
    bundled = Prompt({"there": "Does it name a city? {reply}", "right": "Is {reply} the capital of {country}?"})

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        there = Query(prompt.fill("there", reply=subject.answer), name="there")
        right = Query(prompt.fill("right", reply=subject.answer, country=subject.item), name="right")
        return (there, right) if labels.get("there") == "yes" else (there,)


class TwoSteps(Capitals):
    """Capitals, asked about in two steps."""

    name = "two-steps"
    rubric = TwoStepRubric()
