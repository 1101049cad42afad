"""`grade_item`: turns one item and the facts into a `Verdict`, under either rule set; and why an item is wrong.

It never crashes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from refsol.clinical.codes import LABORATORY
from refsol.errors import FactsError
from refsol.failures import Failure, failed_orders, failed_protocol, why
from refsol.history import HistoryError, HistoryMessage, ends_in_attempt, extract_posts, read_messages
from refsol.psb300._drugs import ACTIVE, task2, task8
from refsol.psb300._facts import Facts
from refsol.psb300._procedures import (
    ANY_CT,
    CANCER,
    CATHETER,
    COMPLETED,
    COVID,
    FLU,
    OLD_CT,
    REMOVAL,
    task1,
    task4,
    task5,
    task9,
    task10,
)
from refsol.psb300._readings import FT4, HEART_RATE, QTC, TSH, task3, task6, task7
from refsol.psb300._reply import Reply, ReplyFault
from refsol.psb300._rules import RULE_SETS, RuleName, rule_name
from refsol.psb300._ruling import Case, Evidence, Ruling
from refsol.psb300.chart import Chart, ChartFault, Search
from refsol.reads import Query, Read, has_read, searched
from refsol.verdict import Check, Verdict, decide, show, ungraded


@dataclass(frozen=True, slots=True)
class Constants:
    """The constants of one data set. Both times must have a time zone."""

    cut_off: datetime | None = datetime(2025, 1, 1, tzinfo=UTC)
    """Resources stored later than this do not count, because agents wrote them. None: all resources count."""
    default_now: datetime = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
    """The task's now, if its context states no time that can be read."""
    acknowledgement: str = "POST request accepted"
    """What the runner's reply to an accepted POST contains."""


PUBLISHED = Constants()
"""The constants of the published data set."""


_TIME = r"\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}(?:\.\d+)?[+-]\d{2}:\d{2}"
_STATED = re.compile(rf"it'?s\s+({_TIME})\s*now\b", re.IGNORECASE)
_ANY = re.compile(_TIME)


def stated_now(context: str) -> datetime | None:
    """The time in the first `It's … now`, otherwise the last time in the context. None if there is no valid time."""
    phrase = _STATED.search(context)
    times = [phrase[1]] if phrase else _ANY.findall(context)
    try:
        return datetime.fromisoformat(times[-1]) if times else None
    except ValueError:
        return None


def failure_of(
    verdict: Verdict,
    result: object,
    status: str | None = None,
    transcript: Sequence[HistoryMessage] = (),
    missing: Sequence[str] = (),
) -> Failure | None:
    """The failure of a wrong item. None if the item is right or was not graded.

    `status` is how the episode ended and `transcript` all its messages, if they are known. `missing` is the result of
    `unread`.
    """
    if verdict.correct is not False:
        return None
    failed = {check.name: check for check in verdict.checks if not check.passed}
    if "chart" in failed:
        return Failure("data", verdict.reason)
    if ended := failed_protocol(failed, status, transcript):
        return ended
    if missing:
        return Failure("reading-missed", f"never read {missing[0]}{_more(missing)}{why(verdict)}")
    if "readable" in failed:
        return Failure("order-wrong", verdict.reason, "readable")
    return failed_orders(verdict, failed) or Failure("wrong-value", f"answered {show(result)}{why(verdict)}")


def _more(missing: Sequence[str]) -> str:
    return f" (and {len(missing) - 1} more)" if len(missing) > 1 else ""


_VITALS = "http://hl7.org/fhir/observation-category|vital-signs"
_LOINC, _CPT = "http://loinc.org", "http://www.ama-assn.org/go/cpt"
_TOKENS: Mapping[str, tuple[str, str | None]] = {
    "HEARTRATE": (_LOINC, _VITALS),
    "TSH": (_LOINC, LABORATORY),
    "FT4": (_LOINC, LABORATORY),
    "QTCINTERVAL": (_LOINC, None),
    "C64.2": ("http://hl7.org/fhir/sid/icd-10-cm", None),
    "74177": (_CPT, None),
    "90686": (_CPT, None),
}
"""The system and the category of each code, where all hospitals use the same ones."""


def unread(evidence: Evidence, patient: str, reads: Sequence[Read]) -> list[str]:
    """The resources and searches of the evidence that the agent did not read, as texts. Empty if it read all.

    `reads` are the GETs that were answered with 200 before the first POST, or all of them if there was no POST.
    """
    missing = [reference for reference in evidence.resources if not has_read(reads, reference)]
    for search in evidence.searches:
        for code in search.code.split(",") if search.code else [None]:
            system, category = _TOKENS.get(code or "", ("", None))
            token = f"{system}|{code}" if system else code
            query = Query(search.kind, patient, token, search.status, evidence.window, category)
            if not searched(reads, query):
                missing.append(f"{search.kind}?{f'code={code}' if code else f'status={search.status}'}")
    return missing


TASKS: dict[str, Callable[[Case], Ruling]] = {
    rule.__name__: rule for rule in (task1, task2, task3, task4, task5, task6, task7, task8, task9, task10)
}
"""The rule of each type."""

SEARCHES: dict[str, tuple[Search, ...]] = {
    "task1": (OLD_CT,),
    "task2": (ACTIVE,),
    "task3": (HEART_RATE,),
    "task4": (CATHETER, REMOVAL),
    "task5": (CANCER, ANY_CT),
    "task6": (TSH, FT4),
    "task7": (QTC, ACTIVE),
    "task8": (ACTIVE,),
    "task9": (FLU,),
    "task10": (COVID, COMPLETED),
}
"""The searches that each type's rule may make in a patient's chart, under either rule set."""

CHART_FAULT, REPLY_FAULT = "the chart is at fault: ", "the reply is at fault: "
"""How the reason begins if the published grader fails on the chart or on the reply."""


class TaskError(ValueError):
    """A task cannot be graded because its type, patient or context is missing or invalid. The text says which."""


def grade_item(
    task: Mapping[str, Any],
    history: Sequence[Any],
    result: Any,
    facts: Facts,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: Constants = PUBLISHED,
) -> Verdict:
    """Grade one item: the task (`id`, `context`, `eval_MRN`), the messages, and the finish value, which task3 reads.

    `clock` (with a time zone) is the time of grading. Only `official` reads it, and only for task1. If the published
    grader fails on the chart or on a post, the item is wrong. An item that cannot be graded has `correct=None` and a
    reason. Raises InputError for an unknown rule set.
    """
    try:
        ruling = evaluate(task, facts, clock=clock, rules=rules, constants=constants)
        messages = read_messages(history)
    except ChartFault as error:
        check = Check("chart", False, "a chart that can be read", str(error))
        return Verdict(False, (check,), f"{CHART_FAULT}{error}")
    except (TaskError, HistoryError) as error:
        return ungraded(str(error))
    except FactsError as error:
        return ungraded(f"the facts could not be read: {str(error).partition(chr(10))[0]}")
    reply = Reply(
        result,
        any(message.is_attempt for message in messages),
        ends_in_attempt(messages),
        extract_posts(messages, constants.acknowledgement),
    )
    return judge(ruling, reply)


def evaluate(
    task: Mapping[str, Any],
    facts: Facts,
    *,
    clock: datetime,
    rules: RuleName = "official",
    constants: Constants = PUBLISHED,
) -> Ruling:
    """What is right for a task, and why, before any reply.

    Raises ChartFault, TaskError, FactsError, and InputError for an unknown rule set.
    """
    rule_set = RULE_SETS[rule_name(rules)]
    kind = task_type(task)
    if kind not in TASKS:
        raise TaskError(f"unknown task type {kind!r}; known: {', '.join(TASKS)}")
    patient, context = task.get("eval_MRN"), task.get("context", "")
    if not isinstance(patient, str) or not patient:
        raise TaskError(f"{task.get('id')} names no patient (eval_MRN)")
    if not isinstance(context, str):
        raise TaskError(f"{task.get('id')}: context is not text")
    now = clock if kind == "task1" and not rule_set.fair else stated_now(context) or constants.default_now
    return TASKS[kind](Case(Chart(facts, patient, constants.cut_off), now, rule_set))


def task_type(task: Mapping[str, Any]) -> str:
    """A task's type: its field `type`, otherwise the part of its id before `_`."""
    return str(task.get("type") or str(task.get("id")).partition("_")[0])


def judge(ruling: Ruling, reply: Reply) -> Verdict:
    """Check a reply against the ruling. A `ReplyFault` becomes a failed check, unless an earlier check failed."""
    checks: list[Check] = []
    try:
        checks.extend(ruling.demand(reply))
    except ReplyFault as error:
        if all(check.passed for check in checks):
            fault = Check(error.check, False, "a reply that can be read", str(error))
            reason = f"{REPLY_FAULT}{error}"
            return Verdict(False, (*checks, fault), reason, ruling.branch, ruling.because, ruling.accepted)
    return decide(checks, ruling.branch, ruling.because, ruling.accepted)
