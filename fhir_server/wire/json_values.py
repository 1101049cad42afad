"""JSON values. An integer is an `int`. A number with a point or an exponent is a `Number`, which is decimal text."""

from __future__ import annotations

from decimal import Decimal
from typing import Any, Final, NoReturn, TypeAlias

Json: TypeAlias = Any  # a recursive union would have to be narrowed at each use
DEPTH_LIMIT: Final = 250
"""Text with deeper nesting is refused."""
_NUMBER_LENGTH_LIMIT: Final = 1000


class Number(str):
    """A decimal as text without an exponent. It is written without quotes."""

    __slots__ = ()


class JsonTextError(ValueError):
    """A text is not JSON. Carries Jackson's message, and line and column from 1 (line 0: the whole text)."""

    def __init__(self, message: str, line: int = 0, column: int = 0) -> None:
        super().__init__(message)
        self.message = message
        self.line = line
        self.column = column


def number(literal: str) -> Number:
    """A decimal without an exponent, as Java's `BigDecimal.toPlainString` returns it (1e3 → 1000, -0.0 → 0.0).

    Raises:
        JsonTextError: the number is longer than 1,000 digits, without the exponent.
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
