"""The tables of a store file, and the same tables in an overlay.

`resources` contains the current version of each resource, as the text that a read returns. An update or a delete moves
the replaced version to `versions`. There is one index table for each kind of search parameter (`search/kinds`), and one
for pairs of patient and code (`search/pairs`). `param` is the number of a search parameter of a resource type. Rows are
clustered by parameter and value, so a search by token or reference reads one range of one B-tree, in insertion order
(`row_id`). Systems and URIs are numbers, whose texts are in `names` (`search/names`). No table is indexed by `row_id`
alone: for an update, the rows to remove are computed from the old text.
"""

from __future__ import annotations

from fhir_server.search import names, pairs
from fhir_server.search.kinds import KINDS

FORMAT = 5
"""Increase it when the tables change. A file of another format is refused."""

MEANING = 3
"""Increase it when FHIRPath gets another meaning. If a file has a lower number, the search parameters that
clients defined are indexed again when it is opened."""

COLUMNS: dict[str, tuple[str, ...]] = {
    "resources": ("row_id", "type", "id", "version", "updated", "text"),
    "versions": ("row_id", "type", "id", "version", "updated", "text"),
    **{kind.table: kind.columns for kind in KINDS.values() if kind.table},
    pairs.TABLE: pairs.COLUMNS,
}
"""The columns of each table. `updated`, `low`, `high` are milliseconds since 1970, days are yyyymmdd."""

NAMED = {kind.table: kind.columns.index(kind.named) for kind in KINDS.values() if kind.named}
"""The place of the column with numbers of texts (`search.names`), by table."""
INDEXES = tuple(name for name in COLUMNS if name not in ("resources", "versions"))
DELETED = "CREATE INDEX IF NOT EXISTS main.resources_deleted ON resources (type) WHERE text IS NULL"
"""An index of the deleted resources, for `$expunge`."""
ORDERED = (
    "CREATE INDEX IF NOT EXISTS main.resources_by_time ON resources (updated, text IS NULL)",
    "CREATE INDEX IF NOT EXISTS main.resources_of_type_by_time ON resources (type, updated, text IS NULL)",
    *(
        f"CREATE INDEX IF NOT EXISTS main.{kind.table}_by_{name} ON {kind.table} (param + 0, {order}, row_id)"
        for kind in KINDS.values()
        for name, order in kind.orders.items()
    ),
)
"""Indexes in the order of values. With them, a sorted search (see `search.plan.by_index`) and a history can stop at
the end of its page. An overlay's own rows are few and need none."""
COUNTS = "CREATE TABLE main.counts (type TEXT PRIMARY KEY, live INTEGER) WITHOUT ROWID"
"""The number of live resources of each type."""


def create(schema: str = "main", prefix: str = "") -> str:
    """The SQL that creates the tables in a schema. `prefix` begins their names."""
    statements = [
        f"CREATE TABLE {schema}.{prefix}resources"
        " (row_id INTEGER PRIMARY KEY, type TEXT, id TEXT, version INTEGER, updated INTEGER, text TEXT)",
        f"CREATE UNIQUE INDEX {schema}.{prefix}resources_id ON {prefix}resources (type, id)",
        f"CREATE INDEX {schema}.{prefix}resources_type ON {prefix}resources (type, updated)",
        f"CREATE TABLE {schema}.{prefix}versions"
        " (row_id INTEGER, type TEXT, id TEXT, version INTEGER, updated INTEGER, text TEXT)",
        f"CREATE UNIQUE INDEX {schema}.{prefix}versions_row ON {prefix}versions (row_id, version)",
        f"CREATE TABLE {schema}.{prefix}{names.TABLE} (number INTEGER PRIMARY KEY, text TEXT)",
        f"CREATE INDEX {schema}.{prefix}names_text ON {prefix}{names.TABLE} (text)",
        *(_index(name, schema, prefix) for name in INDEXES),
    ]
    return ";".join(statements)


def _index(name: str, schema: str = "main", prefix: str = "") -> str:
    """An index table.

    Numbers need the type INTEGER: SQLite uses no index to compare an INTEGER with an untyped column.
    """
    columns = ", ".join(f"{column} INTEGER" if column in ("param", "row_id") else column for column in COLUMNS[name])
    key = ", ".join(COLUMNS[name])
    return f"CREATE TABLE {schema}.{prefix}{name} ({columns}, PRIMARY KEY ({key})) WITHOUT ROWID"


def overlay() -> str:
    """The SQL that creates an overlay's temporary tables, and views that combine them with those of the file.

    The views have the names of the tables. SQLite looks for an unqualified name in the temporary schema first, so the
    same query works on a file and on an overlay. `hidden` lists the file's resources that the overlay has replaced.
    """
    statements = [create("temp", "own_"), "CREATE TEMP TABLE hidden (row_id INTEGER PRIMARY KEY)"]
    for name, columns in COLUMNS.items():
        listed = ", ".join(columns)
        shown = "" if name == "versions" else " WHERE row_id NOT IN (SELECT row_id FROM temp.hidden)"
        statements.append(
            f"CREATE TEMP VIEW {name} AS SELECT {listed} FROM main.{name}{shown}"
            f" UNION ALL SELECT {listed} FROM temp.own_{name}"
        )
    statements.append("CREATE TEMP VIEW names AS SELECT * FROM main.names UNION ALL SELECT * FROM temp.own_names")
    statements.append(
        "CREATE TEMP VIEW counts AS SELECT type, sum(live) AS live FROM (SELECT type, live FROM main.counts"
        " UNION ALL SELECT type, 1 FROM temp.own_resources WHERE text IS NOT NULL"
        " UNION ALL SELECT type, -1 FROM main.resources WHERE text IS NOT NULL"
        " AND row_id IN (SELECT row_id FROM temp.hidden)) GROUP BY type"
    )
    return ";".join(statements)
