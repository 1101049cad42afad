"""Compiles the tree of an expression to functions, and evaluates it for a node."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from decimal import Decimal
from functools import lru_cache, partial
from typing import Any

from fhir_server import definitions
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.functions import FUNCTIONS, as_type, is_of_type, of_type, sort
from fhir_server.expressions.node import Node, Nodes, choice_keys, computed, is_type
from fhir_server.expressions.operators import LOGIC, OPERATORS
from fhir_server.expressions.parser import (
    Binary,
    Call,
    Index,
    Literal,
    Member,
    Minus,
    MomentLiteral,
    QuantityLiteral,
    Set,
    Tree,
    TypeOperation,
    Variable,
    parse,
)
from fhir_server.expressions.scope import Environment, Expression, Scope, single, truth
from fhir_server.expressions.values import Quantity, moment

_URLS = {"ucum": "http://unitsofmeasure.org", "sct": "http://snomed.info/sct", "loinc": "http://loinc.org"}
_PREFIXES = {"vs-": "http://hl7.org/fhir/ValueSet/", "ext-": "http://hl7.org/fhir/StructureDefinition/"}


def holds(expression: str, node: Node, environment: Environment) -> bool:
    """Whether an invariant is true for a node; "unknown" counts as false, as in HAPI."""
    return truth(evaluate(expression, node, environment)) is True


def evaluate(expression: str, node: Node, environment: Environment) -> Nodes:
    """The result of an expression for a node.

    Raises:
        FhirPathError: the expression cannot be parsed, or cannot be evaluated for this node.
        TooCostlyError: the budget is spent.
    """
    return _run(compiled(expression), node, environment)


def walk(tree: Tree, node: Node, environment: Environment) -> Nodes:
    """The result of a tree for a node; raises the same."""
    return _run(_compile(tree), node, environment)


@lru_cache(maxsize=1024)
def compiled(expression: str) -> Expression:
    """An expression as a function.

    Raises:
        FhirPathError: the expression cannot be parsed, or calls an unknown function.
    """
    return _compile(parse(expression))


def _run(expression: Expression, node: Node, environment: Environment) -> Nodes:
    try:
        return expression([node], Scope(environment, [node], [node]))
    except (ArithmeticError, RecursionError) as error:
        raise FhirPathError(f"the expression cannot be computed: {error}") from error


def _compile(tree: Tree) -> Expression:
    return _COMPILERS[type(tree)](tree)


def _constant(*nodes: Node) -> Expression:
    def run(focus: Nodes, scope: Scope) -> Nodes:
        scope.spend(1)
        return [*nodes]

    return run


def _literal(tree: Literal) -> Expression:
    return _constant(computed(tree.value))


def _moment(tree: MomentLiteral) -> Expression:
    kind = "Date"
    if "T" in tree.text:
        kind = "Time" if tree.text[0] == "T" else "DateTime"
    value = moment(tree.text, kind)
    if value is None:
        raise FhirPathError(f"@{tree.text} is not a date or a time")
    return _constant(computed(value))


def _quantity(tree: QuantityLiteral) -> Expression:
    return _constant(computed(Quantity(tree.value, tree.unit)))


def _set(tree: Set) -> Expression:
    members = [_compile(member) for member in tree.members]

    def run(focus: Nodes, scope: Scope) -> Nodes:
        scope.spend(1)
        return [node for member in members for node in member(focus, scope)]

    return run


def _variable(tree: Variable) -> Expression:
    def run(focus: Nodes, scope: Scope) -> Nodes:
        scope.spend(1)
        match tree.name:
            case "$this":
                return scope.this
            case "$index":
                return [] if scope.index is None else [computed(scope.index)]
            case "$total":
                return scope.total or []
            case "%resource":
                return [scope.environment.resource]
            case "%rootResource":
                return [scope.environment.root]
            case "%context":
                return scope.context
        return [computed(_url(tree.name[1:]))]

    return run


def _url(name: str) -> str:
    if name in _URLS:
        return _URLS[name]
    for prefix, base in _PREFIXES.items():
        if name.startswith(prefix):
            return base + name.removeprefix(prefix)
    raise FhirPathError(f"%{name} is not known")


def _member(tree: Member) -> Expression:
    if tree.left is None:
        return (
            partial(_type_or_members, name=tree.name) if tree.name[:1].isupper() else partial(_members, name=tree.name)
        )
    left, name = _compile(tree.left), tree.name
    return lambda focus, scope: _members(left(focus, scope), scope, name)


def _type_or_members(focus: Nodes, scope: Scope, name: str) -> Nodes:
    scope.spend(1 + len(focus))
    types = [node for node in focus if not node.is_system and is_type_or_unknown(node, name)]
    return types or _members(focus, scope, name)


def is_type_or_unknown(node: Node, name: str) -> bool:
    """Whether a node is of a type; false if the type is not known."""
    try:
        return is_type(node, name)
    except FhirPathError:
        return False


def _members(focus: Nodes, scope: Scope, name: str) -> Nodes:
    nodes: Nodes = []
    if scope.environment.json_names:
        for node in focus:
            nodes += _by_json_name(node, name)
    else:
        for node in focus:
            if name not in choice_keys(node.type_name):
                nodes += node.child(name)
    scope.spend(1 + len(focus) + len(nodes))
    return nodes


def _by_json_name(node: Node, name: str) -> Iterable[Node]:
    """The nodes at a name of FHIRPath, at a key of JSON, or the node itself for the name of its type."""
    if name in ("resourceType", node.type_name) and definitions.is_resource_type(node.type_name):
        return [node if name == node.type_name else computed(node.type_name)]
    return node.child(name)


def _index(tree: Index) -> Expression:
    left, position = _compile(tree.left), _compile(tree.position)

    def run(focus: Nodes, scope: Scope) -> Nodes:
        nodes = left(focus, scope)
        place = single(position(scope.this, scope))
        if place is None:
            return []
        if isinstance(place, bool) or not isinstance(place, int) or place < 0:
            return []
        return nodes[place : place + 1]

    return run


def _binary(tree: Binary) -> Expression:
    left, right = _compile(tree.left), _compile(tree.right)
    if tree.symbol in LOGIC:
        return _logic(tree.symbol, left, right)
    operator = OPERATORS[tree.symbol]

    def run(focus: Nodes, scope: Scope) -> Nodes:
        scope.spend(1)
        return operator(left(focus, scope), right(focus, scope), scope)

    return run


def _logic(symbol: str, left: Expression, right: Expression) -> Expression:
    combine, decisive = LOGIC[symbol], _DECISIVE.get(symbol)

    def run(focus: Nodes, scope: Scope) -> Nodes:
        scope.spend(1)
        value = truth(left(focus, scope))
        if value is None or value is not decisive:
            value = combine(value, truth(right(focus, scope)))
        elif symbol == "implies":
            value = True
        return [] if value is None else [computed(value)]

    return run


def _type_operation(tree: TypeOperation) -> Expression:
    function = as_type if tree.symbol == "as" else _is_operator
    return _of_type(function, _compile(tree.left), tree.type_name)


def _is_operator(focus: Nodes, type_name: str) -> Nodes:
    """As in HAPI, `is` between operands is false for several nodes, and `is()` is empty."""
    return [computed(False)] if len(focus) > 1 else is_of_type(focus, type_name)


def _as_function(focus: Nodes, type_name: str) -> Nodes:
    """As in HAPI, an Age is a Quantity for `as()`, but not for `as` between operands."""
    return of_type(focus, type_name) or as_type(focus, type_name)


def _of_type(function: Callable[[Nodes, str], Nodes], left: Expression, type_name: str) -> Expression:
    def run(focus: Nodes, scope: Scope) -> Nodes:
        nodes = left(focus, scope)
        scope.spend(1 + len(nodes))
        return function(nodes, type_name)

    return run


def _minus(tree: Minus) -> Expression:
    operand = _compile(tree.operand)

    def run(focus: Nodes, scope: Scope) -> Nodes:
        value = single(operand(focus, scope))
        match value:
            case None:
                return []
            case Quantity():
                return [computed(value._replace(value=-value.value))]
            case int() | Decimal() if not isinstance(value, bool):
                return [computed(-value)]
        raise FhirPathError(f"-{value} cannot be computed")

    return run


def _current(focus: Nodes, scope: Scope) -> Nodes:
    return focus


def _call(tree: Call) -> Expression:
    name = tree.name
    left = _current if tree.left is None else _compile(tree.left)
    if name in _TYPE_FUNCTIONS:
        if len(tree.arguments) != 1:
            raise FhirPathError(f"{name}() takes one type")
        return _of_type(_TYPE_FUNCTIONS[name], left, _type_name(tree.arguments[0]))
    if name == "sort":
        return _sort(left, tree.arguments)
    signature = FUNCTIONS.get(name)
    if signature is None:
        raise FhirPathError(f"{name}() is not known")
    if not signature.least <= len(tree.arguments) <= signature.most:
        raise FhirPathError(f"{name}() does not take {len(tree.arguments)} arguments")
    function, arguments = signature.run, tuple(map(_compile, tree.arguments))

    def run(focus: Nodes, scope: Scope) -> Nodes:
        nodes = left(focus, scope)
        results = function(nodes, arguments, scope)
        scope.spend(1 + len(nodes) + len(results))
        return results

    return run


def _type_name(tree: Tree) -> str:
    """A type that is written as an argument, perhaps with its namespace."""
    match tree:
        case Member(left=None, name=name):
            return name
        case Member(left=Member(left=None, name=namespace), name=name):
            return f"{namespace}.{name}"
        case Literal(value=str(name)):
            return name
    raise FhirPathError("a type is expected")


def _sort(left: Expression, arguments: tuple[Tree, ...]) -> Expression:
    keys = [
        (_compile(tree.operand if isinstance(tree, Minus) else tree), isinstance(tree, Minus)) for tree in arguments
    ]
    return lambda focus, scope: sort(left(focus, scope), keys, scope)


_DECISIVE = {"and": False, "or": True, "implies": False}
"""The left operand that decides the result alone."""
_TYPE_FUNCTIONS = {"is": is_of_type, "as": _as_function, "ofType": of_type}
_COMPILERS: Mapping[type, Callable[[Any], Expression]] = {
    Literal: _literal,
    MomentLiteral: _moment,
    QuantityLiteral: _quantity,
    Set: _set,
    Variable: _variable,
    Member: _member,
    Call: _call,
    Index: _index,
    Binary: _binary,
    TypeOperation: _type_operation,
    Minus: _minus,
}
