"""Whether the reference agent would be right if it opened only one page of each search and did not sort.

Results of a search come in the order in which they were stored, a page at a time. An agent that answers from the first
page is right if the deciding resource happens to be on it.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Reply
from refsol.clinical.sources import Resource, Source
from refsol.clinical.task_type import TaskType
from refsol.errors import DataFault

ONE_PAGE = "one-page"
"""The name of this baseline in scores."""
PAGE_SIZE = 20
"""The results on a page of the embedded server and of HAPI, if a request does not say how many."""


class FirstPages:
    """A source of which each search shows only its first page."""

    def __init__(self, source: Source, size: int = PAGE_SIZE) -> None:
        self._source = source
        self._size = size

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        """See `Source.search`."""
        return self._source.search(kind, **query)[: self._size]


def is_right_by_one_page(
    kind: TaskType, chart_of: Callable[[Source], Chart], source: Source, size: int = PAGE_SIZE
) -> bool:
    """Whether the reply that follows from the first pages is right on the whole chart.

    `chart_of` opens the chart of the task over a source. Raises DataFault, FactsError if the whole chart allows no
    ruling.
    """
    whole, first = chart_of(source), chart_of(FirstPages(source, size))
    ruling = kind.ruled(whole)
    try:
        shown = kind.ruled(first)
    except DataFault:
        return False
    answer = json.dumps(plain(next(iter(shown.answers or ()), [])))
    reply = Reply.with_orders(answer, [order.json(first) for order in shown.due], whole.base)
    return all(check.passed for check in ruling.checks(reply, whole))
