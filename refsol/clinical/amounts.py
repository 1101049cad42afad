"""Amounts of orders in the unit of a rule: 2000 mg is 2 g, 120 min are 2 h, 1 g/h is 16.67 mg/min."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from refsol.clinical.units import UCUM, amount_in, as_float, conversion

_QUANTITY = {"value", "unit", "system", "code"}
_SYSTEMS = (UCUM, "https://unitsofmeasure.org", "urn:oid:2.16.840.1.113883.6.8")
_UNITS_OF_DRUGS = ("u", "unit", "units", "iu", "[iu]", "unt", "usp'u", "[usp'u]", "international units")
_AMOUNT = re.compile(r"(?<![\w.,-])(\d+(?:,\d{3})*(?:\.\d+)?)[ -]?([a-zµμ\[\]]+)(?![\w/])", re.IGNORECASE)


def _unit(text: Any) -> Any:
    """A unit of an order. Units of a drug have many names, and are not the enzyme units of laboratories."""
    return "[IU]" if isinstance(text, str) and text.strip().lower() in _UNITS_OF_DRUGS else text


def in_unit(quantity: Mapping[str, Any], unit: str, valence: int = 0) -> float | None:
    """The number of a Quantity in a unit, which may be stated as a text, as UCUM's code, or both.

    None if it is in no such unit, or not exactly this amount: it is with a comparator, or has further elements.
    """
    if not (quantity.keys() <= _QUANTITY and quantity.get("system", UCUM) in _SYSTEMS):
        return None
    stated = {name: _unit(text) for name, text in quantity.items() if name in ("unit", "code")}
    amount = amount_in({**quantity, **stated, "system": UCUM} if stated else quantity, _unit(unit), valence)
    return None if amount is None else as_float(amount)


def amounts_in(text: str, unit: str, valence: int = 0) -> Iterator[float]:
    """The amounts in a text that convert to a unit. Rates (`1 g/h`) are not amounts."""
    for number, spelling in _AMOUNT.findall(text):
        there = conversion(_unit(spelling), _unit(unit), valence)
        if there is not None:
            yield as_float(there.of(float(number.replace(",", ""))))
