"""Conversions between types: `toInteger()`, and `convertsToInteger()` for each."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal

from fhir_server.expressions.functions._collections import Arguments
from fhir_server.expressions.node import Nodes, computed, value_of
from fhir_server.expressions.scope import Scope, Signature, as_text, joined
from fhir_server.expressions.values import Moment, Quantity, Value, calendar, moment

_INTEGER = re.compile(r"-?\d{1,10}", re.ASCII)
_DECIMAL = re.compile(r"[+-]?\d{1,40}(?:\.\d{1,40})?", re.ASCII)
_QUANTITY = re.compile(r"([+-]?\d{1,40}(?:\.\d{1,40})?)\s*(?:'([^']+)'|([a-z]+))?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}


def _to_boolean(value: Value) -> bool | None:
    match value:
        case bool():
            return value
        case int() | Decimal():
            return bool(value) if value in (0, 1) else None
        case str():
            return _BOOLEANS.get(value.lower())
    return None


def _to_integer(value: Value) -> int | None:
    match value:
        case bool() | int():
            return int(value)
        case str() if value in _BOOLEANS:
            return int(_BOOLEANS[value])
        case str() if _INTEGER.fullmatch(value) and -(2**31) <= int(value) < 2**31:
            return int(value)
    return None


def _to_decimal(value: Value) -> Decimal | None:
    match value:
        case bool() | int() | Decimal():
            return Decimal(value)
        case str() if value in _BOOLEANS:
            return Decimal(_BOOLEANS[value])
        case str() if _DECIMAL.fullmatch(value):
            return Decimal(value)
    return None


def _to_quantity(value: Value) -> Quantity | None:
    match value:
        case Quantity():
            return value
        case bool() | int() | Decimal():
            return Quantity(Decimal(value), "1")
        case str():
            match = _QUANTITY.fullmatch(value)
            if match is not None and (not match[3] or calendar(match[3])):
                return Quantity(Decimal(match[1]), match[2] or match[3] or "1")
    return None


def _to_moment(kind: str) -> Callable[[Value], Moment | None]:
    def convert(value: Value) -> Moment | None:
        match value:
            case str():
                return moment(value, kind)
            case Moment() if value.kind == kind or (kind != "Time" and value.kind != "Time"):
                fields = value.fields[:3] if kind == "Date" else value.fields
                return Moment(kind, fields, value.offset if kind == "DateTime" else None)
        return None

    return convert


def _conversion(convert: Callable[[Value], Value | None]) -> Signature:
    """A conversion of one value; empty for several, as in HAPI."""

    def run(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
        value = value_of(focus[0]) if len(focus) == 1 else None
        result = None if value is None else convert(value)
        return [] if result is None else [computed(result)]

    return Signature(run)


def _to_string(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value = joined(focus, scope)
    return [] if value is None else [computed(value)]


def _quantity(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    value = value_of(focus[0]) if len(focus) == 1 else None
    if isinstance(value, Quantity):
        return focus
    result = None if value is None or isinstance(value, bool) else _to_quantity(value)
    return [] if result is None else [computed(result)]


def _is_convertible(value: Value, name: str, convert: Callable[[Value], Value | None]) -> bool:
    """Whether a value can be converted. As in HAPI, the text `true` is not a number here, and of moments only a date is
    a text.
    """
    if name in ("Integer", "Decimal") and isinstance(value, str) and value in _BOOLEANS:
        return False
    if name == "String" and isinstance(value, Moment):
        return value.kind == "Date"
    return convert(value) is not None


def _test(name: str, convert: Callable[[Value], Value | None]) -> Signature:
    def run(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
        value = value_of(focus[0]) if len(focus) == 1 else None
        return [computed(value is not None and _is_convertible(value, name, convert))]

    return Signature(run)


_CONVERSIONS: dict[str, Callable[[Value], Value | None]] = {
    "Boolean": _to_boolean,
    "Integer": _to_integer,
    "Decimal": _to_decimal,
    "Quantity": _to_quantity,
    "String": as_text,
    "Date": _to_moment("Date"),
    "DateTime": _to_moment("DateTime"),
    "Time": _to_moment("Time"),
}
FUNCTIONS: dict[str, Signature] = {
    **{f"to{name}": _conversion(convert) for name, convert in _CONVERSIONS.items()},
    **{f"convertsTo{name}": _test(name, convert) for name, convert in _CONVERSIONS.items()},
    "toString": Signature(_to_string),
    "toQuantity": Signature(_quantity),
}
