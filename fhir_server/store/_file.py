"""The SQLite file of a store: its connection, its format, and the search parameters that index it."""

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
        ServerError: the file is read-only, and its write-ahead log still has writes.
    """
    mode = "rwc"
    if is_read_only(path):
        log = path.with_name(f"{path.name}-wal")
        if log.exists() and log.stat().st_size:
            raise ServerError(
                f"{log.name} has writes that are not in the file yet; open the file once as a user who may write it"
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
        ServerError: the file is not a store, or has another format.
    """
    with suppress(sqlite3.OperationalError):  # the file is read-only
        connection.execute("PRAGMA journal_mode = WAL")
    version = connection.execute("PRAGMA user_version").fetchone()[0]
    if version == 0:
        if connection.execute("SELECT count(*) FROM sqlite_master").fetchone()[0]:
            raise ServerError("this SQLite file is not a store of this server; name another file")
        script = "CREATE TABLE meta (name TEXT PRIMARY KEY, value); INSERT INTO meta VALUES ('next', 1);"
        script += "CREATE TABLE params (param INTEGER PRIMARY KEY, type TEXT, name TEXT, UNIQUE (type, name));"
        connection.executescript(
            f"BEGIN; {script} {schema.create()}; {schema.COUNTS}; PRAGMA user_version = {schema.FORMAT}; COMMIT"
        )
    elif version != schema.FORMAT:
        raise ServerError(f"the file has format {version}, this server needs {schema.FORMAT}; import the data again")
    with suppress(sqlite3.OperationalError):  # the file cannot be written now: searches do without these indexes
        for statement in (schema.DELETED, *schema.ORDERED):
            connection.execute(statement)
    if _meta(connection, "numbered") != definitions.parameters_edition():
        _number_parameters(connection)
    return registry_of(connection)


def _number_parameters(connection: sqlite3.Connection) -> None:
    """Gives numbers to R4's search parameters, and saves their edition, so that the next start skips the comparison."""
    known = _numbers(connection)
    missing = [key for key in _all_parameters() if key not in known]
    noted = "INSERT OR REPLACE INTO meta VALUES ('numbered', ?)"
    try:
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT OR IGNORE INTO params (type, name) VALUES (?, ?)", missing)
        connection.execute(noted, (definitions.parameters_edition(),))
        connection.execute("COMMIT")
    except sqlite3.OperationalError:
        if missing:  # otherwise the file can be used although it cannot be written now
            raise


def _numbers(connection: sqlite3.Connection) -> dict[Key, int]:
    rows = connection.execute("SELECT type, name, param FROM params")
    return {(kind, name): param for kind, name, param in rows}


def registry_of(connection: sqlite3.Connection) -> ParameterRegistry:
    """The search parameters of a file, including those that clients have defined."""
    return ParameterRegistry(_numbers(connection), own_parameters.from_text(own_text(connection)))


def own_text(connection: sqlite3.Connection) -> str:
    """The clients' search parameters, as JSON from the file."""
    text = _meta(connection, "parameters")
    return "[]" if text is None else str(text)


def _meta(connection: sqlite3.Connection, name: str) -> object:
    row = connection.execute("SELECT value FROM meta WHERE name = ?", (name,)).fetchone()
    return row[0] if row else None


@cache
def _all_parameters() -> tuple[tuple[str, str], ...]:
    return tuple((kind, name) for kind in resource_types() for name in parameters(kind))
