"""FHIRPath's operators between two results. An empty operand gives an empty result, except for logic, `&` and `~`."""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping
from decimal import ROUND_HALF_UP, Context, Decimal
from fractions import Fraction
from typing import TypeAlias

from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.node import Node, Nodes, computed, key, value_of
from fhir_server.expressions.scope import Scope, as_text, single, text
from fhir_server.expressions.units import unit
from fhir_server.expressions.values import Moment, Quantity, Value, added, compared, moment

Operator: TypeAlias = Callable[[Nodes, Nodes, Scope], Nodes]

MAX_MAGNITUDE = 40
"""The most digits of a number before its point."""
_DECIMAL = re.compile(r"-?\d{1,40}\.\d{1,40}", re.ASCII)


def number(value: int | Decimal) -> Node:
    """A node for a computed number.

    Raises:
        FhirPathError: it has too many digits.
    """
    if isinstance(value, int):
        if abs(value) >= 10**MAX_MAGNITUDE:
            raise FhirPathError(f"a number may have at most {MAX_MAGNITUDE} digits")
    elif not value.is_finite() or value.adjusted() >= MAX_MAGNITUDE or value.adjusted() < -MAX_MAGNITUDE * 2:
        raise FhirPathError(f"a number may have at most {MAX_MAGNITUDE} digits")
    return computed(value)


def _and(left: bool | None, right: bool | None) -> bool | None:
    if left is False or right is False:
        return False
    return None if left is None or right is None else True


def _or(left: bool | None, right: bool | None) -> bool | None:
    if left or right:
        return True
    return None if left is None or right is None else False


def _xor(left: bool | None, right: bool | None) -> bool | None:
    return None if left is None or right is None else left != right


def _implies(left: bool | None, right: bool | None) -> bool | None:
    return _or(None if left is None else not left, right)


LOGIC: Mapping[str, Callable[[bool | None, bool | None], bool | None]] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "implies": _implies,
}


def keys_of(nodes: Nodes, scope: Scope) -> list[tuple[object, ...]]:
    """The key of each node. Reading them costs steps."""
    listed = []
    for node in nodes:
        node_key = key(node)
        scope.spend(1)
        if node_key[0] in ("object", "str"):
            scope.environment.budget.read(str(node_key[1]))
        listed.append(node_key)
    return listed


def distinct(nodes: Nodes, scope: Scope) -> Nodes:
    """The nodes without those that equal an earlier one."""
    unique: dict[tuple[object, ...], Node] = {}
    for node_key, node in zip(keys_of(nodes, scope), nodes, strict=True):
        unique.setdefault(node_key, node)
    return [*unique.values()]


def equal(left: Nodes, right: Nodes, scope: Scope) -> bool | None:
    """Whether two results are equal, member by member; None if one is empty, or if it is unknown."""
    if not left or not right:
        return None
    if len(left) != len(right):
        return False
    verdicts = [_equal(*pair, scope) for pair in zip(left, right, strict=True)]
    if False in verdicts:
        return False
    return None if None in verdicts else True


def _equal(left: Node, right: Node, scope: Scope) -> bool | None:
    left_value, right_value = value_of(left), value_of(right)
    if isinstance(left_value, str) and isinstance(right_value, str):
        scope.environment.budget.read(left_value)
        return left_value == right_value
    if isinstance(left_value, Moment) and isinstance(right_value, str):
        right_value = _as_moment(right_value, left_value) or right_value
    elif isinstance(right_value, Moment) and isinstance(left_value, str):
        left_value = _as_moment(left_value, right_value) or left_value
    if isinstance(left_value, Moment) and isinstance(right_value, Moment):
        if (left_value.kind == "Time") != (right_value.kind == "Time"):
            return False
        order = compared(left_value, right_value)
        return None if order is None else order == 0
    if isinstance(left_value, Quantity) and isinstance(right_value, Quantity):
        if _only_one_calendar(left_value, right_value):
            return None
        return left_value.is_comparable(right_value) and left_value.amount() == right_value.amount()
    if (
        isinstance(left_value, str) != isinstance(right_value, str)
        and left_value is not None
        and right_value is not None
    ):
        return _equal_as_texts(as_text(left_value), as_text(right_value))
    first, second = keys_of([left, right], scope)
    return first == second


def _equal_as_texts(left: str, right: str) -> bool:
    """Whether a text equals a value of another type, as in HAPI: a decimal by its amount."""
    if "." in left and "." in right and _DECIMAL.fullmatch(left) and _DECIMAL.fullmatch(right):
        return Decimal(left) == Decimal(right)
    return left == right


def _only_one_calendar(left: Quantity, right: Quantity) -> bool:
    """Whether one is in months or years of a calendar, and the other in those of UCUM."""
    codes = {left.code, right.code}
    return bool(codes & {"month", "year"}) and bool(codes & {"mo", "a"})


def equivalent(left: Nodes, right: Nodes, scope: Scope) -> bool:
    """Whether two results are alike in any order: texts without case, numbers to the lower precision."""
    if len(left) != len(right):
        return False
    if len(left) == 1:
        return _equivalent(left[0], right[0], scope)
    rest = list(right)
    for node in left:
        scope.spend(len(rest))
        match = next((index for index, candidate in enumerate(rest) if _equivalent(node, candidate, scope)), None)
        if match is None:
            return False
        del rest[match]
    return True


def _equivalent(left: Node, right: Node, scope: Scope) -> bool:
    left_value, right_value = value_of(left), value_of(right)
    match left_value, right_value:
        case bool(), bool():
            return left_value == right_value
        case ((int() | Decimal()), (int() | Decimal())) if not _has_boolean(left_value, right_value):
            return _alike(Decimal(left_value), Decimal(right_value))
        case str(), str():
            scope.environment.budget.read(left_value + right_value)
            return left_value.lower() == right_value.lower()
        case Moment(), Moment():
            return left_value.kind == right_value.kind and compared(left_value, right_value) == 0
        case Quantity(), Quantity() if left_value.is_comparable(right_value):
            factor = _factor(left_value) / _factor(right_value)
            converted = left_value.value * Decimal(factor.numerator) / Decimal(factor.denominator)
            return _alike_amounts(left_value.value, right_value.value, factor, converted)
    return bool(_equal(left, right, scope))


def _factor(quantity: Quantity) -> Fraction:
    return Fraction(12) if quantity.code == "year" else unit(quantity.code).factor


def _alike_amounts(left: Decimal, right: Decimal, factor: Fraction, converted: Decimal) -> bool:
    """Whether amounts are equal to the precision of the less precise: each is compared in its own unit."""
    back = right * Decimal(factor.denominator) / Decimal(factor.numerator)
    return _alike(converted, right) or _rounded(back, left) == left


def _alike(left: Decimal, right: Decimal) -> bool:
    return _rounded(left, right) == right if _digits(right) < _digits(left) else _rounded(right, left) == left


def _digits(value: Decimal) -> int:
    return max(-int(value.as_tuple().exponent), 0)


def _rounded(value: Decimal, like: Decimal) -> Decimal:
    return value.quantize(Decimal(1).scaleb(-_digits(like)), ROUND_HALF_UP)


def order(left: Nodes, right: Nodes) -> int | None:
    """-1, 0 or 1 for two values; None if one is missing or not a value, or if it is unknown.

    Raises:
        FhirPathError: they are not values of the same kind.
    """
    if len(left) != 1 or len(right) != 1:
        return None
    left_value, right_value = value_of(left[0]), value_of(right[0])
    if (
        left_value is None
        or right_value is None
        or isinstance(left_value, Quantity) != isinstance(right_value, Quantity)
    ):
        return None
    if isinstance(left_value, Moment) and isinstance(right_value, str):
        right_value = _as_moment(right_value, left_value) or right_value
    elif isinstance(right_value, Moment) and isinstance(left_value, str):
        left_value = _as_moment(left_value, right_value) or left_value
    match left_value, right_value:
        case Moment(), Moment():
            return compared(left_value, right_value)
        case Quantity(), Quantity():
            return _sign(left_value.amount(), right_value.amount()) if left_value.is_comparable(right_value) else None
        case str(), str():
            return (left_value > right_value) - (left_value < right_value)
        case ((int() | Decimal()), (int() | Decimal())) if not _has_boolean(left_value, right_value):
            return _sign(Fraction(left_value), Fraction(right_value))
    raise FhirPathError(f"{left_value} and {right_value} do not compare")


def _has_boolean(*values: Value) -> bool:
    """Whether a value is a boolean, which is an integer for Python."""
    return any(isinstance(value, bool) for value in values)


def _as_moment(value: str, like: Moment) -> Moment | None:
    return moment(value, "Time" if like.kind == "Time" else "DateTime")


def _sign(left: Fraction, right: Fraction) -> int:
    return (left > right) - (left < right)


def _comparison(test: Callable[[int], bool]) -> Operator:
    def compare(left: Nodes, right: Nodes, scope: Scope) -> Nodes:
        if not left or not right:
            return []
        result = order(left, right)
        return [] if result is None else [computed(test(result))]

    return compare


def _equality(left: Nodes, right: Nodes, scope: Scope) -> Nodes:
    verdict = equal(left, right, scope)
    return [] if verdict is None else [computed(verdict)]


def _inequality(left: Nodes, right: Nodes, scope: Scope) -> Nodes:
    verdict = equal(left, right, scope)
    return [] if verdict is None else [computed(not verdict)]


def _membership(members: Nodes, collection: Nodes, scope: Scope) -> Nodes:
    """Whether all are among the others, as in HAPI; FHIRPath allows only one."""
    if not members:
        return []
    known = set(keys_of(collection, scope))
    return [computed(all(member in known for member in keys_of(members, scope)))]


def _concatenation(left: Nodes, right: Nodes, scope: Scope) -> Nodes:
    texts: list[str] = []
    for nodes in (left, right):
        value = text(nodes, scope)
        if value is None and nodes:
            raise FhirPathError("& joins two texts")
        texts.append(value or "")
    scope.environment.budget.build(sum(map(len, texts)))
    return [computed("".join(texts))]


def _arithmetic(left: Nodes, right: Nodes, scope: Scope, symbol: str) -> Nodes:
    if not left or not right:
        return []
    left_value, right_value = single(left), single(right)
    if left_value is None or right_value is None:
        return []
    match left_value, right_value:
        case str(), str() if symbol == "+":
            return _concatenation(left, right, scope)
        case Moment(), Quantity() if symbol in "+-":
            return [_moment_node(left[0], added(left_value, right_value, 1 if symbol == "+" else -1))]
        case Quantity(), Quantity():
            return _quantities(left_value, right_value, symbol)
        case ((int() | Decimal()), (int() | Decimal())) if not _has_boolean(left_value, right_value):
            return _numbers(left_value, right_value, symbol)
    raise FhirPathError(f"{left_value} {symbol} {right_value} cannot be computed")


def _moment_node(start: Node, value: Moment) -> Node:
    return computed(value) if start.is_system else Node(str(value), start.type_name)


def _numbers(left: int | Decimal, right: int | Decimal, symbol: str) -> Nodes:
    if symbol in ("/", "div", "mod") and not right:
        return []
    match symbol:
        case "+":
            return [number(left + right)]
        case "-":
            return [number(left - right)]
        case "*":
            return [number(left * right)]
        case "/":
            return [number(_divided(Decimal(left), Decimal(right)))]
        case "div":
            return [number(math.trunc(Fraction(left) / Fraction(right)))]
    if isinstance(left, int) and isinstance(right, int):
        return [number(int(math.fmod(left, right)))]
    return [number(Decimal(left) % Decimal(right))]


def _divided(left: Decimal, right: Decimal) -> Decimal:
    """A quotient with as many digits as the less precise of both, as in HAPI. Whole numbers do not count."""
    digits = [len(value.as_tuple().digits) + value.is_signed() for value in (left, right)]
    whole = [int(value.as_tuple().exponent) >= 0 for value in (left, right)]
    exact = [count for count, is_whole in zip(digits, whole, strict=True) if not is_whole]
    context = Context(prec=min(exact) if exact else max(digits), rounding=ROUND_HALF_UP)
    quotient = context.divide(left, right)
    return quotient if int(quotient.as_tuple().exponent) <= 0 else quotient.quantize(Decimal(1))


def _quantities(left: Quantity, right: Quantity, symbol: str) -> Nodes:
    match symbol:
        case "*":
            return [computed(Quantity(left.value * right.value, _joined(left.code, ".", right.code)))]
        case "/" if right.value:
            name = "1" if left.code == right.code else _joined(left.code, "/", right.code)
            return [computed(Quantity(_divided(left.value, right.value), name))]
    raise FhirPathError(f"{left} {symbol} {right} cannot be computed")


def _joined(left: str, symbol: str, right: str) -> str:
    if right == "1":
        return left
    if left == "1":
        return right if symbol == "." else f"/{right}"
    return f"{left}{symbol}{right}" if right.isalnum() else f"{left}{symbol}({right})"


def _arithmetical(symbol: str) -> Operator:
    return lambda left, right, scope: _arithmetic(left, right, scope, symbol)


OPERATORS: Mapping[str, Operator] = {
    "=": _equality,
    "!=": _inequality,
    "~": lambda left, right, scope: [computed(equivalent(left, right, scope))],
    "!~": lambda left, right, scope: [computed(not equivalent(left, right, scope))],
    "<": _comparison(lambda result: result < 0),
    "<=": _comparison(lambda result: result <= 0),
    ">": _comparison(lambda result: result > 0),
    ">=": _comparison(lambda result: result >= 0),
    "|": lambda left, right, scope: distinct([*left, *right], scope),
    "&": _concatenation,
    "in": _membership,
    "contains": lambda left, right, scope: _membership(right, left, scope) if left else [],
    **{symbol: _arithmetical(symbol) for symbol in ("+", "-", "*", "/", "div", "mod")},
}
"""The operators whose operands are both evaluated first."""
