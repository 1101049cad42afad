"""The index rows of a resource: plain tuples by kind of search parameter, each with the parameter's name first.

What else a row holds says the module of its kind (`search/kinds`). Tens of thousands are made a second on import, so
they are tuples in lists and no objects.
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any, NamedTuple


class ReferenceRow(NamedTuple):
    """A reference as the resource has it, and the FHIRPath it was found by.

    `canonical` is one by the URL that a definition has of its own, which may lead to other servers.
    """

    parameter: str
    path: str
    reference: str
    canonical: bool = False


class IndexRows(defaultdict[str, list[Any]]):
    """The rows of one resource by kind; those of a kind that it has none of are an empty list."""

    def __init__(self) -> None:
        super().__init__(list)
