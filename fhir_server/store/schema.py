"""The tables of a store file, and the same tables as an overlay sees them.

`resources` holds the current version of each resource as the text a read answers; what an update or a delete replaced
moves to `versions`. There is one index table a kind of search parameter (`search/kinds`), and one by patient and code
(`search/pairs`). `param` is a small number for a search parameter of a resource type; the rows are clustered by what a
search asks for, so a search by token or reference is one range of one B-tree, in insertion order (`row_id`). No table
is indexed by `row_id` alone: the rows to remove on an update are computed again from the text they came from.
"""

from __future__ import annotations

from fhir_server.search import pairs
from fhir_server.search.kinds import KINDS

FORMAT = 4
"""Raised when the tables change; a file of an earlier format is brought up to date, one of a later format refused."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "resources": ("row_id", "type", "id", "version", "updated", "text"),
    "versions": ("row_id", "type", "id", "version", "updated", "text"),
    **{kind.table: kind.columns for kind in KINDS.values() if kind.table},
    pairs.TABLE: pairs.COLUMNS,
}
"""The columns of each table. `updated`, `low`, `high` are milliseconds since 1970, days are yyyymmdd."""

INDEXES = tuple(name for name in COLUMNS if name not in ("resources", "versions"))


DELETED = "CREATE INDEX IF NOT EXISTS main.resources_deleted ON resources (type) WHERE text IS NULL"
"""An index of what is deleted, for `$expunge`."""

ORDERED = tuple(
    f"CREATE INDEX IF NOT EXISTS main.{kind.table}_by_{name} ON {kind.table} (param + 0, {order}, row_id)"
    for kind in KINDS.values()
    for name, order in kind.orders.items()
)
"""Indexes by which a search can stop at the end of its page, where matches come in another order than that of their
numbers (see `search.walks.by_index`). An overlay's own rows are few and have none."""


COUNTS = "CREATE TABLE main.counts (type TEXT PRIMARY KEY, live INTEGER) WITHOUT ROWID"
"""How many resources of each type there are, deleted ones not counted."""


def create(schema: str = "main", prefix: str = "") -> str:
    """The SQL that creates the tables in a schema, their names prefixed."""
    statements = [
        f"CREATE TABLE {schema}.{prefix}resources"
        " (row_id INTEGER PRIMARY KEY, type TEXT, id TEXT, version INTEGER, updated INTEGER, text TEXT)",
        f"CREATE UNIQUE INDEX {schema}.{prefix}resources_id ON {prefix}resources (type, id)",
        f"CREATE INDEX {schema}.{prefix}resources_type ON {prefix}resources (type, updated)",
        f"CREATE TABLE {schema}.{prefix}versions"
        " (row_id INTEGER, type TEXT, id TEXT, version INTEGER, updated INTEGER, text TEXT)",
        f"CREATE UNIQUE INDEX {schema}.{prefix}versions_row ON {prefix}versions (row_id, version)",
        *(_index(name, schema, prefix) for name in INDEXES),
    ]
    return ";".join(statements)


def _index(name: str, schema: str = "main", prefix: str = "") -> str:
    """An index table. Numbers must be declared as such: SQLite uses no index to compare an INTEGER with a column of no
    type.
    """
    columns = ", ".join(f"{one} INTEGER" if one in ("param", "row_id") else one for one in COLUMNS[name])
    key = ", ".join(COLUMNS[name])
    return f"CREATE TABLE {schema}.{prefix}{name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID"


def overlay() -> str:
    """The SQL that lays temporary tables over those of the file.

    The views bear the tables' names: unqualified names in a query find the temporary schema first, so every query runs
    over a file and over an overlay unchanged. `hidden` lists the resources of the file that the overlay has replaced.
    """
    statements = [create("temp", "own_"), "CREATE TEMP TABLE hidden (row_id INTEGER PRIMARY KEY)"]
    for name, columns in COLUMNS.items():
        listed = ", ".join(columns)
        shown = "" if name == "versions" else " WHERE row_id NOT IN (SELECT row_id FROM temp.hidden)"
        statements.append(
            f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM main.{name}{shown}"
            f" UNION ALL SELECT {listed} FROM temp.own_{name}"
        )
    statements.append(
        "CREATE TEMP VIEW counts AS SELECT type, sum(live) AS live FROM (SELECT type, live FROM main.counts"
        " UNION ALL SELECT type, 1 FROM temp.own_resources WHERE text IS NOT NULL"
        " UNION ALL SELECT type, -1 FROM main.resources WHERE text IS NOT NULL"
        " AND row_id IN (SELECT row_id FROM temp.hidden)) GROUP BY type"
    )
    return ";".join(statements)
