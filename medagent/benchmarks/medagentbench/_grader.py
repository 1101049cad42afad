"""Scores episodes of MedAgentBench by the rules of refsol and the facts of a source."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from medagent.benchmarks.medagentbench._figures import figures
from medagent.benchmarks.medagentbench.facts import OpenFacts, open_facts
from medagent.benchmarks.medagentbench.items import TaskItem, dataset_of, task_dicts
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades, official_grades
from medagent.benchmarks.medagentbench.results.write import result_of
from medagent.benchmarks.medagentbench.settings import MedAgentBenchGrading, MedAgentBenchSettings
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.history import acted, post_history
from medagent.fhir_episodes.verdicts import conduct_of, score_of
from refsol.history import HistoryMessage
from refsol.medagentbench import (
    RULE_SETS,
    Baselines,
    Constants,
    Facts,
    ResultItem,
    failure_of,
    grade_item,
    grounds,
)
from refsol.medagentbench.episodes import Created, RecordedEpisode
from refsol.medagentbench.rules import RuleName, rule_name
from refsol.verdict import Verdict

_MOST_VERDICTS = 10_000
"""Verdicts in memory, some kilobytes each."""
GROUNDS = "1"
"""The version of `grounds` and of the baselines. Stored scores of another version are recomputed."""


_baselines: dict[tuple[str, str, Constants], Baselines] = {}
"""A cache for the data set that was graded last, because a process often grades the same set several times.

It is used only if the facts are in memory.
"""


class TaskGrader(Grader[EpisodeRow]):
    """Grades the episodes of a data set by one rule set."""

    def __init__(self, source: MedAgentBenchSettings, rules: str, dataset: Dataset, facts: OpenFacts) -> None:
        self.rules: RuleName = rule_name(rules)
        self._source, self._dataset, self._open = source, dataset, facts
        self._tasks: dict[str, dict[str, Any]] = {}
        self._verdicts: dict[tuple[str | None, ...], Verdict] = {}
        self.graded: list[tuple[int, ResultItem]] = []
        """The items for the copy of the official grader, each with its trial."""

    @classmethod
    def of(cls, source: MedAgentBenchSettings, rules: str) -> TaskGrader:
        """The grader for a source's data set and facts. Raises UserError, InputError."""
        dataset = dataset_of(source)
        return cls(source, rules, dataset, open_facts(source, dataset))

    @property
    def facts(self) -> Facts:
        """The facts by which episodes are graded."""
        return self._open.facts

    @property
    def _copy(self) -> Path | None:
        """The copy of the official grader, if one is named."""
        return self._source.official if isinstance(self._source, MedAgentBenchGrading) else None

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        return {"tasks": self._dataset.digest, "facts": self._open.digest, "grounds": GROUNDS}

    @property
    def by_content(self) -> bool:
        """See `Grader.by_content`. A copy of the official grader needs every row."""
        return self._copy is None

    def score(self, item: TaskItem, row: EpisodeRow, judged: Any = None) -> Score | Awaitable[Score]:
        """See `Grader.score`. If a server has to be queried for facts, a thread does it."""
        if self._copy is not None:
            self.graded.append((row.trial, result_of(row, item.stored)))
        return self._score(item, row) if self._open.at_once else asyncio.to_thread(self._score, item, row)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        whole = isinstance(self._source, MedAgentBenchGrading)
        return figures(scores, self._dataset, self.rules, self._official(), whole=whole)

    def _score(self, item: TaskItem, row: EpisodeRow) -> Score:
        episode = recorded(row)
        verdict = self._verdict(item, row, episode)
        failure = failure_of(verdict, row.answer, episode.status, episode.transcript)
        if failure is not None and failure.kind == "empty-reply" and row.error:
            failure = replace(failure, reason=row.error)
        messages = () if self._source.replayed and not _has_read(episode) else episode.transcript
        had_read = grounds(self._task(item), verdict, messages, self._dataset.constants)
        return score_of(verdict, failure, had_read, {**self.baselines(item), **conduct_of(row)})

    def _verdict(self, item: TaskItem, row: EpisodeRow, episode: RecordedEpisode) -> Verdict:
        """The verdict, which trials with the same answer and the same POSTs share."""
        history = post_history(row.transcript)
        key = None
        if self._open.at_once and not RULE_SETS[self.rules].stored:
            key = (item.id, row.answer, row.status, *(text for message in history for text in message.values()))
            if key in self._verdicts:
                return self._verdicts[key]
        verdict = grade_item(
            self._task(item),
            row.answer,
            history,
            self._open.facts,
            base=self._source.api_base,
            rules=self.rules,
            episode=episode,
            constants=self._dataset.constants,
        )
        if key is not None:
            if len(self._verdicts) >= _MOST_VERDICTS:
                self._verdicts.clear()
            self._verdicts[key] = verdict
        return verdict

    def _task(self, item: TaskItem) -> dict[str, Any]:
        if item.id not in self._tasks:
            self._tasks[item.id] = item.stored.model_dump()
        return self._tasks[item.id]

    @cached_property
    def _baselines(self) -> Baselines:
        key = (self._dataset.digest, self._open.digest, self._dataset.constants)
        if not self._open.at_once or key not in _baselines:
            baselines = Baselines(task_dicts(self._dataset), self._open.facts, self._dataset.constants)
            if not self._open.at_once:
                return baselines
            _baselines.clear()  # one set takes some megabytes
            _baselines[key] = baselines
        return _baselines[key]

    def baselines(self, item: TaskItem) -> Mapping[str, bool | None]:
        """Whether each baseline is right by the official rules."""
        return self._baselines.outcomes(self._task(item))

    def _official(self) -> OfficialGrades | None:
        if not isinstance(self._source, MedAgentBenchGrading) or self._copy is None:
            return None
        return official_grades(self._source, self._dataset, self.graded)


def recorded(row: EpisodeRow) -> RecordedEpisode:
    """The parts of a row that grading reads."""
    messages = tuple(HistoryMessage(turn.role, acted(turn)) for turn in row.transcript)
    created = tuple(Created(write.url, write.resource) for write in row.created)
    return RecordedEpisode(row.task_id, row.trial, row.status, created, messages)


def _has_read(episode: RecordedEpisode) -> bool:
    return any(message.get_url is not None for message in episode.transcript)
