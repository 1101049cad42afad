"""The search parameters of each resource type: HAPI's built-in ones, the common ones (`_id`, `_tag` …) among them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache

from fhir_server import definitions
from fhir_server.definitions import resource_types as resource_types


@dataclass(frozen=True, slots=True)
class SearchParameter:
    """A search parameter of one resource type.

    `kind` is token, string, date, quantity, number, uri, reference, composite or special; `expression` is the FHIRPath
    of the definition; `targets` the types a reference may point to; `components` the parts of a composite, each with
    the path below `expression`; `is_common` marks those that every type has.
    """

    name: str
    kind: str
    expression: str
    targets: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    is_common: bool = False


@dataclass(frozen=True, slots=True)
class Component:
    """A part of a composite: the parameter it searches like, its kind and its path below the composite's."""

    parameter: str
    kind: str
    path: str


@cache
def parameters(resource_type: str) -> Mapping[str, SearchParameter]:
    """The search parameters of a resource type by name, sorted.

    Raises:
        KeyError: R4 has no such resource type.
    """
    if not definitions.is_resource_type(resource_type):
        raise KeyError(resource_type)
    found: dict[str, SearchParameter] = {}
    for base in ("Resource", "DomainResource", resource_type):
        lines = definitions.parameter_lines(base)
        for line in lines:
            components = tuple(_component(name, path, lines) for name, path in line.components)
            found[line.name] = SearchParameter(
                line.name, _kind(line), line.expression, line.targets, components, base != resource_type
            )
    return dict(sorted(found.items()))


def _kind(line: definitions.ParameterLine) -> str:
    # `near` is special by definition; `_content` and `_text` have no path, and HAPI only names them.
    return line.kind if line.expression else "special"


def _component(name: str, path: str, siblings: list[definitions.ParameterLine]) -> Component:
    kinds = {line.name: line.kind for line in siblings}
    return Component(name, kinds.get(name, "token"), path)
