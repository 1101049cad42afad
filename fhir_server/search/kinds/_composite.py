"""Composites, `value$value`: a resource must match each component. As in HAPI, the components' tables are joined."""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, Criterion, either, of_type, split
from fhir_server.search.kinds.kind import Kind, Scope
from fhir_server.search.parameters import SearchParameter


def conditions(scope: Scope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The conditions of the components. For several values, one condition that is true if any value matches."""
    modifier = criterion.modifier if criterion.modifier in _OF_TOKENS else ""
    alternatives: list[list[Condition]] = []
    for value in criterion.values:
        parts = split(value, "$")
        if len(parts) == 1:
            if modifier:  # HAPI reports errors in the code first
                _of_components(scope, parameter, parts, modifier)
            return [of_type(scope.resource_type, "0")]
        if len(parts) != len(parameter.components):
            problem = "only one '$' is valid for this parameter, others must be escaped"
            raise FhirError(400, f"HAPI-1947: Invalid value for composite parameter ({problem}). Value was: {value}")
        alternative = _of_components(scope, parameter, parts, "")
        alternatives.append(_of_components(scope, parameter, parts, modifier) if modifier else alternative)
    if len(alternatives) == 1:
        return alternatives[0]
    tests = [" AND ".join(one.filter("@row_id") for one in alternative) for alternative in alternatives]
    args = tuple(arg for alternative in alternatives for one in alternative for arg in one.args)
    return [of_type(scope.resource_type, either(tests), args, weight=6)]


_OF_TOKENS = frozenset(("in", "not-in", "above", "below", "not", "text"))
"""Modifiers that HAPI applies to the token components. It ignores all others."""


def _of_components(scope: Scope, parameter: SearchParameter, parts: Sequence[str], modifier: str) -> list[Condition]:
    """The conditions of the components for the parts of a value."""
    inner = [
        Criterion(component.parameter, modifier if component.kind == "token" else "", (part,))
        for component, part in zip(parameter.components, parts, strict=False)
    ]
    return scope.conditions(scope.resource_type, inner)


def without_value(criterion: Criterion) -> list[Criterion]:
    """A composite without a value matches nothing."""
    return [Criterion(criterion.name, "", ("",))]


KIND = Kind("composite", conditions, without_value=without_value)
