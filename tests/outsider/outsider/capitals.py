"""Capitals: a benchmark whose answers a judge reads."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from medagent import Grader, Item, Plan, ReplyRow, RunSettings, Say, Score, single_turn
from medagent.judging import JudgedBenchmark, PanelSettings, Prompt, Query, Rubric, Subject, judged_plan

GOLD = {"Hungary": "Budapest", "Austria": "Vienna", "Norway": "Oslo", "Peru": "Lima"}


class CapitalsSettings(PanelSettings, RunSettings):
    """The options of a run and of its judges."""


class CapitalsRubric(Rubric[Prompt]):
    """A reply is right or wrong."""

    labels = ("right", "wrong")
    bundled = Prompt({"user": "Capital of {country}: {gold}. Reply: {reply}. Is the reply right or wrong?"})

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        return [Query(prompt.fill(country=subject.item.id, gold=subject.item.target, reply=subject.answer))]


class Capitals(JudgedBenchmark[CapitalsSettings, ReplyRow]):
    """Capitals of four countries."""

    name = "capitals"
    Settings = CapitalsSettings
    row = ReplyRow
    rubric = CapitalsRubric()

    def items(self, source: CapitalsSettings) -> list[Item]:
        return [Item(id=name, question=f"What is the capital of {name}?", target=city) for name, city in GOLD.items()]

    def grader(self, source: CapitalsSettings, rules: str) -> Grader[ReplyRow]:
        return CapitalsGrader()

    async def plan(self, settings: CapitalsSettings, say: Say) -> Plan:
        return judged_plan(single_turn(self, settings), self, settings.panel(self.rubric, settings))


class CapitalsGrader(Grader[ReplyRow]):
    def score(self, item: Item, row: ReplyRow, judged: Any = None) -> Score:
        return Score(correct=judged.majority == "right")
