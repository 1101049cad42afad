"""What an expression can see while it is evaluated, and what functions take and return."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from decimal import Decimal
from typing import TypeAlias

from fhir_server.expressions.budget import Budget, budget
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.node import Node, Nodes, value_of
from fhir_server.expressions.values import Value


def _now() -> datetime:
    return datetime.now().astimezone()


@dataclass(frozen=True, slots=True)
class Environment:
    """The resource of an expression, that resource's container, the function that resolves references, and the time.

    `json_names`: elements are found by the keys of JSON too (`valueQuantity`, `resourceType`), which HAPI does not do.
    """

    resource: Node
    root: Node
    resolve: Callable[[str], Node | None]
    budget: Budget = field(default_factory=budget)
    now: Callable[[], datetime] = _now
    json_names: bool = False


class Scope:
    """An environment, and what `$this`, `$index` and `$total` mean at a place of the expression."""

    __slots__ = ("context", "environment", "index", "spend", "this", "total")

    def __init__(
        self,
        environment: Environment,
        context: Nodes,
        this: Nodes,
        index: int | None = None,
        total: Nodes | None = None,
    ) -> None:
        self.environment = environment
        self.context = context
        self.this = this
        self.index = index
        self.total = total
        self.spend = environment.budget.spend

    def at(self, node: Node, index: int, total: Nodes | None = None) -> Scope:
        """The scope of an argument that is evaluated for one node of a list."""
        return Scope(self.environment, self.context, [node], index, self.total if total is None else total)


Expression: TypeAlias = Callable[[Nodes, Scope], Nodes]
"""A compiled expression: takes the nodes before it, and returns its result. The empty list means "unknown"."""
Function: TypeAlias = Callable[[Nodes, "tuple[Expression, ...]", Scope], Nodes]
"""A function of FHIRPath: takes the nodes before it, and its arguments."""


@dataclass(frozen=True, slots=True)
class Signature:
    """A function, and how many arguments it takes."""

    run: Function
    least: int = 0
    most: int = 0


def argument(arguments: tuple[Expression, ...], index: int, scope: Scope) -> Nodes:
    """The result of an argument, which is evaluated where the function is called, not for the nodes before it."""
    return arguments[index](scope.this, scope) if index < len(arguments) else []


def each(focus: Nodes, expression: Expression, scope: Scope) -> list[Nodes]:
    """The result of an expression for each node of a list."""
    return [expression([node], scope.at(node, index)) for index, node in enumerate(focus)]


def single(nodes: Nodes) -> Value | None:
    """The value of a list with one node; None if the list is empty, or the node does not have a value.

    Raises:
        FhirPathError: there are several nodes, or the node is an object.
    """
    if not nodes:
        return None
    if len(nodes) > 1:
        raise FhirPathError(f"one value is expected, but there are {len(nodes)}")
    value = value_of(nodes[0])
    if value is None and nodes[0].value is not None:
        raise FhirPathError(f"a value is expected, but there is a {nodes[0].type_name}")
    return value


def truth(nodes: Nodes) -> bool | None:
    """A result as a truth value: None if it is empty; true if it is not a boolean, because it exists."""
    if not nodes:
        return None
    value = nodes[0].value
    return value if isinstance(value, bool) and len(nodes) == 1 else True


def text(nodes: Nodes, scope: Scope) -> str | None:
    """The text of a list with one text; None for anything else. Reading its characters costs steps."""
    value = value_of(nodes[0]) if len(nodes) == 1 else None
    if not isinstance(value, str):
        return None
    scope.environment.budget.read(value)
    return value


def as_text(value: Value) -> str:
    """A value as text."""
    match value:
        case bool():
            return "true" if value else "false"
        case Decimal():
            return f"{value:f}"
    return str(value)


def joined(nodes: Nodes, scope: Scope) -> str | None:
    """The texts of all nodes with commas between them, as HAPI reads several; None for an empty list, or an object."""
    values = [value_of(node) for node in nodes]
    present = [as_text(value) for value in values if value is not None]
    if not present or len(present) < len(values):
        return None
    scope.environment.budget.build(sum(map(len, present)) + len(present))
    return ",".join(present)
