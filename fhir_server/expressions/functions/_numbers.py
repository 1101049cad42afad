"""Functions of numbers, and of what is as precise as it was written: numbers, amounts, dates and times."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import ROUND_CEILING, ROUND_DOWN, ROUND_FLOOR, ROUND_HALF_UP, Decimal

from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.functions._collections import place
from fhir_server.expressions.node import Nodes, computed, value_of
from fhir_server.expressions.operators import number
from fhir_server.expressions.scope import Expression, Scope, Signature, argument
from fhir_server.expressions.values import Moment, Quantity, Value, boundary

Arguments = tuple[Expression, ...]
_WITHOUT = frozenset(("instant", "Age", "Count", "Distance", "Duration"))
"""The types that these functions do not know."""
MAX_DIGITS = 31
"""The most digits behind the point of a boundary."""


def _value(nodes: Nodes) -> Value | None:
    """The value of a list with one value; None for anything else. As in HAPI, it is not an instant or an Age."""
    return value_of(nodes[0]) if len(nodes) == 1 and nodes[0].type_name not in _WITHOUT else None


def _number(nodes: Nodes) -> int | Decimal | None:
    """The number of a list with one number; None for anything else, as in HAPI."""
    value = _value(nodes)
    return None if isinstance(value, bool) or not isinstance(value, (int, Decimal)) else value


def _of_number(function: Callable[[int | Decimal], int | Decimal | None]) -> Signature:
    """A function of a number; its result is empty if the number is missing, or if there is none."""

    def run(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
        value = _number(focus)
        result = None if value is None else function(value)
        return [] if result is None else [number(result)]

    return Signature(run)


def _rounded_to_integer(rounding: str) -> Signature:
    return _of_number(lambda value: int(Decimal(value).quantize(Decimal(1), rounding)))


def _abs(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value = _value(focus)
    if isinstance(value, Quantity):
        return [computed(value._replace(value=abs(value.value)))]
    result = _number(focus)
    return [] if result is None else [number(abs(Decimal(result)))]


def _shortened(value: float) -> Decimal | None:
    """A decimal of a float's digits; None if it is not a number."""
    if not math.isfinite(value):
        return None
    return Decimal(repr(value))


def _sqrt(value: int | Decimal) -> Decimal | None:
    return None if value < 0 else _shortened(math.sqrt(value))


def _ln(value: int | Decimal) -> Decimal | None:
    return None if value <= 0 else _shortened(math.log(value))


def _exp(value: int | Decimal) -> Decimal | None:
    return None if value > 100 else _shortened(math.exp(value))


def _log(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value, base = _number(focus), _number(argument(arguments, 0, scope))
    if value is None or base is None or value <= 0 or base <= 0 or base == 1:
        return []
    result = _shortened(math.log(value) / math.log(base))
    return [] if result is None else [number(result)]


def _power(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value, exponent = _number(focus), _number(argument(arguments, 0, scope))
    if value is None or exponent is None:
        return []
    try:
        result = math.pow(value, exponent)
    except ValueError:  # (-1).power(0.5)
        return []
    decimal = _shortened(result)
    return [] if decimal is None else [number(decimal)]


def _round(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value, digits = _number(focus), place(arguments, 0, scope)
    if value is None:
        return []
    if digits is not None and not 0 <= digits <= MAX_DIGITS:
        raise FhirPathError(f"round() is to at most {MAX_DIGITS} digits")
    rounded = Decimal(value).quantize(Decimal(1).scaleb(-(digits or 0)), ROUND_HALF_UP)
    return [number(rounded)]


def _boundary(is_high: bool) -> Signature:
    def run(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
        value, digits = _value(focus), place(arguments, 0, scope)
        match value:
            case Moment():
                default = {"Date": 8, "DateTime": 17, "Time": 9}[value.kind]
                moment = boundary(value, default if digits is None else digits, is_high)
                return [] if moment is None else [computed(moment)]
            case Quantity():
                end = _end(value.value, 8 if digits is None else digits, is_high)
                return [] if end is None else [computed(value._replace(value=end))]
            case int() | Decimal() if not isinstance(value, bool):
                end = _end(Decimal(value), 8 if digits is None else digits, is_high)
                return [] if end is None else [number(end)]
        return []

    return Signature(run, 0, 1)


def _end(value: Decimal, digits: int, is_high: bool) -> Decimal | None:
    """The lowest or highest number that is written as `value`, with this number of digits behind its point."""
    if not 0 <= digits <= MAX_DIGITS:
        return None
    half = Decimal(5).scaleb(int(value.as_tuple().exponent) - 1)
    end = value + half if is_high else value - half
    unit = Decimal(1).scaleb(-digits)
    rounding = ROUND_CEILING if is_high else ROUND_FLOOR
    if abs(end) < unit and abs(value) < unit / 10:
        rounding = ROUND_DOWN
    return end.quantize(unit, rounding)


def _precision(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    match value := _value(focus):
        case Moment():
            return [computed(value.digits)]
        case Decimal():
            return [computed(max(-int(value.as_tuple().exponent), 0))]
    return []


def _comparable(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    left, right = _value(focus), _value(argument(arguments, 0, scope))
    if not isinstance(left, Quantity) or not isinstance(right, Quantity):
        return [computed(False)]
    return [computed(left.is_comparable(right))]


FUNCTIONS: dict[str, Signature] = {
    "abs": Signature(_abs),
    "ceiling": _rounded_to_integer(ROUND_CEILING),
    "floor": _rounded_to_integer(ROUND_FLOOR),
    "truncate": _rounded_to_integer(ROUND_DOWN),
    "exp": _of_number(_exp),
    "ln": _of_number(_ln),
    "sqrt": _of_number(_sqrt),
    "log": Signature(_log, 1, 1),
    "power": Signature(_power, 1, 1),
    "round": Signature(_round, 0, 1),
    "lowBoundary": _boundary(is_high=False),
    "highBoundary": _boundary(is_high=True),
    "precision": Signature(_precision),
    "comparable": Signature(_comparable, 1, 1),
}
