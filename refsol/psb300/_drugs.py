"""The types that depend on active drug orders: 2 (DVT prophylaxis) and 8 (opioids and naloxone)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime

from refsol.psb300._facts import Resource
from refsol.psb300._reply import Placed, Reply
from refsol.psb300._rules import RuleSet
from refsol.psb300._ruling import (
    ORDERS,
    Case,
    Demand,
    Evidence,
    Ruling,
    absent,
    count,
    listed,
    nothing_due,
    of_kind,
    one_order,
    some,
    subject,
)
from refsol.psb300.chart import Search, moment, named
from refsol.verdict import Because, Check, show

ACTIVE = Search("MedicationRequest", status="active")
ANTICOAGULANTS = (
    "heparin",
    "enoxaparin",
    "dalteparin",
    "fondaparinux",
    "apixaban",
    "rivaroxaban",
    "dabigatran",
    "warfarin",
)
DOSE = ("5,000", "5000")
OPIOIDS = ("hydromorphone", "oxycodone", "fentanyl", "hydrocodone", "morphine")
ANTIDOTE = ("naloxone", "narcan")


@dataclass(frozen=True, slots=True)
class _Order:
    """An active anticoagulant in the chart. `is_requested`: it is the heparin 5000 that the task requests."""

    resource: Resource
    text: str
    is_requested: bool


def task2(case: Case) -> Ruling:
    """Exactly one active anticoagulant: order heparin if there is none, stop duplicates."""
    orders = [
        _Order(resource, text, case.rules.mentions(text, "heparin") and case.rules.mentions(text, *DOSE))
        for resource, text in case.chart.medication_texts(ACTIVE)
        if case.rules.mentions(text, *ANTICOAGULANTS)
    ]
    create = not any(order.is_requested for order in orders)
    surplus = _surplus(orders) if case.rules.fair else orders if len(orders) > 1 else []
    texts = ", ".join(order.text for order in orders) or "no active anticoagulant"
    facts = tuple(listed(order.resource, order.text, "active anticoagulant") for order in orders)
    evidence = Evidence(tuple(named(order.resource) for order in orders), (ACTIVE,) if create else ())
    due = [*(["heparin 5000 is due"] if create else []), *(["a stop is due"] if surplus else [])]
    because = Because(f"{texts}; {' and '.join(due) or 'nothing due'}", facts or (absent(ACTIVE, "no anticoagulant"),))
    if not due:
        return nothing_due(case, because, evidence)
    demand = _fair_demand(case, create, surplus) if case.rules.fair else _official_demand(case, create, bool(surplus))
    return Ruling("order", because, demand, evidence)


def task8(case: Case) -> Ruling:
    """Order naloxone if an opioid is active and naloxone is not."""
    texts = case.chart.medication_texts(ACTIVE)
    opioids = [(resource, text) for resource, text in texts if case.rules.mentions(text, *OPIOIDS)]
    antidotes = [(resource, text) for resource, text in texts if case.rules.mentions(text, *ANTIDOTE)]
    if not opioids:
        because = Because("no active opioid; nothing to order", (absent(ACTIVE, "no opioid"),))
        return nothing_due(case, because, Evidence((), (ACTIVE,)))
    (opioid, text), *_ = opioids
    fact = listed(opioid, text, "active opioid")
    if antidotes:
        antidote, name = antidotes[0]
        because = Because(f"{text} and {name} are active → no order", (fact, listed(antidote, name, "active naloxone")))
        return nothing_due(case, because, Evidence((named(opioid), named(antidote))))

    def naloxone(post: Placed) -> Check:
        actual = post.text()
        return Check(
            "naloxone", case.rules.mentions(actual.lower(), *ANTIDOTE), " or ".join(ANTIDOTE), show(post.payload)
        )

    because = Because(f"{text} is active without naloxone → naloxone is due", (fact, absent(ACTIVE, "no naloxone")))
    demand = one_order(case, ORDERS, naloxone)
    return Ruling("order", because, demand, Evidence((named(opioid),), (ACTIVE,)))


def _official_demand(case: Case, create: bool, stop: bool) -> Demand:
    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), create + stop, more=True)
        medications = of_kind(posts, "MedicationRequest")
        if create:
            creates = [(post, _no_heparin(case.rules, post)) for post in medications]
            yield some("heparin", "an active MedicationRequest of heparin 5000", creates)
        if stop:
            yield some("stop", "a MedicationRequest that stops", [(post, post.not_a_stop()) for post in medications])
        yield from (subject(case, post) for post in posts)

    return demand


def _fair_demand(case: Case, create: bool, surplus: Sequence[_Order]) -> Demand:
    """Heparin once if it is due, otherwise not at all. Each surplus order needs its own stop."""

    def demand(reply: Reply) -> Iterator[Check]:
        posts = reply.posts
        yield count(len(posts), create + len(surplus), more=True)
        medications = of_kind(posts, "MedicationRequest")
        creates = sum(_no_heparin(case.rules, post) is None for post in medications)
        yield Check("heparin", creates == create, f"{int(create)} created", f"{creates} created")
        stops = [post for post in medications if post.not_a_stop() is None]
        stopped = _stopped(case.rules, surplus, stops)
        names = ", ".join(f"{order.text} ({named(order.resource)})" for order in surplus)
        yield Check("stop", stopped == len(surplus), f"{names or 'nothing'} stopped", f"{stopped} of {len(surplus)}")
        yield from (subject(case, post) for post in posts)

    return demand


def _no_heparin(rules: RuleSet, post: Placed) -> str | None:
    doses = DOSE if rules.fair else ("5000",)
    if post.word("status") != "active":
        return f"status {show(post.field('status'))}"
    text = post.text().lower()
    return None if rules.mentions(text, "heparin") and rules.mentions(text, *doses) else "not heparin 5000"


def _surplus(orders: Sequence[_Order]) -> list[_Order]:
    """All anticoagulants except the newest requested heparin. If times are equal, the first is the newest."""
    requested = [order for order in orders if order.is_requested]
    newest = max(requested, key=lambda order: _authored(order.resource), default=None)
    return [order for order in orders if order is not newest]


def _authored(resource: Resource) -> datetime:
    """When an order was written. A time without a zone is in UTC; an order without a time sorts first."""
    text = resource.get("authoredOn")
    time = datetime.min if text is None else moment(text, resource)
    return time.replace(tzinfo=UTC) if time.utcoffset() is None else time


def _stopped(rules: RuleSet, surplus: Sequence[_Order], stops: Sequence[Placed]) -> int:
    """How many orders are stopped, if each needs its own post that names it (a maximum bipartite matching)."""
    taken: dict[int, int] = {}

    def place(order: int, tried: set[int]) -> bool:
        for number, post in enumerate(stops):
            if number not in tried and _names(rules, post, surplus[order]):
                tried.add(number)
                if number not in taken or place(taken[number], tried):
                    taken[number] = order
                    return True
        return False

    return sum(place(order, set()) for order in range(len(surplus)))


def _names(rules: RuleSet, post: Placed, order: _Order) -> bool:
    """Whether a post names an order of the chart by its drug or its id."""
    if post.field("id") == order.resource.get("id") is not None:
        return True
    drugs = [word for word in ANTICOAGULANTS if rules.mentions(order.text, word)]
    return rules.mentions(post.text().lower(), *drugs)
