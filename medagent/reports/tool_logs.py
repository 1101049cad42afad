"""Other tools' logs as runs: `compare`, `leaderboard` and `report` read them as they read our own folders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
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
    def report(self) -> Report:
        """The report of the log."""
        scores = self.scores
        figures = mean_by_group(scores)
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

    def _value(self, one: LoggedOutcome) -> float | None:
        return None if one.values is None else one.values.get(self.scorer)


def logged_run(path: Path, scorer: str | None) -> LoggedRun | None:
    """A tool's log with the values of a scorer; None if the path is not a log. Raises InputError."""
    log = read_tool_log(path)
    return None if log is None else LoggedRun(log, log.scorer(scorer))


def check_same_benchmark(a: Path, b: Path, runs: Sequence[LoggedRun | None]) -> None:
    """Raises UserError if two logs of one tool are of different benchmarks, or have other contents under an id."""
    first, second = (None if run is None else run.log for run in runs)
    if first is None or second is None or first.tool != second.tool:
        return
    if first.benchmarks and second.benchmarks and first.benchmarks.isdisjoint(second.benchmarks):
        names = [", ".join(sorted(log.benchmarks)) for log in (first, second)]
        raise UserError(f"{a} is a log of {names[0]}, and {b} one of {names[1]}; compare logs of one benchmark")
    contents = {one.item: one.content for one in first.outcomes}
    shared = [one for one in second.outcomes if one.trial == 1 and contents.get(one.item)]
    if differing := [one.item for one in shared if one.content and one.content != contents[one.item]]:
        raise UserError(
            f"{a} and {b} have different items under the same names: {len(differing)} of {len(shared)} differ, the "
            f"first is {differing[0]!a}; compare logs of the same items"
        )
