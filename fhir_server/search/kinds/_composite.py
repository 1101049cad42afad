"""Composites, `value$value`: a resource must match each component. As in HAPI, the components' tables are joined."""

from __future__ import annotations

from collections.abc import Sequence
from operator import attrgetter

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, Criterion, either, of_type, split
from fhir_server.search.kinds.kind import Kind, SearchScope
from fhir_server.search.parameters import SearchParameter


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The conditions of the components. For several values, one condition that is true if any value matches."""
    modifier = criterion.modifier if criterion.modifier in _OF_TOKENS else ""
    alternatives: list[list[Condition]] = []
    for value in criterion.values:
        parts = split(value, "$")
        if len(parts) > 2:
            problem = "only one '$' is valid for this parameter, others must be escaped"
            raise FhirError(400, f"HAPI-1947: Invalid value for composite parameter ({problem}). Value was: {value}")
        unsupported = next((part.kind for part in parameter.components if part.kind in _UNSUPPORTED), None)
        if unsupported:
            problem = f"Don't know how to handle composite parameter with type of {unsupported.upper()}"
            raise FhirError(400, f"HAPI-1204: {problem}")
        if len(parts) == 1:
            if modifier:  # HAPI reports errors in the code first
                _of_components(scope, parameter, parts, modifier)
            return [of_type(scope.resource_type, "0")]
        if not all(parts):
            return [of_type(scope.resource_type, "0")]
        alternative = _of_components(scope, parameter, parts, "")
        alternatives.append(_of_components(scope, parameter, parts, modifier) if modifier else alternative)
    if len(alternatives) == 1:
        return alternatives[0]
    tests = [" AND ".join(component.filter("@row_id") for component in alternative) for alternative in alternatives]
    args = tuple(arg for alternative in alternatives for component in alternative for arg in component.args)
    return [of_type(scope.resource_type, either(tests), args, weight=6)]


_OF_TOKENS = frozenset(("in", "not-in", "above", "below", "not", "text"))
"""Modifiers that HAPI applies to the token components. It ignores all others."""
_UNSUPPORTED = ("number", "reference")
"""The kinds of components that HAPI does not search."""


def _of_components(
    scope: SearchScope, parameter: SearchParameter, parts: Sequence[str], modifier: str
) -> list[Condition]:
    """The conditions of the components for the parts of a value."""
    components = parameter.components
    if len({component.kind for component in components}) == 1:  # HAPI sorts them by name, the parts not
        components = tuple(sorted(components, key=attrgetter("parameter")))
    inner = [
        Criterion(component.parameter, modifier if component.kind == "token" else "", (part,))
        for component, part in zip(components, parts, strict=False)
    ]
    return scope.conditions(scope.resource_type, inner)


def without_value(criterion: Criterion) -> list[Criterion]:
    """A composite without a value matches nothing."""
    return [Criterion(criterion.name, "", ("",))]


KIND = Kind("composite", conditions, without_value=without_value)
