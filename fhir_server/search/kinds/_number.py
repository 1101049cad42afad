"""Numbers, with a prefix or without. A number without a prefix matches only the same number, not a range."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import ROUND_HALF_UP, Decimal
from typing import Final, TypeAlias

from fhir_server.search.condition import Condition, Criterion, unescape
from fhir_server.search.kinds.kind import (
    Amount,
    IndexRows,
    Kind,
    SearchScope,
    TableRow,
    ValueExtractor,
    by_type,
    compared,
    prefixed,
)
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, float]
"""Parameter, number rounded to two decimals like in HAPI's column."""

_CENT: Final = Decimal("0.01")
_LARGE: Final = Decimal(10) ** 17  # HAPI's column stores 17 digits before the point
_NOTHING: Final[dict[str, Json]] = {}


def _number(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        exact = Decimal(value)
        rows["number"].append((name, float(exact.quantize(_CENT, ROUND_HALF_UP) if abs(exact) < _LARGE else exact)))


def _quantity(rows: IndexRows, name: str, value: Json) -> None:
    _number(rows, name, value.get("value"))


def _range(rows: IndexRows, name: str, value: Json) -> None:
    for end in ("low", "high"):
        _number(rows, name, value.get(end, _NOTHING).get("value"))


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    **dict.fromkeys(("integer", "positiveInt", "unsignedInt", "decimal"), _number),
    **dict.fromkeys(("Quantity", "Age", "Duration"), _quantity),
    "Range": _range,
}


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], row_id, value) for name, value in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that a number of the resource matches one of the values."""
    return compared(scope, parameter, "numbers", [Amount(*prefixed(unescape(value))) for value in criterion.values])


KIND = Kind(
    "number",
    conditions,
    "numbers",
    ("param", "row_id", "value"),
    by_type(_EXTRACTORS),
    table_rows,
    sort_key="value",
)
