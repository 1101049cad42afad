"""Searches with further pages, and the rule for when HAPI knows their total.

HAPI loads the results of a search in stages (13, 503, 2003, then all). It knows `total` when a stage returns fewer
results than requested. If a page needs more results than are loaded, the current stage runs once more, up to the end of
the page. The next stage is then loaded after the response, so that any later page has it. This was observed in HAPI
FHIR 7.6.0 (320 measured cases) and is not documented.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from fhir_server.search.query import Include

DEFAULT_COUNT = 20
"""The size of a page without `_count`, in HAPI."""
STAGES = (13, 503, 2003)
MAX_SEARCHES = 2000
"""The maximum number of stored searches. The least recently used is dropped first (HAPI drops them after an hour)."""


@dataclass(frozen=True, slots=True)
class Paging:
    """How a server pages results: the size of a page without `_count`, and the order of results without `_sort`.

    With `shuffled`, this order is random, but depends only on the search and on the ids of the results. So it is the
    same on each copy of the data, and a resource that is added or changed moves no other.
    """

    size: int = DEFAULT_COUNT
    shuffled: bool = False


AS_HAPI = Paging()


@dataclass(slots=True)
class Loading:
    """The number of results that HAPI would have loaded for a search, and whether it would know the total."""

    loaded: int = 0
    known: bool = False
    rows: int = 0
    """The number of rows with the results, if it is greater than the number of results."""
    _stage: int = -1
    _again: bool = False
    _behind: bool = False

    def load(self, end: int, matches: int) -> None:
        """Simulates loading a page that ends with the `end`-th of `matches` results."""
        if self._behind:
            self._behind = False
            self._next_stage(end, matches)
        while not self.known and self.loaded < end:
            if self._again:
                self._again = False
                self._behind = True
                self._run(end, matches)
            else:
                self._next_stage(end, matches)

    def _next_stage(self, end: int, matches: int) -> None:
        self._stage += 1
        while self._stage < len(STAGES) and STAGES[self._stage] <= self.loaded:
            self._stage += 1
        self._again = True
        self._run(end, matches)

    def _run(self, end: int, matches: int) -> None:
        limit = max(STAGES[self._stage], end) if self._stage < len(STAGES) else matches + 1
        self.known = max(matches, self.rows) < limit
        self.loaded = min(matches, limit)


@dataclass(slots=True)
class Search:
    """An answered search: the numbers of its matches in order, and the data for its pages.

    `row_ids` contains only the first matches until a further page is requested. Then `rest` finds all, in the context
    of that request.
    """

    id: str
    updated: int
    row_ids: array[int]
    includes: Sequence[Include] = ()
    rest: Callable[[Any], Iterable[int]] | None = None
    loading: Loading = field(default_factory=Loading)
    total: int | None = None
    """The total, if the request had `_total=accurate`."""

    def total_at(self, end: int) -> int | None:
        """The total of a page that ends with the `end`-th result; None if HAPI would not know it."""
        matches = len(self.row_ids)
        self.loading.load(end, matches)
        if self.total is not None:
            return self.total
        return matches if self.loading.known else None


class Searches:
    """The stored searches by id."""

    def __init__(self) -> None:
        self._searches: OrderedDict[str, Search] = OrderedDict()

    def keep(self, search: Search) -> None:
        """Stores a search."""
        self._searches[search.id] = search
        if len(self._searches) > MAX_SEARCHES:
            self._searches.popitem(last=False)

    def take_all(self) -> list[Search]:
        """Removes all searches and returns them."""
        searches = list(self._searches.values())
        self._searches.clear()
        return searches

    def find(self, search_id: str) -> Search | None:
        """A search by its id, or None."""
        search = self._searches.get(search_id)
        if search is not None:
            self._searches.move_to_end(search_id)
        return search
