"""Prefixes of ordered values (`gt5.4`), and the comparison of numbers."""

from __future__ import annotations

import math
import re
from decimal import Decimal, InvalidOperation

from fhir_server.errors import FhirError

_SIGNS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "=": "eq"}
"""Signs that HAPI also accepts as prefixes."""
_OPERATORS = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
COMPARATORS = ("eq", "ne", "gt", "ge", "lt", "le", "sa", "eb", "ap")
LOWER, UPPER = ("gt", "ge", "sa"), ("lt", "le", "eb")
_PREFIX = re.compile(r"[^-%0-9]*")
_LARGEST = 1.7976931348623157e308


def prefixed(text: str) -> tuple[str, str]:
    """The prefix of a value (`eq` if it has none) and the rest. Raises HAPI's errors for invalid prefixes."""
    match = _PREFIX.match(text)
    prefix = match.group() if match else ""
    if not prefix.strip():
        return "eq", text
    if prefix == text:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    comparator = _SIGNS.get(prefix, prefix)
    if comparator not in COMPARATORS:
        raise FhirError(400, f'HAPI-1941: Invalid prefix: "{prefix}"')
    return comparator, text[len(prefix) :]


def compare(prefix: str, text: str, kind: str, value: str) -> tuple[str, tuple[float, ...]]:
    """SQL that compares the column `value` with a decimal. Errors have the `kind` of parameter and the `value`."""
    if prefix in ("sa", "eb"):
        raise FhirError(400, f'HAPI-1235: Unable to handle {kind} prefix "{prefix}" for value: {value}')
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"') from None
    if not number.is_finite():
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    exact = float(number)
    if math.isinf(exact):
        exact = math.copysign(_LARGEST, exact)
    if prefix == "ap":
        return "value >= ? AND value <= ?", (exact - abs(exact) / 10, exact + abs(exact) / 10)
    return f"value {_OPERATORS[prefix]} ?", (exact,)
