"""What is right for a task, the accepted answers and the due orders, and how a reply is compared with it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import permutations
from typing import Any, NamedTuple

from refsol.changes import Change
from refsol.clinical.chart import Chart, ref
from refsol.clinical.meanings import Accepted, Is, Meaning, RuleSet
from refsol.clinical.orders import Order, lookup
from refsol.clinical.sources import Resource
from refsol.errors import DataFault
from refsol.history import HistoryMessage, Post, ends_in_attempt, extract_posts
from refsol.json_values import json_value
from refsol.verdict import NO_ANSWER, NOT_JSON, Branch, Check


@dataclass(frozen=True, slots=True)
class Reply:
    """What an agent did. `raw` is the answer as the runner kept it (JSON text). `attempted`: something counts as
    a POST. `unanswered`: the last message is a POST.
    """

    raw: Any
    posts: tuple[Post, ...]
    attempted: bool
    unanswered: bool = False
    changes: tuple[Change, ...] | None = None
    """How the chart changed; None if that is not known, because writes were only acknowledged."""

    @classmethod
    def of(cls, raw: Any, messages: Sequence[HistoryMessage], rules: RuleSet, acknowledgement: str) -> Reply:
        """The reply in a stored history."""
        attempts = [one.is_attempt if rules.prose_counts else one.is_post_action for one in messages]
        return cls(raw, extract_posts(messages, acknowledgement), any(attempts), ends_in_attempt(messages))

    @classmethod
    def made(cls, answer: str, orders: Iterable[Mapping[str, Any]], base: str) -> Reply:
        """The reply with this answer (JSON text) and these orders, which were posted to a FHIR base."""
        posts = tuple(Post(f"{base}{one['resourceType']}", one) for one in orders)
        return cls(answer, posts, bool(posts))

    @property
    def answer(self) -> Any:
        """The parsed answer; NOT_JSON if it is not JSON, NO_ANSWER if there is none."""
        if isinstance(self.raw, str):
            return json_value(self.raw, NOT_JSON)
        return NO_ANSWER if self.raw is None else NOT_JSON


class Edit(NamedTuple):
    """A due change of a resource in the chart: the values of its elements afterwards, or None if it is deleted."""

    resource: Resource
    values: Mapping[str, Meaning] | None

    @property
    def words(self) -> str:
        """`change MedicationRequest/12: status "stopped"`."""
        if self.values is None:
            return f"delete {ref(self.resource)}"
        return f"change {ref(self.resource)}: " + ", ".join(
            f"{name} {one.expected}" for name, one in self.values.items()
        )

    def check(self, changes: Sequence[Change], chart: Chart) -> Check:
        """Whether the changes of an episode have this one."""
        name = ref(self.resource)
        made = next((one for one in changes if one.before is not None and ref(one.before) == name), None)
        if made is None:
            return Check(name, False, self.words, "no change")
        values, after = self.values or {}, made.after
        right = all(chart.rules.accepts(one, lookup(after, path), chart) for path, one in values.items())
        return Check(name, right and (after is None) == (self.values is None), self.words, made.words)


def update(resource: Resource, **values: Any) -> Edit:
    """A resource of the chart has these values afterwards: `update(order, status="stopped")`."""
    return Edit(resource, {name: one if isinstance(one, Meaning) else Is(one) for name, one in values.items()})


def delete(resource: Resource) -> Edit:
    """A resource of the chart is deleted."""
    return Edit(resource, None)


@dataclass(frozen=True)
class Ruling:
    """What is right. `answers` are the accepted answers (None: any answer), `due` the due orders.

    A benchmark whose grader makes further demands has a subclass.
    """

    branch: Branch
    answers: tuple[Any, ...] | None = None
    due: tuple[Order, ...] = ()
    because: str = ""
    """Why, if the chart's record does not say it: `the right answer is …`."""
    edits: tuple[Edit, ...] = ()
    """Changes of the chart that are due, besides the orders. Only episodes with executed writes can make them."""
    only: bool = False
    """Whether nothing else may have changed."""

    def checks(self, reply: Reply, chart: Chart) -> Iterator[Check]:
        """The checks of a reply: the posts one to one with the due orders, then the answer. Raises ReplyFault."""
        actual = reply.answer
        answered = actual is not NO_ANSWER
        yield Check("completed", answered, "an answer", "an answer" if answered else "none")
        if not self.due and not self.edits:
            yield Check("no POST", not reply.attempted, "no POST", "a POST" if reply.attempted else "no POST")
        else:
            yield from _orders(self.due, reply, chart)
        if self.edits or self.only:
            yield from _changes(self, reply, chart)
        if self.answers is not None:
            accepted = Accepted(self.answers)
            yield Check("answer", accepted.accepts(actual, chart), accepted, actual)


def _orders(due: Sequence[Order], reply: Reply, chart: Chart) -> Iterator[Check]:
    """Exactly the due posts, in their order if the rule set requires it. Every field of each post is checked."""
    ended = [one for one in due if any(one.is_met_by(change, chart) for change in reply.changes or ())]
    due = [one for one in due if one not in ended]
    posts, same = reply.posts, len(reply.posts) == len(due)
    end = "a POST without a reply" if reply.unanswered else "fine"
    yield Check("last message", not reply.unanswered, "no POST without a reply", end)
    yield Check("posts", same, f"{len(due)} accepted", f"{len(posts)} accepted")
    ways = permutations(posts) if same and not chart.rules.in_order else [posts]
    checked = (_in_sequence(due, way, chart) for way in ways)
    yield from min(checked, key=lambda checks: sum(not one.passed for one in checks))


def _changes(ruling: Ruling, reply: Reply, chart: Chart) -> Iterator[Check]:
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


def _in_sequence(due: Sequence[Order], posts: Sequence[Post], chart: Chart) -> list[Check]:
    padded = [*posts, *[None] * len(due)]
    return [check for order, post in zip(due, padded, strict=False) for check in order.checks(post, chart)]


def answer(*accepted: Any) -> Ruling:
    """A question: one of these answers is right, and no order."""
    return Ruling("query", accepted)


def nothing(*accepted: Any) -> Ruling:
    """No order is due. Without accepted answers, any answer is right."""
    return Ruling("no order", accepted or None)


def order(*orders: Order, answers: Sequence[Any] = (), edits: Sequence[Edit] = (), only: bool = False) -> Ruling:
    """These orders are due, no others. Without accepted answers, any answer is right.

    `edits` are further changes of the chart that are due; with `only`, nothing else may have changed.
    """
    return Ruling("order", tuple(answers) or None, orders, edits=tuple(edits), only=only)
