"""The interface of a module in `search/kinds`: how a kind of parameter is indexed, stored, searched and sorted."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final, TypeAlias

from fhir_server.search._criteria import Criterion
from fhir_server.search._element_paths import ElementPath
from fhir_server.search.condition import Condition
from fhir_server.search.index_rows import IndexRows
from fhir_server.search.parameters import SearchParameter
from fhir_server.search.registry import ParameterRegistry
from fhir_server.terminology.library import Library
from fhir_server.wire.json_values import Json

Extractor: TypeAlias = Callable[[IndexRows, list[Json]], None]
"""Adds the rows for the values at the end of a path."""
ValueExtractor: TypeAlias = Callable[[IndexRows, str, Json], None]
"""Adds the rows of a parameter, given by its name, for one value."""
TableRow: TypeAlias = tuple[Any, ...]

TEXTS: Final = frozenset(("string", "markdown", "code", "id", "uri", "url", "canonical", "oid", "uuid"))
"""The primitive types with text values."""


@dataclass(frozen=True, slots=True)
class Scope:
    """The input for making conditions: the type that is searched, the registry, and the library of value sets.

    `conditions` makes the conditions of the criteria of any type, for chains.
    """

    resource_type: str
    registry: ParameterRegistry
    library: Library
    conditions: Callable[[str, Sequence[Criterion]], list[Condition]]

    def number(self, name: str) -> int:
        """The number of one of the type's parameters."""
        return self.registry.number(self.resource_type, name)


def _any_modifier(resource_type: str, modifier: str) -> None:
    """Accepts any modifier: HAPI ignores most modifiers that mean nothing for a parameter."""


def _as_it_is(value: str) -> str:
    return value


def _no_condition(criterion: Criterion) -> list[Criterion]:
    return []


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of search parameter.

    * `conditions` makes the conditions of a criterion.
    * `extractor` returns the function that indexes the values at the end of a path; None if they are not indexed.
    * `table_rows` makes rows of the index table from index rows, the parameters' numbers and the resource's number.
    * `sort_key` is the SQL expression for `_sort`; empty if HAPI does not sort by this kind.
    * `named` is the column with the number of a text (`search.names`); `table_rows` has the text there.
    * `check_modifier` raises HAPI's errors.
    * `cleaned` removes the parts of a value that HAPI ignores.
    * `without_value` makes the criteria for a parameter without a value.
    * `combines`: one row must match all criteria of one parameter, and a criterion outside chains has one value.
    * `orders`: SQL expressions, by names for their indexes, by which conditions or the sort key order, and by which the
      table is not clustered.
    """

    name: str
    conditions: Callable[[Scope, SearchParameter, Criterion], list[Condition]]
    table: str = ""
    columns: tuple[str, ...] = ()
    extractor: Callable[[SearchParameter, ElementPath], Extractor | None] = lambda parameter, path: None
    table_rows: Callable[[list[Any], Mapping[str, int], int], list[TableRow]] = lambda rows, numbers, row_id: []
    sort_key: str = ""
    named: str = ""
    check_modifier: Callable[[str, str], None] = _any_modifier
    cleaned: Callable[[str], str] = _as_it_is
    without_value: Callable[[Criterion], list[Criterion]] = _no_condition
    combines: bool = False
    orders: Mapping[str, str] = field(default_factory=dict)


def by_type(extractors: Mapping[str, ValueExtractor]) -> Callable[[SearchParameter, ElementPath], Extractor | None]:
    """An `extractor` that depends only on the type of the values."""

    def extractor(parameter: SearchParameter, path: ElementPath) -> Extractor | None:
        one = extractors.get(path.type_name)
        return each(parameter.name, one) if one else None

    return extractor


def each(name: str, one: ValueExtractor) -> Extractor:
    """An extractor that applies `one` to each value."""

    def extract(rows: IndexRows, values: list[Json]) -> None:
        for value in values:
            one(rows, name, value)

    return extract
