"""A private copy of a store for one episode.

Before its first write, an overlay reads through the connection of its base. For the first write it takes a connection
from a pool, with temporary tables over the tables of the file (see `schema.overlay`). All writes of the episode are one
open transaction, which `close` rolls back. So an overlay that never writes needs no resources, and one that does needs
only its own rows.
"""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from fhir_server.search.indexer import TableRows
from fhir_server.search.parameters import CustomParameters, Key, ParameterRegistry
from fhir_server.store import schema
from fhir_server.store._base import BaseStore, connect
from fhir_server.store.store import Store


@dataclass(slots=True)
class Pool:
    """Connections with temporary tables over one file, for the overlays of one thread."""

    base: BaseStore
    idle: list[sqlite3.Connection] = field(default_factory=list)

    def take(self) -> sqlite3.Connection:
        """A connection with empty temporary tables, inside a transaction."""
        connection = self.idle.pop() if self.idle else self._open()
        connection.execute("BEGIN")
        return connection

    def give_back(self, connection: sqlite3.Connection) -> None:
        """Rolls back the writes and keeps the connection for the next overlay."""
        connection.execute("ROLLBACK")
        self.idle.append(connection)

    def close(self) -> None:
        """Closes the idle connections."""
        while self.idle:
            self.idle.pop().close()

    def _open(self) -> sqlite3.Connection:
        connection = connect(self.base.path)
        connection.execute("PRAGMA cache_size = -512")
        connection.execute("PRAGMA temp.page_size = 2048")  # small pages: each write copies the pages that it changes
        connection.executescript(schema.overlay())
        return connection


class OverlayStore(Store):
    """A store over a base that it never changes."""

    prefix = "temp.own_"

    def __init__(self, base: BaseStore, pool: Pool) -> None:
        super().__init__(base.connection, base.registry)
        self._pool = pool
        self._next = base.next_number
        self._first = self._next
        """The first number of what requests create: above those of the base and of a chart that it began with."""
        self._own = False

    def refresh(self) -> None:
        """See `Store.refresh`. Before its first write, an overlay uses the search parameters of its base."""
        if not self._own:
            self._pool.base.refresh()
            self.registry = self._pool.base.registry

    def define(self, custom: CustomParameters, changed: Collection[Key]) -> None:
        """See `Store.define`. Changed parameters get negative numbers, which no row of the base uses."""
        numbers = dict(self.registry.numbers)
        free = min(0, *numbers.values())
        numbers |= {key: free - place for place, key in enumerate(changed, 1)}
        self.registry = ParameterRegistry(numbers, custom)

    def next_row_id(self) -> int:
        """See `Store.next_row_id`. The base's counter does not change."""
        self._next += 1
        return self._next - 1

    @property
    def next_number(self) -> int:
        """The number of the next new resource."""
        return self._next

    def rewind(self, number: int) -> None:
        """Sets the counter back to `number`. No resource may have a number from `number` on."""
        self._next = number

    def skip_to(self, number: int) -> None:
        """Raises the counter to at least `number`."""
        self._next = max(self._next, number)

    def begin_with(
        self, resources: Sequence[tuple[int, str, str, int, int, str]], tables: Mapping[str, list[Any]]
    ) -> None:
        """Adds resources as if the base had always had them; those of the base with the same type and id are replaced.

        Call before the first request. `resources` and `tables` are as in `BaseStore.insert_many`.
        """
        with self.transaction():
            self.omit(self.numbers([f"{row[1]}/{row[2]}" for row in resources]).values())
            self.connection.executemany("INSERT INTO temp.own_resources VALUES (?, ?, ?, ?, ?, ?)", resources)
            for table, values in tables.items():
                self._pending.write_rows(self.connection, self.prefix, table, list(values))
        self._next = self._first = resources[-1][0] + 1

    def created(self) -> list[tuple[str, str, str]]:
        """The type, id and text of each first version that was created here, in order."""
        if not self._own:
            return []
        created = "SELECT row_id, type, id, version, text FROM temp.own_"
        sql = (
            f"SELECT type, id, text FROM ({created}resources UNION ALL {created}versions)"
            " WHERE version = 1 AND row_id >= ? ORDER BY row_id"
        )
        return self.query(sql, (self._first,)).fetchall()

    def written(self, since: int) -> list[tuple[str, str, int, str | None]]:
        """The type, id, version and text (None: deleted) of all versions written here since `since` (ms), in order."""
        if not self._own:
            return []
        written = "SELECT row_id, type, id, version, updated, text FROM temp.own_"
        sql = (
            f"SELECT type, id, version, text FROM ({written}resources UNION ALL {written}versions) AS rows"
            " WHERE updated >= ? AND NOT EXISTS"
            " (SELECT 1 FROM main.resources WHERE row_id = rows.row_id AND version = rows.version)"
            " AND NOT (version = 1 AND row_id BETWEEN ? AND ?) ORDER BY updated, row_id, version"
        )  # own_versions also has the base's versions that were replaced here
        return self.query(sql, (since, self._pool.base.next_number, self._first - 1)).fetchall()

    def replaced(self) -> list[tuple[str, str, str | None, str | None]]:
        """The type, id, text before and text now of each resource that requests wrote here, in the order of the first
        writes. None instead of a text: the resource does not exist.
        """
        names = dict.fromkeys((kind, name) for kind, name, _, _ in self.written(0))
        rows = {name: (self._before(*name), self.find(*name)) for name in names}
        return [(*name, before, after and after.text) for name, (before, after) in rows.items()]

    def _before(self, kind: str, name: str) -> str | None:
        """The text of a resource before the first request, as amended or as the chart has it."""
        first = self.version(kind, name, 1)
        if first is not None and self._pool.base.next_number <= first.row_id < self._first:
            return first.text
        base = self._pool.base.find(kind, name)
        amended = base and self.version(kind, name, base.version)
        return amended.text if base and amended and amended.row_id == base.row_id else None

    def numbers(self, references: Collection[str]) -> dict[str, int]:
        """The numbers of the base's resources (`Observation/12`) that exist."""
        ids: dict[str, list[str]] = {}
        for reference in references:
            kind, _, name = reference.partition("/")
            ids.setdefault(kind, []).append(name)
        sql = (
            "SELECT type || '/' || id, row_id FROM main.resources "
            "WHERE type = ? AND text IS NOT NULL AND id IN (SELECT value FROM json_each(?))"
        )
        return {name: row_id for kind in ids for name, row_id in self._select(sql, (kind, json.dumps(ids[kind])))}

    def omit(self, row_ids: Collection[int]) -> None:
        """Removes resources of the base, without a trace in the history. `insert` puts one back with other content.

        Call before the first request, inside a transaction.
        """
        self.connection.executemany("INSERT INTO temp.hidden VALUES (?)", [(row_id,) for row_id in row_ids])

    def close(self) -> None:
        """Rolls back all writes of this overlay."""
        if self._own:
            self._pool.give_back(self.connection)
            self._pending.undo()
            self.connection = self._pool.base.connection
            self._own = False
            self.registry = self._pool.base.registry

    def _begin(self) -> None:
        if not self._own:
            if self.meter is not None:  # a new overlay has none; another thread may be searching with this connection
                self.connection.set_progress_handler(None, 0)
            self.connection = self._pool.take()
            self.watch(self.meter)
            self._own = True
        super()._begin()

    def _count(self, resource_type: str, more: int) -> None:
        """Does nothing: the view `counts` counts the few resources of an overlay."""

    def _forget(self, row_id: int, index: TableRows) -> None:
        self._hide(row_id)
        super()._forget(row_id, index)

    def _hide(self, row_id: int) -> None:
        """Makes a resource of the base invisible here."""
        self.connection.execute("INSERT OR IGNORE INTO temp.hidden VALUES (?)", (row_id,))
