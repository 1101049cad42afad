"""The process that writes one bulk export: NDJSON files of limited length, each with resources of one type.

It reads the store in one SQLite transaction, so all data is from one moment and writers do not wait.
`interactions.exports.Order` defines the content of an export.
"""

from __future__ import annotations

import json
import sqlite3
import sys
from collections.abc import Iterable, Iterator
from pathlib import Path

from fhir_server.errors import ServerError
from fhir_server.interactions.exports import MANIFEST, ExportSelection
from fhir_server.store import BaseStore
from fhir_server.wire.json_text import compact

LENGTH = 8 << 20
"""A file is closed when it contains at least this many bytes, since each file is sent as one response."""
LINKS = ("patient", "subject", "beneficiary", "individual", "actor", "member")
"""Reference parameters that connect a resource to a patient. The first one of a type that can refer to a Patient is
used. HAPI also uses one parameter per type for R4's patient compartment.
"""
REFERRED = ("Practitioner", "Organization")
"""Types that HAPI exports if an exported resource refers to them."""


def write(data: Path, folder: Path, order: ExportSelection) -> None:
    """Writes the files of an export, and at the end the list of their types."""
    store = BaseStore(data)
    store.writes_elsewhere = True
    store.connection.execute("BEGIN")
    if order.compartments:
        _choose(store, order)
    files: list[str] = []
    for kind in order.types:
        for lines in _parts(_texts(store, kind, order)):
            (folder / f"{len(files)}.ndjson").write_bytes(b"".join(lines))
            files.append(kind)
    store.close()
    (folder / MANIFEST).write_text(json.dumps(files), "utf-8")


def _choose(store: BaseStore, order: ExportSelection) -> None:
    """Creates the temporary table `chosen` with the `row_id` of each resource that belongs to the patients."""
    run = store.connection.execute
    run("CREATE TEMP TABLE chosen (row_id INTEGER PRIMARY KEY)")
    run("CREATE TEMP TABLE about (target TEXT PRIMARY KEY)")
    everyone = "SELECT 'Patient/' || id FROM resources WHERE type = 'Patient' AND text IS NOT NULL"
    if order.patients is None:
        run(f"INSERT INTO about {everyone}")
    else:
        values = [(f"Patient/{patient}",) for patient in order.patients]
        store.connection.executemany("INSERT OR IGNORE INTO about VALUES (?)", values)
    chosen = "INSERT OR IGNORE INTO chosen SELECT row_id FROM"
    run(f"{chosen} resources WHERE type = 'Patient' AND 'Patient/' || id IN about AND text IS NOT NULL")
    run(f"{chosen} resources WHERE type = 'Group' AND id = ?", (order.group,))
    for number in _parameters(store):
        run(f"{chosen} links WHERE param = ? AND target IN about", (number,))
    for kind in REFERRED:
        leads = "SELECT target FROM links WHERE target >= ? AND target < ? AND row_id IN chosen"
        sql = f"{chosen} resources WHERE type = ? AND type || '/' || id IN ({leads}) AND text IS NOT NULL"
        run(sql, (kind, f"{kind}/", f"{kind}0"))


def _parameters(store: BaseStore) -> Iterator[int]:
    """The number of each type's parameter that connects it to patients (`LINKS`)."""
    for kind in {kind for kind, _ in store.registry.numbers}:
        known = store.registry.parameters(kind)
        for name in LINKS:
            parameter = known.get(name)
            if (
                kind not in ("Patient", "Group")
                and parameter is not None
                and (not parameter.targets or "Patient" in parameter.targets)
            ):
                yield store.registry.number(kind, name)
                break


def _texts(store: BaseStore, kind: str, order: ExportSelection) -> Iterator[str]:
    chosen = " AND row_id IN chosen" if order.compartments else ""
    sql = f"SELECT text FROM resources WHERE type = ? AND text IS NOT NULL AND updated >= ?{chosen} ORDER BY row_id"
    for (text,) in store.connection.execute(sql, (kind, order.since)):
        yield text


def _parts(texts: Iterable[str]) -> Iterator[list[bytes]]:
    """The texts as NDJSON lines, grouped into files."""
    lines: list[bytes] = []
    size = 0
    for text in texts:
        lines.append(compact(text).encode() + b"\n")
        size += len(lines[-1])
        if size >= LENGTH:
            yield lines
            lines, size = [], 0
    if lines:
        yield lines


def main() -> None:
    """Writes the export that standard input describes (JSON). An error ends it with one line on stderr."""
    task = json.load(sys.stdin)
    try:
        write(Path(task["data"]), Path(task["folder"]), ExportSelection(**task["order"]))
    except (OSError, sqlite3.Error, ServerError) as error:
        sys.exit(f"fhir_server: an export could not be written: {error}")


if __name__ == "__main__":
    main()
