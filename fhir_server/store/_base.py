"""The store in one SQLite file, in WAL mode. A committed transaction survives a crash of the process."""

from __future__ import annotations

import os
import sqlite3
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from contextlib import contextmanager, suppress
from functools import cache, lru_cache
from pathlib import Path
from typing import Any

from fhir_server.errors import ServerError, WritesElsewhere
from fhir_server.search import custom_parameters
from fhir_server.search.hashing import index_hash
from fhir_server.search.parameters import CustomParameters, Key, ParameterRegistry, parameters, resource_types
from fhir_server.store import schema
from fhir_server.store.store import Store
from fhir_server.store.temporary import TemporaryFolder

STATEMENTS = 512
MAPPED = 24 << 20
"""SQLite reads this many bytes at the start of the file through a memory map. A larger map is faster, but needs more
memory."""
CACHE = "PRAGMA cache_size = -4000"
"""4 MB of pages. Searches are not faster with more, since the operating system caches the file too."""


LARGE_PAGES = 16384
"""Bytes of a page in a file for a large import. Of resources of 1.5 kB, pages of 4096 bytes leave a quarter empty."""


def is_read_only(path: Path) -> bool:
    """Whether this user cannot write the file or its folder. SQLite writes both to share the file with writers."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def connect(path: Path, *, durable: bool = False, large: bool = False) -> sqlite3.Connection:
    """A connection with this store's settings. A read-only file is opened as immutable: later writes are not seen.

    Raises:
        ServerError: the file is read-only, and its write-ahead log still contains writes.
    """
    mode = "rwc"
    if is_read_only(path):
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise ServerError(
                f"{log.name} contains writes that are not in the file yet; open it once as a user who may write it"
            )
        mode = "ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
        timeout=30,
    )
    if large:
        connection.execute(f"PRAGMA page_size = {LARGE_PAGES}")  # of a new file; others keep theirs
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(synchronous(durable=durable))
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.execute(CACHE)
    connection.execute(f"PRAGMA mmap_size = {MAPPED}")
    connection.create_function("token_hash", 4, _token_hash, deterministic=True)
    return connection


@lru_cache(maxsize=4096)
def _token_hash(resource_type: str, name: str, system: str, value: str) -> int:
    """HAPI's hash of a token. HAPI orders the matches of a search by value set by it. Codes repeat, so it is cached."""
    return index_hash(resource_type, name, system, value)


def synchronous(*, durable: bool) -> str:
    """The pragma that decides whether a commit waits for the disk."""
    return f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}"


def prepare(connection: sqlite3.Connection) -> ParameterRegistry:
    """Creates the tables of a new file. Returns the file's search parameters.

    Raises:
        ServerError: the file is not a store, or is in another format.
    """
    with suppress(sqlite3.OperationalError):  # the file is read-only
        connection.execute("PRAGMA journal_mode = WAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise ServerError("this SQLite file is not a store of this server; name another file")
        script = "CREATE TABLE meta (name TEXT PRIMARY KEY, value); INSERT INTO meta VALUES ('next', 1);"
        script += f"INSERT INTO meta VALUES ('meaning', {schema.MEANING});"
        script += "CREATE TABLE params (param INTEGER PRIMARY KEY, type TEXT, name TEXT, UNIQUE (type, name));"
        connection.executescript(
            f"BEGIN; {script} {schema.create()}; {schema.COUNTS}; PRAGMA user_version = {schema.FORMAT}; COMMIT"
        )
    elif version != schema.FORMAT:
        raise ServerError(f"the file is in format {version}, this server needs {schema.FORMAT}; import the data again")
    with suppress(sqlite3.OperationalError):  # the file cannot be written now: searches do without these indexes
        for statement in (schema.DELETED, *schema.ORDERED):
            connection.execute(statement)
    known = _numbers(connection)
    missing = [key for key in _all_parameters() if key not in known]
    if missing:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO params (type, name) VALUES (?, ?)", missing)
        connection.execute("COMMIT")
        known = _numbers(connection)
    return ParameterRegistry(known, custom_parameters.from_text(own_text(connection)))


def _numbers(connection: sqlite3.Connection) -> dict[Key, int]:
    rows = connection.execute("SELECT type, name, param FROM params")
    return {(kind, name): param for kind, name, param in rows}


def registry_of(connection: sqlite3.Connection) -> ParameterRegistry:
    """The search parameters of a file, including those that clients have defined."""
    return ParameterRegistry(_numbers(connection), custom_parameters.from_text(own_text(connection)))


def own_text(connection: sqlite3.Connection) -> str:
    """The clients' search parameters, as JSON from the file."""
    row = connection.execute("SELECT value FROM meta WHERE name = 'parameters'").fetchone()
    return str(row[0]) if row else "[]"


@cache
def _all_parameters() -> tuple[tuple[str, str], ...]:
    return tuple((kind, name) for kind in resource_types() for name in parameters(kind))


class BaseStore(Store):
    """A store in the file `path`. If `path` is None, the file is temporary and is removed by `close`.

    `durable`: a commit waits until it is on the disk, so that it also survives a power failure. `large`: a new file
    gets large pages, which suit resources that are imported once and then read.
    """

    def __init__(self, path: Path | str | None, *, durable: bool = False, large: bool = False) -> None:
        self.writes_elsewhere = False
        """Whether another process does all writes. A transaction then raises WritesElsewhere."""
        self.durable = durable
        self._temporary = TemporaryFolder() if path is None else None
        self.path = Path(self._temporary.name) / "store.sqlite" if self._temporary else Path(str(path))
        try:
            connection = connect(self.path, durable=durable, large=large)
            registry = prepare(connection)
        except sqlite3.Error as error:
            raise ServerError(f"{self.path}: SQLite cannot open this file: {error}; name another file") from error
        except ServerError as error:
            raise ServerError(f"{self.path}: {error}") from None
        super().__init__(connection, registry)
        self._next = int(connection.execute("SELECT value FROM meta WHERE name = 'next'").fetchone()[0])
        self._saved = self._next
        self._seen = self._data_version()

    def _data_version(self) -> int:
        return int(self.connection.execute("PRAGMA data_version").fetchone()[0])

    def refresh(self) -> None:
        """Reads the search parameters again if another process has changed them."""
        seen = self._data_version()
        if seen != self._seen:
            self._seen = seen
            if own_text(self.connection) != custom_parameters.as_text(self.registry.custom):
                self.registry = registry_of(self.connection)

    def define(self, custom: CustomParameters, changed: Collection[Key]) -> None:
        """See `Store.define`. The definitions are saved in the file, for other processes and the next start."""
        self._write_pending()
        self.connection.executemany("INSERT OR IGNORE INTO params (type, name) VALUES (?, ?)", changed)
        text = custom_parameters.as_text(custom)
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('parameters', ?)", (text,))
        self.registry = registry_of(self.connection)
        numbers = [(self.registry.number(*key),) for key in changed]
        for table in schema.INDEXES:
            self.connection.executemany(f"DELETE FROM main.{table} WHERE param = ?", numbers)

    @property
    def meaning(self) -> int:
        """The number (`schema.MEANING`) of the version that indexed the clients' search parameters."""
        row = self.connection.execute("SELECT value FROM meta WHERE name = 'meaning'").fetchone()
        return int(row[0]) if row else 1

    def set_meaning(self) -> None:
        """Saves that the clients' search parameters are indexed by this version."""
        self.connection.execute("INSERT OR REPLACE INTO meta VALUES ('meaning', ?)", (schema.MEANING,))

    @property
    def next_number(self) -> int:
        """The number of the next new resource."""
        return self._next

    def next_row_id(self) -> int:
        self._next += 1
        return self._next - 1

    def skip_to(self, number: int) -> None:
        """Raises the counter to at least `number`."""
        self._next = max(self._next, number)

    def _begin(self) -> None:
        if self._depth:
            super()._begin()
            return
        if self.writes_elsewhere:
            raise WritesElsewhere
        self._writing()
        self.connection.execute("BEGIN IMMEDIATE")
        stored = self.connection.execute("SELECT value FROM meta WHERE name = 'next'").fetchone()[0]
        self._next = max(self._next, stored)

    def _keep(self) -> None:
        if self._depth > 1:
            super()._keep()
            return
        self._save_next()
        self.connection.execute("COMMIT")
        self._saved = self._next

    def _undo(self) -> None:
        if self._depth > 1:
            super()._undo()
            return
        if self.connection.in_transaction:  # SQLite rolls back by itself after errors such as a full disk
            self.connection.execute("ROLLBACK")
        self._save_next()
        self._saved = self._next

    def _save_next(self) -> None:
        """Saves the counter in the file, also after a rollback: numbers are never reused."""
        if self._next != self._saved:
            self.connection.execute("UPDATE meta SET value = max(value, ?) WHERE name = 'next'", (self._next,))

    @contextmanager
    def importing(self) -> Iterator[None]:
        """Settings for an import: commits do not wait for the disk, and SQLite caches 16 MB of pages.

        A power failure may undo the import. 4,000 resources change about 16 MB of pages; with a smaller cache SQLite
        writes some pages twice. Does nothing inside a transaction.
        """
        if self._depth:
            yield
            return
        self.connection.execute("PRAGMA synchronous = OFF")
        self.connection.execute("PRAGMA cache_size = -16000")
        try:
            yield
        finally:
            self.connection.execute(synchronous(durable=self.durable))
            self.connection.execute(CACHE)

    @contextmanager
    def ordered_later(self) -> Iterator[None]:
        """Drops the `ORDERED` indexes and creates them again at the end, since sorting all rows at once is faster.

        If the process dies before the end, they are created when the file is opened.
        """
        for statement in schema.ORDERED:
            self.connection.execute(f"DROP INDEX IF EXISTS {statement.split()[5]}")
        try:
            yield
        finally:
            for statement in schema.ORDERED:
                self.connection.execute(statement)

    def insert_many(self, resources: list[tuple[Any, ...]], tables: Mapping[str, list[Any]]) -> bool:
        """Writes new resources with their index rows. Returns False and writes nothing if one of them exists.

        `tables` contains each table's rows as one flat list of values.
        """
        self.connection.execute("SAVEPOINT many")
        try:
            self.connection.executemany("INSERT INTO main.resources VALUES (?, ?, ?, ?, ?, ?)", resources)
        except sqlite3.IntegrityError:
            self.connection.execute("ROLLBACK TO many")
            return False
        finally:
            self.connection.execute("RELEASE many")
        for resource_type, count in Counter(row[1] for row in resources).items():
            self._count(resource_type, count)
        self._pending.write(self.connection, self.prefix)
        for table, values in tables.items():
            self._pending.write_rows(self.connection, self.prefix, table, values)
        return True

    def close(self) -> None:
        """Closes the file. The writing process first moves the write-ahead log into it."""
        if not self.writes_elsewhere:
            with suppress(sqlite3.Error):
                self.connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        self.connection.close()
        if self._temporary:
            self._temporary.cleanup()
