"""Makes the SQL of a `Query`, which returns the numbers of the matches in HAPI's order.

One condition leads: its index table is read, and the others filter. Without `_sort`, the order is that of the index
with which HAPI's database would start (`_join_order`). HAPI does not guarantee this order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from fhir_server.errors import FhirError
from fhir_server.search._conditions import all_conditions
from fhir_server.search._join_order import leading
from fhir_server.search._sort import sorted_sql, streamed
from fhir_server.search.condition import Condition, of_type
from fhir_server.search.pairs import merged
from fhir_server.search.query import Query
from fhir_server.search.registry import ParameterRegistry
from fhir_server.search.walks import (
    MAX_SORTED,
    Planned,
    Sql,
    Walk,
    at_most,
    counted,
    in_order,
    where,
)
from fhir_server.terminology.library import Library

MAX_CONDITIONS = 200
"""Searches with more conditions are refused, since SQLite's parser has limits."""
MAX_ALTERNATIVES = 500
MAX_IDS = 10_000
"""The maximum number of values of one condition. Ids and references (`MAX_IDS`) are in one IN list, others are not."""


def plan(query: Query, registry: ParameterRegistry, library: Library) -> Planned:
    """The SQL of a search. `library` has the value sets for `:in`."""
    _check_size(query, registry)
    resource_type, sort = query.resource_type, query.sort
    conditions = all_conditions(registry, library, resource_type, query.criteria)
    # With `_offset`, HAPI selects distinct rows, which come in insertion order.
    ordered = not sort and query.offset is None
    referring = next((item for item in conditions if item.referring), None)
    by_type = ordered and any(
        item.by_type or (item.negated and referring is None and not _has_positive(item, conditions))
        for item in conditions
    )
    lead, rest = _choose(resource_type, conditions, ordered=ordered and not by_type)
    if lead.table in ("links", "tokens") and not lead.order and not lead.lead:
        lead, *rest = merged(registry, resource_type, [lead, *rest])
    else:
        rest = merged(registry, resource_type, rest)
    count = counted(lead, rest) if conditions else (_COUNT, (resource_type,))
    if sort:
        ties = referring if sum(not item.negated for item in conditions) > 1 else None
        return _sorted(registry, resource_type, sort, lead, rest, count, ties)
    if lead.lead or (lead.order and not lead.streams):
        walk, walk_args = lead.walk()
        filters = " AND ".join(item.filter("lead.row_id") for item in rest) or "1"
        sql = f"SELECT row_id FROM ({walk}) AS lead WHERE {filters} GROUP BY row_id ORDER BY min(k), row_id"
        return Planned(Walk(sql, (*walk_args, *(arg for item in rest for arg in item.args))), count)
    return in_order(lead, rest) if lead.order else _as_inserted(lead, rest, count, by_type=by_type)


_COUNT = "SELECT coalesce((SELECT live FROM counts WHERE type = ?), 0)"
"""SQL for the number of live resources of a type."""


def _as_inserted(lead: Condition, rest: Sequence[Condition], count: Sql, *, by_type: bool) -> Planned:
    """The matches in the order of their numbers, or with `by_type` in the order of their last change."""
    # GROUP BY on rows in index order is free and stops at the limit, unlike DISTINCT.
    # For a type, HAPI reads the index by type and time of the last write.
    order = "ORDER BY updated, row_id" if lead.table == "resources" else "GROUP BY row_id ORDER BY row_id"
    if by_type and lead.table != "resources":
        changed = "(SELECT updated FROM resources WHERE resources.row_id = lead.row_id)"
        order = f"GROUP BY row_id ORDER BY {changed}, row_id"
    tests, args = where(lead, rest)
    return Planned(Walk(f"SELECT row_id FROM {lead.table} AS lead WHERE {tests} {order}", args), count)


def _sorted(
    registry: ParameterRegistry,
    resource_type: str,
    sort: Sequence[tuple[str, bool]],
    lead: Condition,
    rest: Sequence[Condition],
    count: Sql,
    ties: Condition | None,
) -> Planned:
    """The matches in the order of `_sort`. Equal ones are in the order of the condition `ties`, if there is one."""

    def gathered(sql: str, args: tuple[object, ...]) -> Walk:
        ordered, key_args = sorted_sql(resource_type, sql, sort, registry)
        return Walk(ordered, (*args, *key_args))

    tests, args = where(lead, rest)
    if ties is not None:
        walk, walk_args = ties.walk()
        ranks = f"SELECT row_id AS ranked, min(k) AS tie FROM ({walk}) GROUP BY row_id"
        sql = f"SELECT DISTINCT row_id, tie FROM {lead.table} AS lead JOIN ranks ON ranked = row_id WHERE {tests}"
        return Planned(gathered(f"WITH ranks AS MATERIALIZED ({ranks}) {sql}", (*walk_args, *args)), count)
    tie = "updated" if lead.by_type else "0"  # for a type, HAPI reads the index by type and last write
    usual = gathered(f"SELECT DISTINCT row_id, {tie} AS tie FROM {lead.table} AS lead WHERE {tests}", args)
    stream = streamed(resource_type, lead, rest, sort, registry) if lead.weight > 1 else None
    if stream is None:
        return Planned(usual, count)
    test = count if count[0] == _COUNT else at_most(lead, MAX_SORTED)
    return Planned(stream, count, usual, test)


def _has_positive(negated: Condition, conditions: list[Condition]) -> bool:
    """Whether another condition is on the same parameter and is not negated."""
    return any((one.table, one.args[0]) == (negated.table, negated.args[0]) and not one.negated for one in conditions)


def _check_size(query: Query, registry: ParameterRegistry) -> None:
    """Raises FhirError, 400, if a search has more conditions or values than SQLite can handle."""
    if len(query.criteria) > MAX_CONDITIONS:
        raise FhirError(400, f"The search has more than {MAX_CONDITIONS} conditions; use fewer", "too-costly")
    for item in query.criteria:
        if len(item.values) <= MAX_ALTERNATIVES:
            continue
        known = registry.parameters(query.resource_type).get(item.name)
        many = item.name == "_id" or (known is not None and known.kind == "reference" and not item.chain)
        if not many or len(item.values) > MAX_IDS:
            raise FhirError(
                400, f"{item.name} has too many values ({len(item.values):,}); split the search", "too-costly"
            )


def _choose(resource_type: str, conditions: list[Condition], *, ordered: bool) -> tuple[Condition, list[Condition]]:
    """The leading condition and the others."""
    leaders = [item for item in conditions if not item.negated]
    if not leaders:
        return of_type(resource_type), conditions
    # `_lastUpdated` leads only if no other condition can.
    leaders = [item for item in leaders if item.order != "updated"] or leaders
    leaders = [item for item in leaders if not item.referring] or leaders
    first = leaders[leading(tuple(item.access for item in leaders))]
    in_own_order = ordered and (first.order or first.lead)
    # In insertion order, the condition with the fewest rows leads.
    lead = first if in_own_order else min(leaders, key=lambda item: item.weight)
    rest = [item for item in conditions if item.negated or (item.where, item.args) != (lead.where, lead.args)]
    if not in_own_order and (lead.order or lead.lead):
        lead = replace(lead, order="", lead=None)
    return lead, rest
