"""From the index rows of a resource to the rows of the index tables."""

from __future__ import annotations

from typing import Any

from fhir_server.search.index_rows import IndexRows
from fhir_server.search.parameter_numbers import Params

Tables = dict[str, list[tuple[Any, ...]]]
"""Rows by index table, the columns in their order."""

IN_RESOURCES = ("_id", "_lastUpdated")
"""Parameters that the table of resources answers itself."""


def table_rows(resource_type: str, index: IndexRows, params: Params, pid: int) -> Tables:
    """The rows of one resource; tables without rows are left out."""
    numbers = params.of(resource_type)
    tables: Tables = {
        "tokens": [
            (numbers[name], value, pid, system) for name, system, value in index.tokens if name not in IN_RESOURCES
        ],
        "strings": [(numbers[name], norm, pid, exact) for name, norm, exact in index.strings],
        "dates": [(numbers[row[0]], pid, *row[1:]) for row in index.dates if row[0] not in IN_RESOURCES],
        "links": [
            (numbers[name], local(reference), pid) for name, _, reference in index.references if reference[0] != "#"
        ],
    }
    if index.quantities:
        tables["quantities"] = [(numbers[row[0]], pid, *row[1:]) for row in index.quantities]
    if index.uris:
        tables["uris"] = [(numbers[name], value, pid) for name, value in index.uris]
    if index.numbers:
        tables["numbers"] = [(numbers[name], pid, value) for name, value in index.numbers]
    if index.coords:
        tables["coords"] = [(numbers[row[0]], pid, *row[1:]) for row in index.coords]
    return tables


def local(reference: str) -> str:
    """A reference without the version it may name."""
    return reference.partition("/_history/")[0] if "/_history/" in reference else reference
