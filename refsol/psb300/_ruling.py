"""The input of a rule (`Case`), its output (`Ruling`), and the checks of a reply that several types share.

A demand is a function that takes the reply and yields checks one by one. A check that is not reached cannot fail.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from refsol._moments import distance_words
from refsol.psb300._facts import Resource
from refsol.psb300._reply import Placed, Reply
from refsol.psb300._rules import RuleSet
from refsol.psb300.chart import Chart, Search, Timed, named
from refsol.verdict import Because, Branch, Check, Fact, show

Demand = Callable[[Reply], Iterator[Check]]
"""Checks of a reply. Raises ReplyFault."""

ORDERS = ("ServiceRequest", "MedicationRequest")


@dataclass(frozen=True, slots=True)
class Case:
    """One task: its patient's chart, now, and the rule set."""

    chart: Chart
    now: datetime
    rules: RuleSet

    @property
    def patient(self) -> str:
        """The MRN, which is also the id of the Patient resource."""
        return self.chart.patient


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an agent must read to know what is right: resources (`Procedure/12`), and searches that show an absence.

    `window`: the searches need to cover only this time.
    """

    resources: tuple[str, ...] = ()
    searches: tuple[Search, ...] = ()
    window: tuple[datetime, datetime] | None = None


@dataclass(frozen=True, slots=True)
class Ruling:
    """What is right for a task: the branch, the reason, the checks of a reply, and the evidence to read.

    `accepted` are the answers that are right. It is empty if the answer is not graded.
    """

    branch: Branch
    because: Because
    demand: Demand
    evidence: Evidence
    accepted: tuple[Any, ...] = ()


def nothing_due(case: Case, because: Because, evidence: Evidence, *, attempts: bool = False) -> Ruling:
    """The ruling if no order is due. `attempts`: `official` forbids every POST here, otherwise only accepted ones."""

    def demand(reply: Reply) -> Iterator[Check]:
        yield no_post(case, reply, attempts=attempts)

    return Ruling("no order", because, demand, evidence)


def no_post(case: Case, reply: Reply, *, attempts: bool) -> Check:
    """The check that there is no POST. `fair` counts only accepted posts."""
    if case.rules.fair:
        sent: Sequence[object] | bool = reply.accepted
    else:
        sent = reply.attempted if attempts else reply.posts
    return Check("no POST", not sent, "no POST", "a POST" if sent else "no POST")


def count(placed: int, due: int, *, more: bool = False) -> Check:
    """The check of the number of posts. `more`: there may be more than `due`."""
    passed = placed >= due if more else placed == due
    return Check("posts", passed, f"{due}{' or more' if more else ''} accepted", f"{placed} accepted")


def one_order(case: Case, kinds: Sequence[str], last: Callable[[Placed], Check]) -> Demand:
    """Exactly one post: an active order of one of these types for the patient. `last` makes one more check."""

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), 1)
        if len(posts) == 1:
            yield from fields(case, posts[0], kinds)
            yield last(posts[0])

    return demand


def fields(case: Case, post: Placed, kinds: Sequence[str]) -> Iterator[Check]:
    """The checks of an order's type, status, intent and subject."""
    yield Check("resourceType", post.kind in kinds, " or ".join(kinds), show(post.kind))
    for name, right in (("status", "active"), ("intent", "order")):
        yield Check(name, post.word(name) == right, right, show(post.field(name)))
    yield subject(case, post)


def subject(case: Case, post: Placed) -> Check:
    """The check that `subject` is the patient's reference and has no other field."""
    expected = show({"reference": f"Patient/{case.patient}"})
    return Check("subject", post.is_about(case.patient), expected, show(post.field("subject")))


def of_kind(posts: Sequence[Placed], kind: str) -> list[Placed]:
    """The posts with this resourceType. Raises ReplyFault."""
    return [post for post in posts if post.kind == kind]


def some(name: str, expected: str, misfits: Sequence[tuple[Placed, str | None]], due: int = 1) -> Check:
    """The check that at least `due` posts fit. `misfits` has the reason why a post is not the order, or None."""
    fitting = sum(misfit is None for _, misfit in misfits)
    reasons = "; ".join(f"post {post.number}: {misfit}" for post, misfit in misfits if misfit is not None)
    return Check(name, fitting >= due, expected, (f"{fitting} fit" if fitting else reasons) or "no such post")


def order_misfit(
    case: Case, post: Placed, kinds: Sequence[str], last: Callable[[Placed], str | None] | None = None
) -> str | None:
    """Why a post is not an active order of one of these types, or None if it is. `last` checks one more property."""
    if post.kind not in kinds:
        return f"resourceType {show(post.kind)}"
    return post.misfit(case.patient) or (last(post) if last else None)


def done_fact(one: Timed, role: str) -> Fact:
    """The fact that something was done or measured."""
    value = None if math.isnan(one.value) else one.value
    return Fact(_code(one.resource), value, _unit(one.resource), one.text, role)


def absent(search: Search, role: str) -> Fact:
    """The fact that a search finds nothing in the chart."""
    return Fact(str(search), None, None, None, role)


def listed(resource: Resource, text: str, role: str) -> Fact:
    """The fact that an order is in the chart, with the text of its drug."""
    time = resource.get("authoredOn")
    return Fact(named(resource), text, None, time if isinstance(time, str) else None, role)


def at(one: Timed, now: datetime | None = None) -> str:
    """`IMGCT0491 at 2022-01-28, 650 days before now`."""
    parts = [_code(one.resource), "" if math.isnan(one.value) else str(one.value), _unit(one.resource) or ""]
    distance = "" if now is None else f", {distance_words(one.time, now)}"
    return f"{' '.join(filter(None, parts))} at {one.text}{distance}"


def _code(resource: Resource) -> str:
    concept = resource.get("code") or resource.get("medicationCodeableConcept")
    codings = concept.get("coding") if isinstance(concept, dict) else None
    first = codings[0] if isinstance(codings, list) and codings else None
    code = first.get("code") if isinstance(first, dict) else None
    return code if isinstance(code, str) else named(resource)


def _unit(resource: Resource) -> str | None:
    quantity = resource.get("valueQuantity")
    unit = quantity.get("unit") if isinstance(quantity, dict) else None
    return unit if isinstance(unit, str) else None
