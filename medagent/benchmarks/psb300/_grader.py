"""Scores episodes of psb-300 by the rules of refsol and the charts of a source."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any

from medagent.benchmarks.psb300._charts import OpenCharts
from medagent.benchmarks.psb300._figures import Measured, figures
from medagent.benchmarks.psb300._items import ChartItem
from medagent.benchmarks.psb300.settings import Unfinished
from medagent.benchmarks.psb300.tasks import TaskSet
from medagent.engine.rows import FAILED
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.verdicts import conduct_of, score_of
from refsol.grounds import grounds
from refsol.history import HistoryMessage
from refsol.psb300 import (
    Baselines,
    Check,
    RuleName,
    Verdict,
    baselines,
    failure_of,
    grade_item,
    rule_name,
    stated_now,
)


@dataclass(frozen=True, slots=True)
class Grading:
    """How episodes are graded: the rule set, the clock of task1, and how an episode without FINISH counts."""

    rules: RuleName
    clock: datetime
    unfinished: Unfinished = "empty"

    @classmethod
    def of(cls, rules: str, clock: datetime, unfinished: Unfinished) -> Grading:
        """Raises InputError for an unknown rule set."""
        return cls(rule_name(rules), clock, unfinished)


class ChartGrader(Grader[EpisodeRow]):
    """Grades by one rule set. `charts` opens the charts; `digest` returns their identifier."""

    def __init__(
        self, tasks: TaskSet, charts: Callable[[], OpenCharts], digest: Callable[[], str], grading: Grading
    ) -> None:
        self.rules: RuleName = grading.rules
        self._tasks, self._open_charts, self._digest, self._grading = tasks, charts, digest, grading
        self._lock = threading.Lock()
        self._ready: _Ready | None = None

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        grading = self._grading
        return {
            "tasks": self._tasks.digest,
            "facts": self._digest(),
            "clock": grading.clock.isoformat(),
            "unfinished": grading.unfinished,
        }

    def score(self, item: ChartItem, row: EpisodeRow, judged: Any = None) -> Score | Awaitable[Score]:
        """See `Grader.score`. The first call reads the charts, in a thread."""
        if self._ready is None:
            return asyncio.to_thread(lambda: self._graded(self._loaded(), item, row))
        return self._graded(self._ready, item, row)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        measured = Measured(self.rules, self._grading.clock, self._grading.unfinished)
        if scores:
            charts = self._loaded().charts
            measured = replace(measured, notes=charts.notes, cut_off_applied=charts.cut_off_applied)
        return figures(scores, self._tasks, measured)

    def _loaded(self) -> _Ready:
        with self._lock:
            if self._ready is None:
                charts, grading = self._open_charts(), self._grading
                tasks = [task.model_dump() for task in self._tasks.tasks]
                floors = baselines(
                    tasks, charts.facts, clock=grading.clock, rules=grading.rules, constants=charts.constants
                )
                self._ready = _Ready(charts, floors)
            return self._ready

    def _graded(self, ready: _Ready, item: ChartItem, row: EpisodeRow) -> Score:
        messages = row.history
        finished = row.status == "completed"
        result = row.answer if finished else "[]"
        verdict = self._verdict(ready, item, messages, result)
        if not finished and (row.status == FAILED or self._grading.unfinished == "wrong"):
            verdict = _unfinished(verdict, row.status)
        failure = failure_of(verdict, result, row.status, messages)
        floors = ready.floors.outcomes(item.id)
        if verdict.correct is False:  # if the chart is at fault, every reply is wrong
            floors = {name: right is True for name, right in floors.items()}
        part = {**floors, **conduct_of(row)}
        other = self._by_scenario(ready, item, messages, result)
        if other is not None:
            part["by scenario"] = other
        return score_of(verdict, failure, grounds(verdict, messages), part, row, item.injected)

    def _verdict(
        self,
        ready: _Ready,
        item: ChartItem,
        messages: Sequence[HistoryMessage],
        result: Any,
        clock: datetime | None = None,
    ) -> Verdict:
        history = [{"role": message.role, "content": message.content} for message in messages]
        return grade_item(
            item.stored.model_dump(),
            history,
            result,
            ready.charts.facts,
            clock=clock or self._grading.clock,
            rules=self.rules,
            constants=ready.charts.constants,
        )

    def _by_scenario(
        self, ready: _Ready, item: ChartItem, messages: Sequence[HistoryMessage], result: Any
    ) -> bool | None:
        """Whether a task1 item is right if graded at the scenario's now. None for other types and for `fair`."""
        if item.group != "task1" or self.rules != "official":
            return None
        now = stated_now(item.context) or ready.charts.constants.default_now
        return self._verdict(ready, item, messages, result, now).correct


@dataclass(frozen=True, slots=True)
class _Ready:
    """The opened charts, and the scores of agents that read nothing."""

    charts: OpenCharts
    floors: Baselines


def _unfinished(verdict: Verdict, status: str) -> Verdict:
    """The verdict, changed to wrong because the episode did not end with FINISH."""
    if verdict.correct is None:
        return verdict
    check = Check("completed", False, "an episode that ends with FINISH", status)
    return replace(verdict, correct=False, checks=(check, *verdict.checks), reason=f"ended as {status}, without FINISH")
