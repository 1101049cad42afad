"""From the index rows of a resource to the rows of the index tables."""

from __future__ import annotations

from typing import Any

from fhir_server.search.params import Params
from fhir_server.search.rows import IndexRows

Tables = dict[str, list[tuple[Any, ...]]]
"""Rows by index table, the columns in their order but without `pid`."""

IN_RESOURCES = ("_id", "_lastUpdated")
"""Parameters that the table of resources answers itself."""


def table_rows(resource_type: str, index: IndexRows, params: Params) -> Tables:
    """The rows of one resource."""
    numbers = params.of(resource_type)
    links = {
        (numbers[name], local(reference)) for name, _, reference in index.references if not reference.startswith("#")
    }
    return {
        "tokens": [
            (numbers[name], value, system) for name, system, value in index.tokens if name not in IN_RESOURCES
        ],
        "strings": [(numbers[row[0]], *row[1:]) for row in index.strings],
        "dates": [(numbers[row[0]], *row[1:]) for row in index.dates if row[0] not in IN_RESOURCES],
        "quantities": [(numbers[row[0]], *row[1:]) for row in index.quantities],
        "numbers": [(numbers[row[0]], *row[1:]) for row in index.numbers],
        "uris": [(numbers[row[0]], *row[1:]) for row in index.uris],
        "coords": [(numbers[row[0]], *row[1:]) for row in index.coords],
        "links": sorted(links),
    }


def local(reference: str) -> str:
    """A reference without the version it may name."""
    return reference.partition("/_history/")[0]
