"""`_sort`: SQL for the keys, evaluated for each match; what has no value comes last."""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.search.definitions import parameters, resource_types
from fhir_server.search.params import Params

KEYS = {
    "token": ("tokens", "system || '|' || value"),
    "string": ("strings", "norm"),
    "date": ("dates", "low"),
    "quantity": ("quantities", "value"),
    "number": ("numbers", "value"),
    "uri": ("uris", "value"),
    "reference": ("links", "target"),
}
"""The index table and the expression that a kind sorts by."""


def sort_keys(resource_type: str, sort: Sequence[tuple[str, bool]], params: Params) -> tuple[str, tuple[object, ...]]:
    """The keys as the start of an ORDER BY list over rows named `found`, and their arguments."""
    parts: list[str] = []
    args: list[object] = []
    for name, descending in sort:
        expression, more = _key(resource_type, name, descending, params)
        if expression:
            parts.append(f"{expression} {'DESC' if descending else 'ASC'} NULLS LAST, ")
            args += more
    return "".join(parts), tuple(args)


def _key(resource_type: str, name: str, descending: bool, params: Params) -> tuple[str, tuple[object, ...]]:
    if name in ("_lastUpdated", "_id"):
        column = "updated" if name == "_lastUpdated" else "id"
        return f"(SELECT {column} FROM resources WHERE resources.pid = found.pid)", ()
    head, dot, chain = name.partition(".")
    base, _, target = head.partition(":")
    parameter = parameters(resource_type).get(base)
    if parameter is None or parameter.kind not in KEYS:
        return "", ()
    if dot:
        return _chained(resource_type, base, target, chain, params)
    table, value = KEYS[parameter.kind]
    best = "max" if descending else "min"
    number = params.number(resource_type, base)
    if table in ("tokens", "strings", "uris", "links"):
        # These tables are clustered by value: one pass over the parameter serves all matches.
        sql = f"(SELECT k FROM (SELECT pid, {best}({value}) AS k FROM {table} WHERE param = ? GROUP BY pid) AS keys"
        return f"{sql} WHERE keys.pid = found.pid)", (number,)
    return f"(SELECT {best}({value}) FROM {table} WHERE param = ? AND {table}.pid = found.pid)", (number,)


def _chained(resource_type: str, base: str, target: str, chain: str, params: Params) -> tuple[str, tuple[object, ...]]:
    parameter = parameters(resource_type)[base]
    targets = (target,) if target in resource_types() else parameter.targets
    if parameter.kind != "reference" or len(targets) != 1:
        raise FhirError(
            400,
            f"HAPI-2287: Unable to sort on a chained parameter from '{base}' as this parameter has multiple"
            " target types. Please specify the target type.",
        )
    inner = parameters(targets[0]).get(chain)
    if inner is None or inner.kind not in KEYS:
        raise FhirError(400, f"HAPI-2289: Unknown chained sort parameter '{chain}' of resource type '{targets[0]}'")
    table, value = KEYS[inner.kind]
    sql = (
        f"(SELECT min({value}) FROM links JOIN resources AS aim ON aim.type = ? AND links.target = aim.type || '/' ||"
        f" aim.id JOIN {table} AS keys ON keys.param = ? AND keys.pid = aim.pid"
        " WHERE links.param = ? AND links.pid = found.pid)"
    )
    numbers = params.number(targets[0], chain), params.number(resource_type, base)
    return sql.replace("min(system", "min(keys.system"), (targets[0], *numbers)
