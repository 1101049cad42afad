"""A cache of repeated searches: their plans, and their results while the store does not change.

Most searches are sent only once. Caching their results would fill the memory and the processor's caches with data that
is not used again. So a search is cached from the second time on.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from fhir_server.search.query import Query
from fhir_server.search.registry import ParameterRegistry
from fhir_server.search.walks import Planned
from fhir_server.wire.http import Pairs

Key: TypeAlias = tuple[ParameterRegistry, str, str, Pairs]
"""The search parameters in force, the method, the URL without query, and the pairs of the query."""
MAX_CACHED = 4096
MAX_SENT_ONCE = 16_384
"""The maximum number of searches that are remembered as sent once."""
MAX_SIZE = 40_000
"""Pages with more bytes are not cached."""
MAX_BYTES = 15_000_000
"""The maximum size of all cached pages together, in bytes."""


@dataclass(slots=True)
class Page:
    """The first page of a search.

    `matches` is the number of first matches that were loaded. `row_ids` has their numbers, if they are more than the
    page shows. `entries` are the entries of the page, with `size` bytes. If there is no further page, `rest` is the
    text of the Bundle after its head, which includes the entries.
    """

    matches: int
    row_ids: array[int]
    size: int
    entries: Sequence[bytes]
    rest: bytes = b""


@dataclass(slots=True)
class Known:
    """A planned search. `page` and `total` are its results in `generation` of the store (`Store.generation`)."""

    query: Query
    planned: Planned
    cached: bool = False
    generation: object = None
    page: Page | None = None
    total: int | None = None

    def of(self, generation: object) -> Known:
        """Itself, without results of another generation."""
        if self.generation is not generation:
            self.generation, self.page, self.total = generation, None, None
        return self


@dataclass(slots=True)
class Remembered:
    """The cached searches."""

    _known: dict[Key, Known] = field(default_factory=dict)
    _sent_once: set[int] = field(default_factory=set)
    _bytes: int = 0

    def find(self, key: Key) -> Known | None:
        """A cached search, or None."""
        return self._known.get(key)

    def keep(self, key: Key, known: Known) -> None:
        """Caches a search, unless it was sent for the first time."""
        digest = hash(key)
        if digest not in self._sent_once:
            if len(self._sent_once) >= MAX_SENT_ONCE:
                self._sent_once.clear()
            self._sent_once.add(digest)
            return
        if len(self._known) >= MAX_CACHED:
            self._forget()
        known.cached = True
        self._known[key] = known

    def keep_page(self, known: Known, page: Page) -> None:
        """Caches the page of a cached search, unless the page is larger than `MAX_SIZE`."""
        if not known.cached or page.size > MAX_SIZE:
            return
        self._bytes += page.size
        if self._bytes > MAX_BYTES:
            self._forget()
        page.entries = [b"".join(page.entries)] if page.entries else ()
        known.page = page

    def _forget(self) -> None:
        self._known.clear()
        self._bytes = 0
