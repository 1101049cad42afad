"""Scores episodes of own task types by their rules."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Any

from medagent.benchmarks.ward._figures import figures
from medagent.benchmarks.ward.reads import rules_at_fault
from medagent.benchmarks.ward.tasks import TaskSet, WardItem, try_rule
from medagent.engine.rows import OWED, REFUSED
from medagent.engine.scores import Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.session import post_history
from medagent.fhir_episodes.verdicts import conduct_of, score_of
from refsol.clinical.failures import failure_of
from refsol.clinical.floor import Baselines, FloorItem
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.rulings import Reply
from refsol.errors import FactsError
from refsol.grounds import grounds
from refsol.history import ACCEPTED, read_messages
from refsol.verdict import Verdict


class WardGrader(Grader[EpisodeRow]):
    """Grades the episodes of a set. `private` data are not quoted. `digests` belong to the types' file and to the
    facts.
    """

    def __init__(self, tasks: TaskSet, private: bool, digests: Mapping[str, str]) -> None:
        self._tasks, self._private, self._digests = tasks, private, digests

    @property
    def digests(self) -> Mapping[str, str]:
        return self._digests

    def score(self, item: WardItem, row: EpisodeRow, judged: Any = None) -> Awaitable[Score]:
        """See `Grader.score`. The facts are read in a thread."""
        return asyncio.to_thread(self._score, item, row)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        return figures(scores)

    def _score(self, item: WardItem, row: EpisodeRow) -> Score:
        floors = self._baselines.outcomes(item.id)
        messages = row.history
        reply = Reply.of(row.answer, read_messages(post_history(row.transcript)), CLINICAL, ACCEPTED)
        changes = tuple(row.changes) if isinstance(row.changes, list) else None
        verdict = item.kind.judge(item.chart, replace(reply, changes=changes))
        if row.status == REFUSED or row.status in OWED:
            verdict = Verdict(None, fault=f"the episode ended as {row.status}: not the agent's doing")
        if row.status == "chart_changed":
            verdict = Verdict(None, fault="chart changed")
        failure = failure_of(verdict, row.answer, row.status, messages)
        return score_of(verdict, failure, grounds(verdict, messages), {**floors, **conduct_of(row)}, row, item.injected)

    @cached_property
    def _baselines(self) -> Baselines:
        """The baselines, after a trial run of every rule. Raises UserError for a rule at fault."""
        with rules_at_fault(self._private):
            for item in self._tasks.items:
                with suppress(FactsError):  # the item is ungraded, with the reason
                    try_rule(item)
        return baselines(self._tasks)


def baselines(tasks: TaskSet) -> Baselines:
    """The scores of agents that read nothing, on the items of a set."""
    return Baselines([FloorItem(one.id, one.kind, one.words, one.chart) for one in tasks.items])
