"""FHIRPath as a function of a library: one resource and one expression."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from fhir_server.expressions.budget import Budget
from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.evaluator import evaluate
from fhir_server.expressions.node import Node, in_fhir
from fhir_server.expressions.scope import Environment
from fhir_server.resources.references import target

STEPS = 5_000_000
"""The steps of one expression: a few seconds."""


def fhirpath(resource: dict[str, Any], expression: str, *, steps: int = STEPS) -> list[Any]:
    """Evaluates a FHIRPath expression over a FHIR R4 resource in JSON, as HAPI FHIR 7.6.0 does.

    You can also use the keys of JSON (`valueQuantity`, `resourceType`), `sort()`, and a list such as `{'a', 'b'}`.
    `resolve()` finds contained resources, and those in the same Bundle.

    Returns:
        The values as they are in the resource. A computed decimal is a `Decimal`, a date or a time is a text, a
        quantity is a dict.

    Raises:
        FhirPathError: the expression cannot be parsed, or cannot be evaluated for this resource; TooCostlyError if it
            takes more than `steps`, or builds a text of more than a million characters.
    """
    resource_type = resource.get("resourceType")
    if not isinstance(resource_type, str):
        raise FhirPathError("the resource does not have a resourceType")
    node = Node(resource, resource_type)
    environment = Environment(node, node, _Resolver(node).resolve, Budget(steps=steps), json_names=True)
    return [_value(result) for result in evaluate(expression, node, environment)]


def _value(node: Node) -> Any:
    value = in_fhir(node).value
    return node.value if node.is_system and not isinstance(node.value, dict) else value


class _Resolver:
    """Finds resources by reference; a Bundle is read at the first use."""

    def __init__(self, root: Node) -> None:
        self._root = root
        self._by_reference: dict[str, Node] | None = None

    def resolve(self, reference: str) -> Node | None:
        """The resource that a reference names, or None."""
        if reference.startswith("#"):
            return self._root.contained(reference)
        if self._by_reference is None:
            self._by_reference = dict(self._entries())
        relative = target(reference)
        return self._by_reference.get(reference) or self._by_reference.get(f"{relative.type}/{relative.id}")

    def _entries(self) -> Iterator[tuple[str, Node]]:
        for entry in self._root.child("entry"):
            resource = next(entry.child("resource"), None)
            if resource is not None:
                yield f"{resource.type_name}/{resource.value.get('id')}", resource
                if "fullUrl" in entry.value:
                    yield str(entry.value["fullUrl"]), resource
