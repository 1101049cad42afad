"""The kinds of failure that all benchmarks over a chart share, and the detection of protocol failures."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, get_args

from refsol.changes import NO_CHANGE
from refsol.history import HistoryMessage
from refsol.json_values import json_value
from refsol.verdict import MISSING, Check, Verdict, show

EndKind = Literal[
    "only-thought",
    "invalid-action",
    "round-limit",
    "context-limit",
    "time-limit",
    "token-limit",
    "cost-limit",
    "agent-error",
]
"""The kinds of an episode that the agent ended, or a limit, before its answer."""
FailureKind = Literal[
    "infrastructure",
    "data",
    "empty-reply",
    "cut-reply",
    EndKind,
    "unfinished",
    "page-not-opened",
    "reading-missed",
    "order-missing",
    "order-not-due",
    "order-wrong",
    "wrong-form",
    "wrong-value",
]
FAILURE_KINDS: tuple[FailureKind, ...] = get_args(FailureKind)
KIND_WORDS: dict[FailureKind, str] = {
    "infrastructure": "the model, the server or the run failed, not the agent",
    "data": "the stored data allows no right answer",
    "empty-reply": "ended by an empty message",
    "cut-reply": "ended by a message that was cut off",
    "only-thought": "ended by a message that is only thinking",
    "invalid-action": "ended by a message that is not an action",
    "round-limit": "ended by the limit of rounds",
    "context-limit": "ended because the conversation no longer fitted the model",
    "time-limit": "ended by the limit of time",
    "token-limit": "ended by the limit of tokens",
    "cost-limit": "ended by the limit of cost",
    "agent-error": "ended because the agent's program raised an error",
    "unfinished": "ended without an answer, and nothing says how",
    "page-not-opened": "did not open the page with the reading that decides",
    "reading-missed": "never read the reading that decides, or says that there is none",
    "order-missing": "an order was due and was not placed",
    "order-not-due": "placed an order, or sent a POST, that was not due",
    "order-wrong": "placed the order with a wrong field",
    "wrong-form": "gave the right value in a format that does not count",
    "wrong-value": "gave another value",
}
"""A text for each kind, in the order in which the kinds are checked."""
_NAMES: Mapping[str, str] = {
    "infrastructure": "failed outside the agent",
    "data": "no right answer in the data",
    "cut-reply": "reply cut off",
    "invalid-action": "invalid message",
    "reading-missed": "data never read",
    "lucky": "right without reading",
    "wrong-form": "value in a wrong format",
}
"""The names of kinds whose keys say less."""


def kind_name(kind: str) -> str:
    """The name of a kind of failure for people: `data never read` is `reading-missed`. Files contain the key."""
    return _NAMES.get(kind, kind.replace("-", " "))


ENDS: Mapping[str, FailureKind] = {
    "cut": "cut-reply",
    "empty": "empty-reply",
    "only_thought": "only-thought",
    "invalid_action": "invalid-action",
    "round_limit": "round-limit",
    "context_limit": "context-limit",
    "time_limit": "time-limit",
    "token_limit": "token-limit",
    "cost_limit": "cost-limit",
    "agent_error": "agent-error",
}
"""The kind of failure of each status with which an episode ends without an answer."""
_THINKING = re.compile(r"<think>(?!.*</think>)", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Failure:
    """The reason why an item is wrong. `field` is the first wrong field if the kind is `order-wrong`."""

    kind: FailureKind
    reason: str
    field: str | None = None


def failed_protocol(
    failed: Collection[str], status: str | None, transcript: Sequence[HistoryMessage]
) -> Failure | None:
    """A protocol failure: no answer (check `completed`), a POST as the last message (check `last message`), or an
    episode that did not end as it should.

    `failed` are the names of the failed checks. `status` is how the episode ended, if known.
    """
    if "completed" not in failed and "last message" not in failed and status not in ENDS:
        return None
    message = next((message.content for message in reversed(transcript) if message.role == "agent"), "")
    kind = ENDS.get(status or "", "unfinished")
    if kind == "invalid-action" and transcript:
        if not message.strip():
            return Failure("empty-reply", "the last message is empty")
        if _is_cut(message):
            return Failure("cut-reply", f"the last message stops in the middle: {show(message[-60:])}")
        return Failure(kind, f"the last message is neither GET, POST nor FINISH: {show(message[:60])}")
    if "last message" in failed and "completed" not in failed:
        return Failure(kind, "the last message is a POST that nothing followed")
    return Failure(kind, KIND_WORDS[kind])


def failed_orders(
    verdict: Verdict, failed: Mapping[str, Check], messages: Sequence[HistoryMessage] = ()
) -> Failure | None:
    """A failure of the orders: a surplus one, a missing one, or a wrong field. None if they are right. `messages` are
    the known messages, at least the POSTs.
    """
    if "no POST" in failed:
        return Failure("order-not-due", f"{named_posts(messages)}, where none was due" + why(verdict))
    if count := failed.get("posts"):
        placed, due = int(count.actual.split()[0]), int(count.expected.split()[0])
        kind: FailureKind = "order-missing" if placed < due else "order-not-due"
        return Failure(kind, f"{_due(due)}, {_placed(placed)}{_unreadable(messages)}" + why(verdict))
    if others := failed.get("other changes"):
        return Failure("order-not-due", f"{others.actual}, where nothing else was due" + why(verdict))
    wrong = [check for check in failed.values() if check.name not in ("answer", "completed", "last message")]
    if not wrong:
        return None
    if missing := [check for check in wrong if check.actual == NO_CHANGE]:
        return Failure("order-missing", f"did not {missing[0].expected}" + why(verdict))
    reasons = "; ".join(map(_misfit, wrong))
    return Failure("order-wrong", reasons, wrong[0].name)


def _misfit(check: Check) -> str:
    return f"{check.name}: {check.actual} for {check.expected}" if check.required else check.words


def _due(count: int) -> str:
    return "1 order was due" if count == 1 else f"{count} orders were due"


def _placed(count: int) -> str:
    return {0: "none was placed", 1: "1 was placed"}.get(count, f"{count} were placed")


def named_posts(messages: Sequence[HistoryMessage]) -> str:
    """The POSTs in some messages, by type and code: `a POST (ServiceRequest 4548-4)`."""
    names = list(dict.fromkeys(name for name in map(_order_name, _posts(messages)) if name))
    return f"a POST ({', '.join(names)})" if names else "a POST"


def _posts(messages: Sequence[HistoryMessage]) -> list[HistoryMessage]:
    return [message for message in messages if message.is_post_action]


def _payload(post: HistoryMessage) -> Any:
    """The JSON of a POST; MISSING if its body is not JSON."""
    return json_value(post.content.strip().removesuffix("```").partition("\n")[2], MISSING)


def _order_name(post: HistoryMessage) -> str:
    payload = _payload(post)
    if not isinstance(payload, dict) or not isinstance(payload.get("resourceType"), str):
        return ""
    concept = payload.get("medicationCodeableConcept") or payload.get("code")
    coding = concept.get("coding") if isinstance(concept, dict) else None
    first = coding[0] if isinstance(coding, list) and coding else None
    code = first.get("code") if isinstance(first, dict) else None
    words = f"{payload['resourceType']} {code}" if isinstance(code, str) else payload["resourceType"]
    return show(words)[1:-1]


def _unreadable(messages: Sequence[HistoryMessage]) -> str:
    """A text about POSTs whose body is not JSON, to append to the number of accepted ones."""
    posts = _posts(messages)
    unread = sum(_payload(post) is MISSING for post in posts)
    if not unread:
        return ""
    return f"; {len(posts)} tried, " + (
        "its body is not JSON" if len(posts) == 1 else f"{unread} with a body that is not JSON"
    )


def why(verdict: Verdict) -> str:
    """The deciding facts as text, to append to a reason."""
    return f": {verdict.because.sentence}" if verdict.because else ""


def _is_cut(message: str) -> bool:
    text = message.strip()
    return bool(_THINKING.match(text)) or (text.startswith("FINISH(") and not text.endswith(")"))
