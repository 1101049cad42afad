"""Searches of one shape: the same parameters with other values, which stand in the same places of the same statement.

A search for tokens and references by plain values (`patient=Patient/1&code=K`) is planned once a shape: by two sets of
marks in place of the values. What differs between the two plans and holds a mark is where a value stands; a shape whose
plans differ otherwise is planned again each time. Understanding such a search then takes a quarter of the time.
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
"""What a value begins with (a type, a system), and the plain text behind it, which may differ within a shape."""
_KINDS = ("token", "reference")
MAX_PAIRS = 8
"""A search of more parameters is planned by itself: such a shape hardly comes again."""
Names = tuple[tuple[str, str], ...]
"""Each parameter, with what its value begins with; of `_count` the whole value."""


@dataclass(frozen=True, slots=True)
class _Shape:
    query: Query
    sql: SearchSql
    values: Sequence[object]
    places: Sequence[tuple[int, int, str, str]]
    """Where values stand: place among `values`, number of the parameter, and the text before and behind."""


def understood(registry: ParameterRegistry, resource_type: str, pairs: Pairs) -> tuple[Query, Planned] | None:
    """The query and the plan of a search; None where it is not of a known kind of shape. `criteria` of the query are
    those of its shape.
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
    """The plan of a search with marks for values."""
    pairs = [
        (name, start if name == "_count" else f"{start}Mark{at}{letter}") for at, (name, start) in enumerate(names)
    ]
    query = parse(registry, resource_type, tuple(pairs))
    return query, plan(query, registry, HL7)
