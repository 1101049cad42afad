"""Evaluates the tree of an expression over nodes. A result is a list of nodes; the empty list means "unknown".

The functions that invariants and search parameters call take the nodes before them and their arguments.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import lru_cache
from typing import Any, TypeAlias

from fhir_server.bounds import Meter
from fhir_server.fhirpath.node import Node
from fhir_server.fhirpath.parser import FhirPathError, TooCostlyError, Tree, parse
from fhir_server.resources.narrative import is_valid_div
from fhir_server.wire.json_values import Json

Nodes: TypeAlias = list[Node]


MAX_STEPS = 300_000
"""The steps of all expressions of one request (about 0.3 s). R4's own expressions take a few hundred for a resource."""
MAX_TEXT = 1_000_000
"""The most characters of a text that an expression builds."""
CHARACTERS = 100
"""The characters that can be read in one step."""
MAX_NUMBER = 1_000_000_000
"""The greatest number of a place in a list or a text."""


class Budget:
    """The steps that are left. `meter` measures the request, if it is limited: it can end it between two steps."""

    __slots__ = ("left", "meter")

    def __init__(self, meter: Meter | None = None) -> None:
        self.left = MAX_STEPS
        self.meter = meter

    def spend(self, steps: int) -> None:
        """Subtracts steps. Raises TooCostlyError if too few are left, and the error of a request that has ended."""
        self.left -= steps
        if self.left < 0:
            raise TooCostlyError
        if self.meter is not None:
            self.meter.check()


_request: ContextVar[Budget | None] = ContextVar("_request", default=None)


def budget() -> Budget:
    """The budget of the current request; outside a request, a new one."""
    return _request.get() or Budget()


@contextmanager
def one_budget(meter: Meter | None) -> Iterator[None]:
    """All expressions that are evaluated inside share one budget. `meter` measures the request, if it is limited."""
    token = _request.set(Budget(meter))
    try:
        yield
    finally:
        _request.reset(token)


@dataclass(frozen=True, slots=True)
class Environment:
    """The names that an expression may use: its resource, that resource's container, and the function that resolves
    references.
    """

    resource: Node
    root: Node
    resolve: Callable[[str], Node | None]
    context: Nodes = field(default_factory=list)
    budget: Budget = field(default_factory=budget)


Function: TypeAlias = Callable[[Nodes, list[Tree], Environment], Nodes]
"""A FHIRPath function: takes the nodes before it and its arguments."""


_CONSTANTS = {"ucum": "http://unitsofmeasure.org", "sct": "http://snomed.info/sct", "loinc": "http://loinc.org"}
NAMES = {"Boolean": "boolean", "String": "string", "Integer": "integer", "Decimal": "decimal"}
"""FHIRPath's own types, each with the FHIR type of the same values."""


def holds(expression: str, node: Node, environment: Environment) -> bool:
    """Whether an invariant is true for a node; "unknown" counts as false, as in HAPI."""
    return truth(evaluate(expression, node, environment)) is True


def evaluate(expression: str, node: Node, environment: Environment) -> Nodes:
    """The result of an expression for a node.

    Raises:
        FhirPathError: the expression cannot be parsed, or calls an unknown function.
        TooCostlyError: the budget is spent.
    """
    return walk(parse(expression), [node], replace(environment, context=[node]))


def walk(tree: Tree, focus: Nodes, environment: Environment) -> Nodes:
    """The result of a tree for a list of nodes."""
    environment.budget.spend(1 + len(focus))
    match tree[0]:
        case "member":
            nodes = _members(focus if tree[1] is None else walk(tree[1], focus, environment), tree[2], tree[1] is None)
            environment.budget.spend(len(nodes))
            return nodes
        case "call":
            function = FUNCTIONS.get(tree[2])
            if function is None:
                raise FhirPathError(f"{tree[2]}() is not known")
            nodes = focus if tree[1] is None else walk(tree[1], focus, environment)
            results = function(nodes, tree[3], environment)
            environment.budget.spend(len(results))
            return results
        case "literal":
            return [literal(tree[1])]
        case "nothing":
            return []
        case "variable":
            return _variable(tree[1], environment)
        case "index":
            nodes = walk(tree[1], focus, environment)
            place = _place(tree[2], focus, environment)
            return nodes[place : place + 1]
        case "type":
            nodes = walk(tree[2], focus, environment)
            if tree[1] == "as":
                return [one for one in nodes if is_type(one, tree[3])]
            return [literal(bool(nodes) and is_type(nodes[0], tree[3]))]
        case "minus":
            return [literal(-number(one)) for one in walk(tree[1], focus, environment)]
    nodes = walk(tree[2], focus, environment)
    return _binary(tree[1], nodes, lambda: walk(tree[3], focus, environment), environment)


def literal(value: Json) -> Node:
    """A node for a value that is not part of a resource."""
    if isinstance(value, bool):
        return Node(value, "boolean")
    return Node(value, "string" if isinstance(value, str) else "decimal")


def truth(nodes: Nodes) -> bool | None:
    """A result as a truth value: None if it is empty; true if it is not a boolean, because it exists."""
    if not nodes:
        return None
    return bool(nodes[0].value) if isinstance(nodes[0].value, bool) else True


def number(node: Node) -> Decimal:
    """The number of a node.

    Raises:
        FhirPathError: its value is not a number.
    """
    value = node.comparable
    if isinstance(value, Decimal):
        return value
    raise FhirPathError(f"{value!r} is not a number")


def text(node: Node, environment: Environment) -> str:
    """The text of a node; its characters are charged.

    Raises:
        FhirPathError: the node is an object.
    """
    if isinstance(node.value, dict):
        raise FhirPathError(f"{node.type_name} is not a text")
    value = str(node.value)
    environment.budget.spend(len(value) // CHARACTERS)
    return value


def _joined(nodes: Nodes, environment: Environment) -> Nodes:
    texts = [text(node, environment) for node in nodes]
    _check_length(sum(map(len, texts)))
    return [literal("".join(texts))]


def _check_length(characters: int) -> None:
    """Call before a text is built."""
    if characters > MAX_TEXT:
        raise TooCostlyError


def _place(tree: Tree, focus: Nodes, environment: Environment) -> int:
    """A place in a list or a text, from an argument."""
    value = number(walk(tree, focus, environment)[0])
    if abs(value) > MAX_NUMBER:
        raise FhirPathError(f"numbers of places are at most {MAX_NUMBER}")
    return int(value)


def is_type(node: Node, name: str) -> bool:
    """Whether a node is of a type, named as FHIR or FHIRPath names it."""
    return node.type_name == NAMES.get(name, name) or name in ("Element", "Resource", "DomainResource")


def _variable(name: str, environment: Environment) -> Nodes:
    match name:
        case "resource":
            return [environment.resource]
        case "rootResource":
            return [environment.root]
        case "context":
            return environment.context
    if name not in _CONSTANTS:
        raise FhirPathError(f"%{name} is not known")
    return [literal(_CONSTANTS[name])]


def _members(focus: Nodes, name: str, is_first: bool) -> Nodes:
    if name == "$this":
        return focus
    if is_first and name[0].isupper():
        return [node for node in focus if is_type(node, name)]
    return [child for node in focus for child in node.child(name)]


def _binary(symbol: str, left: Nodes, later: Callable[[], Nodes], environment: Environment) -> Nodes:
    if symbol in _LOGIC:
        value = _LOGIC[symbol](truth(left), truth(later()))
        return [] if value is None else [literal(value)]
    right = later()
    if symbol == "|":
        return distinct([*left, *right], environment)
    if symbol == "&":
        return _joined([*left, *right], environment)
    if symbol in ("in", "contains"):
        one, many = (left, right) if symbol == "in" else (right, left)
        return [literal(all(_is_among(each, many, environment) for each in one))]  # an empty list is in each list
    if not left or not right:
        return []
    if symbol in ("=", "!=", "~", "!~"):
        same = len(left) == len(right) and all(map(equal, left, right))
        return [literal(same == (symbol in ("=", "~")))]
    if symbol in _COMPARISONS:
        return _compared(_COMPARISONS[symbol], left[0], right[0])
    if symbol == "+" and isinstance(left[0].value, str):
        return _joined([left[0], right[0]], environment)
    return [literal(_ARITHMETIC[symbol](number(left[0]), number(right[0])))]


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


_LOGIC: Mapping[str, Callable[[bool | None, bool | None], bool | None]] = {
    "and": _and,
    "or": _or,
    "xor": _xor,
    "implies": _implies,
}
_COMPARISONS: Mapping[str, Callable[[Json, Json], bool]] = {
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}
_ARITHMETIC: Mapping[str, Callable[[Decimal, Decimal], Decimal]] = {
    "+": operator.add,
    "-": operator.sub,
    "*": operator.mul,
    "/": operator.truediv,
    "div": operator.floordiv,
    "mod": operator.mod,
}


def equal(left: Node, right: Node) -> bool:
    """Whether two nodes are equal: by value, at any depth."""
    return bool(left.comparable == right.comparable)


def _is_among(node: Node, nodes: Nodes, environment: Environment) -> bool:
    environment.budget.spend(len(nodes))
    return any(equal(node, other) for other in nodes)


def distinct(nodes: Sequence[Node], environment: Environment) -> Nodes:
    """The nodes without duplicates."""
    unique: Nodes = []
    for node in nodes:
        if not _is_among(node, unique, environment):
            unique.append(node)
    return unique


def _compared(compare: Callable[[Json, Json], bool], left: Node, right: Node) -> Nodes:
    """The comparison of two values; empty if their units differ, or if dates are equal to the shorter precision."""
    one, other = left.comparable, right.comparable
    if isinstance(one, dict) and isinstance(other, dict):
        if one.get("unit") != other.get("unit") or "value" not in one or "value" not in other:
            return []
        one, other = (Decimal(str(value["value"])) for value in (one, other))
    elif isinstance(one, str) and isinstance(other, str) and left.type_name in ("date", "dateTime", "instant"):
        shared = min(len(one), len(other))
        if len(one) != len(other) and one[:shared] == other[:shared] and shared <= 10:
            return []
    if type(one) is not type(other):
        raise FhirPathError(f"{one!r} and {other!r} do not compare")
    return [literal(compare(one, other))]


def _exists(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [literal(bool(_where(focus, arguments, environment) if arguments else focus))]


def _where(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [node for node in focus if truth(walk(arguments[0], [node], environment))]


def _select(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [result for node in focus for result in walk(arguments[0], [node], environment)]


def _all(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [literal(all(truth(walk(arguments[0], [node], environment)) for node in focus))]


def _not(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    value = truth(focus)
    return [] if value is None else [literal(not value)]


def _iif(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    if truth(walk(arguments[0], focus, environment)):
        return walk(arguments[1], focus, environment)
    return walk(arguments[2], focus, environment) if len(arguments) > 2 else []


def _of_type(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [node for node in focus if is_type(node, arguments[0][2])]


def _is(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [literal(is_type(node, arguments[0][2])) for node in focus[:1]]


def _descendants(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    nodes: Nodes = []
    new = focus
    while new:
        new = [child for node in new for child in node.children()]
        environment.budget.spend(len(new))
        nodes += new
    return nodes


def _resolve(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    references = (node.value.get("reference") if isinstance(node.value, dict) else node.value for node in focus)
    targets = (environment.resolve(reference) for reference in references if isinstance(reference, str))
    return [node for node in targets if node is not None]


def _intersect(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    other = walk(arguments[0], environment.context, environment)
    return distinct([node for node in focus if _is_among(node, other, environment)], environment)


def _combine(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return focus + walk(arguments[0], focus, environment)


def _extension(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    url = walk(arguments[0], focus, environment)[0].value
    return [one for node in focus for one in node.child("extension") if one.value.get("url") == url]


def _skip(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return focus[max(_place(arguments[0], focus, environment), 0) :]


def _take(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return focus[: max(_place(arguments[0], focus, environment), 0)]


def _to_integer(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    texts = [text(node, environment) for node in focus[:1]]
    return [Node(int(one), "integer") for one in texts if re.fullmatch(r"[+-]?\d+", one)]


def _substring(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    start = _place(arguments[0], focus, environment)
    texts = [text(node, environment) for node in focus]
    return [literal(one[start:]) for one in texts if start < len(one)]


def _on_text(test: Callable[[str, str, Environment], bool]) -> Function:
    """A function that tests a text against another; its result is empty if a text is missing."""

    def call(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
        other = walk(arguments[0], focus, environment)
        if not other or not focus or not focus[0].has_value:
            return []
        return [literal(test(text(focus[0], environment), text(other[0], environment), environment))]

    return call


def _matches(value: str, expression: str, environment: Environment) -> bool:
    return _charged(expression, value, environment).fullmatch(value) is not None


def _replace_matches(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    expression, other = (text(walk(one, focus, environment)[0], environment) for one in arguments)
    results: Nodes = []
    for value in [text(node, environment) for node in focus]:
        _check_length((len(value) + 1) * (len(other) + 1))
        environment.budget.spend(len(value))  # each character can be a match
        try:
            results.append(literal(_charged(expression, value, environment).sub(other, value)))
        except (IndexError, re.error) as error:
            raise FhirPathError(f"{other} cannot replace {expression}: {error}") from error
    return results


def _charged(expression: str, value: str, environment: Environment) -> Any:
    """The compiled regular expression, after its steps over a text have been charged: its size times the length."""
    compiled = pattern(expression)
    environment.budget.spend(compiled.programsize * (1 + len(value) // CHARACTERS))
    return compiled


def _html_checks(focus: Nodes, arguments: list[Tree], environment: Environment) -> Nodes:
    return [literal(is_valid_div(text(node, environment))) for node in focus[:1]]


def _simple(function: Callable[[Nodes], Nodes]) -> Function:
    """A function without arguments, or one that ignores them."""
    return lambda focus, arguments, environment: function(focus)


def _of_text(function: Callable[[str], Node]) -> Function:
    """A function of the first text."""
    return lambda focus, arguments, environment: [function(text(node, environment)) for node in focus[:1]]


@lru_cache(maxsize=256)
def pattern(expression: str) -> Any:
    """A regular expression compiled by RE2, which takes linear time: clients choose the text.

    Raises:
        FhirPathError: the text is not a regular expression, uses features that RE2 lacks (backreferences, lookaround),
            or RE2 is not installed.
    """
    try:
        import re2  # type: ignore[import-untyped]  # late: most users of the server do not need it
    except ImportError as error:
        raise FhirPathError("regular expressions need the package google-re2: pip install google-re2") from error
    options = re2.Options()
    options.log_errors = False
    try:
        return re2.compile(expression, options)
    except re2.error as error:
        reason = error.args[0]
        shown = reason.decode("utf-8", "replace") if isinstance(reason, bytes) else reason
        raise FhirPathError(f"{expression} is not a pattern that RE2 accepts: {shown}") from error


FUNCTIONS: Mapping[str, Function] = {
    "exists": _exists,
    "where": _where,
    "select": _select,
    "all": _all,
    "not": _not,
    "iif": _iif,
    "ofType": _of_type,
    "as": _of_type,
    "is": _is,
    "descendants": _descendants,
    "resolve": _resolve,
    "intersect": _intersect,
    "combine": _combine,
    "union": lambda focus, arguments, environment: distinct(_combine(focus, arguments, environment), environment),
    "extension": _extension,
    "skip": _skip,
    "take": _take,
    "toInteger": _to_integer,
    "substring": _substring,
    "startsWith": _on_text(lambda value, other, _: value.startswith(other)),
    "contains": _on_text(lambda value, other, _: other in value),
    "matches": _on_text(_matches),
    "replaceMatches": _replace_matches,
    "htmlChecks": _html_checks,
    "empty": _simple(lambda focus: [literal(not focus)]),
    "count": _simple(lambda focus: [Node(len(focus), "integer")]),
    "first": _simple(lambda focus: focus[:1]),
    "last": _simple(lambda focus: focus[-1:]),
    "distinct": lambda focus, arguments, environment: distinct(focus, environment),
    "lower": _of_text(lambda value: literal(value.lower())),
    "upper": _of_text(lambda value: literal(value.upper())),
    "tail": _simple(lambda focus: focus[1:]),
    "children": _simple(lambda focus: [child for node in focus for child in node.children()]),
    "isDistinct": lambda focus, arguments, environment: [literal(len(distinct(focus, environment)) == len(focus))],
    "hasValue": _simple(lambda focus: [literal(len(focus) == 1 and focus[0].has_value)]),
    "toString": _of_text(literal),
    "length": _of_text(lambda value: Node(len(value), "integer")),
    "trace": _simple(lambda focus: focus),
}
"""The functions by name. `htmlChecks` is R4's own: whether a narrative uses only allowed HTML."""
