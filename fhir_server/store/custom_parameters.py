"""Applies search parameters that clients define: indexes the stored resources by them at once.

The definitions in force are saved with the index, and both change in one transaction. So they always agree.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Iterable
from contextlib import suppress
from typing import Final

from fhir_server.errors import FhirError
from fhir_server.search import custom_parameters, pairs
from fhir_server.search.indexer import index, table_rows
from fhir_server.search.kinds.kind import IndexRows
from fhir_server.search.parameters import CustomParameters, Key
from fhir_server.store._base import BaseStore
from fhir_server.store.schema import MEANING
from fhir_server.store.store import Store
from fhir_server.wire.json_text import decode
from fhir_server.wire.json_values import Json

_LOG = logging.getLogger(__name__)
_R4: Final = object()
"""Means that clients have not defined the parameter."""
CHUNK: Final = 500
"""How many resources are indexed together."""


def put_in_force(store: Store, codes: Iterable[str] | None = None) -> None:
    """Puts the SearchParameters in the store with these codes, or all of them, in force.

    If several active ones have the same type and code, the one stored last is used. Call inside a transaction.

    Raises:
        FhirError: a composite has unknown components.
    """
    custom = store.registry.custom
    new = {key: definition for key, definition in custom.items() if codes is not None and key[1] not in codes}
    for resource in _stored(store, codes):
        new |= custom_parameters.defined(resource, lambda url: _by_url(store, url))
    changed = {key for key in new.keys() | custom.keys() if new.get(key, _R4) != custom.get(key, _R4)}
    if changed:
        _define(store, new, changed)


def _define(store: Store, custom: CustomParameters, changed: set[Key]) -> None:
    """Makes `custom` the clients' search parameters, and indexes the changed ones."""
    store.define(custom, changed)
    for resource_type in sorted({key[0] for key in changed}):
        names = {key[1] for key in changed if key[0] == resource_type}
        _index(store, resource_type, names)
        if names & {pairs.PATIENT, pairs.CODE}:
            store.pair_again(resource_type)


def index_again(store: BaseStore) -> None:
    """Indexes all search parameters that clients defined, if an earlier version with another FHIRPath did it; one line
    of the log says so. A file that cannot be written stays as it is.
    """
    if store.meaning >= MEANING or not store.registry.custom:
        return
    with suppress(sqlite3.OperationalError), store.transaction():
        custom = store.registry.custom
        try:
            with store.transaction():
                _define(store, custom, set(custom))
        except FhirError as error:
            _LOG.warning("%s: search parameters are not indexed again: %s", store.path, error.diagnostics)
        else:
            names = ", ".join(sorted({f"{key[0]}.{key[1]}" for key in custom}))
            _LOG.warning("%s: indexed again, since this version evaluates FHIRPath otherwise: %s", store.path, names)
        store.set_meaning()


def _stored(store: Store, codes: Iterable[str] | None) -> list[Json]:
    """The SearchParameters with these codes, or all, in the order of creation."""
    if codes is None:
        return [decode(text) for text in store.texts("SearchParameter")]
    number = store.registry.number("SearchParameter", "code")
    row_ids: set[int] = set()
    sql = "SELECT row_id FROM tokens WHERE param = ? AND value = ?"
    for code in codes:
        row_ids.update(row[0] for row in store.query(sql, (number, code)))
    return [row.resource for row in store.rows(sorted(row_ids)) if row.text is not None]


def _by_url(store: Store, url: str) -> Json | None:
    return next((row.resource for row in store.with_url("SearchParameter", url)), None)


def _index(store: Store, resource_type: str, names: set[str]) -> None:
    """Adds the index rows of these parameters for all resources of a type."""
    registry = store.registry
    custom = registry.custom_of(resource_type)
    defined = [parameter for name, parameter in custom.items() if name in names and parameter is not None]
    back = names - custom.keys()  # R4's parameters, which a client's definition had replaced
    sql = "SELECT row_id FROM resources WHERE type = ? AND text IS NOT NULL"
    row_ids = [row[0] for row in store.query(sql, (resource_type,))]
    for start in range(0, len(row_ids), CHUNK):
        for row in store.rows(row_ids[start : start + CHUNK]):
            if store.meter is not None:
                store.meter.check()
            rows = IndexRows()
            if back:
                for kind, all_rows in index(row.resource, registry).items():
                    rows[kind] = [index_row for index_row in all_rows if index_row[0] in names]
            else:
                custom_parameters.add_rows(rows, row.resource, defined)
            store.add_index(table_rows(resource_type, rows, registry, row.row_id))
