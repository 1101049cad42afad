"""`grade_item`: turns one results item and the facts into a `Verdict`, under any rule set. It never crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import zip_longest
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.evidence import Deciding
from refsol.clinical.floor import Baselines
from refsol.clinical.meanings import RuleSet
from refsol.clinical.orders import lookup
from refsol.clinical.rulings import Reply
from refsol.clinical.sources import Source
from refsol.clinical.task_type import UngradableError, graded_by, known_type, task_type
from refsol.clinical.twins import changed
from refsol.errors import DataFault, FactsError
from refsol.history import Post, read_messages
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.recorded import RecordedEpisode
from refsol.medagentbench.rules import FAIR, OFFICIAL, RULE_SETS, RuleName, TaskChart, rule_name
from refsol.medagentbench.types import TYPES, MabType
from refsol.verdict import MISSING, Verdict


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

    def judge(rule_set: RuleSet) -> Verdict:
        reply = _reply(answer, history, rule_set, constants, episode)
        return _judged(type_of(task, constants), chart_of(task, facts, rule_set, constants, base), reply)

    return graded_by(judge, RULE_SETS[rule_name(rules)], FAIR)


def _judged(kind: MabType, chart: Chart, reply: Reply) -> Verdict:
    """The verdict on a reply. If the rules are lenient, readings later than now may count or not."""
    verdict = kind.judge(chart, reply)
    if chart.rules.by_meaning and not verdict.correct:
        until_now = chart.over(chart.source)
        until_now.until_now = True
        lenient = kind.judge(until_now, reply)
        verdict = lenient if lenient.correct else verdict
    return replace(verdict, judge_over=lambda source: _judged(kind, chart.over(source), reply))


def type_of(task: Mapping[str, Any], constants: Constants = PUBLISHED) -> MabType:
    """The type of a task, with the constants of its data set. Raises UngradableError."""
    return known_type(task, TYPES)(constants)


def chart_of(
    task: Mapping[str, Any], facts: Source, rules: RuleSet, constants: Constants, base: str | None = None
) -> Chart:
    """The chart of a task's patient. Raises UngradableError if the task names no patient."""
    mrn = task.get("eval_MRN")
    if task_type(task) == "task1":
        if task.get("sol") is None:
            raise UngradableError(f"{task['id']} states no answer (sol)")
    elif not isinstance(mrn, str) or not mrn:
        raise UngradableError(f"{task['id']} states no patient (eval_MRN)")
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
    return Baselines.of(tasks, lambda task: (type_of(task, constants), chart_of(task, facts, OFFICIAL, constants)))


def deciding(task: Mapping[str, Any], facts: Source, constants: Constants = PUBLISHED) -> Deciding | None:
    """The laboratory test that decides a task, for a picture. None if no test does, or if the facts allow none."""
    try:
        chart = chart_of(task, facts, OFFICIAL, constants)
        type_of(task, constants).ruled(chart)
    except (UngradableError, DataFault, FactsError):
        return None
    return Deciding.of(chart)


def _reply(
    answer: Any, history: Sequence[Any], rules: RuleSet, constants: Constants, episode: RecordedEpisode | None
) -> Reply:
    if episode is not None and episode.failed_elsewhere:
        raise UngradableError(f"the episode ended as {episode.status}: not the agent's doing")
    reply = Reply.of(answer, read_messages(history), rules, constants.acknowledgement)
    if not rules.stored:
        return reply
    if episode is None or episode.created is None:
        raise UngradableError("`--rules state` needs episodes.jsonl next to the results file")
    posts = tuple(_with_route(post, sent) for post, sent in zip_longest(episode.stored_posts, reply.posts) if post)
    return replace(reply, posts=posts, attempted=bool(posts), unanswered=False)


def _with_route(stored: Post, sent: Post | None) -> Post:
    """A stored order with the route that was sent. A server drops a route that is plain text, as the tasks ask for."""
    route = lookup(sent.payload if sent else MISSING, "dosageInstruction[0].route")
    dosage = lookup(stored.payload, "dosageInstruction[0]")
    if route is MISSING or not isinstance(dosage, dict) or "route" in dosage:
        return stored
    return Post(stored.url, {**stored.payload, "dosageInstruction": [{**dosage, "route": route}]})
