"""HAPI's built-in search parameters of each resource type, including the common ones (`_id`, `_tag` …).

A store keeps a registry of its parameters: clients may define some, and replace R4's. Each gets a number in the index
tables. A registry never changes: if a store's parameters change, it gets a new one.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, cached_property
from typing import TypeAlias

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
    of the definition. `targets` are the types to which a reference may point (empty: any). `since` is when a client
    stored the definition, if the expression depends on the time.
    """

    name: str
    kind: str
    expression: str
    targets: tuple[str, ...] = ()
    components: tuple[Component, ...] = ()
    since: str = ""


@cache
def parameters(resource_type: str) -> Mapping[str, SearchParameter]:
    """The search parameters of a resource type by name, sorted, including the common ones (`_id`, `_tag` …).

    Raises:
        KeyError: the resource type is not in R4.
    """
    if not definitions.is_resource_type(resource_type):
        raise KeyError(resource_type)
    by_name: dict[str, SearchParameter] = {}
    for base in ("Resource", "DomainResource", resource_type):
        lines = definitions.parameter_lines(base)
        kinds = {line.name: line.kind for line in lines}
        for line in lines:
            # `_content` and `_text` are without a path. HAPI lists them, but replies that they need a full-text index.
            kind = line.kind if line.expression else "special"
            components = tuple(Component(name, kinds[name]) for name in line.components)
            by_name[line.name] = SearchParameter(line.name, kind, line.expression, line.targets, components)
    return dict(sorted(by_name.items()))


Key: TypeAlias = tuple[str, str]
"""A resource type and the name of one of its parameters."""
CustomParameters: TypeAlias = Mapping[Key, SearchParameter | None]
"""Parameters that clients define. None removes one of R4's parameters."""


class ParameterRegistry:
    """Search parameters and their numbers, by resource type and name."""

    def __init__(self, numbers: Mapping[Key, int], custom: CustomParameters | None = None) -> None:
        self.numbers = numbers
        self.custom: CustomParameters = custom or {}
        self._by_type: dict[str, dict[str, int]] = {}
        for (resource_type, name), number in numbers.items():
            self._by_type.setdefault(resource_type, {})[name] = number
        self._own_by_type: dict[str, dict[str, SearchParameter | None]] = {}
        for (resource_type, name), parameter in self.custom.items():
            self._own_by_type.setdefault(resource_type, {})[name] = parameter
        self._changed: dict[str, Mapping[str, SearchParameter]] = {}

    def number(self, resource_type: str, name: str) -> int:
        """The number of a parameter. 0 for an unknown one, which is in no row."""
        return self.numbers.get((resource_type, name), 0)

    def of(self, resource_type: str) -> Mapping[str, int]:
        """The numbers of a type's parameters by name."""
        return self._by_type[resource_type]

    def custom_of(self, resource_type: str) -> Mapping[str, SearchParameter | None]:
        """The parameters that clients define for a type, by name."""
        return self._own_by_type.get(resource_type, {})

    def parameters(self, resource_type: str) -> Mapping[str, SearchParameter]:
        """The search parameters of a resource type by name, sorted.

        Raises:
            KeyError: the resource type is not in R4.
        """
        if resource_type not in self._own_by_type:
            return parameters(resource_type)
        if resource_type not in self._changed:
            both = {**parameters(resource_type), **self._own_by_type[resource_type]}
            self._changed[resource_type] = {
                name: parameter for name, parameter in sorted(both.items()) if parameter is not None
            }
        return self._changed[resource_type]

    @cached_property
    def references(self) -> list[int]:
        """The numbers of all reference parameters."""
        return [
            self.number(kind, name)
            for kind in resource_types()
            for name, parameter in self.parameters(kind).items()
            if parameter.kind == "reference"
        ]
