"""Index rows that wait until enough of them can be written together.

Fifty rows a statement take half the time of fifty statements. A store writes what waits before it looks into its index
tables, and before a transaction or a level of one ends.
"""

from __future__ import annotations

import sqlite3
from functools import cache
from itertools import chain
from typing import Any, Final

from fhir_server.search.indexer import TableRows
from fhir_server.store import schema

ROWS_AT_ONCE: Final = 50


class PendingRows:
    """Rows of the index tables, and how many more resources of each type there are."""

    def __init__(self) -> None:
        self._rows: TableRows = {}
        self._more: dict[str, int] = {}
        self._row_ids: set[int] = set()

    def __bool__(self) -> bool:
        return bool(self._rows or self._more)

    def has(self, row_id: int) -> bool:
        """Whether index rows of the resource with this number may wait."""
        return row_id in self._row_ids

    def count(self, resource_type: str, more: int) -> None:
        """So many more resources of a type that are not deleted."""
        self._more[resource_type] = self._more.get(resource_type, 0) + more

    def add(self, row_id: int, index: TableRows, connection: sqlite3.Connection, prefix: str) -> None:
        """Index rows of the resource with this number. What fills a statement is written at once."""
        self._row_ids.add(row_id)
        for table, rows in index.items():
            waiting = self._rows.get(table)
            if waiting is None:
                waiting = self._rows[table] = []
            waiting += rows
            if len(waiting) >= ROWS_AT_ONCE:
                self._rows[table] = []
                write(connection, prefix, table, list(chain.from_iterable(waiting)))

    def write(self, connection: sqlite3.Connection, prefix: str) -> None:
        """Writes all that waits into the tables whose names begin so."""
        for table, rows in self._rows.items():
            if rows:
                connection.executemany(_insert(prefix, table), rows)
        for counted in self._more.items():
            connection.execute(_counting(prefix), counted)
        self.clear()

    def clear(self) -> None:
        """Forgets what waits."""
        self._rows = {}
        self._more = {}
        self._row_ids.clear()


def write(connection: sqlite3.Connection, prefix: str, table: str, values: list[Any]) -> None:
    """Writes rows of a table, which are given value after value, fifty a statement.

    What is left over goes one by one: each number of rows would be another statement to compile and to keep.
    """
    width = len(schema.COLUMNS[table])
    full, done = ROWS_AT_ONCE * width, 0
    for done in range(full, len(values) + 1, full):
        connection.execute(_insert(prefix, table, ROWS_AT_ONCE), values[done - full : done])
    if done < len(values):
        connection.executemany(_insert(prefix, table), zip(*[iter(values[done:])] * width, strict=True))


@cache
def _insert(prefix: str, table: str, rows: int = 1) -> str:
    marks = ", ".join("?" * len(schema.COLUMNS[table]))
    return f"INSERT OR IGNORE INTO {prefix}{table} VALUES " + ", ".join([f"({marks})"] * rows)


@cache
def _counting(prefix: str) -> str:
    return f"INSERT INTO {prefix}counts VALUES (?, ?) ON CONFLICT (type) DO UPDATE SET live = live + excluded.live"
