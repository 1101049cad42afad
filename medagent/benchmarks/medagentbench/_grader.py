"""Scores episodes of MedAgentBench by the rules of refsol and the facts of a source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from medagent.benchmarks.medagentbench._figures import figures
from medagent.benchmarks.medagentbench.data import OpenFacts, TaskItem, dataset_of, open_facts, task_dicts
from medagent.benchmarks.medagentbench.results.files import result_item
from medagent.benchmarks.medagentbench.results.official_grader import official_grades
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading, MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset, Task
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.verdicts import conduct_of, score_of
from refsol.history import HistoryMessage
from refsol.medagentbench import Baselines, ResultItem, baselines, failure_of, grade_item, grounds
from refsol.medagentbench.recorded import Created, RecordedEpisode
from refsol.medagentbench.rules import RuleName, rule_name
from refsol.verdict import Verdict

GROUNDS = "2"
"""The version of `grounds` and of the baselines. Stored scores of another version are recomputed."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The parts of an episode that grading reads. `problem` is why its item cannot be graded."""

    item: ResultItem
    episode: RecordedEpisode
    problem: str = ""


class RecordedRow(EpisodeRow):
    """The row of an item in a results file. Its answer may be any JSON value."""

    recorded: Recorded


class TaskGrader(Grader[EpisodeRow]):
    """Grades the episodes of a data set by one rule set."""

    def __init__(self, source: MedAgentBenchSettings, rules: str, dataset: Dataset, facts: OpenFacts) -> None:
        self.rules: RuleName = rule_name(rules)
        self._source, self._dataset, self._open = source, dataset, facts
        self._graded: list[tuple[int, ResultItem]] = []
        """The items for the copy of the official grader, each with its trial."""

    @classmethod
    def of(cls, source: MedAgentBenchSettings, rules: str) -> TaskGrader:
        """The grader for a source's data set and facts. Raises UserError, InputError."""
        dataset = dataset_of(source)
        return cls(source, rules, dataset, open_facts(source, dataset))

    @property
    def _copy(self) -> MedAgentBenchGrading | None:
        """The source if it names a copy of the official grader."""
        return self._source if isinstance(self._source, MedAgentBenchGrading) and self._source.official else None

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        return {"tasks": self._dataset.digest, "facts": self._open.digest, "grounds": GROUNDS}

    def score(self, item: Any, row: EpisodeRow, judged: Any = None) -> Score | Awaitable[Score]:
        """See `Grader.score`. If a server has to be queried for facts, a thread does it."""
        recorded = row.recorded if isinstance(row, RecordedRow) else _recorded(row, item.stored)
        if self._copy is not None:
            self._graded.append((row.trial, recorded.item))
        if self._open.at_once:
            return self._score(item, row, recorded)
        return asyncio.to_thread(self._score, item, row, recorded)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        official = None if self._copy is None else official_grades(self._copy, self._dataset, self._graded)
        whole = isinstance(self._source, MedAgentBenchGrading)
        return figures(scores, self._dataset, self.rules, official, whole=whole)

    def _score(self, item: Any, row: EpisodeRow, recorded: Recorded) -> Score:
        task, injected = {"id": item.id}, None
        if isinstance(item, TaskItem):
            task, injected = item.stored.model_dump(), item.injected
        answer, episode = recorded.item.answer, recorded.episode
        posts = [HistoryMessage(one.role, one.content) for one in recorded.item.post_history]
        if recorded.problem:
            verdict = Verdict(None, fault=recorded.problem)
        else:
            verdict = grade_item(
                task,
                answer,
                posts,
                self._open.facts,
                base=self._source.api_base,
                rules=self.rules,
                episode=episode,
                constants=self._dataset.constants,
            )
        failure = failure_of(verdict, answer, episode.status, episode.transcript, posts)
        if failure is not None and failure.kind == "empty-reply" and row.error:
            failure = replace(failure, reason=row.error)
        has_read = not self._source.replayed or any(one.get_url is not None for one in episode.transcript)
        had_read = grounds(verdict, episode.transcript if has_read else ())
        part = {**self._baselines.outcomes(item.id), **conduct_of(row)}
        return score_of(verdict, failure, had_read, part, row, injected)

    @cached_property
    def _baselines(self) -> Baselines:
        return baselines(task_dicts(self._dataset), self._open.facts, self._dataset.constants)


def _recorded(row: EpisodeRow, task: Task) -> Recorded:
    created = tuple(Created(write.url, None if write.stored is False else write.resource) for write in row.created)
    item = ResultItem.model_validate(result_item(row, task))
    return Recorded(item, RecordedEpisode(row.task_id, row.trial, row.status, created, row.history))
