"""`_sort`: SQL for the keys, evaluated for each match; what has no value comes last."""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.search.conditions import TARGET
from fhir_server.search.parameter_numbers import Params
from fhir_server.search.parameters import parameters, resource_types

KEYS = {
    "token": ("tokens", "system || '|' || value"),
    "string": ("strings", "norm"),
    "date": ("dates", "low"),
    "quantity": ("quantities", "value"),
    "number": ("numbers", "value"),
    "uri": ("uris", "value"),
    "reference": ("links", TARGET),
}
"""The index table and the expression that a kind sorts by: of a reference the number of what it leads to."""


def sorted_sql(
    resource_type: str, matches: str, sort: Sequence[tuple[str, bool]], params: Params
) -> tuple[str, tuple[object, ...]]:
    """The SQL that sorts matches (SQL for their `pid`), and the arguments it has besides those of the matches.

    The values of all keys are gathered and grouped by resource, which takes one pass over each key's rows: joins would
    scan the keys again for each match where SQLite has no statistics. What has no value comes last, equals in order of
    insertion.
    """
    sources: list[tuple[str, tuple[object, ...]]] = []
    order: list[str] = []
    for name, descending in sort:
        source = _source(resource_type, name, params)
        if source is not None:
            best, direction = ("max", "DESC") if descending else ("min", "ASC")
            order.append(f"{best}(k{len(sources)}) {direction} NULLS LAST")
            sources.append(source)
    order.append("pid DESC" if sort[-1][1] else "pid")
    empty = [f"NULL AS k{position}" for position in range(len(sources))]
    rows = [", ".join(["SELECT pid", *empty]) + " FROM found"]
    for position, (sql, _) in enumerate(sources):
        columns = ["k" if other == position else "NULL" for other in range(len(sources))]
        rows.append(", ".join(["SELECT pid", *columns]) + f" FROM ({sql}) WHERE pid IN (SELECT pid FROM found)")
    sql = (
        f"WITH found AS MATERIALIZED ({matches}) SELECT pid FROM ({' UNION ALL '.join(rows)})"
        f" GROUP BY pid ORDER BY {', '.join(order)}"
    )
    return sql, tuple(arg for _, args in sources for arg in args)


def _source(resource_type: str, name: str, params: Params) -> tuple[str, tuple[object, ...]] | None:
    """SQL for the values `k` of resources by `pid`, or None for what cannot be sorted by."""
    if name in ("_lastUpdated", "_id"):
        return f"SELECT pid, {'updated' if name == '_lastUpdated' else 'id'} AS k FROM resources", ()
    head, dot, chain = name.partition(".")
    base, _, target = head.partition(":")
    parameter = parameters(resource_type).get(base)
    if parameter is None or parameter.kind not in KEYS:
        return None
    if dot:
        return _chained(resource_type, base, target, chain, params)
    table, value = KEYS[parameter.kind]
    return f"SELECT pid, {value} AS k FROM {table} WHERE param = ?", (params.number(resource_type, base),)


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
        f"SELECT links.pid AS pid, keys.k AS k FROM (SELECT pid, {value} AS k FROM {table} WHERE param = ?) AS keys"
        " JOIN resources AS aim ON aim.pid = keys.pid"
        " JOIN links ON links.param = ? AND links.target = aim.type || '/' || aim.id"
    )
    return sql, (params.number(targets[0], chain), params.number(resource_type, base))
