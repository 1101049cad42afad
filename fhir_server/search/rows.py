"""The index rows of a resource, one kind of row for each kind of search parameter."""

from __future__ import annotations

import unicodedata
from dataclasses import dataclass, field
from typing import NamedTuple


class TokenRow(NamedTuple):
    """A token; `system` and `value` are empty where the resource has none."""

    parameter: str
    system: str
    value: str


class StringRow(NamedTuple):
    """A text folded for comparison, and as it was."""

    parameter: str
    normalised: str
    exact: str


class DateRow(NamedTuple):
    """A stretch of time: instants in milliseconds since 1970, and days as yyyymmdd."""

    parameter: str
    low: int
    high: int
    low_day: int
    high_day: int


class QuantityRow(NamedTuple):
    """An amount with the system and code of its unit; both empty where the resource has none."""

    parameter: str
    value: float
    system: str
    units: str


class NumberRow(NamedTuple):
    """A number, rounded to two places as HAPI's column holds it."""

    parameter: str
    value: float


class UriRow(NamedTuple):
    """A URI."""

    parameter: str
    value: str


class CoordsRow(NamedTuple):
    """A position in degrees."""

    parameter: str
    latitude: float
    longitude: float


class ReferenceRow(NamedTuple):
    """A reference as the resource has it, and the FHIRPath it was found by."""

    parameter: str
    path: str
    reference: str


@dataclass(slots=True)
class IndexRows:
    """The rows of one resource by kind, without repetitions; `present` names the parameters that have a row."""

    tokens: list[TokenRow] = field(default_factory=list)
    strings: list[StringRow] = field(default_factory=list)
    dates: list[DateRow] = field(default_factory=list)
    quantities: list[QuantityRow] = field(default_factory=list)
    numbers: list[NumberRow] = field(default_factory=list)
    uris: list[UriRow] = field(default_factory=list)
    coords: list[CoordsRow] = field(default_factory=list)
    references: list[ReferenceRow] = field(default_factory=list)
    present: set[str] = field(default_factory=set)


def fold(text: str) -> str:
    """A text without case and accents, as string searches compare it (HAPI: NFD, marks dropped, upper case)."""
    if text.isascii():
        return text.upper()
    decomposed = unicodedata.normalize("NFD", text)
    return "".join(c for c in decomposed if not "\u0300" <= c <= "\u036f").upper()
