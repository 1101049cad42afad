"""Sums: a benchmark of single questions."""

from __future__ import annotations

from typing import Annotated

from medagent import Benchmark, Grader, Item, Option, Plan, ReplyRow, RunSettings, Say, Score, single_turn


class SumsSettings(RunSettings):
    """The options of `medagent run sums`."""

    largest: Annotated[int, Option("The sums", kind="value")] = 3
    """The largest number."""


class Sums(Benchmark[SumsSettings, ReplyRow]):
    """Sums of two small numbers."""

    name = "sums"
    Settings = SumsSettings
    row = ReplyRow

    def items(self, source: SumsSettings) -> list[Item]:
        numbers = range(source.largest + 1)
        return [
            Item(id=f"{a}+{b}", question=f"What is {a}+{b}? Answer with the number alone.", target=str(a + b))
            for a in numbers
            for b in numbers
        ]

    async def plan(self, settings: SumsSettings, say: Say) -> Plan:
        return single_turn(self, settings)

    def grader(self, source: SumsSettings, rules: str) -> Grader[ReplyRow]:
        return SumsGrader()


class SumsGrader(Grader[ReplyRow]):
    """Right is the number alone."""

    def score(self, item: Item, row: ReplyRow, judged: object = None) -> Score:
        return Score(correct=row.reply == item.target)
