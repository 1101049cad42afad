"""The index rows of a resource, by kind of search parameter. A row is a tuple that begins with the parameter's name.

The module of the kind (`search/kinds`) defines the rest of a row. An import makes tens of thousands of rows per second.
So they are tuples in lists, not objects.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple


class ReferenceRow(NamedTuple):
    """A reference as written in the resource, and the FHIRPath of its element.

    `canonical`: it is the canonical URL of a definition, which may be on another server.
    """

    parameter: str
    path: str
    reference: str
    canonical: bool = False


class IndexRows(defaultdict[str, list[Any]]):
    """The rows of one resource by kind. A kind without rows has an empty list."""

    def __init__(self) -> None:
        super().__init__(list)
