"""`_sort`: SQL for the sort keys of the matches. Resources without a value come last."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, of_type
from fhir_server.search.kinds import KINDS
from fhir_server.search.parameters import SearchParameter, resource_types
from fhir_server.search.registry import ParameterRegistry
from fhir_server.search.walks import Walk, by_index, where


def sorted_sql(
    resource_type: str, matches: str, sort: Sequence[tuple[str, bool]], registry: ParameterRegistry
) -> tuple[str, tuple[object, ...]]:
    """The SQL that sorts `matches`, and its arguments after those of `matches`.

    `matches` is SQL for the columns `row_id` and `tie`. Resources without a value come last. Equal ones are in the
    order of `tie`, then of insertion. The values of all keys are collected and grouped by resource, which reads the
    rows of each key once. With joins, SQLite (without statistics) would read all rows of a key again for each match.
    """
    sources: list[tuple[str, tuple[object, ...]]] = []
    order: list[str] = []
    for name, descending in sort:
        source = _source(resource_type, name, registry)
        if source is not None:
            best, direction = ("max", "DESC") if descending else ("min", "ASC")
            order.append(f"{best}(k{len(sources)}) {direction} NULLS LAST")
            sources.append(source)
    newest = sort[-1] == ("_lastUpdated", True)  # in HAPI no two writes are in the same millisecond
    order += ["row_id DESC"] if newest else ["max(tie)", "row_id"]
    empty = [f"NULL AS k{position}" for position in range(len(sources))]
    rows = [", ".join(["SELECT row_id, tie", *empty]) + " FROM matches"]
    for position, (sql, _) in enumerate(sources):
        columns = ["k" if other == position else "NULL" for other in range(len(sources))]
        rows.append(
            ", ".join(["SELECT row_id, NULL", *columns]) + f" FROM ({sql}) WHERE row_id IN (SELECT row_id FROM matches)"
        )
    sql = (
        f"WITH matches AS MATERIALIZED ({matches}) SELECT row_id FROM ({' UNION ALL '.join(rows)})"
        f" GROUP BY row_id ORDER BY {', '.join(order)}"
    )
    return sql, tuple(arg for _, args in sources for arg in args)


def streamed(
    resource_type: str,
    lead: Condition,
    rest: Sequence[Condition],
    sort: Sequence[tuple[str, bool]],
    registry: ParameterRegistry,
) -> Walk | None:
    """The matches in the order of an index, so that a search can stop at the end of its page.

    None if the sort has several keys, or if no index is in the order of its key.
    """
    name, descending = sort[0]
    parameter = registry.parameters(resource_type).get(name) if name != "_lastUpdated" else None
    kind = KINDS[parameter.kind] if parameter else None
    if len(sort) > 1 or kind is None or kind.sort_key not in kind.orders.values():
        return None
    number = registry.number(resource_type, name)
    # A resource with index rows is live and of the type. So a condition on only the type needs no test.
    tested = [] if lead == of_type(resource_type) else [lead]
    keyed = Condition(kind.table, "param = ?", (number,))
    tests, args = where(by_index(keyed), [*tested, *rest])
    order = f"k {'DESC' if descending else 'ASC'}, row_id"
    sql = f"SELECT row_id, {kind.sort_key} AS k FROM {kind.table} AS lead WHERE {tests} ORDER BY {order}"
    tests, others_args = where(lead, [*rest, replace(keyed, negated=True)])
    others = f"SELECT row_id FROM {lead.table} AS lead WHERE {tests} GROUP BY row_id ORDER BY row_id"
    return Walk(sql, args, repeats=True, rest=Walk(others, others_args))


def _source(resource_type: str, name: str, registry: ParameterRegistry) -> tuple[str, tuple[object, ...]] | None:
    """SQL for the values `k` of resources by `row_id`; None if HAPI does not sort by this parameter."""
    if name in ("_lastUpdated", "_id"):
        return f"SELECT row_id, {'updated' if name == '_lastUpdated' else 'id'} AS k FROM resources", ()
    head, dot, chain = name.partition(".")
    base, _, target = head.partition(":")
    parameter = registry.parameters(resource_type).get(base)
    if parameter is None or not KINDS[parameter.kind].sort_key:
        return None
    if dot:
        return _chained(resource_type, base, target, chain, registry)
    return _values(parameter), (registry.number(resource_type, base),)


def _chained(
    resource_type: str, base: str, target: str, chain: str, registry: ParameterRegistry
) -> tuple[str, tuple[object, ...]]:
    parameter = registry.parameters(resource_type)[base]
    targets = (target,) if target in resource_types() else parameter.targets
    if parameter.kind != "reference" or len(targets) != 1:
        raise FhirError(
            400,
            f"HAPI-2287: Unable to sort on a chained parameter from '{base}' as this parameter has multiple"
            " target types. Please specify the target type.",
        )
    inner = registry.parameters(targets[0]).get(chain)
    if inner is None or not KINDS[inner.kind].sort_key:
        raise FhirError(400, f"HAPI-2289: Unknown chained sort parameter '{chain}' of resource type '{targets[0]}'")
    sql = (
        f"SELECT links.row_id AS row_id, keys.k AS k FROM ({_values(inner)}) AS keys"
        " JOIN resources AS aim ON aim.row_id = keys.row_id"
        " JOIN links ON links.param = ? AND links.target = aim.type || '/' || aim.id"
    )
    return sql, (registry.number(targets[0], chain), registry.number(resource_type, base))


def _values(parameter: SearchParameter) -> str:
    """SQL for the sort values of a parameter. Its argument is the parameter's number."""
    kind = KINDS[parameter.kind]
    return f"SELECT row_id, {kind.sort_key} AS k FROM {kind.table} WHERE param = ?"
