"""JSON values: a number with a point or an exponent is a `Number`, its plain decimal text; whole numbers are `int`."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

Json: TypeAlias = Any  # JSON is a recursive union that mypy would make every reader narrow; past the edge it is typed
DEPTH_LIMIT: Final = 250
"""Text that nests deeper is refused."""
_NUMBER_LENGTH_LIMIT: Final = 1000


class Number(str):
    """A decimal as text without an exponent; written back without quotes."""

    __slots__ = ()


class JsonTextError(ValueError):
    """Text that is not JSON: Jackson's message, and where (line and column from 1; line 0: the text as a whole)."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def number(literal: str) -> Number:
    """The plain text of a decimal, as Java's `BigDecimal.toPlainString` gives it (1e3 → 1000, -0.0 → 0.0).

    Raises:
        JsonTextError: written out, the number would have more than 1,000 digits.
    """
    if "e" not in literal and "E" not in literal:
        if len(literal) > _NUMBER_LENGTH_LIMIT:
            _refuse_length(len(literal))
        return Number(literal[1:] if literal[0] == "-" and not literal.strip("-0.") else literal)
    mantissa, _, exponent = literal.lower().partition("e")
    if len(exponent) > 5 or abs(int(exponent)) + len(mantissa) > _NUMBER_LENGTH_LIMIT:
        _refuse_length(len(literal))
    plain = format(Decimal(literal), "f")
    return Number(plain if plain.strip("-0.") else plain.lstrip("-"))


def _refuse_length(length: int) -> NoReturn:
    limit = "from `StreamReadConstraints.getMaxNumberLength()`"
    raise JsonTextError(f"Number value length ({length}) exceeds the maximum allowed ({_NUMBER_LENGTH_LIMIT}, {limit})")
