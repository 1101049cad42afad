"""The index rows of a resource, as HAPI FHIR 7.6.0 indexes it.

For each resource type the chains of all its search parameters are sorted by their first key once; indexing looks only
at the keys a resource has, and parameters that share a chain share the walk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final

from fhir_server.search.element_paths import Walk, compile_path
from fhir_server.search.extractors import Emit, emitter
from fhir_server.search.index_rows import IndexRows, fold
from fhir_server.search.parameters import parameters
from fhir_server.wire.jsontext import Json

# What the store itself knows of each resource, and so need not be indexed.
_OF_THE_STORE: Final = frozenset(("_id", "_lastUpdated"))
_TRUTH = re.compile(r"(\S+)\.exists\(\) and \1 != false")


def index(resource: Json) -> IndexRows:
    """The index rows of a normalised resource, without repetitions; references are in order of parameter."""
    rows = IndexRows()
    resource_type = resource["resourceType"]
    for key, value in resource.items():
        add_member(rows, resource_type, key, value)
    add_truths(rows, resource_type, resource)
    if resource_type == "CodeSystem":  # its own codes are of the system it defines
        system = resource.get("url", "")
        rows.tokens = [(name, system, code) if name == "code" else (name, of, code) for name, of, code in rows.tokens]
    for name in ("tokens", "strings", "dates", "quantities"):
        found = getattr(rows, name)
        if len(found) > 1:
            setattr(rows, name, list(dict.fromkeys(found)))
    if len(rows.references) > 1:
        rows.references = sorted(set(rows.references))
    return rows


def add_member(rows: IndexRows, resource_type: str, key: str, value: Json) -> None:
    """Add the rows that one member of a resource gives."""
    for walk, emits in _entries(resource_type).get(key, ()):
        values = walk(value)
        if values:
            for emit in emits:
                emit(rows, values)


def add_truths(rows: IndexRows, resource_type: str, members: Mapping[str, Json]) -> None:
    """Add the rows that tell whether members are there: they are true or false for every resource."""
    for name, keys in truths(resource_type):
        truth = any(members.get(key) not in (None, False) for key in keys)
        rows.tokens.append((name, "", "true" if truth else "false"))


@cache
def _entries(resource_type: str) -> dict[str, list[tuple[Walk, list[Emit]]]]:
    """By first key: how to walk to the values, and what makes rows of them."""
    found: dict[str, dict[object, tuple[Walk, list[Emit]]]] = {}
    for parameter in parameters(resource_type).values():
        if parameter.name in _OF_THE_STORE:
            continue
        for chain in compile_path(parameter.expression, resource_type):
            emit = emitter(parameter, chain)
            if emit is not None:
                shared = found.setdefault(chain.keys[0], {})
                shared.setdefault((chain.keys, chain.filters), (chain.walk(), []))[1].append(emit)
    return {key: list(entries.values()) for key, entries in found.items()}


@cache
def truths(resource_type: str) -> list[tuple[str, list[str]]]:
    """Parameters of the form `x.exists() and x != false`, which are true or false for every resource, with x's keys."""
    found = []
    for parameter in parameters(resource_type).values():
        truth = _TRUTH.fullmatch(parameter.expression)
        if truth:
            found.append((parameter.name, [chain.keys[0] for chain in compile_path(truth[1], resource_type)]))
    return found


__all__ = ["fold", "index"]
