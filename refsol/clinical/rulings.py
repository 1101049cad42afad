"""What is right for a task: the accepted answers and the due orders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from refsol.clinical.orders import Draft, Order
from refsol.verdict import Branch

if TYPE_CHECKING:
    from refsol.clinical.chart import Chart


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

    def on(self, chart: Chart) -> Ruling:
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


def order(*orders: Draft | Order, answers: Sequence[Any] = ()) -> Ruling:
    """These orders are due, no others. Without accepted answers, any answer is right."""
    return Ruling("order", tuple(answers) or None, orders)
