"""Scores episodes of MedAgentBench by the rules of refsol, over the facts that a source names."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from typing import Any

from medagent.benchmarks.medagentbench.facts import OpenFacts, open_facts
from medagent.benchmarks.medagentbench.figures import figures
from medagent.benchmarks.medagentbench.items import TaskItem, dataset_of, task_dicts
from medagent.benchmarks.medagentbench.results.official_grades import OfficialGrades, official_grades
from medagent.benchmarks.medagentbench.results.write import result_of
from medagent.benchmarks.medagentbench.settings import GradingSource, TaskSource
from medagent.benchmarks.medagentbench.tasks.dataset import Dataset
from medagent.engine.scores import Check, Figures, Grader, Score, Scored
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.history import acted, post_history
from refsol.history import HistoryMessage
from refsol.medagentbench import Facts, Failure, ResultItem, Verdict, constant_answers, failure_of, grade_item
from refsol.medagentbench.baselines import NOP_ANSWER
from refsol.medagentbench.episodes import Created, RecordedEpisode
from refsol.medagentbench.rules import RuleName, rule_name
from refsol.verdict import show


class TaskGrader(Grader[EpisodeRow]):
    """Grades by one rule set."""

    def __init__(self, source: TaskSource, rules: str, dataset: Dataset, facts: OpenFacts) -> None:
        self.rules: RuleName = rule_name(rules)
        self._source, self._dataset, self._open = source, dataset, facts
        self._tasks: dict[str, dict[str, Any]] = {}
        self.graded: list[tuple[int, ResultItem]] = []
        """The items that a copy of the official grader is asked about, each with its trial."""

    @classmethod
    def of(cls, source: TaskSource, rules: str) -> TaskGrader:
        """The grader of a source's data set and facts. Raises UserError, InputError."""
        dataset = dataset_of(source)
        return cls(source, rules, dataset, open_facts(source, dataset))

    @property
    def facts(self) -> Facts:
        """What verdicts rest on."""
        return self._open.facts

    @property
    def digests(self) -> Mapping[str, str]:
        """See `Grader.digests`."""
        return {"tasks": self._dataset.digest, "facts": self._open.digest}

    def score(self, item: TaskItem, row: EpisodeRow, judged: Any = None) -> Score | Awaitable[Score]:
        """See `Grader.score`; facts that are asked for are asked off the event loop."""
        if isinstance(self._source, GradingSource) and self._source.official is not None:
            self.graded.append((row.trial, result_of(row, item.stored)))
        return self._score(item, row) if self._open.at_once else asyncio.to_thread(self._score, item, row)

    def figures(self, scores: Sequence[Scored]) -> Figures:
        """See `Grader.figures`."""
        whole = isinstance(self._source, GradingSource)
        return figures(scores, self._dataset, self.rules, self._official(), whole=whole)

    def _score(self, item: TaskItem, row: EpisodeRow) -> Score:
        episode = recorded(row)
        verdict = grade_item(
            self._task(item),
            row.answer,
            post_history(row.transcript),
            self._open.facts,
            base=self._source.api_base,
            rules=self.rules,
            episode=episode,
            constants=self._dataset.constants,
        )
        failure = failure_of(verdict, row.answer, episode.status, episode.transcript)
        if failure is not None and failure.kind == "empty-reply" and row.error:
            failure = replace(failure, reason=row.error)
        return score_of(verdict, failure, {**self.baselines(item), **_conduct(row)})

    def _task(self, item: TaskItem) -> dict[str, Any]:
        if item.id not in self._tasks:
            self._tasks[item.id] = item.stored.model_dump()
        return self._tasks[item.id]

    @cached_property
    def _constant(self) -> Mapping[str, str]:
        return constant_answers(task_dicts(self._dataset), self._open.facts, self._dataset.constants)

    def baselines(self, item: TaskItem) -> dict[str, bool | None]:
        """Whether an agent that sends nothing would be right by the official rules, with each baseline's answer."""
        answers = {"nop": NOP_ANSWER, "constant": self._constant.get(item.group, NOP_ANSWER)}
        verdicts = {
            answer: grade_item(
                self._task(item), answer, [], self._open.facts, constants=self._dataset.constants
            ).correct
            for answer in set(answers.values())
        }
        return {name: verdicts[answer] for name, answer in answers.items()}

    def _official(self) -> OfficialGrades | None:
        if not isinstance(self._source, GradingSource) or self._source.official is None:
            return None
        return official_grades(self._source, self._dataset, self.graded)


def score_of(verdict: Verdict, failure: Failure | None, part: Mapping[str, Any]) -> Score:
    """A verdict of refsol as a score; `part` is what the item contributes beside its branch."""
    because = verdict.because
    details: dict[str, Any] = {"accepted": [show(one) for one in verdict.accepted], "verdict": verdict.reason}
    if because is not None:
        details["facts"] = [asdict(fact) for fact in because.facts]
    return Score(
        correct=verdict.correct,
        kind="" if failure is None else failure.kind,
        reason=verdict.reason if failure is None else failure.reason,
        because="" if because is None else because.sentence,
        checks=tuple(Check(one.name, one.passed, one.expected, one.actual) for one in verdict.checks),
        details=details,
        part={"branch": verdict.branch, **part},
        graded=verdict.correct is not None,
    )


def recorded(row: EpisodeRow) -> RecordedEpisode:
    """What grading reads of a row."""
    said = tuple(HistoryMessage(turn.role, acted(turn)) for turn in row.transcript)
    created = tuple(Created(write.url, write.resource) for write in row.created)
    return RecordedEpisode(row.task_id, row.trial, row.status, created, said)


def _conduct(row: EpisodeRow) -> dict[str, Any]:
    """How the agent behaved, as far as a figure counts it."""
    left = row.thinking and all(turn.dispatched is None for turn in row.transcript)
    return {**({"thinking": True} if left else {}), **({"malformed": row.malformed} if row.malformed else {})}
