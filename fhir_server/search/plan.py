"""Makes the SQL of a `Query`, which returns the numbers of the matches in HAPI's order, and runs it.

One condition leads: its index table is read, and the others filter. Without `_sort`, matches are in the order of the
index with which HAPI's database would start (`_join_order`). HAPI does not guarantee this order.

The rows of a condition are either together in the order of `row_id`, or in the requested order in an index. The data
decides which way reads fewer rows. So a short query of the index chooses the way when the search runs.
"""

from __future__ import annotations

import json
from array import array
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from fhir_server.errors import FhirError
from fhir_server.search._conditions import all_conditions
from fhir_server.search._join_order import leading
from fhir_server.search.condition import Condition, Searched, Sql, execute, of_type
from fhir_server.search.kinds import KINDS
from fhir_server.search.pairs import merged
from fhir_server.search.parameters import ParameterRegistry, SearchParameter, resource_types
from fhir_server.search.query import Query, SortKey, unknown_sort
from fhir_server.terminology import Library

MAX_SORTED = 1_000
"""Up to this many matches are sorted. For more, an index in the requested order is read."""


@dataclass(frozen=True, slots=True)
class Walk:
    """SQL for the numbers of matches, in order and without a limit, and its arguments.

    `repeats`: a number may occur several times; its first place counts. `rest` contains the last matches.
    """

    sql: str
    args: tuple[object, ...]
    repeats: bool = False
    rest: Walk | None = None


@dataclass(frozen=True, slots=True)
class Planned:
    """The SQL of a search.

    `usual` and `few` are two ways to find the matches. `few` is used if `test` returns at most `MAX_SORTED`.
    """

    usual: Walk
    count: Sql
    few: Walk | None = None
    test: Sql = ("", ())
    rows: Sql | None = None
    """For `_has`, SQL for the rows that HAPI loads: a match occurs once for each resource that refers to it. Its last
    arguments are the numbers of the matches, as JSON, and a limit.
    """


def where(lead: Condition, others: Sequence[Condition]) -> Sql:
    """SQL that tests all conditions on a row of the leading condition's table. The table's alias is `lead`."""
    tests = [lead.where.replace("@row_id", "lead.row_id"), *(item.filter("lead.row_id") for item in others)]
    return " AND ".join(tests), tuple(arg for item in (lead, *others) for arg in item.args)


def counted(lead: Condition, others: Sequence[Condition]) -> Sql:
    """SQL for the number of resources that match all conditions."""
    tests, args = where(lead, others)
    return f"SELECT count(*) FROM (SELECT DISTINCT row_id FROM {lead.table} AS lead WHERE {tests})", args


def few_or_more(lead: Condition) -> Sql:
    """SQL for the number of rows that match a condition, at most `MAX_SORTED` + 1."""
    tests, args = where(lead, ())
    return f"SELECT count(*) FROM (SELECT 1 FROM {lead.table} AS lead WHERE {tests} LIMIT {MAX_SORTED + 1})", args


def clustered(conditions: Sequence[Condition]) -> Condition | None:
    """The first condition that is `clustered` and not negated, or None."""
    return next((item for item in conditions if item.clustered and not item.negated), None)


def by_index(condition: Condition) -> Condition:
    """The condition with `param + 0`, so that SQLite uses the indexes of `Kind.orders`.

    These indexes use `param + 0` because SQLite, without statistics, would otherwise use them for other searches too.
    """
    return replace(condition, where=condition.where.replace("param = ?", "param + 0 = ?", 1))


def in_order(lead: Condition, others: Sequence[Condition]) -> Planned:
    """The matches in the order of an index of the leading condition. If few match a code, these are sorted instead."""
    count = counted(lead, others)
    tests, args = where(by_index(lead), others)
    order = f"ORDER BY {lead.order}, {lead.tie}row_id"
    stream = Walk(f"SELECT row_id FROM {lead.table} AS lead WHERE {tests} {order}", args, repeats=True)
    rare = clustered(others)
    if rare is None:
        return Planned(stream, count)
    tests, args = where(rare, [item for item in others if item is not rare])
    rows = f"(SELECT row_id AS number FROM {rare.table} AS lead WHERE {tests})"
    sql = f"SELECT row_id FROM {rows} CROSS JOIN {lead.table} ON row_id = number WHERE {lead.where} {order}"
    return Planned(stream, count, Walk(sql, args + lead.args, repeats=True), few_or_more(rare))


def matches(store: Searched, planned: Planned, limit: int = -1, offset: int = 0) -> array[int]:
    """The numbers of the matches in order, found by the faster way."""
    walk = planned.usual
    if planned.few is not None and execute(store, *planned.test).fetchone()[0] <= MAX_SORTED:
        walk = planned.few
    return _walked(store, walk, limit, offset)


def _walked(store: Searched, walk: Walk, limit: int, offset: int) -> array[int]:
    if not walk.repeats:
        sql, args = f"{walk.sql} LIMIT ? OFFSET ?", (*walk.args, limit, offset)
        return array("q", [row[0] for row in execute(store, sql, args)])
    numbers: dict[int, None] = {}
    end = offset + limit if limit >= 0 else None
    for row in execute(store, walk.sql, walk.args):
        numbers[row[0]] = None
        if len(numbers) == end:
            break
    else:
        if walk.rest is not None:
            missing = -1 if end is None else end - len(numbers)
            numbers |= dict.fromkeys(_walked(store, walk.rest, missing, 0))
    return array("q", list(numbers)[offset:end])


def total(store: Searched, planned: Planned) -> int:
    """The number of matches."""
    return int(execute(store, *planned.count).fetchone()[0])


def loaded(store: Searched, rows: Sql, row_ids: Sequence[int], limit: int) -> int:
    """How many rows HAPI loads for these matches, at most `limit`; `rows` is that of `Planned`."""
    sql, args = rows
    return len(execute(store, sql, (*args, json.dumps(list(row_ids)), limit)).fetchall())


MAX_CONDITIONS = 200
"""Searches with more conditions are refused, because of the limits of SQLite's parser."""
MAX_ALTERNATIVES = 1000
MAX_IDS = 10_000
"""The maximum number of values of one condition. Ids and references (`MAX_IDS`) are in one IN list, others are not."""


def plan(query: Query, registry: ParameterRegistry, library: Library) -> Planned:
    """The SQL of a search. `library` contains the value sets for `:in`."""
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
        planned = _sorted(registry, resource_type, sort, lead, rest, count, ties)
    elif lead.lead or (lead.order not in ("", "updated") and not lead.streams):
        walk, walk_args = lead.walk()
        filters = " AND ".join(item.filter("lead.row_id") for item in rest) or "1"
        once = f"SELECT row_id, min(k) AS k FROM ({walk}) GROUP BY row_id ORDER BY k, row_id"
        sql = f"SELECT row_id FROM ({once}) AS lead WHERE {filters}"
        planned = Planned(Walk(sql, (*walk_args, *(arg for item in rest for arg in item.args))), count)
    else:
        planned = in_order(lead, rest) if lead.streams else _as_inserted(lead, rest, count, by_type=by_type)
    if referring is None:
        return planned
    walk, walk_args = referring.walk()
    rows = f"SELECT 1 FROM ({walk}) WHERE row_id IN (SELECT value FROM json_each(?)) LIMIT ?"
    return replace(planned, rows=(rows, walk_args))


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
    sort: Sequence[tuple[SortKey, bool]],
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
    test = count if count[0] == _COUNT else few_or_more(lead)
    return Planned(stream, count, usual, test)


def _has_positive(negated: Condition, conditions: list[Condition]) -> bool:
    """Whether another condition is on the same parameter and is not negated."""
    return any(
        (condition.table, condition.args[0]) == (negated.table, negated.args[0]) and not condition.negated
        for condition in conditions
    )


def _check_size(query: Query, registry: ParameterRegistry) -> None:
    """Raises FhirError, 400, if a search contains more conditions or values than SQLite can handle."""
    if len(query.criteria) > MAX_CONDITIONS:
        raise FhirError(400, f"The search contains more than {MAX_CONDITIONS} conditions; use fewer", "too-costly")
    for item in query.criteria:
        known = registry.parameters(query.resource_type).get(item.name)
        many = item.name == "_id" or (known is not None and known.kind == "reference" and not item.chain)
        if len(item.values) > (MAX_IDS if many else MAX_ALTERNATIVES):
            raise FhirError(
                400, f"{item.name} lists too many values ({len(item.values):,}); split the search", "too-costly"
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
        lead = replace(lead, order="", lead=None, streams=False)
    return lead, rest


def sorted_sql(
    resource_type: str, matches: str, sort: Sequence[tuple[SortKey, bool]], registry: ParameterRegistry
) -> tuple[str, tuple[object, ...]]:
    """The SQL that sorts `matches`, and the arguments to add after its own.

    `matches` is SQL for the columns `row_id` and `tie`. Resources without a value come last. Equal ones are in the
    order of `tie`, then of insertion.
    """
    rows, order, args = _keyed(resource_type, matches, sort, registry)
    newest = sort[-1] == (SortKey("_lastUpdated"), True)  # in HAPI no two writes are in the same millisecond
    order += ["row_id DESC"] if newest else ["max(tie)", "row_id"]
    return f"{rows('row_id')} ORDER BY {', '.join(order)}", args


def ranked_sql(
    resource_type: str, matches: str, sort: Sequence[tuple[SortKey, bool]], registry: ParameterRegistry
) -> tuple[str, tuple[object, ...]]:
    """As `sorted_sql`, but the SQL selects each number with its rank. Equal resources have the same rank."""
    rows, order, args = _keyed(resource_type, matches, sort, registry)
    return rows(f"row_id, dense_rank() OVER (ORDER BY {', '.join(order) or '0'})"), args


def _keyed(
    resource_type: str, matches: str, sort: Sequence[tuple[SortKey, bool]], registry: ParameterRegistry
) -> tuple[Callable[[str], str], list[str], tuple[object, ...]]:
    """SQL that selects columns of each of the matches, the terms of their order, and the arguments to add.

    The values of all keys are collected and grouped by resource, which reads the rows of each key once. With joins,
    SQLite (without statistics) would read all rows of a key again for each match.
    """
    sources: list[Sql] = []
    order: list[str] = []
    for key, descending in sort:
        source = _sort_source(resource_type, key, registry, descending=descending)
        if source is not None:
            best, direction = ("max", "DESC") if descending else ("min", "ASC")
            order.append(f"{best}(k{len(sources)}) {direction} NULLS LAST")
            sources.append(source)
    empty = [f"NULL AS k{position}" for position in range(len(sources))]
    rows = [", ".join(["SELECT row_id, tie", *empty]) + " FROM matches"]
    for position, (sql, _) in enumerate(sources):
        columns = ["k" if place == position else "NULL" for place in range(len(sources))]
        rows.append(
            ", ".join(["SELECT row_id, NULL", *columns]) + f" FROM ({sql}) WHERE row_id IN (SELECT row_id FROM matches)"
        )
    together = f"FROM ({' UNION ALL '.join(rows)}) GROUP BY row_id"
    args = tuple(arg for _, args in sources for arg in args)
    return lambda columns: f"WITH matches AS MATERIALIZED ({matches}) SELECT {columns} {together}", order, args


def streamed(
    resource_type: str,
    lead: Condition,
    rest: Sequence[Condition],
    sort: Sequence[tuple[SortKey, bool]],
    registry: ParameterRegistry,
) -> Walk | None:
    """The matches in the order of an index, so that a search can stop at the end of its page.

    None if the sort is by several keys, or if no index is in the order of its key.
    """
    key, descending = sort[0]
    name = key.parameter
    plain = not key.chain and name != "_lastUpdated"
    parameter = registry.parameters(resource_type)[name] if plain else None
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


def _sort_source(resource_type: str, key: SortKey, registry: ParameterRegistry, *, descending: bool) -> Sql | None:
    """SQL for the values `k` of resources by `row_id`; None if HAPI does not sort by this parameter."""
    if key.parameter in ("_lastUpdated", "_id") and not key.chain:
        return f"SELECT row_id, {'updated' if key.parameter == '_lastUpdated' else 'id'} AS k FROM resources", ()
    parameter = registry.parameters(resource_type)[key.parameter]
    if key.chain:
        return _chained_sort(resource_type, key, parameter, registry, descending=descending)
    if not KINDS[parameter.kind].sort_key:
        return None
    return _sort_values(parameter, descending=descending), (registry.number(resource_type, key.parameter),)


_SORTABLE_IN_CHAINS = ("date", "special", "string", "token")
"""The kinds of parameters that HAPI accepts at the end of a chain. Special ones do not change the order."""


def _chained_sort(
    resource_type: str, key: SortKey, parameter: SearchParameter, registry: ParameterRegistry, *, descending: bool
) -> Sql | None:
    if parameter.kind != "reference":
        raise FhirError(400, f"HAPI-2285: Invalid chain, {key.parameter} is not a reference SearchParameter")
    target = _sort_target(key, parameter)
    known = registry.parameters(target) if target in resource_types() else {}
    inner = known.get(key.chain)
    if inner is None:
        valid = (name for name, parameter in known.items() if parameter.kind in _SORTABLE_IN_CHAINS)
        raise unknown_sort("2289", key.chain, target, valid)
    if inner.kind not in _SORTABLE_IN_CHAINS:
        problem = f"Can not sort on chains of target type: {inner.kind.upper()}"
        path = f"{key.parameter}.{key.chain}"
        raise FhirError(400, f"HAPI-2290: Unable to sort on a chained parameter {path} as this parameter. {problem}")
    if key.chain == "near":
        problem = f'Can not sort on coordinate parameter "{key.parameter}" unless this parameter is also specified'
        raise FhirError(400, f"HAPI-2497: {problem} as a search parameter with a latitude/longitude value")
    if key.chain.startswith("_") or not KINDS[inner.kind].sort_key:
        return None
    sql = (
        f"SELECT links.row_id AS row_id, keys.k AS k FROM ({_sort_values(inner, descending=descending)}) AS keys"
        " JOIN resources AS aim ON aim.row_id = keys.row_id"
        " JOIN links ON links.param = ? AND links.target = aim.type || '/' || aim.id"
    )
    return sql, (registry.number(target, key.chain), registry.number(resource_type, key.parameter))


def _sort_target(key: SortKey, parameter: SearchParameter) -> str:
    """The type of the resources at the end of a chain. Raises HAPI's error if it is not stated."""
    advice = "Please specify the target type."
    start = f"Unable to sort on a chained parameter from '{key.parameter}' as this parameter"
    if key.target:
        return key.target
    if key.target is not None:
        raise FhirError(400, f"HAPI-2288: {start} as this parameter does not define a target type. {advice}")
    if len(parameter.targets) != 1:
        raise FhirError(400, f"HAPI-2287: {start} has multiple target types. {advice}")
    return parameter.targets[0]


def _sort_values(parameter: SearchParameter, *, descending: bool) -> str:
    """SQL for the sort values of a parameter. Its argument is the parameter's number."""
    kind = KINDS[parameter.kind]
    key = (descending and kind.sort_key_descending) or kind.sort_key
    return f"SELECT row_id, {key} AS k FROM {kind.table} WHERE param = ?"
