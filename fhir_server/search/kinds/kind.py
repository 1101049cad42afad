"""The interface of a module in `search/kinds`: how a kind of parameter is indexed, stored, searched and sorted.

Also what several kinds share: index rows, prefixes of ordered values (`gt5.4`), and the comparison of numbers. An index
row is a tuple that begins with the parameter's name; the module of the kind defines the rest. An import makes tens of
thousands of rows per second, so they are tuples in lists, not objects.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, TypeAlias

from fhir_server.errors import FhirError
from fhir_server.search._element_paths import ElementPath
from fhir_server.search._join_order import ALTERNATIVES, COMPARED
from fhir_server.search.condition import Condition, Criterion, either
from fhir_server.search.parameters import ParameterRegistry, SearchParameter
from fhir_server.terminology import Library
from fhir_server.wire.json_values import Json


class ReferenceRow(NamedTuple):
    """A reference as written in the resource, and the FHIRPath of its element.

    `canonical`: it is the canonical URL of a definition, which may be on another server.
    """

    parameter: str
    path: str
    reference: str
    canonical: bool = False


class IndexRows(defaultdict[str, list[Any]]):
    """The rows of one resource by kind. The list of a kind without rows is empty."""

    def __init__(self) -> None:
        super().__init__(list)


Extractor: TypeAlias = Callable[[IndexRows, list[Json]], None]
"""Adds the rows for the values at the end of a path."""
ValueExtractor: TypeAlias = Callable[[IndexRows, str, Json], None]
"""Adds the rows of a parameter, given by its name, for one value."""
TableRow: TypeAlias = tuple[Any, ...]

TEXTS: Final = frozenset(("string", "markdown", "code", "id", "uri", "url", "canonical", "oid", "uuid"))
"""The primitive types with text values."""
OTHER_PRIMITIVES: Final = frozenset(
    ("boolean", "integer", "positiveInt", "unsignedInt", "decimal", "date", "dateTime", "instant", "time")
)
"""The other primitive types. A client's parameter of the type string or token finds them as they are written."""


@dataclass(frozen=True, slots=True)
class SearchScope:
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


def _as_it_is(value: str) -> str:
    return value


def unless_blank(value: str) -> str:
    """The value, or "" if it is blank."""
    return value if value.strip() else ""


def _no_condition(criterion: Criterion) -> list[Criterion]:
    return []


@dataclass(frozen=True, slots=True)
class Kind:
    """A kind of search parameter.

    * `conditions` makes the conditions of a criterion.
    * `extractor` returns the function that indexes the values at the end of a path; None if they are not indexed.
    * `table_rows` makes rows of the index table from index rows, the parameters' numbers and the resource's number.
    * `sort_key` is the SQL expression for `_sort`; empty if HAPI does not sort by this kind. `sort_key_descending` is
      that of a descending sort, if it is another.
    * `named` is the column with the number of a text (`search.names`); `table_rows` puts the text there.
    * `cleaned` removes the parts of a value that HAPI ignores.
    * `without_value` makes the criteria for a parameter without a value.
    * `combines`: one row must match all criteria of one parameter, and a criterion outside chains contains one value.
    * `orders`: SQL expressions, by names for their indexes, by which conditions or the sort key order, and by which the
      table is not clustered.
    """

    name: str
    conditions: Callable[[SearchScope, SearchParameter, Criterion], list[Condition]]
    table: str = ""
    columns: tuple[str, ...] = ()
    extractor: Callable[[SearchParameter, ElementPath], Extractor | None] = lambda parameter, path: None
    table_rows: Callable[[list[Any], Mapping[str, int], int], list[TableRow]] = lambda rows, numbers, row_id: []
    sort_key: str = ""
    sort_key_descending: str = ""
    named: str = ""
    cleaned: Callable[[str], str] = _as_it_is
    without_value: Callable[[Criterion], list[Criterion]] = _no_condition
    combines: bool = False
    orders: Mapping[str, str] = field(default_factory=dict)


def by_type(extractors: Mapping[str, ValueExtractor]) -> Callable[[SearchParameter, ElementPath], Extractor | None]:
    """An `extractor` that depends only on the type of the values."""

    def extractor(parameter: SearchParameter, path: ElementPath) -> Extractor | None:
        extract = extractors.get(path.type_name)
        return each(parameter.name, extract) if extract else None

    return extractor


def spelled(value: Json) -> str:
    """A primitive value as it is written in JSON."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def each(name: str, extract_value: ValueExtractor) -> Extractor:
    """An extractor that applies `extract_value` to each value."""

    def extract(rows: IndexRows, values: list[Json]) -> None:
        for value in values:
            extract_value(rows, name, value)

    return extract


_SIGNS = {">": "gt", ">=": "ge", "<": "lt", "<=": "le", "=": "eq"}
"""Signs that HAPI also accepts as prefixes."""
_OPERATORS = {"eq": "=", "ne": "<>", "gt": ">", "ge": ">=", "lt": "<", "le": "<="}
COMPARATORS = ("eq", "ne", "gt", "ge", "lt", "le", "sa", "eb", "ap")
LOWER, UPPER = ("gt", "ge", "sa"), ("lt", "le", "eb")
_PREFIX = re.compile(r"[^-%\d]*")
_LARGEST = 1.7976931348623157e308


def prefixed(text: str) -> tuple[str, str]:
    """The prefix of a value (`eq` if there is none) and the rest. Raises HAPI's errors for invalid prefixes."""
    match = _PREFIX.match(text)
    prefix = match.group() if match else ""
    if not prefix.strip():
        return "eq", text
    if prefix == text:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    comparator = _SIGNS.get(prefix, prefix)
    if comparator not in COMPARATORS:
        raise FhirError(400, f'HAPI-1941: Invalid prefix: "{prefix}"')
    return comparator, text[len(prefix) :]


class Amount(NamedTuple):
    """A number in a query: its prefix, and its unit as text for messages, and as SQL with arguments."""

    prefix: str
    text: str
    unit: str = ""
    test: str = ""
    args: tuple[object, ...] = ()


def compared(scope: SearchScope, parameter: SearchParameter, table: str, amounts: Sequence[Amount]) -> list[Condition]:
    """The condition that a row of a table of numbers matches one of the amounts."""
    parts: list[str] = []
    args: list[object] = [scope.number(parameter.name)]
    for prefix, text, unit, test, test_args in amounts:
        sql, bounds = _compare(prefix, text, parameter.kind, unit)
        parts.append(sql + test)
        args += (*bounds, *test_args)
    access = COMPARED[prefix] if len(parts) == 1 else ALTERNATIVES
    return [Condition(table, f"param = ? AND {either(parts)}", tuple(args), "value", 4, access=access)]


def _compare(prefix: str, text: str, kind: str, unit: str) -> tuple[str, tuple[float, ...]]:
    """SQL that compares the column `value` with a decimal. Errors state the `kind` of parameter and the `unit`."""
    try:
        number = Decimal(text)
    except InvalidOperation:
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"') from None
    if not number.is_finite():
        raise FhirError(400, f'HAPI-1940: Invalid date/time/quantity format: "{text}"')
    if prefix in ("sa", "eb"):
        value = f"{prefix}{number:f}{unit}"
        raise FhirError(400, f'HAPI-1235: Unable to handle {kind} prefix "{prefix}" for value: {value}')
    exact = float(number)
    if math.isinf(exact):
        exact = math.copysign(_LARGEST, exact)
    if prefix == "ap":
        return "value >= ? AND value <= ?", (exact - abs(exact) / 10, exact + abs(exact) / 10)
    return f"value {_OPERATORS[prefix]} ?", (exact,)
