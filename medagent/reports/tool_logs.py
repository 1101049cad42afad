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
        values = [value for one in self.log.outcomes if (value := self._value(one)) is not None]
        verdicts = all(value in (0, 1) for value in values)
        return [
            Scored(
                Item(id=one.item, group=one.group, question=one.question, target=one.target),
                one.trial,
                f"{one.item}#{one.trial}",
                "completed" if (value := self._value(one)) is not None else "model_error",
                None
                if value is None
                else Score(correct=bool(value), reason=one.explanation)
                if verdicts
                else Score(value=value, reason=one.explanation),
            )
            for one in self.log.outcomes
        ]

    @property
    def items(self) -> int:
        """The number of items of the log's data; if unknown, of the log."""
        return self.log.items or len({one.item for one in self.log.outcomes})

    @property
    def questions(self) -> Mapping[str, str]:
        """The question of each item, as far as the log contains it."""
        return {one.item: one.question for one in self.log.outcomes}

    @property
    def report(self) -> Report:
        """The report of the log."""
        scores = self.scores
        figures = mean_by_group(list(self._headline(scores)))
        errors = [(one, one.error or f"no value of {self.scorer}") for one in self.log.outcomes]
        failed = [f"{one.item}#{one.trial}: model_error: {error}" for one, error in errors if self._value(one) is None]
        return Report(
            benchmark=f"{self.log.tool}: {', '.join(sorted(self.log.benchmarks))}",
            folder=str(self.log.path),
            data=DataRef(name=", ".join(sorted(self.log.benchmarks)) or self.log.path.name),
            settings={"agent": self.log.who},
            rule_set=self.scorer,
            items=tuple(one.outcome for one in scores),
            notes=(*figures.notes, *figures.background),
            failed=tuple(failed),
            owed=tuple(line.partition(": ")[0] for line in failed),
            **figures.report,
        )

    @property
    def units(self) -> list[GradedUnit]:
        """The samples for a page."""
        rows = (
            ReplyRow(unit=f"{one.item}#{one.trial}", status="completed", reply=one.answer, error=one.error or None)
            for one in self.log.outcomes
        )
        return [GradedUnit(one, row, {}) for one, row in zip(self.scores, rows, strict=True)]

    def _headline(self, scores: Sequence[Scored]) -> Iterator[Scored]:
        """What the headline is the mean of: the trials, or, if epochs of Inspect failed, the means of the samples."""
        values: dict[str, list[float]] = {}
        for one in scores:
            if one.value is not None:
                values.setdefault(one.item.id, []).append(one.value)
        if self.log.tool != "Inspect" or len({len(some) for some in values.values()}) < 2:
            yield from scores
            return
        for one in {one.item.id: one for one in scores}.values():
            mean = Score(value=fmean(values[one.item.id])) if one.item.id in values else None
            yield replace(one, score=mean)

    def _value(self, one: LoggedOutcome) -> float | None:
        return None if one.values is None else one.values.get(self.scorer)


def logged_runs(paths: Sequence[Path | None], scorer: str | None) -> list[LoggedRun | None]:
    """Tools' logs with the values of a scorer; None for a path that is not a log. Raises InputError.

    The scorer may be one of another log of the command: a log with a single scorer then uses that.
    """
    logs = [None if path is None else read_tool_log(path) for path in paths]
    known = scorer is not None and any(log.named(scorer) for log in logs if log is not None)
    return [
        None if log is None else LoggedRun(log, log.scorer(scorer if not known or log.named(str(scorer)) else None))
        for log in logs
    ]


def check_same_benchmark(a: Path, b: Path, first: ToolLog, second: ToolLog) -> None:
    """Raises UserError if two logs of one tool are of different benchmarks, or have other contents under an id."""
    if first.benchmarks and second.benchmarks and first.benchmarks.isdisjoint(second.benchmarks):
        names = [", ".join(sorted(log.benchmarks)) for log in (first, second)]
        raise UserError(f"{a} is a log of {names[0]}, and {b} one of {names[1]}; compare logs of one benchmark")
    contents = [{one.item: one.content for one in log.outcomes if one.content} for log in (first, second)]
    _check(a, b, contents, lambda one, other: one == other)


def check_same_questions(a: Path, b: Path, questions: Sequence[Mapping[str, str]]) -> None:
    """Raises UserError if logs of two tools, or a run and a log, have other questions under an id. A tool's prompt
    contains the question; it may be cut.
    """
    plain = [{item: " ".join(text.split()) for item, text in some.items() if text} for some in questions]
    _check(a, b, plain, lambda one, other: one[:_COMPARED] in other or other[:_COMPARED] in one)


def _check(a: Path, b: Path, contents: Sequence[Mapping[str, str]], same: Callable[[str, str], bool]) -> None:
    first, second = contents
    shared = [item for item in first if item in second]
    if differing := [item for item in shared if not same(first[item], second[item])]:
        raise UserError(
            f"{a} and {b} have different items under the same names: {len(differing)} of {len(shared)} differ, the "
            f"first is {differing[0]!a}; compare runs of the same items"
        )
