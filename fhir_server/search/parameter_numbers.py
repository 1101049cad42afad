"""The numbers that search parameters have in the index tables of one store."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property

from fhir_server.search.parameters import parameters, resource_types


class ParameterNumbers:
    """Numbers by resource type and parameter name."""

    def __init__(self, numbers: Mapping[tuple[str, str], int]) -> None:
        self._numbers = numbers
        self._by_type: dict[str, dict[str, int]] = {}
        for (resource_type, name), number in numbers.items():
            self._by_type.setdefault(resource_type, {})[name] = number

    def number(self, resource_type: str, name: str) -> int:
        """The number of a parameter; 0, which no row has, for an unknown one."""
        return self._numbers.get((resource_type, name), 0)

    def of(self, resource_type: str) -> Mapping[str, int]:
        """The numbers of a type's parameters by name."""
        return self._by_type[resource_type]

    @cached_property
    def references(self) -> list[int]:
        """The numbers of all reference parameters."""
        return [
            self.number(kind, name)
            for kind in resource_types()
            for name, parameter in parameters(kind).items()
            if parameter.kind == "reference"
        ]
