"""How a reply is compared with a ruling: the reply, the rule sets, and the comparison."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import permutations
from typing import Any

from refsol.changes import Change
from refsol.clinical.case import Case
from refsol.clinical.faults import DataFault
from refsol.clinical.meanings import Meaning, in_words
from refsol.clinical.orders import Order, lookup
from refsol.clinical.rulings import Ruling
from refsol.clinical.sources import ref
from refsol.history import HistoryMessage, Post, ends_in_attempt, extract_posts
from refsol.json_values import json_value
from refsol.verdict import MISSING, NO_ANSWER, Check, show


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent did. `answer` is parsed JSON, MISSING if it is not JSON, NO_ANSWER if there is none; `raw` is the
    answer as the runner kept it. `attempted`: something counts as a POST. `unanswered`: the last message is a POST.
    """

    answer: Any
    posts: tuple[Post, ...]
    attempted: bool
    unanswered: bool
    raw: Any = None
    changes: tuple[Change, ...] | None = None
    """How the chart changed; None if that is not known, because writes were only acknowledged."""

    @classmethod
    def of(cls, raw: Any, messages: Sequence[HistoryMessage], rules: RuleSet, acknowledgement: str) -> Reply:
        """The reply in a stored history."""
        parsed = json_value(raw, MISSING) if isinstance(raw, str) else NO_ANSWER if raw is None else MISSING
        attempts = [one.is_attempt if rules.prose_counts else one.is_post_action for one in messages]
        return cls(parsed, extract_posts(messages, acknowledgement), any(attempts), ends_in_attempt(messages), raw)


Form = Callable[[Any, Any, Case], bool]
"""How a published grader compares a meaning with a value."""
Compare = Callable[[Ruling, Reply, Case], Iterator[Check]]


@dataclass(frozen=True)
class RuleSet:
    """What a rule set accepts. The default accepts what a clinician would accept.

    `forms` compare a type of meaning as a published grader does; if `lenient`, the meaning's own forms count too.
    """

    name: str = "clinical"
    forms: Mapping[type[Meaning], Form] = field(default_factory=dict)
    lenient: bool = True
    urls: bool = False
    """Whether the URL of a post and the time of an order are compared."""
    in_order: bool = False
    """Whether several posts must have the order of the due ones."""
    prose_counts: bool = False
    """Whether the word POST anywhere in a message is an attempt."""
    units: bool = True
    """Whether a reading in another unit is a fault of the data."""
    until_now: bool = True
    """Whether readings later than now are left out."""
    stored: bool = False
    """Whether posts are read from what the server stored."""
    look: Callable[[Any, str], Any] = lookup
    """The value at a path of a payload. Raises ReplyFault if the published grader would fail there."""
    compare: Compare | None = None
    """The comparison of a published grader, if its order of checks decides."""

    def accepts(self, meaning: Meaning, actual: Any, chart: Case) -> bool:
        """Whether a value has a meaning."""
        form = self.forms.get(type(meaning))
        if form is None:
            return meaning.accepts(actual, chart)
        return form(meaning, actual, chart) or (self.lenient and meaning.accepts(actual, chart))

    def is_answer(self, accepted: Any, actual: Any, chart: Case) -> bool:
        """Whether an answer is this accepted one."""
        if isinstance(accepted, Meaning):
            return self.accepts(accepted, actual, chart)
        if isinstance(accepted, list) and isinstance(actual, list):
            pairs = zip(accepted, actual, strict=False)
            return len(accepted) == len(actual) and all(self.is_answer(one, other, chart) for one, other in pairs)
        return bool(accepted == actual)

    def checks(self, ruling: Ruling, reply: Reply, chart: Case) -> Iterator[Check]:
        """The checks of a reply. Raises ReplyFault."""
        return self.compare(ruling, reply, chart) if self.compare else _compared(self, ruling, reply, chart)


CLINICAL = RuleSet()
"""The rules of own task types."""


def _compared(rules: RuleSet, ruling: Ruling, reply: Reply, chart: Case) -> Iterator[Check]:
    """The checks of a reply: the posts one to one with the due orders, then the answer."""
    given = reply.answer is not NO_ANSWER
    yield Check("completed", given, "an answer", "an answer" if given else "none")
    if not ruling.orders and not ruling.edits:
        yield Check("no POST", not reply.attempted, "no POST", "a POST" if reply.attempted else "no POST")
    else:
        yield from _orders(rules, ruling.due, reply, chart)
    if ruling.edits or ruling.only:
        yield from _changes(ruling, reply, chart)
    if ruling.answers is not None:
        right = any(rules.is_answer(one, reply.answer, chart) for one in ruling.answers)
        actual = "text that is not JSON" if reply.answer is MISSING else show(reply.answer)
        yield Check("answer", right, " or ".join(map(in_words, ruling.answers)), actual)


def _orders(rules: RuleSet, due: Sequence[Order], reply: Reply, chart: Case) -> Iterator[Check]:
    """Exactly the due posts, in their order if the rule set requires it. Every field of each post is checked."""
    ended = [one for one in due if any(one.is_met_by(change, chart) for change in reply.changes or ())]
    due = [one for one in due if one not in ended]
    posts, same = reply.posts, len(reply.posts) == len(due)
    end = "a POST without a reply" if reply.unanswered else "fine"
    yield Check("last message", not reply.unanswered, "no POST without a reply", end)
    yield Check("posts", same, f"{len(due)} accepted", f"{len(posts)} accepted")
    ways = permutations(posts) if same and not rules.in_order else [posts]
    yield from min((_in_sequence(due, way, chart) for way in ways), key=_failures)


def _changes(ruling: Ruling, reply: Reply, chart: Case) -> Iterator[Check]:
    """The due changes of the chart, and that there are no others. Raises DataFault if the changes are not known."""
    if reply.changes is None:
        raise DataFault("the changes of the chart are not known: run with --writes execute")
    for edit in ruling.edits:
        yield edit.check(reply.changes, chart)
    if ruling.only:
        meant = {ref(edit.resource) for edit in ruling.edits}
        others = [one for one in reply.changes if one.before is not None and ref(one.before) not in meant]
        others = [one for one in others if not any(order.is_met_by(one, chart) for order in ruling.due)]
        actual = "; ".join(f"{one.name}: {one.words}" for one in others) or "none"
        yield Check("other changes", not others, "none", actual)


def _in_sequence(due: Sequence[Order], posts: Sequence[Post], chart: Case) -> list[Check]:
    padded = [*posts, *[None] * len(due)]
    return [check for order, post in zip(due, padded, strict=False) for check in order.check(post, chart)]


def _failures(checks: Sequence[Check]) -> int:
    return sum(not check.passed for check in checks)
