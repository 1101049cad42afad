"""What is right for a task, the accepted answers and the due orders, and how a reply is compared with it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, NamedTuple

from refsol.changes import NO_CHANGE, Change
from refsol.clinical.chart import Chart
from refsol.clinical.meanings import Accepted, Is, Meaning, RuleSet
from refsol.clinical.orders import Order, ends_drug, lookup, steps
from refsol.clinical.searches import ref
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
        attempts = [message.is_attempt if rules.prose_counts else message.is_post_action for message in messages]
        return cls(raw, extract_posts(messages, acknowledgement), any(attempts), ends_in_attempt(messages))

    @classmethod
    def with_orders(cls, answer: str, orders: Sequence[dict[str, Any]], base: str) -> Reply:
        """The reply with this answer (JSON text) and these orders, which were posted to a FHIR base."""
        posts = tuple(Post(f"{base}{body['resourceType']}", body) for body in orders)
        return cls(answer, posts, bool(posts), changes=tuple(Change("created", after=body) for body in orders))

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
            f"{name} {meaning.expected}" for name, meaning in self.values.items()
        )

    @property
    def kind(self) -> str:
        """What is done to which type of resource: `delete Observation`."""
        return f"{'delete' if self.values is None else 'change'} {self.resource['resourceType']}"

    @property
    def change(self) -> Change:
        """The change of the chart that it makes."""
        before = dict(self.resource)
        if self.values is None:
            return Change("deleted", before)
        after: Any = before
        for path, meaning in self.values.items():
            after = _with(after, steps(path), meaning.json())
        return Change("changed", before, after)

    def request(self, base: str) -> tuple[str, str, Any]:
        """A request that makes it: the method, the URL, and the JSON of the body (None: no body)."""
        url, after = base + ref(self.resource), self.change.after
        if self.values is None or after is None:
            return "DELETE", url, None
        elements = dict.fromkeys(str(steps(path)[0]) for path in self.values)
        return "PATCH", url, [{"op": "add", "path": f"/{name}", "value": after[name]} for name in elements]

    def is_about(self, change: Change) -> bool:
        """Whether a change is one of the same resource."""
        return change.before is not None and ref(change.before) == ref(self.resource)

    def check(self, change: Change | None, chart: Chart) -> Check:
        """Whether a change of the resource is this one."""
        if change is None:
            return Check(ref(self.resource), False, self.words, NO_CHANGE)
        values = self.values or {}
        right = all(chart.rules.accepts(meaning, lookup(change.after, path), chart) for path, meaning in values.items())
        is_same_kind = (change.after is None) == (self.values is None)
        return Check(ref(self.resource), right and is_same_kind, self.words, change.words)


def _with(value: Any, path: Sequence[str | int], new: Any) -> Any:
    """JSON with another value at a path. Objects that the path needs are added; lists must be there."""
    if not path:
        return new
    step, *rest = path
    if isinstance(step, int):
        return [_with(element, rest, new) if place == step else element for place, element in enumerate(value)]
    return {**value, step: _with(value.get(step, {}), rest, new)}


def update(resource: Resource, **values: Any) -> Edit:
    """A resource of the chart has these values afterwards: `update(order, status="stopped")`."""
    meanings = {name: value if isinstance(value, Meaning) else Is(value) for name, value in values.items()}
    return Edit(_in_chart(resource), meanings)


def delete(resource: Resource) -> Edit:
    """A resource of the chart is deleted."""
    return Edit(_in_chart(resource), None)


def _in_chart(resource: Resource | None) -> Resource:
    if resource is None:
        raise TypeError("None cannot be changed or deleted: the rule found no resource")
    return resource


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
    """Changes of the chart that are due, besides the orders. Only episodes with executed writes can make them. Other
    changes do not matter, except with `only`.
    """
    only: bool = False
    """Whether nothing else may have changed."""

    @property
    def is_of_state(self) -> bool:
        """Whether it demands a state difference, whatever the requests that made it: orders are created resources."""
        return bool(self.edits) or self.only

    def checks(self, reply: Reply, chart: Chart) -> Iterator[Check]:
        """The checks of a reply: the posts one to one with the due orders, or the state difference, then the answer.

        Raises ReplyFault, and DataFault if the state difference is due and not known.
        """
        actual = reply.answer
        answered = actual is not NO_ANSWER
        yield Check("completed", answered, "an answer", "an answer" if answered else "none")
        if self.is_of_state:
            yield from _state_difference(self, reply, chart)
        else:
            if self.due:
                yield from _orders(self.due, reply, chart)
            else:
                yield Check("no POST", not reply.attempted, "no POST", "a POST" if reply.attempted else "no POST")
            yield from _ended(self.due, reply, chart)
        if self.answers is not None:
            accepted = Accepted(self.answers)
            yield Check("answer", accepted.accepts(actual, chart), accepted, actual)


def _orders(due: Sequence[Order], reply: Reply, chart: Chart) -> Iterator[Check]:
    """Exactly the due posts, in their order if the rule set requires it. Every field of each post is checked."""
    ended = [order for order in due if any(order.is_met_by(change, chart) for change in reply.changes or ())]
    due = [order for order in due if order not in ended]
    posts, same = reply.posts, len(reply.posts) == len(due)
    end = "a POST without a reply" if reply.unanswered else "fine"
    yield Check("last message", not reply.unanswered, "no POST without a reply", end)
    yield Check("posts", same, f"{len(due)} accepted", f"{len(posts)} accepted")
    if not same or chart.rules.in_order:
        padded = [*posts, *[None] * len(due)]
        for order, post in zip(due, padded, strict=False):
            yield from order.checks(post, chart)
        return
    checks = [[list(order.checks(post, chart)) for post in posts] for order in due]
    failures = [[sum(not check.passed for check in pair) for pair in row] for row in checks]
    yield from (check for row, place in zip(checks, _best(failures), strict=True) for check in row[place])


def _ended(due: Sequence[Order], reply: Reply, chart: Chart) -> Iterator[Check]:
    """A failed check if active drug orders were ended, which is an order too, and no due order asks for it."""
    ended = [change for change in reply.changes or () if ends_drug(change)]
    others = [change for change in ended if not any(order.is_met_by(change, chart) for order in due)]
    if others:
        yield _no_others(others)


def _no_others(changes: Sequence[Change]) -> Check:
    actual = "; ".join(f"{change.name}: {change.words}" for change in changes) or "none"
    return Check("other changes", not changes, "none", actual)


def _state_difference(ruling: Ruling, reply: Reply, chart: Chart) -> Iterator[Check]:
    """The due orders among the created resources, the due changes, and that there are no others (`only`)."""
    if reply.changes is None:
        raise DataFault("the changes of the chart are not known: run with --writes execute")
    others = list(reply.changes)
    changes_made: list[Change | None] = []
    for order in ruling.due:
        options = [change for change in others if change.before is None or order.is_met_by(change, chart)]
        failures = [sum(not check.passed for check in _of(order, change, chart)) for change in options]
        changes_made.append(others.pop(others.index(options[failures.index(min(failures))])) if options else None)
    if changes_made:
        placed = sum(change is not None for change in changes_made)
        yield Check("posts", placed == len(changes_made), f"{len(changes_made)} accepted", f"{placed} accepted")
    for order, change in zip(ruling.due, changes_made, strict=True):
        yield from _of(order, change, chart)
    for edit in ruling.edits:
        change = next((change for change in others if edit.is_about(change)), None)
        if change is not None:
            others.remove(change)
        yield edit.check(change, chart)
    if ruling.only:
        yield _no_others(others)


def _of(order: Order, change: Change | None, chart: Chart) -> list[Check]:
    """The checks of an order on the resource that was created, or none if it was met by the end of another order."""
    if change is not None and change.before is not None:
        return []
    body = change and change.after
    return list(order.checks(Post(f"{chart.base}{body['resourceType']}", body) if body else None, chart))


def _best(failures: Sequence[Sequence[int]]) -> tuple[int, ...]:
    """For each order the place of its post, so that the fewest checks fail. Of equal ways it is the first one."""

    @cache
    def way(free: frozenset[int]) -> tuple[int, tuple[int, ...]]:
        row = len(failures) - len(free)
        rest = ((place, *way(free - {place})) for place in free)
        return min(((failures[row][place] + more, (place, *others)) for place, more, others in rest), default=(0, ()))

    return way(frozenset(range(len(failures))))[1]


def answer(*accepted: Any, only: bool = False) -> Ruling:
    """A question: one of these answers is right, and no order. With `only`, nothing may have changed."""
    return Ruling("query", accepted, only=only)


def nothing(*accepted: Any, only: bool = False) -> Ruling:
    """No order is due. Without accepted answers, any answer is right. With `only`, nothing may have changed."""
    return Ruling("no order", accepted or None, only=only)


def order(*orders: Order, answers: Sequence[Any] = (), edits: Sequence[Edit] = (), only: bool = False) -> Ruling:
    """These orders are due, no others. Without accepted answers, any answer is right.

    `edits` are changes of the chart that are due (`update`, `delete`). With them or with `only`, the chart after the
    episode is compared, so that it does not matter how an order or a change was made; further changes do not matter,
    except with `only`.
    """
    return Ruling("order", tuple(answers) or None, orders, edits=tuple(edits), only=only)
