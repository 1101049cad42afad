"""The index rows of a resource, one kind of row for each kind of search parameter.

Rows are plain tuples, whose first member is the name of the parameter: tens of thousands are made a second on import.
"""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

TokenRow: TypeAlias = tuple[str, str, str]
"""Parameter, system, value; system and value are empty where the resource has none."""
StringRow: TypeAlias = tuple[str, str, str]
"""Parameter, the text folded for comparison (see `fold`), the text as it is."""
DateRow: TypeAlias = tuple[str, int, int, int, int]
"""Parameter, low and high (milliseconds since 1970, UTC), first and last day (yyyymmdd)."""
QuantityRow: TypeAlias = tuple[str, float, str, str]
"""Parameter, amount, system and code of the unit; both empty where the resource has none."""
NumberRow: TypeAlias = tuple[str, float]
"""Parameter, number rounded to two places as HAPI's column holds it."""
UriRow: TypeAlias = tuple[str, str]
"""Parameter, URI."""
CoordsRow: TypeAlias = tuple[str, float, float]
"""Parameter, latitude, longitude (degrees)."""


class ReferenceRow(NamedTuple):
    """A reference as the resource has it, and the FHIRPath it was found by."""

    parameter: str
    path: str
    reference: str


@dataclass(slots=True)
class IndexRows:
    """The rows of one resource by kind, without repetitions."""

    tokens: list[TokenRow] = field(default_factory=list)
    strings: list[StringRow] = field(default_factory=list)
    dates: list[DateRow] = field(default_factory=list)
    quantities: list[QuantityRow] = field(default_factory=list)
    numbers: list[NumberRow] = field(default_factory=list)
    uris: list[UriRow] = field(default_factory=list)
    coords: list[CoordsRow] = field(default_factory=list)
    references: list[ReferenceRow] = field(default_factory=list)


def fold(text: str) -> str:
    """A text without case and accents, as string searches compare it (HAPI: NFD, marks dropped, upper case)."""
    if text.isascii():
        return text.upper()
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f").upper()
