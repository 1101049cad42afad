"""Searches that are asked again: what was understood of them, and what they gave of the data as they are.

Most searches are asked once. Keeping what each of them gave would fill the memory, and with it the processor's caches,
with what nobody asks for: that takes a fifth of a search's time. So a search is kept from the second time on.
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
"""The search parameters there were, the method, the address and the parameters."""
MAX_KEPT = 4096
MAX_ASKED = 16_384
"""So many searches that were asked once are known as such."""
MAX_SIZE = 40_000
"""Longer pages, in bytes, are rendered anew each time."""
MAX_BYTES = 15_000_000
"""Of all pages together."""


@dataclass(slots=True)
class Page:
    """How many of a search's first matches there are, their numbers where they are more than the page shows, and the
    entries of the page, `size` bytes. Where no link leads to further pages, `rest` is the Bundle behind its head, which
    has the entries.
    """

    matches: int
    row_ids: array[int]
    size: int
    entries: Sequence[bytes]
    rest: bytes = b""


@dataclass(slots=True)
class Known:
    """A search that was understood; `page` and `total` are what it gave in one generation of the store."""

    query: Query
    planned: Planned
    kept: bool = False
    generation: object = None
    page: Page | None = None
    total: int | None = None

    def of(self, generation: object) -> Known:
        """Itself, without what it gave before the store changed."""
        if self.generation is not generation:
            self.generation, self.page, self.total = generation, None, None
        return self


@dataclass(slots=True)
class Remembered:
    """The searches that were asked more than once."""

    _known: dict[Key, Known] = field(default_factory=dict)
    _asked: set[int] = field(default_factory=set)
    _bytes: int = 0

    def find(self, key: Key) -> Known | None:
        """A search that was kept, or None."""
        return self._known.get(key)

    def keep(self, key: Key, known: Known) -> None:
        """Keeps a search if it was asked before."""
        asked = hash(key)
        if asked not in self._asked:
            if len(self._asked) >= MAX_ASKED:
                self._asked.clear()
            self._asked.add(asked)
            return
        if len(self._known) >= MAX_KEPT:
            self._forget()
        known.kept = True
        self._known[key] = known

    def keep_page(self, known: Known, page: Page) -> None:
        """Keeps a page of a search that is kept, if the page is no longer than usual."""
        if not known.kept or page.size > MAX_SIZE:
            return
        self._bytes += page.size
        if self._bytes > MAX_BYTES:
            self._forget()
        page.entries = [b"".join(page.entries)] if page.entries else ()
        known.page = page

    def _forget(self) -> None:
        self._known.clear()
        self._bytes = 0
