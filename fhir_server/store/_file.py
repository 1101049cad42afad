"""The SQLite file of a store: its connection, its format, and the search parameters by which it is indexed."""

from __future__ import annotations

import os
import sqlite3
from contextlib import suppress
from functools import cache, lru_cache
from pathlib import Path

from fhir_server import definitions
from fhir_server.errors import ServerError
from fhir_server.search import own_parameters
from fhir_server.search.hashing import index_hash
from fhir_server.search.parameters import parameters, resource_types
from fhir_server.search.registry import Key, ParameterRegistry
from fhir_server.store import schema

STATEMENTS = 512
MAPPED = 24 << 20
"""Bytes at the start of the file that are read where they lie: a tenth of a search is spared, and no more memory taken
than a server of some tens of megabytes may."""


CACHE = "PRAGMA cache_size = -4000"
"""Four megabytes of pages: more are no quicker for searches, as the system keeps the file too."""


def is_read_only(path: Path) -> bool:
    """Whether this user can only read a file: SQLite must write beside it to share it with writers."""
    return path.exists() and not (os.access(path, os.W_OK) and os.access(path.parent, os.W_OK))


def connect(path: Path, *, durable: bool = False) -> sqlite3.Connection:
    """A connection with this store's settings. A file that can only be read is taken as it is, for good.

    Raises:
        ServerError: the file can only be read, and its last writes still lie beside it.
    """
    mode = "rwc"
    if is_read_only(path):
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise ServerError(f"{log.name} has writes that only a user who may write can bring in: open it so once")
        mode = "ro&immutable=1"
    connection = sqlite3.connect(
        f"{path.absolute().as_uri()}?mode={mode}",
        uri=True,
        isolation_level=None,
        check_same_thread=False,
        cached_statements=STATEMENTS,
        timeout=30,
    )
    connection.execute("PRAGMA temp_store = MEMORY")
    connection.execute(synchronous(durable=durable))
    connection.execute("PRAGMA case_sensitive_like = ON")
    connection.execute(CACHE)
    connection.execute(f"PRAGMA mmap_size = {MAPPED}")
    connection.create_function("token_hash", 4, _token_hash, deterministic=True)
    return connection


@lru_cache(maxsize=4096)
def _token_hash(resource_type: str, name: str, system: str, value: str) -> int:
    """HAPI's hash of a token, by which it orders those that are asked for by value set; codes repeat."""
    return index_hash(resource_type, name, system, value)


def synchronous(*, durable: bool) -> str:
    """The setting that says whether a commit waits for the disk."""
    return f"PRAGMA synchronous = {'FULL' if durable else 'NORMAL'}"


def prepare(connection: sqlite3.Connection) -> ParameterRegistry:
    """Creates the tables of a new file, and gives its search parameters.

    Raises:
        ServerError: it is no store, or one of another version.
    """
    with suppress(sqlite3.OperationalError):  # a file that can only be read stays as it is
        connection.execute("PRAGMA journal_mode = WAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise ServerError("not a store of this server; name another file")
        script = "CREATE TABLE meta (name TEXT PRIMARY KEY, value); INSERT INTO meta VALUES ('next', 1);"
        script += "CREATE TABLE params (param INTEGER PRIMARY KEY, type TEXT, name TEXT, UNIQUE (type, name));"
        connection.executescript(
            f"BEGIN; {script} {schema.create()}; {schema.COUNTS}; PRAGMA user_version = {schema.FORMAT}; COMMIT"
        )
    elif version != schema.FORMAT:
        raise ServerError(f"made by another version of this server (format {version}); import the data again")
    with suppress(sqlite3.OperationalError):  # a file that cannot be written now is searched without them
        for statement in (schema.DELETED, *schema.ORDERED):
            connection.execute(statement)
    if _meta(connection, "numbered") != definitions.parameters_edition():
        _number_parameters(connection)
    return registry_of(connection)


def _number_parameters(connection: sqlite3.Connection) -> None:
    """Gives R4's search parameters numbers, and notes that they have them: looking for new ones takes 15 ms."""
    known = _numbers(connection)
    missing = [key for key in _all_parameters() if key not in known]
    noted = "INSERT OR REPLACE INTO meta VALUES ('numbered', ?)"
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO params (type, name) VALUES (?, ?)", missing)
        connection.execute(noted, (definitions.parameters_edition(),))
        connection.execute("COMMIT")
    except sqlite3.OperationalError:
        if missing:  # else the file, which cannot be written now, serves as it is
            raise


def _numbers(connection: sqlite3.Connection) -> dict[Key, int]:
    rows = connection.execute("SELECT type, name, param FROM params")
    return {(kind, name): param for kind, name, param in rows}


def registry_of(connection: sqlite3.Connection) -> ParameterRegistry:
    """The search parameters of a file, those that clients have defined included."""
    return ParameterRegistry(_numbers(connection), own_parameters.from_text(own_text(connection)))


def own_text(connection: sqlite3.Connection) -> str:
    """What clients have defined, as it is kept in the file."""
    text = _meta(connection, "parameters")
    return "[]" if text is None else str(text)


def _meta(connection: sqlite3.Connection, name: str) -> object:
    """What is kept in the file under this name, or None."""
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


@cache
def _all_parameters() -> tuple[tuple[str, str], ...]:
    return tuple((kind, name) for kind in resource_types() for name in parameters(kind))
