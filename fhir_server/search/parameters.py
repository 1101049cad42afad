"""HAPI's built-in search parameters of each resource type, including the common ones (`_id`, `_tag` …)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fhir_server import definitions
from fhir_server.definitions import resource_types as resource_types


@dataclass(frozen=True, slots=True)
class Component:
    """A component of a composite: the name of a search parameter, and its kind."""

    parameter: str
    kind: str


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """A search parameter of one resource type.

    `kind` is token, string, date, quantity, number, uri, reference, composite or special. `expression` is the FHIRPath
    of the definition. `targets` are the types that a reference may have (empty: any).
    """

    name: str
    kind: str
    expression: str
    targets: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()


@cache
def parameters(resource_type: str) -> Mapping[str, SearchParameter]:
    """The search parameters of a resource type by name, sorted, including the common ones (`_id`, `_tag` …).

    Raises:
        KeyError: R4 has no such resource type.
    """
    if not definitions.is_resource_type(resource_type):
        raise KeyError(resource_type)
    by_name: dict[str, SearchParameter] = {}
    for base in ("Resource", "DomainResource", resource_type):
        lines = definitions.parameter_lines(base)
        kinds = {line.name: line.kind for line in lines}
        for line in lines:
            # `_content` and `_text` have no path. HAPI lists them, but replies that they need a full-text index.
            kind = line.kind if line.expression else "special"
            components = tuple(Component(name, kinds[name]) for name in line.components)
            by_name[line.name] = SearchParameter(line.name, kind, line.expression, line.targets, components)
    return dict(sorted(by_name.items()))
