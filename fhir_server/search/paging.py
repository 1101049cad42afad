"""Searches that have further pages, and when HAPI knows their total.

HAPI loads the results of a search in stages (13, 503, 2003, then all) and gives `total` once a stage came back short.
A page that asks for more than is loaded makes the current stage run once more, up to the page's end; the next stage is
loaded behind it, which any later page knows. These are observations of HAPI FHIR 7.6.0 (320 measured cases), not
documentation.
"""

from __future__ import annotations

from array import array
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import dataclass, field

from fhir_server.search.query import Include
from fhir_server.search.walks import Planned

DEFAULT_COUNT = 20
STAGES = (13, 503, 2003)
MAX_SEARCHES = 2000
"""How many searches keep their pages; the least recently used is dropped first (HAPI drops them after an hour)."""


@dataclass(slots=True)
class Loading:
    """How far HAPI would have loaded a search, and whether it knows the total."""

    loaded: int = 0
    known: bool = False
    _stage: int = -1
    _again: bool = False
    _behind: bool = False

    def load(self, end: int, matches: int) -> None:
        """Loads what a page up to the `end`-th of `matches` results needs."""
        if self._behind:
            self._behind = False
            self._next_stage(end, matches)
        while not self.known and self.loaded < end:
            if self._again:
                self._again, self._behind = False, True
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
        self.known = matches < limit
        self.loaded = min(matches, limit)


@dataclass(slots=True)
class Search:
    """A search that was answered: the numbers of its matches in order, and what its pages need.

    Only the first matches are there until a further page is asked for; `rest` is then run for the others.
    """

    id: str
    updated: int
    row_ids: array[int]
    includes: Sequence[Include] = ()
    rest: Planned | None = None
    loading: Loading = field(default_factory=Loading)
    total: int | None = None
    """The total that was asked for by `_total=accurate`."""

    def total_at(self, end: int, known_matches: int | None = None) -> int | None:
        """The total that a page up to the `end`-th result gives, if any."""
        matches = len(self.row_ids) if known_matches is None else known_matches
        self.loading.load(end, matches)
        if self.total is not None:
            return self.total
        return matches if self.loading.known else None


class Searches:
    """The searches with further pages, by id."""

    def __init__(self) -> None:
        self._kept: OrderedDict[str, Search] = OrderedDict()

    def keep(self, search: Search) -> None:
        """Remembers a search."""
        self._kept[search.id] = search
        if len(self._kept) > MAX_SEARCHES:
            self._kept.popitem(last=False)

    def take_all(self) -> list[Search]:
        """All searches, which are forgotten here."""
        searches = list(self._kept.values())
        self._kept.clear()
        return searches

    def find(self, search_id: str) -> Search | None:
        """A search by its id, or None."""
        search = self._kept.get(search_id)
        if search is not None:
            self._kept.move_to_end(search_id)
        return search
