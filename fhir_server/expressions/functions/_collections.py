"""Functions of lists: which nodes exist, which of them are taken, and lists that are put together."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from fractions import Fraction

from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.node import Node, Nodes, computed
from fhir_server.expressions.operators import distinct, keys_of
from fhir_server.expressions.scope import Expression, Scope, Signature, argument, each, single, truth
from fhir_server.expressions.values import Moment, Quantity, Value, in_utc

MAX_PLACE = 1_000_000_000
"""The greatest number of a place in a list or a text."""
_AFTER_NUMBERS = Fraction(10**50)
Arguments = tuple[Expression, ...]


def place(arguments: Arguments, index: int, scope: Scope) -> int | None:
    """A place in a list or a text, from an argument; None if it is empty.

    Raises:
        FhirPathError: it is not an integer, or is too large.
    """
    value = single(argument(arguments, index, scope))
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or abs(value) > MAX_PLACE:
        raise FhirPathError(f"{value} is not an integer of at most {MAX_PLACE}")
    return value


def _where(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    results = each(focus, arguments[0], scope)
    return [node for node, result in zip(focus, results, strict=True) if truth(result)]


def _exists(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    nodes = _where(focus, arguments, scope) if arguments else focus
    return [computed(any(node.value != "" for node in nodes))]


def _all(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    return [computed(all(truth(result) for result in each(focus, arguments[0], scope)))]


def _select(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    return [node for result in each(focus, arguments[0], scope) for node in result]


def _repeat(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    unique: dict[tuple[object, ...], int] = {}
    nodes: Nodes = []
    new = focus
    while new:
        reached, new = _select(new, arguments, scope), []
        for node, node_key in zip(reached, keys_of(reached, scope), strict=True):
            if node_key not in unique:
                unique[node_key] = len(nodes)
                nodes.append(node)
                new.append(node)
    return nodes


def _aggregate(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    total = argument(arguments, 1, scope)
    for index, node in enumerate(focus):
        total = arguments[0]([node], scope.at(node, index, total))
    return total


def _not(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    if len(focus) > 1:
        raise FhirPathError(f"not() is of one value, but there are {len(focus)}")
    value = truth(focus)
    return [] if value is None else [computed(not value)]


def _iif(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    if len(focus) > 1:
        raise FhirPathError(f"iif() is of one value, but there are {len(focus)}")
    inner = Scope(scope.environment, scope.context, focus or scope.this, scope.index, scope.total)
    criterion = argument(arguments, 0, inner)
    if len(criterion) > 1:
        raise FhirPathError(f"the criterion of iif() is one value, but there are {len(criterion)}")
    return argument(arguments, 1 if truth(criterion) else 2, inner)


def _booleans(focus: Nodes) -> list[bool]:
    values = [node.value for node in focus]
    if not all(isinstance(value, bool) for value in values):
        raise FhirPathError("the values must be true or false")
    return values


def _of_booleans(test: Callable[[Iterable[bool]], bool], expected: bool) -> Signature:
    return Signature(lambda focus, arguments, scope: [computed(test(value is expected for value in _booleans(focus)))])


def _subset(inner: Nodes, outer: Nodes, scope: Scope) -> Nodes:
    return [computed(set(keys_of(inner, scope)) <= set(keys_of(outer, scope)))]


def _intersect(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    others = set(keys_of(argument(arguments, 0, scope), scope))
    both = [node for node, key in zip(focus, keys_of(focus, scope), strict=True) if key in others]
    return distinct(both, scope)


def _exclude(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    others = set(keys_of(argument(arguments, 0, scope), scope))
    return [node for node, key in zip(focus, keys_of(focus, scope), strict=True) if key not in others]


def _single(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    if len(focus) > 1:
        raise FhirPathError(f"single() is of one node, but there are {len(focus)}")
    return focus


def _skip(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    count = place(arguments, 0, scope)
    return [] if count is None else focus[max(count, 0) :]


def _take(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    count = place(arguments, 0, scope)
    return [] if count is None else focus[: max(count, 0)]


def _descendants(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    nodes: Nodes = []
    new = focus
    while new:
        new = [child for node in new for child in node.children()]
        scope.spend(len(new))
        nodes += new
    return nodes


def _combine(focus: Nodes, arguments: Arguments, scope: Scope) -> Nodes:
    return [*focus, *argument(arguments, 0, scope)]


def sort(focus: Nodes, keys: list[tuple[Expression, bool]], scope: Scope) -> Nodes:
    """The nodes in the order of keys, each with whether it descends. Nodes without a key are first."""
    scope.spend(len(focus))
    rows = list(enumerate(focus))
    for expression, descends in reversed(keys or [(lambda nodes, inner: nodes, False)]):
        values = {index: single(expression([node], scope.at(node, index))) for index, node in rows}
        orders = {index: _order(value) for index, value in values.items() if value is not None}
        without_key = [row for row in rows if row[0] not in orders]
        rows = without_key + _ordered([row for row in rows if row[0] in orders], orders, descends=descends)
    return [node for _, node in rows]


def _ordered(
    rows: list[tuple[int, Node]], orders: Mapping[int, tuple[Fraction, str]], *, descends: bool
) -> list[tuple[int, Node]]:
    return sorted(rows, key=lambda row: orders[row[0]], reverse=descends)


def _order(value: Value) -> tuple[Fraction, str]:
    """What a value is sorted by: numbers before texts, and moments by their time."""
    match value:
        case bool() | str():
            return (_AFTER_NUMBERS, str(value))
        case int() | Decimal():
            return (Fraction(value), "")
        case Quantity():
            return (value.amount(), "")
    return (_AFTER_NUMBERS, _instant(value))


def _instant(value: Moment) -> str:
    """A text whose order is that of time; a missing time zone is UTC."""
    return str(in_utc(value)._replace(offset=None))


FUNCTIONS: dict[str, Signature] = {
    "empty": Signature(lambda focus, arguments, scope: [computed(all(node.value == "" for node in focus))]),
    "exists": Signature(_exists, 0, 1),
    "all": Signature(_all, 1, 1),
    "allTrue": _of_booleans(all, True),
    "anyTrue": _of_booleans(any, True),
    "allFalse": _of_booleans(all, False),
    "anyFalse": _of_booleans(any, False),
    "subsetOf": Signature(lambda focus, arguments, scope: _subset(focus, argument(arguments, 0, scope), scope), 1, 1),
    "supersetOf": Signature(lambda focus, arguments, scope: _subset(argument(arguments, 0, scope), focus, scope), 1, 1),
    "count": Signature(lambda focus, arguments, scope: [computed(len(focus))]),
    "distinct": Signature(lambda focus, arguments, scope: distinct(focus[::-1], scope)[::-1]),
    "isDistinct": Signature(lambda focus, arguments, scope: [computed(len(set(keys_of(focus, scope))) == len(focus))]),
    "not": Signature(_not),
    "iif": Signature(_iif, 2, 3),
    "where": Signature(_where, 1, 1),
    "select": Signature(_select, 1, 1),
    "repeat": Signature(_repeat, 1, 1),
    "aggregate": Signature(_aggregate, 1, 2),
    "single": Signature(_single),
    "first": Signature(lambda focus, arguments, scope: focus[:1]),
    "last": Signature(lambda focus, arguments, scope: focus[-1:]),
    "tail": Signature(lambda focus, arguments, scope: focus[1:]),
    "skip": Signature(_skip, 1, 1),
    "take": Signature(_take, 1, 1),
    "intersect": Signature(_intersect, 1, 1),
    "exclude": Signature(_exclude, 1, 1),
    "combine": Signature(_combine, 1, 1),
    "union": Signature(lambda focus, arguments, scope: distinct(_combine(focus, arguments, scope), scope), 1, 1),
    "children": Signature(lambda focus, arguments, scope: [child for node in focus for child in node.children()]),
    "descendants": Signature(_descendants),
    "trace": Signature(lambda focus, arguments, scope: focus, 1, 2),
}
