"""What an interaction sees of a store: rows by id, by number and by query, and writes inside `transaction()`.

`BaseStore` (`base`) is the file itself; an `OverlayStore` (`overlay`) has the same face over temporary tables.
"""

from __future__ import annotations

import sqlite3
from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import cache, lru_cache
from typing import NamedTuple, TypeAlias

from fhir_server.bounds import Meter
from fhir_server.search import pairs
from fhir_server.search.indexer import TableRows
from fhir_server.search.registry import Key, Own, ParameterRegistry
from fhir_server.store import schema
from fhir_server.store._pending import RESOURCES_AT_ONCE, FlatRows, PendingRows
from fhir_server.wire.bundle import HEAD

MAX_PARAMETERS = 500


class Version(NamedTuple):
    """A version of a resource; `text` is None for a deletion, `updated` is in milliseconds since 1970."""

    row_id: int
    type: str
    id: str
    version: int
    updated: int
    text: str | None

    @property
    def reference(self) -> str:
        """The relative reference to the resource."""
        return f"{self.type}/{self.id}"


Text: TypeAlias = tuple[bytes, bytes]
"""The relative reference to a resource and its text, both in UTF-8."""
_ROW = "SELECT row_id, type, id, version, updated, text FROM"


class Store(ABC):
    """What reading and writing need of a connection; `prefix` names the tables written to."""

    prefix = "main."

    def __init__(self, connection: sqlite3.Connection, registry: ParameterRegistry) -> None:
        self.connection = connection
        self.registry = registry
        """The search parameters by which resources are indexed now."""
        self.generation: object = object()
        """Another one with every write: what was found before holds while it stays."""
        self.changes: list[Version] | None = None
        """The versions that were written since they were last taken, where somebody wants to know."""
        self.meter: Meter | None = None
        """Counts what the request at hand takes, where it has bounds."""
        self._depth = 0
        self._pending = PendingRows()

    def watch(self, meter: Meter | None) -> None:
        """From now on, `meter` counts what is done."""
        self.meter = meter
        self.connection.set_progress_handler(None if meter is None else meter.tick, 0 if meter is None else meter.every)

    @abstractmethod
    def refresh(self) -> None:
        """Called before each request: drops cached answers that another connection to the file has made stale."""

    @property
    def is_file(self) -> bool:
        """See `search.walks.Searched`."""
        return True

    def query(self, sql: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        """Runs a query; its table names are unqualified."""
        if self._pending.index:
            self._write_pending()
        return self._select(sql, values)

    def _select(self, sql: str, values: Sequence[object]) -> sqlite3.Cursor:
        """Runs a query that reads no index tables."""
        if self.meter is not None:
            self.meter.begin_query()
        return self.connection.execute(sql, values)

    def find(self, resource_type: str, resource_id: str) -> Version | None:
        """The current version of a resource (deletions too), or None."""
        values = self._select(f"{_ROW} resources WHERE type = ? AND id = ?", (resource_type, resource_id)).fetchone()
        return self._counted([Version(*values)])[0] if values else None

    def is_there(self, resource_type: str, resource_id: str) -> bool:
        """Whether there is such a resource and it is not deleted."""
        sql = "SELECT 1 FROM resources WHERE type = ? AND id = ? AND text IS NOT NULL"
        return self._select(sql, (resource_type, resource_id)).fetchone() is not None

    def those_there(self, names: Sequence[tuple[str, str]]) -> set[tuple[str, str]]:
        """Which of some resources, by type and id, there are; deletions count too."""
        existing: set[tuple[str, str]] = set()
        for start in range(0, len(names), MAX_PARAMETERS):
            part = names[start : start + MAX_PARAMETERS]
            marks = ", ".join(["(?, ?)"] * len(part))
            sql = f"WITH names (type, id) AS (VALUES {marks}) SELECT type, id FROM names CROSS JOIN resources"
            existing.update(self._select(f"{sql} USING (type, id)", [text for name in part for text in name]))
        return existing

    def version(self, resource_type: str, resource_id: str, version: int) -> Version | None:
        """One version of a resource, or None."""
        row = self.find(resource_type, resource_id)
        if row is None or row.version == version:
            return row
        values = self.query(f"{_ROW} versions WHERE row_id = ? AND version = ?", (row.row_id, version)).fetchone()
        return self._counted([Version(*values)])[0] if values else None

    def rows(self, row_ids: Sequence[int]) -> list[Version]:
        """The current versions with these numbers, in this order; numbers that are gone are left out."""
        versions: dict[int, Version] = {}
        for start in range(0, len(row_ids), MAX_PARAMETERS):
            part = row_ids[start : start + MAX_PARAMETERS]
            marks = ",".join("?" * len(part))
            sql = f"{_ROW} resources WHERE row_id IN ({marks}) AND text IS NOT NULL"
            rows = self._counted([Version(*values) for values in self.query(sql, part)])
            versions |= {row.row_id: row for row in rows}
        return [versions[row_id] for row_id in row_ids if row_id in versions]

    def texts_of(self, row_ids: Sequence[int]) -> list[Text]:
        """The resources with these numbers, as `rows` has them."""
        rows: list[tuple[bytes, bytes, int]] = []
        for start in range(0, len(row_ids), MAX_PARAMETERS):
            part = row_ids[start : start + MAX_PARAMETERS]
            rows += self.query(_texts_of(len(part)), part)
        by_number = {row_id: (reference, text) for reference, text, row_id in rows}
        return self._read([by_number[row_id] for row_id in row_ids if row_id in by_number])

    def joined_found(self, sql: str, values: Sequence[object]) -> tuple[int, bytes]:
        """How many resources there are whose numbers a statement gives, and their ids and texts in its order, joined as
        `wire.bundle.joined_entries` takes them: by SQLite, which spares an object for each.
        """
        count, texts = self.query(_joined_found(sql), values).fetchone()
        if self.meter is not None and texts:
            self.meter.read(len(texts))
        return count, texts or b""

    def _read(self, texts: list[Text]) -> list[Text]:
        """The texts, which count as read."""
        if self.meter is not None:
            self.meter.read(sum(len(text) for _, text in texts))
        return texts

    def history(self, where: str, values: Sequence[object], limit: int, offset: int) -> list[Version]:
        """Versions that meet a condition on type, id or row_id, newest first."""
        sql = (
            f"SELECT * FROM ({_ROW} resources WHERE {where} UNION ALL {_ROW} versions WHERE {where})"
            " ORDER BY updated DESC, text IS NULL DESC, row_id DESC, version DESC LIMIT ? OFFSET ?"
        )  # in a transaction HAPI reads the clock for each deletion, and once for all other writes
        return self._counted([Version(*row) for row in self.query(sql, (*values, *values, limit, offset))])

    def _counted(self, rows: list[Version]) -> list[Version]:
        """The rows, whose texts count as read."""
        if self.meter is not None:
            self.meter.read(sum(len(row.text or "") for row in rows))
        return rows

    def history_count(self, where: str, values: Sequence[object]) -> int:
        """How many versions meet a condition."""
        sql = f"SELECT (SELECT count(*) FROM resources WHERE {where}) + (SELECT count(*) FROM versions WHERE {where})"
        return int(self.query(sql, (*values, *values)).fetchone()[0])

    @abstractmethod
    def next_row_id(self) -> int:
        """Takes the next number of the one counter, which server-given ids come from."""

    @contextmanager
    def transaction(self) -> Iterator[None]:
        """All or nothing; may be nested."""
        self._begin()
        registry, changes = self.registry, len(self.changes or ())
        self._depth += 1
        try:
            yield
            self._write_pending()
            self._keep()
        except BaseException:
            self._writing()
            self._pending.clear()
            self._undo()
            self.registry = registry
            if self.changes:
                del self.changes[changes:]
            raise
        finally:
            self.generation = object()
            self._depth -= 1

    def _writing(self) -> None:
        """Called before statements that write."""
        if self.meter is not None:
            self.meter.begin_write()

    def _begin(self) -> None:
        """Starts a transaction inside of the one that is open."""
        self._write_pending()
        self.connection.execute(f"SAVEPOINT level{self._depth + 1}")

    def _keep(self) -> None:
        """Ends a transaction."""
        self.connection.execute(f"RELEASE level{self._depth}")

    def _undo(self) -> None:
        """Ends a transaction; it is then as if it had not been."""
        self.connection.execute(f"ROLLBACK TO level{self._depth}")
        self.connection.execute(f"RELEASE level{self._depth}")

    def _write_pending(self) -> None:
        """Writes what waits, where index tables are to be read or what is written so far is to be kept."""
        self._writing()
        if self._pending.index:
            self._pending.write(self.connection, self.prefix)

    def insert(self, row: Version, index: TableRows) -> None:
        """Writes a new resource with its index rows."""
        self._writing()
        self._count(row.type, int(row.text is not None))
        self._put(row, index)

    def insert_prepared(self, row: Version, rows: Iterable[FlatRows]) -> None:
        """The same with index rows as an import makes them."""
        self._writing()
        self._count(row.type, 1)
        self._put_row(row)
        self._pending.add(row.row_id, rows)
        if len(self._pending.index) == RESOURCES_AT_ONCE:
            self._write_pending()

    def _put(self, row: Version, index: TableRows) -> None:
        """Writes a current version with its index rows."""
        self._put_row(row)
        self.add_index(index)

    def _put_row(self, row: Version) -> None:
        self.connection.execute(f"INSERT INTO {self.prefix}resources VALUES (?, ?, ?, ?, ?, ?)", row)
        if self.changes is not None:
            self.changes.append(row)

    def take_changes(self) -> list[Version]:
        """What was written since this was last called; nothing where no `changes` are kept."""
        if not self.changes:
            return []
        taken, self.changes = self.changes, []
        return taken

    def add_index(self, index: TableRows) -> None:
        """Writes index rows of a resource that is there."""
        self._pending.index.append(index)
        if len(self._pending.index) == RESOURCES_AT_ONCE:
            self._write_pending()

    def pair_again(self, resource_type: str) -> None:
        """Makes the rows of `search.pairs` for a type whose `patient` or `code` are R4's again."""
        both = pairs.numbers(self.registry, resource_type)
        if both is not None:
            self._write_pending()
            own = f"{self.prefix}{pairs.TABLE}"
            self.connection.execute(f"DELETE FROM {own} WHERE param = ?", both[1:])
            listed = ", ".join(pairs.COLUMNS)
            missing = f"{pairs.joined(*map(str, both))} EXCEPT SELECT {listed} FROM {pairs.TABLE}"
            self.connection.execute(f"INSERT INTO {own} {missing}")

    @abstractmethod
    def define(self, own: Own, changed: Collection[Key]) -> None:
        """Makes `own` the parameters that clients have defined; those `changed` lose their index rows.

        Call inside a transaction.
        """

    def replace(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        """Makes `new` the current version in place of `old`, which becomes history."""
        self._writing()
        self.connection.execute(
            f"INSERT INTO {self.prefix}versions VALUES (?, ?, ?, ?, ?, ?)",
            (old.row_id, old.type, old.id, old.version, old.updated, old.text),
        )
        self._exchange(old, old_index, new, index)

    def revise(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        """Puts `new` in the place of `old`, which is kept nowhere."""
        self._writing()
        self._exchange(old, old_index, new, index)

    def _exchange(self, old: Version, old_index: TableRows, new: Version, index: TableRows) -> None:
        """Puts a current version in the place of another one."""
        self._forget(old.row_id, old_index)
        self._count(new.type, (new.text is not None) - (old.text is not None))
        self._put(new, index)

    def _count(self, resource_type: str, more: int) -> None:
        """Counts so many more resources of a type that are not deleted; to be called before their index rows are added,
        with which the count is written.
        """
        if more:
            self._pending.count(resource_type, more)

    def _forget(self, row_id: int, index: TableRows) -> None:
        """Removes a current version and its index rows."""
        self._write_pending()
        self.connection.execute(f"DELETE FROM {self.prefix}resources WHERE row_id = ?", (row_id,))
        for table, rows in index.items():
            if rows:
                self.connection.executemany(_delete(self.prefix, table), rows)

    def count(self) -> dict[str, int]:
        """How many resources of each type there are."""
        return dict(self.query("SELECT type, live FROM counts WHERE live > 0 ORDER BY type").fetchall())

    def texts(self, resource_type: str) -> Iterator[str]:
        """The current texts of a type, in insertion order."""
        sql = "SELECT text FROM resources WHERE type = ? AND text IS NOT NULL ORDER BY row_id"
        for (text,) in self.query(sql, (resource_type,)):
            yield text


_TEXT = "CAST(type || '/' || id AS BLOB), CAST(text AS BLOB)"
"""SQL for a `Text`."""


@cache
def _texts_of(count: int) -> str:
    marks = ",".join("?" * count)
    return f"SELECT {_TEXT}, row_id FROM resources WHERE row_id IN ({marks}) AND text IS NOT NULL"


_JOINED = f"CAST(group_concat(id || '{HEAD.decode()}' || text, char(1)) AS BLOB)"
"""SQL for what `wire.bundle.joined_entries` takes; each `||` costs as much as finding a column."""


@lru_cache(maxsize=512)
def _joined_found(sql: str) -> str:
    return f"SELECT count(*), {_JOINED} FROM ({sql}) AS hits CROSS JOIN resources ON resources.row_id = hits.row_id"


@cache
def _delete(prefix: str, table: str) -> str:
    return f"DELETE FROM {prefix}{table} WHERE " + " AND ".join(f"{name} IS ?" for name in schema.COLUMNS[table])


def as_lines(texts: Iterable[str]) -> Iterator[str]:
    """Pretty texts as single lines; a line break inside a JSON string is always escaped, so joining is safe."""
    for text in texts:
        yield "".join(line.lstrip(" ") for line in text.split("\n"))
