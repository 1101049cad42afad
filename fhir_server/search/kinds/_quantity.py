"""Quantities: `[prefix]number`, `number|system|code` or `number||code`. `code` is compared with the code of the unit.

A Range is indexed by its two ends. The unit of Money is its currency (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from fhir_server.search import names
from fhir_server.search.condition import Condition, Criterion, split, unescape
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
    unless_blank,
)
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, float, str, str]
"""Parameter, value, system and code of the unit. System and code are "" if they are missing."""

CURRENCIES: Final = "urn:iso:std:iso:4217"
_NOTHING: Final[dict[str, Json]] = {}


def _amount(amount: Json) -> float:
    # From the text: `float` raises for an integer that is too large, but returns infinity for its digits.
    return float(str(amount))


def _quantity(rows: IndexRows, name: str, value: Json) -> None:
    amount = value.get("value")
    if amount is not None:
        rows["quantity"].append((name, _amount(amount), value.get("system", ""), value.get("code", "")))


def _money(rows: IndexRows, name: str, value: Json) -> None:
    amount = value.get("value")
    if amount is not None:
        rows["quantity"].append((name, _amount(amount), CURRENCIES, value.get("currency", "")))


def _range(rows: IndexRows, name: str, value: Json) -> None:
    for end in ("low", "high"):
        _quantity(rows, name, value.get(end, _NOTHING))


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    **dict.fromkeys(("Quantity", "Age", "Duration", "Distance", "Count"), _quantity),
    "Money": _money,
    "Range": _range,
}


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    return [(numbers[name], row_id, value, system, code) for name, value, system, code in rows]


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that a quantity of the resource matches one of the values. In HAPI, the prefix of the first value
    holds for all of them.
    """
    amounts = [_amount_of(value) for value in criterion.values]
    return compared(scope, parameter, "quantities", [amount._replace(prefix=amounts[0].prefix) for amount in amounts])


def _amount_of(text: str) -> Amount:
    """The parts of a value. In HAPI, a bar at the start is part of the number, and a system alone is ignored."""
    number, *unit = split(text[1:], "|")
    system, code = (unescape(part) for part in (*unit, "", "")[:2])
    test = ""
    args: tuple[object, ...] = ()
    if code.strip():
        test, args = " AND units = ?", (code,)
        if system:
            test, args = f"{test} AND system = ?", (code, names.number(system))
    return Amount(*prefixed(unescape(text[:1] + number)), f"|{system}|{code}", test, args)


KIND = Kind(
    "quantity",
    conditions,
    "quantities",
    ("param", "row_id", "value", "system", "units"),
    by_type(_EXTRACTORS),
    table_rows,
    sort_key="value",
    named="system",
    cleaned=unless_blank,
)
