"""A judged benchmark as a user writes one: capitals, right if the judges say so."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

from medagent import Grader, Item, Plan, ReplyRow, RunSettings, Say, Score, single_turn
from medagent.judging import Case, JudgedBenchmark, PanelSettings, Prompt, Query, Rubric, Subject, judged_plan

CAPITALS = {"Hungary": "Budapest", "Austria": "Vienna", "Norway": "Oslo"}


class CapitalsSettings(PanelSettings, RunSettings):
    """The options of `medagent run capitals`."""


class CapitalsRubric(Rubric[Prompt]):
    """Right or wrong."""

    labels = ("right", "wrong")
    bundled = Prompt({"user": "Capital of {country}: {gold}. Reply: {reply}. Is the reply right or wrong?"})

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        return (Query(prompt.fill(country=subject.item.id, gold=subject.item.target, reply=subject.answer)),)

    def cases(self, prompt: Prompt) -> Sequence[Case]:
        return [
            Case(f"{country}-{said}", "all", query, ("right" if said == gold else "wrong",), said)
            for country, gold in CAPITALS.items()
            for said in CAPITALS.values()
            for query in self.queries(Subject(country, Item(id=country, target=gold), said), prompt, {})
        ]


class Capitals(JudgedBenchmark[CapitalsSettings, ReplyRow]):
    """Capitals of countries."""

    name = "capitals"
    Settings = CapitalsSettings
    row = ReplyRow
    rubric: ClassVar[Rubric[Prompt]] = CapitalsRubric()

    def items(self, source: Any) -> Sequence[Item]:
        return [
            Item(id=country, question=f"What is the capital of {country}?", target=gold)
            for country, gold in CAPITALS.items()
        ]

    def grader(self, source: Any, rules: str) -> CapitalsGrader:
        return CapitalsGrader()

    async def plan(self, settings: CapitalsSettings, say: Say) -> Plan:
        return judged_plan(single_turn(self, settings), self, settings.panel(self.rubric, settings))


class CapitalsGrader(Grader[ReplyRow]):
    """Right is what most of the judges say is right."""

    def score(self, item: Item, row: ReplyRow, judged: Any = None) -> Score:
        return Score(correct=judged.majority == "right")


class TwoStepRubric(Rubric[Prompt]):
    """Asks whether there is an answer, and only then whether it is right."""

    labels = ("yes", "no")
    rounds = 2
    retries = 1
    bundled = Prompt({"there": "Does it name a city? {reply}", "right": "Is {reply} the capital of {country}?"})

    def queries(self, subject: Subject, prompt: Prompt, labels: Mapping[str, str]) -> Sequence[Query]:
        there = Query(prompt.fill("there", reply=subject.answer), name="there")
        right = Query(prompt.fill("right", reply=subject.answer, country=subject.item.id), name="right")
        return (there, right) if labels.get("there") == "yes" else (there,)


class TwoSteps(Capitals):
    """Capitals, asked about in two steps."""

    name = "two-steps"
    rubric = TwoStepRubric()
