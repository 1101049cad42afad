"""Composites, `value$value`: each component holds of the resource, as HAPI joins the components' own tables."""

from __future__ import annotations

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, either, of_type
from fhir_server.search.criteria import Criterion, split
from fhir_server.search.kinds.kind import Kind, Scope
from fhir_server.search.parameters import SearchParameter


def conditions(scope: Scope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The conditions of the components, or for several values one that holds where those of any value do."""
    alternatives: list[list[Condition]] = []
    for value in criterion.values:
        parts = split(value, "$")
        if len(parts) == 1:
            return [of_type(scope.resource_type, "0")]
        if len(parts) != len(parameter.components):
            problem = "only one '$' is valid for this parameter, others must be escaped"
            raise FhirError(400, f"HAPI-1947: Invalid value for composite parameter ({problem}). Value was: {value}")
        inner = [
            Criterion(component.parameter, "", (part,))
            for component, part in zip(parameter.components, parts, strict=True)
        ]
        alternatives.append(scope.conditions(scope.resource_type, inner))
    if len(alternatives) == 1:
        return alternatives[0]
    tests = [" AND ".join(one.filter("@row_id") for one in found) for found in alternatives]
    args = tuple(arg for found in alternatives for one in found for arg in one.args)
    return [of_type(scope.resource_type, either(tests), args, weight=6)]


def without_value(criterion: Criterion) -> list[Criterion]:
    """A composite without a value is met by nothing."""
    return [Criterion(criterion.name, "", ("",))]


KIND = Kind("composite", conditions, without_value=without_value)
