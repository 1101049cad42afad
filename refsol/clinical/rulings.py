"""What is right for a task: the accepted answers and the due orders."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from refsol.changes import Change
from refsol.clinical.case import Case
from refsol.clinical.meanings import Is, Meaning
from refsol.clinical.orders import Draft, Order, lookup
from refsol.clinical.sources import Resource, ref
from refsol.verdict import Branch, Check


@dataclass(frozen=True, slots=True)
class Edit:
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

    def check(self, changes: Sequence[Change], chart: Case) -> Check:
        """Whether the changes of an episode have this one."""
        name = ref(self.resource)
        made = next((one for one in changes if one.before is not None and ref(one.before) == name), None)
        if made is None:
            return Check(name, False, self.words, "no change")
        if self.values is None or made.after is None:
            return Check(name, self.values is None and made.after is None, self.words, made.words)
        right = all(chart.rules.accepts(one, lookup(made.after, path), chart) for path, one in self.values.items())
        return Check(name, right, self.words, made.words)


def update(resource: Resource, **values: Any) -> Edit:
    """A resource of the chart has these values afterwards: `update(order, status="stopped")`."""
    return Edit(resource, {name: one if isinstance(one, Meaning) else Is(one) for name, one in values.items()})


def delete(resource: Resource) -> Edit:
    """A resource of the chart is deleted."""
    return Edit(resource, None)


@dataclass(frozen=True)
class Ruling:
    """What is right. `answers` are the accepted answers (None: any answer), `orders` the due orders.

    A benchmark whose grader makes further demands has a subclass.
    """

    branch: Branch
    answers: tuple[Any, ...] | None = None
    orders: tuple[Draft | Order, ...] = ()
    because: str = ""
    """Why, if the chart's record does not say it: `the right answer is …`."""
    edits: tuple[Edit, ...] = ()
    """Changes of the chart that are due, besides the orders. Only episodes with executed writes can make them."""
    only: bool = False
    """Whether nothing else may have changed."""

    def on(self, chart: Case) -> Ruling:
        """The ruling with its orders made for the chart's patient and time."""
        orders = tuple(one if isinstance(one, Order) else one(chart) for one in self.orders)
        return replace(self, orders=orders)

    @property
    def due(self) -> tuple[Order, ...]:
        """The orders, once they were made for a chart."""
        return tuple(one for one in self.orders if isinstance(one, Order))


def answer(*accepted: Any) -> Ruling:
    """A question: one of these answers is right, and no order."""
    return Ruling("query", accepted)


def nothing(*accepted: Any) -> Ruling:
    """No order is due. Without accepted answers, any answer is right."""
    return Ruling("no order", accepted or None)


def order(
    *orders: Draft | Order, answers: Sequence[Any] = (), edits: Sequence[Edit] = (), only: bool = False
) -> Ruling:
    """These orders are due, no others. Without accepted answers, any answer is right.

    `edits` are further changes of the chart that are due; with `only`, nothing else may have changed.
    """
    return Ruling("order", tuple(answers) or None, orders, edits=tuple(edits), only=only)
