"""Quantities: `[prefix]number`, `number|system|code` or `number||code`. `code` is compared with the code of the unit.

A Range is indexed by its two ends. The unit of Money is its currency (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final, TypeAlias

from fhir_server.search import names
from fhir_server.search._join_order import ANY_VALUE, COMPARED
from fhir_server.search.condition import Condition, Criterion, either, split, unescape
from fhir_server.search.kinds.kind import IndexRows, Kind, Scope, TableRow, ValueExtractor, by_type, compare, prefixed
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, float, str, str]
"""Parameter, value, system and code of the unit. System and code are "" if the resource has none."""

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


def conditions(scope: Scope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that a quantity of the resource matches one of the values."""
    parts: list[str] = []
    args: list[object] = [scope.number(parameter.name)]
    for value in criterion.values:
        number, *unit = split(value, "|")
        prefix, amount = prefixed(unescape(number))
        system, code = (unescape(unit[0]) if unit else ""), (unescape(unit[1]) if len(unit) > 1 else "")
        sql, bounds = compare(prefix, amount, "quantity", f"{number}|{system}|{code}")
        args += bounds
        if system:
            sql += " AND system = ?"
            args.append(names.number(system))
        if code:
            sql += " AND units = ?"
            args.append(code)
        parts.append(sql)
    access = COMPARED[prefix] if len(parts) == 1 else ANY_VALUE
    return [Condition("quantities", f"param = ? AND {either(parts)}", tuple(args), "value", 4, access=access)]


KIND = Kind(
    "quantity",
    conditions,
    "quantities",
    ("param", "row_id", "value", "system", "units"),
    by_type(_EXTRACTORS),
    table_rows,
    sort_key="value",
    named="system",
)
