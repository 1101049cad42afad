"""Loads a chart into an overlay before its first request, as if its resources had always been in the data.

A chart is NDJSON. It is prepared as an import is (`load.members`), once for all overlays that begin with it.
"""

from __future__ import annotations

from fhir_server.errors import ServerError
from fhir_server.ids import IdSource
from fhir_server.load.importer import Chunk, rows_of
from fhir_server.load.members import ImportStamp, MemberCache
from fhir_server.store import BaseStore, OverlayStore

REMEMBERED = 32_000_000
"""The most characters of charts whose rows are remembered. A full memory is emptied."""


class ChartLoader:
    """Loads charts into the overlays of one store."""

    def __init__(self, base: BaseStore) -> None:
        self._base = base
        self._cache: MemberCache | None = None
        self._prepared: dict[tuple[str, int], Chunk] = {}
        """By chart, and number of its first resource."""
        self._size = 0

    def load(self, store: OverlayStore, chart: str, now: int) -> None:
        """Loads a chart. `now` (ms) is the time of resources that state none. A resource of the data with the same type
        and id is replaced.

        Raises ServerError with the line that is not an R4 resource with an id, or that repeats one.
        """
        chunk = self._chunk(chart, store.next_number, self._members(now))
        if chunk.resources:
            store.begin_with(chunk.resources, chunk.tables)
            store.skip_to(chunk.last_number + 1)

    def _chunk(self, chart: str, first: int, members: MemberCache) -> Chunk:
        prepared = self._prepared.get((chart, first))
        if prepared is not None:
            return prepared
        chunk = rows_of(chart.encode().splitlines(), first, 0, members)
        if chunk.refused:
            number, reason = chunk.refused[0]
            raise ServerError(f"line {number} of the chart: {reason}")
        names = [f"{row[1]}/{row[2]}" for row in chunk.resources]
        if len(set(names)) < len(names):
            twice = next(name for place, name in enumerate(names) if name in names[:place])
            raise ServerError(f"{twice}: is in the chart twice")
        self._size += len(chart)
        if self._size > REMEMBERED:
            self._prepared.clear()
            self._size = len(chart)
        self._prepared[chart, first] = chunk
        return chunk

    def _members(self, now: int) -> MemberCache:
        """The members prepared so far. They are of one time, and of the search parameters in force."""
        cache = self._cache
        if cache is None or cache.stamp.updated != now or cache.registry is not self._base.registry:
            cache = MemberCache(self._base.registry, ImportStamp(now, IdSource("chart").request_id()))
            self._cache = cache
            self._size = 0
            self._prepared.clear()
        return cache
