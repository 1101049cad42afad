"""Plans for searches of the same shape: the same parameters with other values.

A search by tokens and references with plain values (`patient=Patient/1&code=K`) is planned once per shape, since its
SQL differs only in the values. The shape is planned twice, with two sets of marks instead of values. A value of the
plan that contains a mark, and differs in nothing else, is a place for a value of the search. If the two plans differ in
another way, searches of this shape are planned each time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache

from fhir_server.errors import FhirError
from fhir_server.search.plan import plan
from fhir_server.search.query import Query, parse
from fhir_server.search.registry import ParameterRegistry
from fhir_server.search.walks import Planned, SearchSql
from fhir_server.terminology.library import HL7
from fhir_server.wire.http import Pairs

_VALUE = re.compile(r"((?:[^,$\\]{0,100}[/|])?)([A-Za-z0-9](?:[A-Za-z0-9.-]*[A-Za-z0-9])?)")
"""The beginning of a value (a type or a system), and the plain text after it. Only the text differs within a shape."""
_KINDS = ("token", "reference")
MAX_PAIRS = 8
"""A search with more parameters is planned each time, since its shape hardly occurs again."""
Names = tuple[tuple[str, str], ...]
"""The name of each parameter with the beginning of its value (for `_count`, the whole value)."""


@dataclass(frozen=True, slots=True)
class _Shape:
    query: Query
    sql: SearchSql
    values: Sequence[object]
    places: Sequence[tuple[int, int, str, str]]
    """The places of values: index in `values`, number of the parameter, text before and after the value."""


def understood(registry: ParameterRegistry, resource_type: str, pairs: Pairs) -> tuple[Query, Planned] | None:
    """The query and the plan of a search; None if it has no shape.

    The `criteria` of the query have the marks of the shape instead of values.
    """
    if len(pairs) > MAX_PAIRS:
        return None
    names, texts = [], []
    for name, value in pairs:
        match = _VALUE.fullmatch(value)
        if match is None:
            return None
        names.append((name, match[1] if name != "_count" else value))
        texts.append(match[2])
    shape = _shape(registry, resource_type, tuple(names))
    if shape is None:
        return None
    values = [*shape.values]
    for place, number, before, behind in shape.places:
        values[place] = f"{before}{texts[number]}{behind}"
    return shape.query, Planned(shape.sql, tuple(values))


@lru_cache(maxsize=512)
def _shape(registry: ParameterRegistry, resource_type: str, names: Names) -> _Shape | None:
    known = registry.parameters(resource_type)
    for name, _ in names:
        if name != "_count" and (name.startswith("_") or name not in known or known[name].kind not in _KINDS):
            return None
    try:
        query, first = _marked(registry, resource_type, names, "A")
        _, second = _marked(registry, resource_type, names, "B")
    except FhirError:
        return None
    if first.sql is not second.sql or len(first.values) != len(second.values):
        return None
    places = []
    for place, (one, other) in enumerate(zip(first.values, second.values, strict=True)):
        if one == other:
            continue
        match = re.fullmatch(r"(.*)Mark(\d+)A(.*)", one, re.DOTALL) if isinstance(one, str) else None
        if match is None or other != f"{match[1]}Mark{match[2]}B{match[3]}" or "Mark" in match[1] + match[3]:
            return None
        places.append((place, int(match[2]), match[1], match[3]))
    return _Shape(query, first.sql, first.values, places)


def _marked(registry: ParameterRegistry, resource_type: str, names: Names, letter: str) -> tuple[Query, Planned]:
    """The query and plan of a search with marks as values."""
    pairs = [
        (name, start if name == "_count" else f"{start}Mark{at}{letter}") for at, (name, start) in enumerate(names)
    ]
    query = parse(registry, resource_type, tuple(pairs))
    return query, plan(query, registry, HL7)
