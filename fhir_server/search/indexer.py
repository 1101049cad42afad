"""Makes the index rows of a resource, as in HAPI FHIR 7.6.0.

For each resource type, the paths of all R4 search parameters are grouped by their first key once. So indexing looks
only at a resource's keys. Parameters with the same path share the walk.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from functools import cache
from typing import Final, TypeAlias

from fhir_server.search import custom_parameters, pairs
from fhir_server.search._element_paths import Walk, compile_path
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import Extractor, IndexRows, ReferenceRow, TableRow
from fhir_server.search.parameters import ParameterRegistry, parameters
from fhir_server.wire.json_values import Json

TableRows: TypeAlias = dict[str, list[TableRow]]
"""Rows by index table. The columns are in the order of the table."""
# The table of resources contains these, so they are not indexed.
_OF_THE_STORE: Final = frozenset(("_id", "_lastUpdated"))
_EXISTENCE = re.compile(r"(\S+)\.exists\(\) and \1 != false")


def index(resource: Json, registry: ParameterRegistry) -> IndexRows:
    """The index rows of a normalised resource, without duplicates. References are in the order of their parameters."""
    rows = IndexRows()
    resource_type = resource["resourceType"]
    add_members(rows, resource_type, resource)
    add_existence(rows, resource_type, resource)
    if resource_type == "CodeSystem":  # its codes belong to the system that it defines
        system = resource.get("url", "")
        rows["token"] = [(name, system if name == "code" else of, code) for name, of, code in rows["token"]]
    custom = registry.custom_of(resource_type)
    if custom:
        for kind, of_kind in rows.items():
            rows[kind] = [row for row in of_kind if row[0] not in custom]
        custom_parameters.add_rows(rows, resource, filter(None, custom.values()))
    for kind, of_kind in rows.items():
        if len(of_kind) > 1:
            rows[kind] = sorted(set(of_kind)) if kind == "reference" else list(dict.fromkeys(of_kind))
    return rows


def references(resource: Json, registry: ParameterRegistry, name: str) -> list[ReferenceRow]:
    """The reference rows of a normalised resource for one parameter, or for all (`*`), in the order of parameters."""
    resource_type = resource["resourceType"]
    rows = IndexRows()
    if registry.custom_of(resource_type):
        rows = index(resource, registry)
    else:
        add_members(rows, resource_type, resource, "reference")
    return sorted({row for row in rows["reference"] if name in ("*", row.parameter)})


def add_members(rows: IndexRows, resource_type: str, members: Mapping[str, Json], kind: str = "") -> None:
    """Adds the rows for members of a resource, of all parameters or only of one kind."""
    entries = _entries(resource_type, kind)
    for key, value in members.items():
        for walk, extractors in entries.get(key, ()):
            values = walk(value)
            if values:
                for extract in extractors:
                    extract(rows, values)


def add_existence(rows: IndexRows, resource_type: str, members: Mapping[str, Json]) -> None:
    """Adds the rows of `existence_parameters`."""
    for name, keys in existence_parameters(resource_type):
        exists = any(members.get(key) not in (None, False) for key in keys)
        rows["token"].append((name, "", "true" if exists else "false"))


def table_rows(resource_type: str, rows: IndexRows, numbers: ParameterRegistry, row_id: int) -> TableRows:
    """The rows of the index tables for the resource with this number."""
    of_type = numbers.of(resource_type)
    tables = {
        KINDS[kind].table: KINDS[kind].table_rows(listed, of_type, row_id) for kind, listed in rows.items() if listed
    }
    links, tokens = tables.get("links"), tables.get("tokens")
    if links and tokens and (both := pairs.numbers(numbers, resource_type)):
        tables[pairs.TABLE] = [(*key, row_id) for key in pairs.keys(both, *pairs.sides(both, links, tokens))]
    return tables


@cache
def _entries(resource_type: str, kind: str) -> dict[str, list[tuple[Walk, list[Extractor]]]]:
    """By first key: the walks to the values, and the extractors for each."""
    by_key: dict[str, dict[object, tuple[Walk, list[Extractor]]]] = {}
    for parameter in parameters(resource_type).values():
        if parameter.name in _OF_THE_STORE or kind not in ("", parameter.kind):
            continue
        for path in compile_path(parameter.expression, resource_type):
            extract = KINDS[parameter.kind].extractor(parameter, path)
            if extract is not None:
                shared = by_key.setdefault(path.keys[0], {})
                shared.setdefault((path.keys, path.filters), (path.walk(), []))[1].append(extract)
    return {key: list(entries.values()) for key, entries in by_key.items()}


@cache
def existence_parameters(resource_type: str) -> list[tuple[str, list[str]]]:
    """Parameters like `x.exists() and x != false`, which are true or false for each resource, with the keys of x."""
    listed = []
    for parameter in parameters(resource_type).values():
        existence = _EXISTENCE.fullmatch(parameter.expression)
        if existence:
            listed.append((parameter.name, [path.keys[0] for path in compile_path(existence[1], resource_type)]))
    return listed
