"""The interface of a store: rows by id, by number and by query, and writes inside `transaction()`.

A `BaseStore` (`_base`) is a file. An `OverlayStore` (`overlay`) has the same methods over temporary tables. Index rows
are collected and written together: one statement with many rows is faster than many statements. The pending rows are
written before index tables are read, and before a transaction or a nested one ends.
"""

from __future__ import annotations

import json
import sqlite3
from abc import ABC, abstractmethod
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache
from itertools import chain
from typing import Any, Final, NamedTuple

from fhir_server.bounds import Meter
from fhir_server.search import names, pairs
from fhir_server.search.indexer import TableRows
from fhir_server.search.kinds.kind import TableRow
from fhir_server.search.parameters import CustomParameters, Key, ParameterRegistry
from fhir_server.store import schema
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json

ROWS_AT_ONCE: Final = (200, 50, 10)
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
        """Texts that the table `names` contains."""

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
        self._clear()

    def _clear(self) -> None:
        self.index.clear()
        self._more.clear()

    def undo(self) -> None:
        """Forgets all pending rows, and which texts the file contains: a transaction is rolled back."""
        self._clear()
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
        """The numbers of texts. The table `names` contains the texts then."""
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


class Version(NamedTuple):
    """A version of a resource. `text` is None for a deletion. `updated` is in milliseconds since 1970."""

    row_id: int
    type: str
    id: str
    version: int
    updated: int
    text: str | None

    @property
    def reference(self) -> str:
        """The relative reference, such as `Patient/1`."""
        return f"{self.type}/{self.id}"

    @property
    def resource(self) -> Json:
        """The parsed resource; for a deletion it is empty."""
        return decode(self.text or "{}")


_ROW = "SELECT row_id, type, id, version, updated, text FROM"


class Store(ABC):
    """Reads and writes through one connection. `prefix` begins the names of the tables to write to."""

    prefix = "main."

    def __init__(self, connection: sqlite3.Connection, registry: ParameterRegistry) -> None:
        self.connection = connection
        self.registry = registry
        """The search parameters in force."""
        self.changes: list[Version] | None = None
        """The versions written since `take_changes` was last called; None without a listener."""
        self.meter: Meter | None = None
        """Measures the current request, if it is limited (`bounds`)."""
        self._depth = 0
        self._pending = PendingRows()

    def watch(self, meter: Meter | None) -> None:
        """Sets the meter that measures the following queries and writes."""
        self.meter = meter
        self.connection.set_progress_handler(None if meter is None else meter.tick, 0 if meter is None else meter.every)

    @abstractmethod
    def refresh(self) -> None:
        """Call it before each request. Drops cached results if another connection has written to the file."""

    def query(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Runs a query. Table names in it must be unqualified."""
        if self._pending.index:
            self._write_pending()
        return self._select(sql, values)

    def _select(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        """Runs a query that reads no index tables."""
        if self.meter is not None:
            self.meter.begin_query()
        return self.connection.execute(sql, values)

    def find(self, resource_type: str, resource_id: str) -> Version | None:
        """The current version of a resource (also a deletion), or None."""
        values = self._select(f"{_ROW} resources WHERE type = ? AND id = ?", (resource_type, resource_id)).fetchone()
        return self._counted([Version(*values)])[0] if values else None

    def exists(self, resource_type: str, resource_id: str) -> bool:
        """Whether the resource exists and is not deleted."""
        sql = "SELECT 1 FROM resources WHERE type = ? AND id = ? AND text IS NOT NULL"
        return self._select(sql, (resource_type, resource_id)).fetchone() is not None

    def version(self, resource_type: str, resource_id: str, version: int) -> Version | None:
        """One version of a resource, or None."""
        row = self.find(resource_type, resource_id)
        if row is None or row.version == version:
            return row
        values = self.query(f"{_ROW} versions WHERE row_id = ? AND version = ?", (row.row_id, version)).fetchone()
        return self._counted([Version(*values)])[0] if values else None

    def rows(self, row_ids: Sequence[int]) -> list[Version]:
        """The current versions with these numbers, in this order. Deleted and missing ones are left out."""
        sql = f"{_ROW} resources WHERE row_id IN (SELECT value FROM json_each(?)) AND text IS NOT NULL"
        rows = self._counted([Version(*values) for values in self.query(sql, (json.dumps([*row_ids]),))])
        versions = {row.row_id: row for row in rows}
        return [versions[row_id] for row_id in row_ids if row_id in versions]

    def with_url(self, resource_type: str, url: str) -> list[Version]:
        """The resources of a type with this canonical URL, in the order of creation."""
        sql = "SELECT row_id FROM uris WHERE param = ? AND value = ?"
        numbers = self.registry.number(resource_type, "url"), names.number(url)
        return self.rows([row_id for (row_id,) in self.query(sql, numbers)])

    def history(self, where: str, values: Sequence[object], limit: int = -1, offset: int = 0) -> list[Version]:
        """Versions that match a condition on type, id or row_id, newest first."""
        rows = "SELECT *, text IS NULL AS gone FROM"  # a column, as in the indexes, so that SQLite reads them in order
        sql = (
            f"{rows} resources WHERE {where} UNION ALL {rows} versions WHERE {where}"
            " ORDER BY updated DESC, gone DESC, row_id DESC, version DESC LIMIT ? OFFSET ?"
        )  # in a transaction HAPI reads the clock for each deletion, but once for all other writes
        versions = self.query(sql, (*values, *values, limit, offset))
        return self._counted([Version(*row[:-1]) for row in versions])

    def _counted(self, rows: list[Version]) -> list[Version]:
        """Counts the rows' texts as read and returns the rows."""
        if self.meter is not None:
            self.meter.read(sum(len(row.text or "") for row in rows))
        return rows

    def history_count(self, where: str, values: Sequence[object]) -> int:
        """The number of versions that match a condition."""
        sql = f"SELECT (SELECT count(*) FROM resources WHERE {where}) + (SELECT count(*) FROM versions WHERE {where})"
        return int(self.query(sql, (*values, *values)).fetchone()[0])

    @abstractmethod
    def next_row_id(self) -> int:
        """Takes the next number. Ids that the server assigns come from the same counter."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """Commits all writes inside it, or none if an exception is raised. Transactions can be nested."""
        self._begin()
        registry, changes = self.registry, len(self.changes or ())
        self._depth += 1
        try:
            yield
            self._write_pending()
            self._keep()
        except BaseException:
            self._writing()
            self._pending.undo()
            self._undo()
            self.registry = registry
            if self.changes:
                del self.changes[changes:]
            raise
        finally:
            self._depth -= 1

    def _writing(self) -> None:
        """Called before statements that write."""
        if self.meter is not None:
            self.meter.begin_write()

    def _begin(self) -> None:
        """Starts a nested transaction."""
        self._write_pending()
        self.connection.execute(f"SAVEPOINT level{self._depth + 1}")

    def _keep(self) -> None:
        """Commits a nested transaction."""
        self.connection.execute(f"RELEASE level{self._depth}")

    def _undo(self) -> None:
        """Rolls back a nested transaction."""
        self.connection.execute(f"ROLLBACK TO level{self._depth}")
        self.connection.execute(f"RELEASE level{self._depth}")

    def _write_pending(self) -> None:
        """Writes the pending index rows. Called before a query of index tables and at the end of a transaction."""
        self._writing()
        if self._pending.index:
            self._pending.write(self.connection, self.prefix)

    def insert(self, row: Version, index: TableRows) -> None:
        """Writes a new resource with its index rows."""
        self._writing()
        self._count(row.type, int(row.text is not None))
        self._put(row, index)

    def _put(self, row: Version, index: TableRows) -> None:
        self.connection.execute(f"INSERT INTO {self.prefix}resources VALUES (?, ?, ?, ?, ?, ?)", row)
        if self.changes is not None:
            self.changes.append(row)
        self.add_index(index)

    def take_changes(self) -> list[Version]:
        """Returns and clears `changes`; an empty list without a listener."""
        if not self.changes:
            return []
        taken, self.changes = self.changes, []
        return taken

    def add_index(self, index: TableRows) -> None:
        """Writes index rows of an existing resource."""
        self._pending.index.append(index)
        if len(self._pending.index) == RESOURCES_AT_ONCE:
            self._write_pending()

    def pair_again(self, resource_type: str) -> None:
        """Writes the rows of `search.pairs` for a type whose `patient` or `code` is R4's parameter again."""
        both = pairs.numbers(self.registry, resource_type)
        if both is not None:
            self._write_pending()
            table = f"{self.prefix}{pairs.TABLE}"
            self.connection.execute(f"DELETE FROM {table} WHERE param = ?", both[1:])
            listed = ", ".join(pairs.COLUMNS)
            missing = f"{pairs.joined(*map(str, both))} EXCEPT SELECT {listed} FROM {pairs.TABLE}"
            self.connection.execute(f"INSERT INTO {table} {missing}")

    @abstractmethod
    def define(self, custom: CustomParameters, changed: Collection[Key]) -> None:
        """Makes `custom` the clients' search parameters. The index rows of the `changed` ones are deleted.

        Call inside a transaction.
        """

    def replace(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        """Replaces the current version `old` by `new`. `old` becomes history."""
        self._writing()
        self.connection.execute(
            f"INSERT INTO {self.prefix}versions VALUES (?, ?, ?, ?, ?, ?)",
            (old.row_id, old.type, old.id, old.version, old.updated, old.text),
        )
        self._exchange(old, old_index, new, index)

    def revise(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        """Replaces the current version `old` by `new`, without a history entry."""
        self._writing()
        self._exchange(old, old_index, new, index)

    def _exchange(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        self._forget(old.row_id, old_index)
        self._count(new.type, (new.text is not None) - (old.text is not None))
        self._put(new, index)

    def _count(self, resource_type: str, more: int) -> None:
        """Adds `more` to the number of live resources of a type.

        Call it before adding their index rows: the count is written with these.
        """
        if more:
            self._pending.count(resource_type, more)

    def _forget(self, row_id: int, index: TableRows) -> None:
        self._write_pending()
        self.connection.execute(f"DELETE FROM {self.prefix}resources WHERE row_id = ?", (row_id,))
        for table, rows in index.items():
            if rows:
                self.connection.executemany(_delete(self.prefix, table), numbered(table, rows))

    def count(self) -> dict[str, int]:
        """The number of live resources of each type."""
        return dict(self.query("SELECT type, live FROM counts WHERE live > 0 ORDER BY type").fetchall())

    def texts(self, resource_type: str) -> Iterator[str]:
        """The texts of all live resources of a type, in insertion order."""
        sql = "SELECT text FROM resources WHERE type = ? AND text IS NOT NULL ORDER BY row_id"
        for (text,) in self.query(sql, (resource_type,)):
            yield text


@cache
def _delete(prefix: str, table: str) -> str:
    return f"DELETE FROM {prefix}{table} WHERE " + " AND ".join(f"{name} IS ?" for name in schema.COLUMNS[table])


def as_lines(texts: Iterable[str]) -> Iterator[str]:
    """Indented texts as single lines. Joining is safe, since JSON strings do not contain unescaped line breaks."""
    for text in texts:
        yield "".join(line.lstrip(" ") for line in text.split("\n"))
