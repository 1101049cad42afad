"""Index rows that are collected and written together. One statement with many rows is faster than many statements.

A store writes the pending rows before it reads its index tables, and before a transaction or a nested one ends.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from itertools import chain
from typing import Any, Final, TypeAlias

from fhir_server.search.indexer import TableRows
from fhir_server.store import schema

ROWS_AT_ONCE: Final = (200, 50)
RESOURCES_AT_ONCE: Final = 100
"""After this many resources, the pending rows are written. In most tables they then fill more than one statement, and
they still use little memory."""
FlatRows: TypeAlias = tuple[str, Sequence[Any], int]
"""Rows of a table: its name, a flat list of values with any number as `row_id`, and the number of rows."""


class PendingRows:
    """Pending index rows, and pending changes of the number of resources of each type."""

    def __init__(self) -> None:
        self.index: list[TableRows] = []
        """Empty if nothing is pending."""
        self._more: dict[str, int] = {}
        self._flat: dict[str, list[Any]] = defaultdict(list)
        """Rows by table, as flat lists of values."""
        self._owners: dict[str, list[int]] = defaultdict(list)
        """By table: the `row_id` of each row in `_flat`."""

    def add(self, row_id: int, rows: Iterable[FlatRows]) -> None:
        """Adds rows of a resource."""
        for table, values, number in rows:
            self._flat[table] += values
            self._owners[table] += [row_id] * number
        self.index.append({})

    def count(self, resource_type: str, more: int) -> None:
        """Adds `more` to the number of live resources of a type. Call it before adding their index rows."""
        self._more[resource_type] = self._more.get(resource_type, 0) + more

    def write(self, connection: sqlite3.Connection, prefix: str) -> None:
        """Writes all pending rows. `prefix` begins the table names, such as `main.`."""
        if len(self.index) == 1 and not self._flat:
            for table, rows in self.index[0].items():
                if rows:
                    connection.executemany(_insert(prefix, table), rows)
        else:
            together = self._flat
            for table, row_ids in self._owners.items():
                columns = schema.COLUMNS[table]
                together[table][columns.index("row_id") :: len(columns)] = row_ids
            for index in self.index:
                for table, rows in index.items():
                    together[table] += chain.from_iterable(rows)
            for table, values in together.items():
                write(connection, prefix, table, values)
        for counted in self._more.items():
            connection.execute(_counting(prefix), counted)
        self.clear()

    def clear(self) -> None:
        self.index.clear()
        self._flat.clear()
        self._owners.clear()
        self._more.clear()


def write(connection: sqlite3.Connection, prefix: str, table: str, values: list[Any]) -> None:
    """Writes rows of a table, given as a flat list of values, with `ROWS_AT_ONCE` rows in one statement.

    The remaining rows are written one by one: each other number of rows would need its own compiled statement.
    """
    width, done = len(schema.COLUMNS[table]), 0
    for rows in ROWS_AT_ONCE:
        for end in range(done + rows * width, len(values) + 1, rows * width):
            connection.execute(_insert(prefix, table, rows), values[done:end])
            done = end
    if done < len(values):
        connection.executemany(_insert(prefix, table), zip(*[iter(values[done:])] * width, strict=True))


@cache
def _insert(prefix: str, table: str, rows: int = 1) -> str:
    marks = ", ".join("?" * len(schema.COLUMNS[table]))
    return f"INSERT OR IGNORE INTO {prefix}{table} VALUES " + ", ".join([f"({marks})"] * rows)


@cache
def _counting(prefix: str) -> str:
    return f"INSERT INTO {prefix}counts VALUES (?, ?) ON CONFLICT (type) DO UPDATE SET live = live + excluded.live"
