"""`grade_item`: one results item and the facts in, a `Verdict` out. The same for every rule set, and never a crash."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from refsol.errors import FactsError
from refsol.medagentbench.ehr import Ehr
from refsol.medagentbench.episodes import Episode
from refsol.medagentbench.facts import DataError
from refsol.medagentbench.history import HistoryError, ends_in_attempt, extract_posts, read_turns
from refsol.medagentbench.rules import RULE_SETS, RuleName, Rules, rule_name
from refsol.medagentbench.tasks import TASKS, Conduct, Item, Ruling
from refsol.medagentbench.verdict import MISSING, Check, Verdict, decide, show, ungraded

DEFAULT_BASE = "http://localhost:8080/fhir/"
"""The FHIR base that agents are shown, and that the URLs of their posts begin with."""


class _UngradableError(ValueError):
    """The item itself cannot be graded; the text says why."""


def grade_item(
    task: Mapping[str, Any],
    answer: str | None,
    history: Sequence[Any],
    ehr: Ehr,
    *,
    base: str = DEFAULT_BASE,
    rules: RuleName = "official",
    episode: Episode | None = None,
) -> Verdict:
    """Grade one item: the task (`id`, `eval_MRN`, `sol`), the answer's JSON text, and the post history.

    `episode` is the item's row of `episodes.jsonl`, which `state` needs. What cannot be graded has `correct=None` and
    a reason; the only error is InputError for an unknown rule set.
    """
    rule_set = RULE_SETS[rule_name(rules)]
    try:
        conduct = _conduct(answer, history, rule_set, episode)
        item = _item(task, conduct, ehr, base, rule_set)
        verdict = _judge(task, item, answer)
        if rule_set.mended and not verdict.correct:
            bounded = _judge(task, replace(item, bounded=True), answer)
            verdict = bounded if bounded.correct else verdict
    except (_UngradableError, HistoryError) as error:
        return ungraded(str(error))
    except FactsError as error:
        return ungraded(f"the facts could not be read: {error}")
    return verdict


def rule_on(task: Mapping[str, Any], ehr: Ehr) -> Ruling | None:
    """What `official` says of a task before any agent: the branch and the accepted answers.

    None where the task or its facts do not allow a verdict.
    """
    nobody = Conduct(MISSING, (), attempted=False, spoiled=False)
    try:
        return TASKS[_type(task)](_item(task, nobody, ehr, DEFAULT_BASE, RULE_SETS["official"]))
    except (_UngradableError, DataError, FactsError):
        return None


def _judge(task: Mapping[str, Any], item: Item, answer: str | None) -> Verdict:
    completed = Check("completed", answer is not None, "an answer", "none" if answer is None else "an answer")
    try:
        ruling = TASKS[_type(task)](item)
    except DataError as error:
        data = Check("data", False, "data that a verdict can rest on", str(error))
        return Verdict(False, (completed, data), f"the data, not the agent: {error}")
    return decide((completed, *ruling.checks), ruling.branch)


def _item(task: Mapping[str, Any], conduct: Conduct, ehr: Ehr, base: str, rules: Rules) -> Item:
    mrn, sol = task.get("eval_MRN"), task.get("sol")
    if _type(task) == "task1":
        if sol is None:
            raise _UngradableError(f"{task['id']} states no answer (sol)")
    elif not isinstance(mrn, str) or not mrn:
        raise _UngradableError(f"{task['id']} names no patient (eval_MRN)")
    return Item(mrn if isinstance(mrn, str) else "", sol, conduct, ehr, base.rstrip("/") + "/", rules)


def _type(task: Mapping[str, Any]) -> str:
    kind = str(task.get("id")).partition("_")[0]
    if kind not in TASKS:
        raise _UngradableError(f"unknown task type {kind!r}; known: {', '.join(TASKS)}")
    return kind


def _conduct(answer: str | None, history: Sequence[Any], rules: Rules, episode: Episode | None) -> Conduct:
    if answer is not None and not isinstance(answer, str):
        raise _UngradableError(f"the answer is not a JSON text but {type(answer).__name__}: {show(answer)}")
    if episode is not None and episode.failed_elsewhere:
        raise _UngradableError(f"the episode ended as {episode.status}: not the agent's doing")
    parsed = MISSING if answer is None else _parse(answer)
    if rules.stored:
        if episode is None or episode.created is None:
            raise _UngradableError(
                "no record of what the server stored: `state` reads episodes.jsonl beside the results"
            )
        posts = episode.stored_posts
        return Conduct(parsed, posts, attempted=bool(posts), spoiled=False)
    turns = read_turns(history)
    attempted = any(turn.is_post_action if rules.mended else turn.is_attempt for turn in turns)
    return Conduct(parsed, extract_posts(turns), attempted, ends_in_attempt(turns))


def _parse(answer: str) -> Any:
    try:
        return json.loads(answer)
    except (ValueError, RecursionError):
        return MISSING
