"""Other tools' logs as runs: `compare`, `leaderboard` and `report` read them as they read our own folders."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import fmean
from typing import Any

from medagent.agents.calls import ReplyRow
from medagent.core.errors import UserError
from medagent.engine.benchmark import Benchmark
from medagent.engine.plan import Plan
from medagent.engine.report import DataRef, Report
from medagent.engine.results import GradedUnit
from medagent.engine.rows import FailedUnit
from medagent.engine.scores import Grader, Item, Score, Scored, mean_by_group
from medagent.engine.settings import RunSettings
from refsol.tool_logs import LoggedOutcome, ToolLog, read_tool_log

_COMPARED = 1000
"""The characters of a question that must be in another tool's prompt, which may be cut."""


class LoggedBenchmark(Benchmark[RunSettings, ReplyRow]):
    """Shows the samples of a log. It cannot be run."""

    name = "log"
    Settings = RunSettings
    row = ReplyRow

    def items(self, source: Any) -> Sequence[Item]:
        raise NotImplementedError

    async def plan(self, settings: RunSettings, say: Any) -> Plan:
        raise NotImplementedError

    def grader(self, source: Any, rules: str) -> Grader[ReplyRow]:
        raise NotImplementedError


@dataclass(frozen=True, slots=True)
class LoggedRun:
    """A log with the values of one scorer."""

    log: ToolLog
    scorer: str

    @property
    def scores(self) -> list[Scored]:
        """The samples with their scores. Values of 0 and 1 are verdicts if the log has no other."""
        values = [value for outcome in self.log.outcomes if (value := self._value(outcome)) is not None]
        verdicts = all(value in (0, 1) for value in values)
        return [self._scored(outcome, verdicts=verdicts) for outcome in self.log.outcomes]

    def _scored(self, outcome: LoggedOutcome, *, verdicts: bool) -> Scored:
        item = Item(id=outcome.item, group=outcome.group, question=outcome.question, target=outcome.target)
        unit = f"{outcome.item}#{outcome.trial}"
        value = self._value(outcome)
        if value is None:
            return Scored(item, outcome.trial, unit, "model_error", None)
        score = Score(value=value, reason=outcome.explanation)
        if verdicts:
            score = Score(correct=bool(value), reason=outcome.explanation)
        return Scored(item, outcome.trial, unit, "completed", score)

    @property
    def items(self) -> int:
        """The number of items of the log's data; if unknown, of the log."""
        return self.log.items or len({outcome.item for outcome in self.log.outcomes})

    @property
    def questions(self) -> Mapping[str, str]:
        """The question of each item, as far as the log contains it."""
        return {outcome.item: outcome.question for outcome in self.log.outcomes}

    @property
    def report(self) -> Report:
        """The report of the log."""
        scores = self.scores
        metrics = mean_by_group(list(self._headline(scores)))
        failed = [
            FailedUnit(
                unit=f"{outcome.item}#{outcome.trial}",
                status="model_error",
                error=outcome.error or f"no value of {self.scorer}",
            )
            for outcome in self.log.outcomes
            if self._value(outcome) is None
        ]
        return Report(
            benchmark=f"{self.log.tool}: {', '.join(sorted(self.log.benchmarks))}",
            folder=str(self.log.path),
            data=DataRef(name=", ".join(sorted(self.log.benchmarks)) or self.log.path.name),
            settings={"agent": self.log.who},
            rule_set=self.scorer,
            items=tuple(score.outcome for score in scores),
            notes=(*metrics.notes, *metrics.background),
            failed=tuple(failed),
            owed=tuple(failure.unit for failure in failed),
            **metrics.report,
        )

    @property
    def units(self) -> list[GradedUnit]:
        """The samples for a page."""
        rows = (
            ReplyRow(
                unit=f"{outcome.item}#{outcome.trial}",
                status="completed",
                reply=outcome.answer,
                error=outcome.error or None,
            )
            for outcome in self.log.outcomes
        )
        return [GradedUnit(score, row, {}) for score, row in zip(self.scores, rows, strict=True)]

    def _headline(self, scores: Sequence[Scored]) -> Iterator[Scored]:
        """What the headline is the mean of: the trials, or, if epochs of Inspect failed, the means of the samples."""
        values: dict[str, list[float]] = {}
        for score in scores:
            if score.value is not None:
                values.setdefault(score.item.id, []).append(score.value)
        if self.log.tool != "Inspect" or len({len(trials) for trials in values.values()}) < 2:
            yield from scores
            return
        for score in {score.item.id: score for score in scores}.values():
            mean = Score(value=fmean(values[score.item.id])) if score.item.id in values else None
            yield replace(score, score=mean)

    def _value(self, outcome: LoggedOutcome) -> float | None:
        return None if outcome.values is None else outcome.values.get(self.scorer)


def logged_runs(paths: Sequence[Path | None], scorer: str | None) -> list[LoggedRun | None]:
    """Tools' logs with the values of a scorer; None for a path that is not a log. Raises InputError.

    The scorer may be one of another log of the command: a log with a single scorer then uses that.
    """
    logs = [None if path is None else read_tool_log(path) for path in paths]
    known = scorer is not None and any(log.named(scorer) for log in logs if log is not None)

    def run(log: ToolLog) -> LoggedRun:
        of_another_log = known and not log.named(str(scorer))
        return LoggedRun(log, log.scorer(None if of_another_log else scorer))

    return [None if log is None else run(log) for log in logs]


def check_same_benchmark(a: Path, b: Path, first: ToolLog, second: ToolLog) -> None:
    """Raises UserError if two logs of one tool are of different benchmarks, or have other contents under an id."""
    if first.benchmarks and second.benchmarks and first.benchmarks.isdisjoint(second.benchmarks):
        names = [", ".join(sorted(log.benchmarks)) for log in (first, second)]
        raise UserError(f"{a} is a log of {names[0]}, and {b} one of {names[1]}; compare logs of one benchmark")
    contents = [
        {outcome.item: outcome.content for outcome in log.outcomes if outcome.content} for log in (first, second)
    ]
    _check(a, b, contents, lambda first, second: first == second)


def check_same_questions(a: Path, b: Path, questions: Sequence[Mapping[str, str]]) -> None:
    """Raises UserError if logs of two tools, or a run and a log, have other questions under an id. A tool's prompt
    contains the question; it may be cut.
    """
    plain = [{item: " ".join(text.split()) for item, text in texts.items() if text} for texts in questions]
    _check(a, b, plain, lambda first, second: first[:_COMPARED] in second or second[:_COMPARED] in first)


def _check(a: Path, b: Path, contents: Sequence[Mapping[str, str]], same: Callable[[str, str], bool]) -> None:
    first, second = contents
    shared = [item for item in first if item in second]
    if differing := [item for item in shared if not same(first[item], second[item])]:
        raise UserError(
            f"{a} and {b} have different items under the same names: {len(differing)} of {len(shared)} differ, the "
            f"first is {differing[0]!a}; compare runs of the same items"
        )
