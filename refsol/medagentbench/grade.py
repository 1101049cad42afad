"""`grade_item`: turns one results item and the facts into a `Verdict`, under any rule set. It never crashes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refsol.errors import FactsError
from refsol.history import HistoryError, ends_in_attempt, extract_posts, read_messages
from refsol.json_values import json_value
from refsol.medagentbench.clinical import DataError
from refsol.medagentbench.constants import PUBLISHED, Constants
from refsol.medagentbench.facts import Facts
from refsol.medagentbench.recorded import RecordedEpisode
from refsol.medagentbench.rules import RULE_SETS, RuleName, RuleSet, rule_name
from refsol.medagentbench.tasks import TASKS, AgentOutput, Case, Evaluation
from refsol.verdict import MISSING, NO_ANSWER, Check, Verdict, decide, show, ungraded


class _UngradableError(ValueError):
    """The item itself cannot be graded. The text gives the reason."""


def grade_item(
    task: Mapping[str, Any],
    answer: str | None,
    history: Sequence[Any],
    facts: Facts,
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
        output = _output(answer, history, rule_set, constants, episode)
        case = _case(task, output, facts, base, rule_set, constants)
        verdict = _judge(task, case, answer)
        if rule_set.lenient and not verdict.correct:
            bounded = _judge(task, replace(case, bounded=True), answer)
            verdict = bounded if bounded.correct else verdict
    except (_UngradableError, HistoryError) as error:
        return ungraded(str(error))
    except FactsError as error:
        return ungraded(f"the facts could not be read: {str(error).partition(chr(10))[0]}")
    return verdict


def evaluate_unanswered(task: Mapping[str, Any], facts: Facts, constants: Constants = PUBLISHED) -> Evaluation | None:
    """What `official` requires of a task before any agent acts: the branch and the accepted answers.

    None if the task or its facts do not allow a verdict.
    """
    nothing = AgentOutput(MISSING, (), attempted=False, unanswered_post=False)
    try:
        return TASKS[_type(task)](_case(task, nothing, facts, None, RULE_SETS["official"], constants))
    except (_UngradableError, DataError, FactsError):
        return None


def task_type(task: Mapping[str, Any]) -> str:
    """A task's type: its field `type`, otherwise the part of its id before `_`."""
    return str(task.get("type") or str(task.get("id")).partition("_")[0])


def _judge(task: Mapping[str, Any], case: Case, answer: Any) -> Verdict:
    completed = Check("completed", answer is not None, "an answer", "none" if answer is None else "an answer")
    try:
        evaluation = TASKS[_type(task)](case)
    except DataError as error:
        data = Check("data", False, "data that a verdict can rest on", str(error))
        return Verdict(False, (completed, data), f"the data, not the agent: {error}")
    if not isinstance(answer, str | None) and any(check.name == "answer" for check in evaluation.checks):
        raise _UngradableError(f"the answer is not a JSON text but {type(answer).__name__}: {show(answer)}")
    return decide((completed, *evaluation.checks), evaluation.branch, evaluation.because, evaluation.accepted)


def _case(
    task: Mapping[str, Any],
    output: AgentOutput,
    facts: Facts,
    base: str | None,
    rules: RuleSet,
    constants: Constants,
) -> Case:
    mrn, sol = task.get("eval_MRN"), task.get("sol")
    if _type(task) == "task1":
        if sol is None:
            raise _UngradableError(f"{task['id']} states no answer (sol)")
    elif not isinstance(mrn, str) or not mrn:
        raise _UngradableError(f"{task['id']} names no patient (eval_MRN)")
    base = (base or constants.base).rstrip("/") + "/"
    return Case(mrn if isinstance(mrn, str) else "", sol, output, facts, base, rules, constants)


def _type(task: Mapping[str, Any]) -> str:
    kind = task_type(task)
    if kind not in TASKS:
        raise _UngradableError(f"unknown task type {kind!r}; known: {', '.join(TASKS)}")
    return kind


def _output(
    answer: Any, history: Sequence[Any], rules: RuleSet, constants: Constants, episode: RecordedEpisode | None
) -> AgentOutput:
    if episode is not None and episode.failed_elsewhere:
        raise _UngradableError(f"the episode ended as {episode.status}: not the agent's doing")
    parsed = json_value(answer, MISSING) if isinstance(answer, str) else NO_ANSWER if answer is None else MISSING
    if rules.stored:
        if episode is None or episode.created is None:
            raise _UngradableError(
                "no record of what the server stored: `state` reads episodes.jsonl beside the results"
            )
        posts = episode.stored_posts
        return AgentOutput(parsed, posts, attempted=bool(posts), unanswered_post=False)
    messages = read_messages(history)
    attempted = any(message.is_post_action if rules.lenient else message.is_attempt for message in messages)
    posts = extract_posts(messages, constants.acknowledgement)
    return AgentOutput(parsed, posts, attempted, ends_in_attempt(messages))
