"""`grade_item`: turns one item and the facts into a `Verdict`, under either rule set.

It never crashes.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from refsol.clinical.floor import Baselines
from refsol.clinical.meanings import RuleSet
from refsol.clinical.rulings import Reply
from refsol.clinical.sources import Source
from refsol.clinical.task_type import UngradableError, graded_by, known_type, task_type
from refsol.clinical.twins import changed
from refsol.history import read_messages
from refsol.psb300.rules import FAIR, OFFICIAL, RULE_SETS, PsbChart, RuleName, rule_name
from refsol.psb300.types import TYPES, PsbType
from refsol.verdict import Verdict

_BASE = "http://localhost:8080/fhir/"
"""The base URL of orders in a right reply. The grader does not compare it."""


@dataclass(frozen=True, slots=True)
class RuleConstants:
    """The constants of one data set. Both times must have a time zone."""

    cut_off: datetime | None = datetime(2025, 1, 1, tzinfo=UTC)
    """Resources stored later than this do not count, because agents wrote them. None: all resources count."""
    default_now: datetime = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
    """The task's now, if its context states no time that can be read."""
    acknowledgement: str = "POST request accepted"
    """What the runner's reply to an accepted POST contains."""


PUBLISHED = RuleConstants()
"""The constants of the published data set."""


_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?[+-]\d{2}:\d{2}"
_STATED = re.compile(rf"\bit'?s\s+({_TIME})\s*now\b", re.IGNORECASE)
_ANY = re.compile(_TIME)


def stated_now(context: str) -> datetime | None:
    """The time in the first `It's … now`, otherwise the last time in the context. None if there is no valid time."""
    phrase = _STATED.search(context)
    times = [phrase[1]] if phrase else _ANY.findall(context)
    try:
        return datetime.fromisoformat(times[-1]) if times else None
    except ValueError:
        return None


def grade_item(
    task: Mapping[str, Any],
    history: Sequence[Any],
    result: Any,
    facts: Source,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: RuleConstants = PUBLISHED,
) -> Verdict:
    """Grade one item: the task (`id`, `context`, `eval_MRN`), the messages, and the finish value, which task3 reads.

    `clock` (with a time zone) is the time of grading. Only `official` reads it, and only for task1. If the published
    grader fails on the chart or on a post, the item is wrong. An item that cannot be graded has `correct=None` and a
    reason. Raises InputError for an unknown rule set.
    """

    def judge(rule_set: RuleSet) -> Verdict:
        kind, chart = type_of(task), chart_of(task, facts, rule_set, clock, constants)
        return kind.judge(chart, Reply.of(result, read_messages(history), rule_set, constants.acknowledgement))

    return graded_by(judge, RULE_SETS[rule_name(rules)], FAIR)


def type_of(task: Mapping[str, Any]) -> PsbType:
    """The type of a task. Raises UngradableError."""
    return known_type(task, TYPES)


def chart_of(
    task: Mapping[str, Any], facts: Source, rules: RuleSet, clock: datetime, constants: RuleConstants = PUBLISHED
) -> PsbChart:
    """The chart of a task's patient. Raises UngradableError if the task names no patient."""
    patient, context = task.get("eval_MRN"), task.get("context", "")
    if not isinstance(patient, str) or not patient:
        raise UngradableError(f"{task.get('id')} states no patient (eval_MRN)")
    if not isinstance(context, str):
        raise UngradableError(f"{task.get('id')}: context is not text")
    by_clock = task_type(task) == "task1" and rules is OFFICIAL
    now = clock if by_clock else stated_now(context) or constants.default_now
    chart = PsbChart(changed(facts, task.get("change")), patient, now, rules, base=_BASE)
    chart.cut_off = constants.cut_off
    return chart


def baselines(
    tasks: Sequence[Mapping[str, Any]],
    facts: Source,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: RuleConstants = PUBLISHED,
) -> Baselines:
    """The scores of agents that read nothing, for one task set."""
    rule_set = RULE_SETS[rules]
    return Baselines.of(tasks, lambda task: (type_of(task), chart_of(task, facts, rule_set, clock, constants)))
