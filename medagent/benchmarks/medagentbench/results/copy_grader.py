"""Grades by the rules, and by the user's copy of the published grader, to compare the two."""

from __future__ import annotations

from collections.abc import Awaitable, Sequence
from typing import Any

from medagent.benchmarks.clinical.grader import ClinicalGrader
from medagent.benchmarks.clinical.items import OpenSet, TaskItem
from medagent.benchmarks.medagentbench._metrics import mab_metrics
from medagent.benchmarks.medagentbench.results.files import result_item
from medagent.benchmarks.medagentbench.results.official_grader import official_grades
from medagent.benchmarks.medagentbench.results.recorded_rows import RecordedRow
from medagent.engine.scores import Metrics, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from refsol.medagentbench.recorded import ResultItem


class CopyGrader(ClinicalGrader):
    """Keeps the graded items in the published format, each with its trial."""

    def __init__(self, benchmark: Any, source: Any, opened: OpenSet, rules: str) -> None:
        super().__init__(benchmark, source, opened, rules)
        self._graded: list[tuple[int, ResultItem]] = []

    def score(self, item: Any, row: EpisodeRow, judged: Any = None) -> Awaitable[Score]:
        if isinstance(row, RecordedRow):
            self._graded.append((row.trial, row.item))
        elif isinstance(item, TaskItem):
            self._graded.append((row.trial, ResultItem.model_validate(result_item(row, item.stored))))
        return super().score(item, row, judged)

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        official = official_grades(self._source, self._opened.tasks, self._graded)
        return mab_metrics(scores, self._opened.tasks, self.rules, official, whole=True)
