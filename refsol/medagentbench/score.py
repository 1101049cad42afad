"""`Grader` grades results files of one task set. Each `GradeReport` has verdicts, rates, branches and baselines.

An item that could not be graded is never counted as right or wrong: a `Rate` has the share of the graded items and the
share of all. `official` is the score. Other rule sets are additional totals, with the items on which they differ.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from refsol.errors import InputError
from refsol.failures import FAILURE_KINDS, Failure, FailureKind
from refsol.grounds import NOT_GRADED, Grounds
from refsol.history import HistoryMessage
from refsol.medagentbench._baselines import BASELINES, Baselines
from refsol.medagentbench._failures import failure_of
from refsol.medagentbench._grounded import grounds
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.episodes import RecordedEpisode, read_episodes
from refsol.medagentbench.facts import Facts
from refsol.medagentbench.grade import grade_item, task_type
from refsol.medagentbench.recorded import read_recorded
from refsol.medagentbench.results import ResultItem
from refsol.medagentbench.rules import RuleName
from refsol.medagentbench.tasks import TASKS
from refsol.stats import Interval, wilson
from refsol.verdict import Verdict, show, ungraded

QUERY_TYPES = ("task1", "task2", "task4", "task6", "task7")
ACTION_TYPES = ("task3", "task5", "task8", "task9", "task10")
_TRIAL = re.compile(r"results\.(\d+)\.json")


class Judged(Protocol):
    """A verdict: right, wrong, or not graded."""

    @property
    def correct(self) -> bool | None:
        """Whether it is right; None if it was not graded."""


@dataclass(frozen=True, slots=True)
class Rate:
    """The numbers of right, wrong and ungraded items."""

    right: int
    wrong: int
    ungraded: int

    @classmethod
    def of(cls, verdicts: Iterable[Judged]) -> Rate:
        """Count verdicts."""
        return cls.of_outcomes([verdict.correct for verdict in verdicts])

    @classmethod
    def of_outcomes(cls, outcomes: Sequence[bool | None]) -> Rate:
        """Count the right, wrong and ungraded ones."""
        return cls(outcomes.count(True), outcomes.count(False), outcomes.count(None))

    @property
    def graded(self) -> int:
        """The number of right and wrong items."""
        return self.right + self.wrong

    @property
    def total(self) -> int:
        """All items."""
        return self.graded + self.ungraded

    @property
    def share(self) -> float | None:
        """Right of graded, 0 to 1; None if there are none."""
        return self.right / self.graded if self.graded else None

    @property
    def share_of_all(self) -> float | None:
        """Right of all, 0 to 1; None if there are none."""
        return self.right / self.total if self.total else None

    @property
    def interval(self) -> Interval:
        """Wilson's 95 % interval of `share`."""
        return wilson(self.right, self.graded)


@dataclass(frozen=True, slots=True)
class GradedItem:
    """One item of the results file under the selected rules. `others` are the verdicts under further rule sets.

    `failure` is why the item is wrong.
    """

    task_id: str
    type: str
    verdict: Verdict
    others: dict[RuleName, Verdict]
    failure: Failure | None = None
    grounds: Grounds = NOT_GRADED


@dataclass(frozen=True, slots=True)
class GradeReport:
    """The result of grading a results file. `items` has each task once, in file order.

    `form` names the form of the file. `warnings` lists its oddities.
    """

    form: str
    warnings: tuple[str, ...]
    rules: RuleName
    items: tuple[GradedItem, ...]
    duplicates: tuple[str, ...]
    """Task ids that occur more than once in the file. The first one is graded."""
    absent: int
    """The number of tasks of the task set that are missing from the file."""
    baselines: dict[str, Rate]
    """The `BASELINES` on the tasks of this file, under the official rules."""

    @property
    def overall(self) -> Rate:
        """All items."""
        return Rate.of(item.verdict for item in self.items)

    @property
    def complete(self) -> bool:
        """Whether everything in the file was graded."""
        return not self.duplicates and not self.overall.ungraded

    @property
    def by_type(self) -> dict[str, Rate]:
        """Rates by task type, in the order of the types. Types without items are left out."""
        return {kind: rate for kind in TASKS if (rate := self._rate({kind})).total}

    @property
    def groups(self) -> dict[str, Rate]:
        """Rates of query and action tasks."""
        return {"query": self._rate(QUERY_TYPES), "action": self._rate(ACTION_TYPES)}

    @property
    def branches(self) -> dict[str, Rate]:
        """Rates by what was right: answer a query, place an order, or order nothing."""
        return {
            branch: Rate.of(item.verdict for item in self.items if item.verdict.branch == branch)
            for branch in ("query", "order", "no order")
        }

    @property
    def failures(self) -> dict[FailureKind, int]:
        """The number of wrong items by kind, in the order of the kinds. Kinds without items are left out."""
        counts = Counter(item.failure.kind for item in self.items if item.failure is not None)
        return {kind: counts[kind] for kind in FAILURE_KINDS if counts[kind]}

    @property
    def others(self) -> dict[RuleName, Rate]:
        """Totals under the further rule sets."""
        names = self.items[0].others if self.items else {}
        return {name: Rate.of(item.others[name] for item in self.items) for name in names}

    def differing(self, rules: RuleName) -> tuple[GradedItem, ...]:
        """The items on which a further rule set has another verdict, without those that either could not grade."""
        return tuple(item for item in self.items if {item.others[rules].correct, item.verdict.correct} == {True, False})

    def _rate(self, kinds: Iterable[str]) -> Rate:
        return Rate.of(item.verdict for item in self.items if item.type in kinds)


class Grader:
    """Grades results files of one task set. The baselines are computed once for all files.

    `base` is the FHIR base URL that the agent was shown, if it differs from that of the constants. `also` are further
    rule sets.
    """

    def __init__(
        self,
        tasks: Sequence[Mapping[str, Any]],
        facts: Facts,
        *,
        base: str | None = None,
        rules: RuleName = "official",
        also: Sequence[RuleName] = (),
        constants: Constants = PUBLISHED,
    ) -> None:
        self._tasks = tasks
        self._known = {str(task["id"]): task for task in tasks}
        self._facts = facts
        self._base = base
        self._rules: RuleName = rules
        self._also = also
        self._constants = constants
        self.baselines = Baselines(tasks, facts, constants)

    def file(self, path: Path, episodes: Mapping[str, RecordedEpisode] | None = None) -> GradeReport:
        """Grade a results file. `episodes.jsonl` next to it is read if it exists, unless `episodes` are passed by task.

        Raises InputError if the file cannot be read or belongs to another task set, and FactsError if `episodes.jsonl`
        is damaged.
        """
        run = read_recorded(path, self._tasks)
        _check_task_set(path, run.items, self._known)
        known_ends = {**run.episodes, **(_episodes_of(path) if episodes is None else episodes)}
        first: dict[str, ResultItem] = {}
        for item in run.items:
            first.setdefault(item.task_id, item)
        counts = Counter(item.task_id for item in run.items)
        present = [task_id for task_id in first if task_id in self._known]
        return GradeReport(
            form=run.form,
            warnings=run.warnings,
            rules=self._rules,
            items=tuple(self._graded(item, known_ends.get(item.task_id)) for item in first.values()),
            duplicates=tuple(task_id for task_id in first if counts[task_id] > 1),
            absent=len(self._known) - len(present),
            baselines={
                name: Rate.of_outcomes([self.baselines.outcomes(self._known[task_id])[name] for task_id in present])
                for name in BASELINES
            },
        )

    def _graded(self, item: ResultItem, episode: RecordedEpisode | None) -> GradedItem:
        names = dict.fromkeys((self._rules, *self._also))
        verdicts = {name: self._verdict(item, name, episode) for name in names}
        verdict = verdicts.pop(self._rules)
        status, transcript = (episode.status, episode.transcript) if episode else (None, ())
        history = [HistoryMessage(one.role, one.content) for one in item.post_history]
        failure = failure_of(verdict, item.answer, status, transcript, history)
        task = self._known.get(item.task_id, {"id": item.task_id})
        had_read = grounds(task, verdict, transcript, self._constants)
        return GradedItem(item.task_id, task_type(task), verdict, verdicts, failure, had_read)

    def _verdict(self, item: ResultItem, rules: RuleName, episode: RecordedEpisode | None) -> Verdict:
        task = self._known.get(item.task_id)
        if task is None:
            return ungraded(f"unknown task id {item.task_id!r}")
        if _is_of_another(item, task):
            about = f"the item is about {show(item.eval_MRN)} and expects {show(item.expected_sol)}"
            return ungraded(f"{about}: not this task")
        history = [{"role": message.role, "content": message.content} for message in item.post_history]
        return grade_item(
            task,
            item.answer,
            history,
            self._facts,
            base=self._base,
            rules=rules,
            episode=episode,
            constants=self._constants,
        )


def grade_file(
    path: Path,
    tasks: Sequence[Mapping[str, Any]],
    facts: Facts,
    *,
    base: str | None = None,
    rules: RuleName = "official",
    also: Sequence[RuleName] = (),
    constants: Constants = PUBLISHED,
) -> GradeReport:
    """Grade one results file against its task set; see `Grader`. Raises InputError, FactsError."""
    return Grader(tasks, facts, base=base, rules=rules, also=also, constants=constants).file(path)


def _check_task_set(path: Path, results: Sequence[ResultItem], known: Mapping[str, Mapping[str, Any]]) -> None:
    """Raises InputError for a file of another task set. Task sets share their ids, but then the patients and stated
    answers of most items differ.
    """
    shared = [item for item in results if item.task_id in known]
    foreign = _foreign(shared, known)
    if 2 * len(foreign) > len(shared):
        raise InputError(
            f"{path}: belongs to another task set ({len(foreign)} of {len(shared)} items name another patient or "
            f"answer, first {foreign[0]}); name its task file with --tasks and its patient data with --ehr"
        )


def _foreign(items: Sequence[ResultItem], known: Mapping[str, Mapping[str, Any]]) -> list[str]:
    """The ids of items that contradict the task of their id."""
    return [item.task_id for item in items if _is_of_another(item, known[item.task_id])]


def _is_of_another(item: ResultItem, task: Mapping[str, Any]) -> bool:
    """Whether the item contradicts the task. A missing field is not a contradiction."""
    mrn, sol = task.get("eval_MRN") or None, task.get("sol")
    return bool((item.eval_MRN and item.eval_MRN != mrn) or (sol and item.expected_sol and item.expected_sol != sol))


def _episodes_of(path: Path) -> dict[str, RecordedEpisode]:
    """The episodes next to the file: those of the first trial, or of trial N for `results.N.json`."""
    trial = _TRIAL.fullmatch(path.name)
    beside = path.with_name("episodes.jsonl")
    return read_episodes(beside, int(trial[1]) if trial else 1) if beside.exists() else {}
