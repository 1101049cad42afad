"""Amends the base of an overlay before its first request, as if the data had always been so.

An amended resource keeps its number, its version and its source, and its time unless it states another. A removed one
was never there. So neither history nor order shows what was amended.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any

from fhir_server.clock import instant
from fhir_server.errors import FhirError, ServerError
from fhir_server.resources.normalise import normalise
from fhir_server.search.indexer import index, table_rows
from fhir_server.search.kinds.date import span
from fhir_server.store import OverlayStore, Version
from fhir_server.wire.json_text import decode, render
from fhir_server.wire.json_values import Json, Number

Amendment = Sequence[Mapping[str, Any] | str]
"""Resources that replace those with their type and id, and the references (`Observation/12`) of removed ones."""


def amend(store: OverlayStore, amendment: Amendment) -> None:
    """Raises ServerError if a resource does not exist in the base, and FhirError if one is not an R4 resource."""
    named = [item if isinstance(item, str) else f"{item.get('resourceType')}/{item.get('id')}" for item in amendment]
    with store.transaction():
        numbers = store.numbers(named)
        changed = {}
        for reference, entry in zip(named, amendment, strict=True):
            if reference not in numbers:
                raise ServerError(f"{reference}: is not in the data, so it cannot be changed")
            if not isinstance(entry, str):
                changed[numbers[reference]] = entry
        stored = store.rows(list(changed))
        store.omit(numbers.values())
        for old in stored:
            _put_back(store, old, changed[old.row_id])


def add(store: OverlayStore, resources: Iterable[Mapping[str, Any]], now: int) -> None:
    """Adds resources with their own ids, whatever they refer to. `now` (ms) is the time of those that state none.

    Raises FhirError if one is not an R4 resource.
    """
    with store.transaction():
        for entry in resources:
            resource = normalise(decode(json.dumps(entry)), expected_type=str(entry.get("resourceType")))
            stated = resource.get("meta", {}).get("lastUpdated")
            updated = now if stated is None else span(stated).low
            kind, name = str(resource["resourceType"]), resource.get("id")
            if not name:
                raise FhirError(400, f"{kind}: has no id")
            meta = {**resource.get("meta", {}), "versionId": "1", "lastUpdated": instant(updated)}
            resource = {"resourceType": kind, "id": name, "meta": meta} | resource | {"meta": meta}
            number = store.next_row_id()
            rows = table_rows(kind, index(resource, store.registry), store.registry, number)
            store.insert(Version(number, kind, name, 1, updated, render(resource)), rows)


def _put_back(store: OverlayStore, old: Version, entry: Mapping[str, Any]) -> None:
    stored, registry = old.resource, store.registry
    resource = normalise(_with_decimals(decode(json.dumps(entry)), stored), expected_type=old.type)
    stated = resource.get("meta", {}).get("lastUpdated")
    updated = old.updated if stated is None else span(stated).low
    meta = {**stored["meta"], "lastUpdated": instant(updated)}
    resource = {"resourceType": old.type, "id": old.id, "meta": meta} | resource | {"meta": meta}
    text = render(resource)
    if "{ }" in text:  # elements that have become empty
        resource = normalise(resource, expected_type=old.type)
        text = render(resource)
    new = old._replace(updated=updated, text=text)
    store.insert(new, table_rows(old.type, index(resource, registry), registry, old.row_id))


def _with_decimals(value: Json, stored: Json) -> Json:
    """A value with numbers that have the decimals of those in the stored value: 4.2 instead of 3.80 is 4.20."""
    if isinstance(value, dict) and isinstance(stored, dict):
        return {name: _with_decimals(member, stored.get(name)) for name, member in value.items()}
    if isinstance(value, list) and isinstance(stored, list):
        return [
            _with_decimals(item, stored[place] if place < len(stored) else None) for place, item in enumerate(value)
        ]
    if isinstance(value, Number) and isinstance(stored, Number):
        written = Decimal(value).quantize(Decimal(stored))
        return Number(written) if written == Decimal(value) else value
    return value
