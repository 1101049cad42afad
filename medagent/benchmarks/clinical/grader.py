"""Grades the episodes of a set by the rules of its task types."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

from medagent.benchmarks.clinical.items import OpenSet
from medagent.engine.rows import OWED, REFUSED
from medagent.engine.scores import Grader, Metrics, Score, Scored
from medagent.fhir_data.record import Pages
from medagent.fhir_data.small_world import reads_of, small_world
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.verdicts import conduct_of, score_of
from refsol.clinical.floor import Baselines
from refsol.clinical.known import Missed, Surroundings, grounds, missed
from refsol.clinical.meanings import RuleSet
from refsol.clinical.neighbours import Examples
from refsol.clinical.one_page import ONE_PAGE
from refsol.clinical.sources import Resource
from refsol.failures import Failure
from refsol.grounds import NOT_GRADED, Grounds
from refsol.history import HistoryMessage
from refsol.verdict import Verdict

GROUNDS = "4"
"""The version of `grounds` and of the baselines. Stored scores of another version are recomputed."""


@dataclass(frozen=True, slots=True)
class GradedEpisode:
    """The verdict on an episode, and what follows from it."""

    verdict: Verdict
    failure: Callable[[Missed | None], Failure | None]
    """Why the episode is wrong, given what its agent had not read; None if it is right."""
    transcript: Sequence[HistoryMessage]
    """The messages that show what the agent read; empty if that is not known."""
    part: Mapping[str, Any] = field(default_factory=dict)
    """What the metrics need besides the branch, the baselines and the agent's conduct."""


class Rules(Protocol):
    """What a benchmark of task types decides about the grading of an item."""

    @property
    def rules(self) -> Mapping[str, RuleSet]:
        """The rule sets by name."""

    def grade_episode(self, opened: OpenSet, item: Any, row: EpisodeRow, rules: str) -> GradedEpisode:
        """The verdict on an episode, and what follows from it. Raises UserError for a rule at fault."""

    def examples(self, opened: OpenSet, kind: str, rules: str) -> Examples:
        """Examples of what the rule of a type looks for."""

    def patient(self, opened: OpenSet, source: Any, task: Any, rules: str) -> Resource | None:
        """The Patient of a task, as far as it is known without asking a server."""

    def baselines(self, opened: OpenSet, rules: str) -> Baselines:
        """The scores of agents that read nothing."""

    def metrics(self, scores: Sequence[Scored], source: Any, opened: OpenSet, rules: str) -> Metrics:
        """The results of all trials."""


class ClinicalGrader(Grader[EpisodeRow]):
    """Grades by one rule set, over an open set."""

    def __init__(self, benchmark: Rules, source: Any, opened: OpenSet, rules: str) -> None:
        self.rules = rules
        self.rules_version = benchmark.rules[rules].version
        self._benchmark = benchmark
        self._source = source
        self._opened = opened

    @property
    def digests(self) -> Mapping[str, str]:
        opened = self._opened
        known = {"tasks": opened.tasks.digest, "facts": opened.digest, "grounds": "" if self._leaves_out else GROUNDS}
        return {**known, **opened.place.decides}

    def score(self, item: Any, row: EpisodeRow, judged: Any = None) -> Awaitable[Score]:
        """See `Grader.score`. A thread reads the facts."""
        return asyncio.to_thread(self._score, item, row)

    def metrics(self, scores: Sequence[Scored]) -> Metrics:
        return self._benchmark.metrics(scores, self._source, self._opened, self.rules)

    @property
    def _leaves_out(self) -> bool:
        """Whether `grounded` is left out."""
        return getattr(self._source, "no_grounds", False)

    @property
    def _has_patient_data(self) -> bool:
        """Whether the run is over a hospital's own data."""
        return getattr(self._source, "private", False)

    def _one_page(self, item: Any) -> bool | None:
        """Whether an agent that opens one page of each search is right; None if it is not known for these pages."""
        source = self._source
        as_computed = getattr(source, "pages", Pages()) == Pages() and getattr(source, "fhir", None) is None
        stored = getattr(item, "stored", None)
        return stored.one_page if as_computed and stored is not None else None

    def _surroundings(self, task: Any) -> Surroundings:
        """What is needed to decide whether an agent could know the answer to a task."""
        examples = self._benchmark.examples(self._opened, task.type, self.rules)
        patient = self._benchmark.patient(self._opened, self._source, task, self.rules)
        known = {} if patient is None else {str(patient.get("id", task.patient)): patient}
        return Surroundings(small_world, examples, known)

    def _grounds(
        self, item: Any, verdict: Verdict, transcript: Sequence[HistoryMessage]
    ) -> tuple[Grounds, Missed | None]:
        """Whether an agent could know its answer, and what it had not read."""
        if self._leaves_out:
            return NOT_GRADED, None
        reads, surroundings, unread = None, None, None
        if transcript and verdict.needed:
            reads, surroundings = reads_of(transcript), self._surroundings(item.stored)
            unread = missed(verdict, reads, surroundings)
        had_read = grounds(verdict, reads, surroundings)
        if self._has_patient_data:
            return had_read.without_data, unread and unread.without_data
        return had_read, unread

    def _score(self, item: Any, row: EpisodeRow) -> Score:
        benchmark, opened = self._benchmark, self._opened
        episode = benchmark.grade_episode(opened, item, row, self.rules)
        verdict = episode.verdict
        had_read, unread = self._grounds(item, verdict, episode.transcript if verdict.basis else ())
        failure = episode.failure(unread)
        if failure is not None and failure.kind == "empty-reply" and row.error:
            failure = replace(failure, reason=row.error)
        part = {
            **benchmark.baselines(opened, self.rules).outcomes(item.id),
            ONE_PAGE: self._one_page(item),
            **conduct_of(row),
            **episode.part,
        }
        return score_of(verdict, failure, had_read, part, row, getattr(item, "injected", None))


def not_the_agent(status: str) -> str:
    """Why an episode is not graded, because it ended for a reason that is not the agent's; empty if it is graded."""
    if status == "chart_changed":
        return "chart changed"
    if status == REFUSED or status in OWED:
        return f"the episode ended as {status}: not the agent's doing"
    return ""
