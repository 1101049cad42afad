"""`grade_item`: turns one results item and the facts into a `Verdict`, under any rule set. It never crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.evidence import Deciding
from refsol.clinical.faults import DataFault
from refsol.clinical.floor import Baselines, FloorItem
from refsol.clinical.orders import lookup
from refsol.clinical.rules import Reply, RuleSet
from refsol.clinical.sources import Source, changed
from refsol.clinical.task_type import verdict
from refsol.errors import FactsError
from refsol.history import HistoryError, Post, extract_posts, read_messages
from refsol.json_values import json_value
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.recorded import RecordedEpisode
from refsol.medagentbench.rules import RULE_SETS, RuleName, TaskChart, rule_name
from refsol.medagentbench.types import TYPES, MabType
from refsol.verdict import MISSING, NO_ANSWER, Check, Verdict, show, ungraded


class UngradableError(ValueError):
    """The item itself cannot be graded. The text gives the reason."""


def grade_item(
    task: Mapping[str, Any],
    answer: str | None,
    history: Sequence[Any],
    facts: Source,
    *,
    base: str | None = None,
    rules: RuleName = "official",
    episode: RecordedEpisode | None = None,
    constants: Constants = PUBLISHED,
) -> Verdict:
    """Grade one item: the task (`id`, `eval_MRN`, `sol`), the answer's JSON text, and the post history.

    `base` is the FHIR base URL that the agent was shown, if it differs from that of the constants. `episode` is the
    item's row of `episodes.jsonl`, which the rules `state` need. An item that cannot be graded has `correct=None` and a
    reason. The only error is InputError, for an unknown rule set.
    """
    rule_set = RULE_SETS[rule_name(rules)]
    try:
        reply = _reply(answer, history, rule_set, constants, episode)
        kind, chart = type_of(task, constants), chart_of(task, facts, rule_set, constants, base)
        graded = _judge(kind, chart, reply)
        if rule_set.lenient and not graded.correct:
            bounded = chart_of(task, facts, replace(rule_set, until_now=True), constants, base)
            other = _judge(kind, bounded, reply)
            graded = other if other.correct else graded
    except (UngradableError, HistoryError) as error:
        return ungraded(str(error))
    except FactsError as error:
        return ungraded(f"the facts could not be read: {str(error).partition(chr(10))[0]}")
    return graded


def task_type(task: Mapping[str, Any]) -> str:
    """A task's type: its field `type`, otherwise the part of its id before `_`."""
    return str(task.get("type") or str(task.get("id")).partition("_")[0])


def type_of(task: Mapping[str, Any], constants: Constants = PUBLISHED) -> MabType:
    """The type of a task, with the constants of its data set. Raises UngradableError."""
    kind = task_type(task)
    if kind not in TYPES:
        raise UngradableError(f"unknown task type {kind!r}; known: {', '.join(TYPES)}")
    return TYPES[kind](constants)


def chart_of(
    task: Mapping[str, Any], facts: Source, rules: RuleSet, constants: Constants, base: str | None = None
) -> Chart:
    """The chart of a task's patient. Raises UngradableError if the task names no patient."""
    mrn = task.get("eval_MRN")
    if task_type(task) == "task1":
        if task.get("sol") is None:
            raise UngradableError(f"{task['id']} states no answer (sol)")
    elif not isinstance(mrn, str) or not mrn:
        raise UngradableError(f"{task['id']} names no patient (eval_MRN)")
    base = (base or constants.base).rstrip("/") + "/"
    return TaskChart(
        changed(facts, task.get("change")),
        mrn if isinstance(mrn, str) else "",
        constants.now,
        rules,
        base=base,
        task=task,
    )


def baselines(tasks: Sequence[Mapping[str, Any]], facts: Source, constants: Constants = PUBLISHED) -> Baselines:
    """The scores of agents that read nothing, for one task set under the official rules."""
    items = []
    for task in tasks:
        try:
            chart_of(task, facts, RULE_SETS["official"], constants)
            kind = type_of(task, constants)
        except UngradableError:
            continue
        words = f"{task.get('context') or ''}\n{task.get('instruction') or ''}"
        items.append(FloorItem(str(task["id"]), kind, words, _charts(task, facts, constants)))
    return Baselines(items)


def deciding(task: Mapping[str, Any], facts: Source, constants: Constants = PUBLISHED) -> Deciding | None:
    """The laboratory test that decides a task, for a picture. None if no test does, or if the facts allow none."""
    try:
        chart = chart_of(task, facts, RULE_SETS["official"], constants)
        type_of(task, constants).ruled(chart)
    except (UngradableError, DataFault, FactsError):
        return None
    return Deciding.of(chart)


def _charts(task: Mapping[str, Any], facts: Source, constants: Constants) -> Any:
    return lambda: chart_of(task, facts, RULE_SETS["official"], constants)


def _judge(kind: MabType, chart: Chart, reply: Reply) -> Verdict:
    try:
        ruling = kind.ruled(chart)
    except DataFault as error:
        done = Check("completed", reply.raw is not None, "an answer", "none" if reply.raw is None else "an answer")
        data = Check("data", False, "data that a verdict can rest on", str(error))
        return Verdict(False, (done, data), f"the data, not the agent: {error}")
    if not isinstance(reply.raw, str | None) and ruling.answers is not None:
        raise UngradableError(f"the answer is not a JSON text but {type(reply.raw).__name__}: {show(reply.raw)}")
    return verdict(ruling, reply, chart)


def _reply(
    answer: Any, history: Sequence[Any], rules: RuleSet, constants: Constants, episode: RecordedEpisode | None
) -> Reply:
    if episode is not None and episode.failed_elsewhere:
        raise UngradableError(f"the episode ended as {episode.status}: not the agent's doing")
    if not rules.stored:
        return Reply.of(answer, read_messages(history), rules, constants.acknowledgement)
    if episode is None or episode.created is None:
        raise UngradableError("no record of what the server stored: `state` reads episodes.jsonl beside the results")
    parsed = json_value(answer, MISSING) if isinstance(answer, str) else NO_ANSWER if answer is None else MISSING
    sent = extract_posts(read_messages(history), constants.acknowledgement)
    posts = tuple(_with_route(post, other) for post, other in zip_longest(episode.stored_posts, sent) if post)
    return Reply(parsed, posts, attempted=bool(posts), unanswered=False, raw=answer)


def _with_route(stored: Post, sent: Post | None) -> Post:
    """A stored order with the route that was sent. A server drops a route that is plain text, as the tasks ask for."""
    route = lookup(sent.payload if sent else MISSING, "dosageInstruction[0].route")
    dosage = lookup(stored.payload, "dosageInstruction[0]")
    if route is MISSING or not isinstance(dosage, dict) or "route" in dosage:
        return stored
    return Post(stored.url, {**stored.payload, "dosageInstruction": [{**dosage, "route": route}]})
