"""A benchmark of ten types of items, and an agent that is right on items and trials of your choice."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

import medagent
from medagent.engine import Spent
from tests.command import medagent as command


class CoinSettings(medagent.RunSettings):
    size: Annotated[int, medagent.Option("The data", kind="value")] = 6
    """The number of items of each type."""


class Coins(medagent.Benchmark[CoinSettings, medagent.ReplyRow]):
    """Questions whose answer is yes."""

    name = "coins"
    Settings = CoinSettings
    row = medagent.ReplyRow

    def items(self, source: CoinSettings) -> Sequence[medagent.Item]:
        numbers = range(10 * source.size)
        return [
            medagent.Item(id=f"q{n}", group=f"type{n // source.size}", question=f"{n}?", target="yes") for n in numbers
        ]

    def grader(self, source: CoinSettings, rules: str) -> medagent.Grader[medagent.ReplyRow]:
        return YesGrader()

    async def plan(self, settings: CoinSettings, say: medagent.Say) -> medagent.Plan:
        return medagent.single_turn(self, settings)


class YesGrader(medagent.Grader[medagent.ReplyRow]):
    def score(self, item: medagent.Item, row: medagent.ReplyRow, judged: object = None) -> medagent.Score:
        return medagent.Score(correct=row.reply == item.target)


class Coin(medagent.Agent):
    """Right on the items of `right` (`0-9,12`), in the trials of `trials`."""

    def __init__(self, context: medagent.AgentContext, right: str = "", trials: str = "1,2,3") -> None:
        super().__init__(context)
        spans = [part.partition("-") for part in str(right).split(",") if part]
        self._right = {n for low, _, high in spans for n in range(int(low), int(high or low) + 1)}
        self._trials = {int(trial) for trial in str(trials).split(",")}

    def start(self, task: medagent.Item, *, key: str, seed: int | None) -> medagent.Policy:
        trial = int(key.partition("#")[2] or 1)
        return Say("yes" if int(task.id[1:]) in self._right and trial in self._trials else "no")


class Say(medagent.Policy):
    def __init__(self, text: str) -> None:
        self._text, self.spent = text, Spent()

    async def next(self, observation: str) -> medagent.Move:
        return medagent.Move(self._text)


HERE = Path(__file__)
BENCHMARK = ("--benchmark", f"{HERE}:Coins")


def coins(right: str, right_in: str = "", *, trials: int = 1, size: int = 6, label: str = "r1") -> Path:
    """Run it in the current folder with an agent that is right on these items, in these trials. Returns the folder."""
    words = (
        "run",
        f"{HERE}:Coins",
        "--agent",
        f"{HERE}:Coin",
        "--quiet",
        "--round",
        label,
        "--trials",
        trials,
        "--size",
        size,
    )
    arguments = [f"right={right}", *([f"trials={right_in}"] if right_in else [])]
    ran = command(*words, *(word for argument in arguments for word in ("--agent-arg", argument)))
    assert ran.code == 0, ran.err
    return Path("results", f"coins_{label}_Coin")
