"""Search parameters that clients define come into force: what is stored is indexed by them at once.

Which definitions are in force is kept beside the index, so it cannot differ from it: both change in one transaction.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from fhir_server.search import own_parameters, pairs
from fhir_server.search.index_rows import IndexRows
from fhir_server.search.indexer import index, table_rows
from fhir_server.store.store import Store
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json

_R4: Final = object()
"""Stands for what clients have not defined."""
CHUNK: Final = 500
"""How many resources are indexed together."""


def put_in_force(store: Store, codes: Iterable[str] | None = None) -> None:
    """Makes the search parameters with these codes, or all, those that the SearchParameters in the store define.

    Of several active ones for the same type and code the one that was stored last counts. Call inside a transaction.

    Raises:
        FhirError: a composite has parts that are not known.
    """
    numbers = store.registry.of("SearchParameter")
    own = store.registry.own
    new = {key: definition for key, definition in own.items() if codes is not None and key[1] not in codes}
    for resource in _stored(store, codes):
        new |= own_parameters.defined(resource, lambda url: _by_url(store, numbers["url"], url))
    changed = {key for key in new.keys() | own.keys() if new.get(key, _R4) != own.get(key, _R4)}
    if changed:
        store.define(new, changed)
        for resource_type in sorted({key[0] for key in changed}):
            names = {key[1] for key in changed if key[0] == resource_type}
            _index(store, resource_type, names)
            if names & {pairs.PATIENT, pairs.CODE}:
                store.pair_again(resource_type)


def _stored(store: Store, codes: Iterable[str] | None) -> list[Json]:
    """The SearchParameters with these codes, or all, in the order in which they were made."""
    if codes is None:
        return [decode(text) for text in store.texts("SearchParameter")]
    number = store.registry.number("SearchParameter", "code")
    row_ids: set[int] = set()
    sql = "SELECT row_id FROM tokens WHERE param = ? AND value = ?"
    for code in codes:
        row_ids.update(row[0] for row in store.query(sql, (number, code)))
    return [decode(row.text) for row in store.rows(sorted(row_ids)) if row.text is not None]


def _by_url(store: Store, number: int, url: str) -> Json | None:
    matches = store.query("SELECT row_id FROM uris WHERE param = ? AND value = ?", (number, url)).fetchall()
    rows = store.rows([row[0] for row in matches])
    return decode(rows[0].text) if rows and rows[0].text is not None else None


def _index(store: Store, resource_type: str, names: set[str]) -> None:
    """Gives the resources of a type the rows that they have for these parameters."""
    registry = store.registry
    own = registry.own_of(resource_type)
    defined = [one for name, one in own.items() if name in names and one is not None]
    back = names - own.keys()  # R4's, which some definition had taken the place of
    sql = "SELECT row_id FROM resources WHERE type = ? AND text IS NOT NULL"
    row_ids = [row[0] for row in store.query(sql, (resource_type,))]
    for start in range(0, len(row_ids), CHUNK):
        for row in store.rows(row_ids[start : start + CHUNK]):
            assert row.text is not None
            if store.meter is not None:
                store.meter.check()
            rows = IndexRows()
            if back:
                for kind, all_rows in index(decode(row.text), registry).items():
                    rows[kind] = [one for one in all_rows if one[0] in names]
            else:
                own_parameters.add_rows(rows, decode(row.text), defined)
            store.add_index(table_rows(resource_type, rows, registry, row.row_id))
