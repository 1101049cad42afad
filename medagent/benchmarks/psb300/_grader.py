"""Scores episodes of psb-300 by the rules of refsol and the charts of a source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from datetime import datetime
from functools import cached_property
from typing import Any

from medagent.benchmarks.psb300._charts import OpenCharts, dicts
from medagent.benchmarks.psb300._figures import Grading, figures
from medagent.benchmarks.psb300._items import ChartItem
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
    stated_now,
)


class ChartGrader(Grader[EpisodeRow]):
    """Grades by one rule set. `charts` opens the charts; `digest` returns their identifier."""

    def __init__(
        self, tasks: TaskSet, charts: Callable[[], OpenCharts], digest: Callable[[], str], grading: Grading
    ) -> None:
        self.rules: RuleName = grading.rules
        self._tasks, self._open_charts, self._digest, self._grading = tasks, charts, digest, grading

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

    def score(self, item: ChartItem, row: EpisodeRow, judged: Any = None) -> Awaitable[Score]:
        """See `Grader.score`. The charts are read in a thread."""
        return asyncio.to_thread(self._score, item, row)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        return figures(scores, self._tasks, self._grading, self._charts if scores else None)

    @cached_property
    def _charts(self) -> OpenCharts:
        return self._open_charts()

    @cached_property
    def _baselines(self) -> Baselines:
        charts, grading = self._charts, self._grading
        return baselines(
            dicts(self._tasks), charts.facts, clock=grading.clock, rules=self.rules, constants=charts.constants
        )

    def _score(self, item: ChartItem, row: EpisodeRow) -> Score:
        messages = row.history
        finished = row.status == "completed"
        result = row.answer if finished else "[]"
        verdict = self._verdict(item, messages, result, self._grading.clock)
        if not finished and (row.status == FAILED or self._grading.unfinished == "wrong"):
            verdict = _unfinished(verdict, row.status)
        failure = failure_of(verdict, result, row.status, messages)
        floors = self._baselines.outcomes(item.id)
        if verdict.correct is False:  # if the chart is at fault, every reply is wrong
            floors = {name: right is True for name, right in floors.items()}
        part = {**floors, **conduct_of(row)}
        if item.group == "task1" and self.rules == "official":  # also graded at the scenario's now
            now = stated_now(item.context) or self._charts.constants.default_now
            part["by scenario"] = self._verdict(item, messages, result, now).correct
        return score_of(verdict, failure, grounds(verdict, messages), part, row, item.injected)

    def _verdict(self, item: ChartItem, messages: Sequence[HistoryMessage], result: Any, clock: datetime) -> Verdict:
        charts, task = self._charts, item.stored.model_dump()
        return grade_item(
            task, messages, result, charts.facts, clock=clock, rules=self.rules, constants=charts.constants
        )


def _unfinished(verdict: Verdict, status: str) -> Verdict:
    """The verdict, changed to wrong because the episode did not end with FINISH."""
    if verdict.correct is None:
        return verdict
    check = Check("completed", False, "an episode that ends with FINISH", status)
    return replace(verdict, correct=False, checks=(check, *verdict.checks), fault=f"ended as {status}, without FINISH")
