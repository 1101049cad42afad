"""Index rows that are collected and written together. One statement with many rows is faster than many statements.

A store writes the pending rows before it reads its index tables, and before a transaction or a nested one ends.
"""

from __future__ import annotations

import sqlite3
from collections import defaultdict
from collections.abc import Sequence
from functools import cache
from itertools import chain
from typing import Any, Final

from fhir_server.search import names
from fhir_server.search.indexer import TableRows
from fhir_server.search.kinds.kind import TableRow
from fhir_server.store import schema

ROWS_AT_ONCE: Final = (200, 50)
RESOURCES_AT_ONCE: Final = 100
"""After this many resources, the pending rows are written. In most tables they then fill more than one statement, and
they still use little memory."""
MAX_NAMED: Final = 10_000
"""How many texts are remembered as stored."""


class PendingRows:
    """Pending index rows, and pending changes of the number of resources of each type."""

    def __init__(self) -> None:
        self.index: list[TableRows] = []
        """Empty if nothing is pending."""
        self._more: dict[str, int] = {}
        self._named: set[str] = set()
        """Texts that the table `names` has."""

    def count(self, resource_type: str, more: int) -> None:
        """Adds `more` to the number of live resources of a type. Call it before adding their index rows."""
        self._more[resource_type] = self._more.get(resource_type, 0) + more

    def write(self, connection: sqlite3.Connection, prefix: str) -> None:
        """Writes all pending rows. `prefix` begins the table names, such as `main.`."""
        together: dict[str, list[Any]] = defaultdict(list)
        for index in self.index:
            for table, rows in index.items():
                together[table] += chain.from_iterable(rows)
        for table, values in together.items():
            self.write_rows(connection, prefix, table, values)
        for counted in self._more.items():
            connection.execute(_counting(prefix), counted)
        self.clear()

    def clear(self) -> None:
        self.index.clear()
        self._more.clear()

    def undo(self) -> None:
        """Forgets all pending rows, and which texts the file has: a transaction is rolled back."""
        self.clear()
        self._named.clear()

    def write_rows(self, connection: sqlite3.Connection, prefix: str, table: str, values: list[Any]) -> None:
        """Writes rows of a table, given as a flat list of values, with `ROWS_AT_ONCE` rows in one statement.

        The remaining rows are written one by one: each other number of rows would need its own compiled statement.
        """
        width, done = len(schema.COLUMNS[table]), 0
        if table in schema.NAMED:
            texts = slice(schema.NAMED[table], None, width)
            values[texts] = self._numbers(connection, prefix, values[texts])
        for rows in ROWS_AT_ONCE:
            for end in range(done + rows * width, len(values) + 1, rows * width):
                connection.execute(_insert(prefix, table, rows), values[done:end])
                done = end
        if done < len(values):
            connection.executemany(_insert(prefix, table), zip(*[iter(values[done:])] * width, strict=True))

    def _numbers(self, connection: sqlite3.Connection, prefix: str, texts: Sequence[str]) -> list[int]:
        """The numbers of texts. The table `names` has the texts then."""
        new = set(texts) - self._named
        if new:
            if len(self._named) > MAX_NAMED:
                self._named.clear()
            connection.executemany(_name(prefix), [(names.number(text), text) for text in new])
            self._named |= new
        return list(map(names.number, texts))


def numbered(table: str, rows: list[TableRow]) -> list[TableRow]:
    """The rows with the numbers of their texts."""
    place = schema.NAMED.get(table)
    if place is None:
        return rows
    return [(*row[:place], names.number(row[place]), *row[place + 1 :]) for row in rows]


@cache
def _insert(prefix: str, table: str, rows: int = 1) -> str:
    marks = ", ".join("?" * len(schema.COLUMNS[table]))
    return f"INSERT OR IGNORE INTO {prefix}{table} VALUES " + ", ".join([f"({marks})"] * rows)


@cache
def _name(prefix: str) -> str:
    return f"INSERT OR IGNORE INTO {prefix}{names.TABLE} VALUES (?, ?)"


@cache
def _counting(prefix: str) -> str:
    return f"INSERT INTO {prefix}counts VALUES (?, ?) ON CONFLICT (type) DO UPDATE SET live = live + excluded.live"
