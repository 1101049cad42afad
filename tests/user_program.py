"""A program as a user writes it: `test_typing.py` has mypy and pyright read it under their strict rules.

A line that a checker must refuse is marked with the error of each; a mark without its error is an error as well.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Generator, Sequence
from pathlib import Path
from typing import Annotated

import medagent
from medagent import blocks, fhir
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.benchmarks.promptcblue.settings import PromptcblueSettings
from medagent.benchmarks.simpleqa.settings import SimpleqaSettings


class AgeAgent(medagent.Agent):
    """A plain generator."""

    def play(self, task: medagent.FhirTask, prompt: str) -> Generator[str, str, None]:
        reply = yield f"GET {self.context.base}Patient?identifier={task.mrn}"
        yield f"FINISH([{len(reply)}])"


class ModelAgent(medagent.Agent):
    """An async generator that asks the run's model."""

    async def play(self, task: medagent.FhirTask, prompt: str) -> AsyncIterator[str]:
        assert self.context.model is not None
        completion = await self.context.model.complete([medagent.Message("user", prompt)])
        yield completion.text


class SumsSettings(medagent.RunSettings):
    """Options of a benchmark of one's own."""

    largest: Annotated[int, medagent.Option("The data", kind="value")] = 2
    """The largest number that is added."""


class Sums(medagent.Benchmark[SumsSettings, medagent.ReplyRow]):
    """A benchmark of one's own."""

    name = "sums"
    Settings = SumsSettings
    row = medagent.ReplyRow

    def items(self, source: SumsSettings) -> Sequence[medagent.Item]:
        return [medagent.Item(id="1+1", question="What is 1+1?", target="2")]

    async def plan(self, settings: SumsSettings, say: medagent.Say) -> medagent.Plan:
        return medagent.single_turn(self, settings)

    def grader(self, source: SumsSettings, rules: str) -> medagent.Grader[medagent.ReplyRow]:
        return SumsGrader()

    def blocks(
        self, item: medagent.Item, row: medagent.ReplyRow, score: medagent.Score | None
    ) -> Sequence[blocks.Block]:
        return [blocks.TextBlock("Question", item.question), blocks.FactsBlock("Facts", [("answer", row.reply or "–")])]


class SumsGrader(medagent.Grader[medagent.ReplyRow]):
    """Right is the number alone."""

    def score(self, item: medagent.Item, row: medagent.ReplyRow, judged: object = None) -> medagent.Score:
        return medagent.Score(correct=row.reply == item.target)


def runs() -> float | None:
    """Runs by settings, by options, and by both."""
    settings = MedAgentBenchSettings(model="m", limit=10, protocol="tools", types=("task2",), results_dir=Path("here"))
    medagent.run_sync("medagentbench", settings)
    medagent.run_sync("medagentbench", settings, agent=AgeAgent, round="r2")
    medagent.run_sync("promptcblue", PromptcblueSettings(agent="gold"), verbose=True)
    medagent.run_sync("simpleqa", SimpleqaSettings(model="m", judge=["j"]))
    medagent.run_sync("imapscore", model="m", min_votes=3)
    medagent.run_sync(agent=AgeAgent, types=("task2",), results_dir="here")
    report = medagent.run_sync(Sums, SumsSettings(largest=3, model="m"))
    return report.overall.value if report.overall else None


def runs_that_are_wrong() -> None:
    MedAgentBenchSettings(modle="x")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    MedAgentBenchSettings(limit="x")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    MedAgentBenchSettings(protocol="speech")  # type: ignore[arg-type]  # pyright: ignore[reportArgumentType]
    PromptcblueSettings(writes="ack")  # type: ignore[call-arg]  # pyright: ignore[reportCallIssue]
    medagent.run_sync(Sums, medagent.RunSettings())  # type: ignore[misc]  # pyright: ignore[reportArgumentType]
    medagent.episode("task2_1", settings=medagent.RunSettings())  # type: ignore[arg-type]  # pyright: ignore
    print(medagent.nothing)  # type: ignore[attr-defined]  # pyright: ignore[reportAttributeAccessIssue, reportUnknownArgumentType, reportUnknownMemberType]


async def episodes(context: fhir.EpisodeContext) -> medagent.Score:
    """Episodes of both kinds."""
    with medagent.episode("task2_1", writes="execute") as blocking:
        said: str = blocking.act("GET x")
    async with context as open_one:
        said = await open_one.act(said)
        turns: Sequence[medagent.Turn] = open_one.transcript
        assert turns
    with medagent.serve_episodes(version="v1") as server, server.open("task1_2") as over_http:
        over_http.finish([1])
    names: list[str] = [task.id for task in medagent.tasks(version="v1")]
    return open_one.verdict() if names else over_http.verdict()


def reads(a: str, b: str) -> list[str]:
    """What finished runs hold."""
    found = medagent.compare(a, b)
    gained = list(found.gained) if isinstance(found, medagent.Comparison) else []
    medagent.grade(a, rules="fair", ehr="patients.ndjson")
    rows = [row for row in medagent.load_run(a).rows() if isinstance(row, medagent.EpisodeRow)]
    return gained + [turn.content for row in rows for turn in row.transcript]
