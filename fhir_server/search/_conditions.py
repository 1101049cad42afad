"""Makes conditions from criteria: by the kind of the parameter, for chains, `_id`, `_has`, `_list` and `_filter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

from fhir_server.errors import FhirError
from fhir_server.search import names
from fhir_server.search._filter_expression import filtered
from fhir_server.search._join_order import CHAIN
from fhir_server.search.condition import MEMBERS, Condition, Criterion, Nested, Sql, of_type, placeholders, unescape
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import SearchScope
from fhir_server.search.kinds.reference import check_modifiers, target_types
from fhir_server.search.parameters import ParameterRegistry, SearchParameter, resource_types
from fhir_server.search.query import FULLTEXT, criteria
from fhir_server.terminology import HL7, Library


def all_conditions(
    registry: ParameterRegistry, library: Library, resource_type: str, criteria: Sequence[Criterion]
) -> list[Condition]:
    """The conditions of all criteria. The limits of one date parameter become one condition."""
    known = registry.parameters(resource_type)
    conditions: list[Condition] = []
    for item in _combined(known, criteria):
        parameter = known.get(item.name)
        if parameter is not None and parameter.kind == "reference":
            check_modifiers(resource_type, item, criteria)
        if parameter is None or item.chain or item.modifier in LIBRARY_MODIFIERS:
            scope = SearchScope(resource_type, registry, library, partial(all_conditions, registry, library))
            conditions += _conditions(scope, parameter, item)
        else:
            conditions += _remembered(registry, resource_type, item)
    return conditions


@lru_cache(maxsize=2048)
def _remembered(registry: ParameterRegistry, resource_type: str, item: Criterion) -> list[Condition]:
    """The conditions of a criterion without a value set.

    They never change. They are cached, since other searches use the same patients and codes.
    """
    scope = SearchScope(resource_type, registry, HL7, partial(all_conditions, registry, HL7))
    return _conditions(scope, registry.parameters(resource_type).get(item.name), item)


def _combined(known: Mapping[str, SearchParameter], criteria: Sequence[Criterion]) -> list[Criterion]:
    """The criteria in the order of their names, as in HAPI. Criteria that combine (`Kind.combines`) become one."""
    combined: list[Criterion] = []
    for item in sorted(criteria, key=attrgetter("name")):
        parameter = known.get(item.name)
        if (
            parameter is None
            or not KINDS[parameter.kind].combines
            or item.chain
            or item.modifier == "missing"
            or len(item.values) > 1
        ):
            combined.append(item)
        elif combined and combined[-1].all_of and combined[-1].name == item.name:
            combined[-1] = replace(combined[-1], values=combined[-1].values + item.values)
        else:
            combined.append(replace(item, all_of=True))
    return combined


def _conditions(scope: SearchScope, parameter: SearchParameter | None, item: Criterion) -> list[Condition]:
    if parameter is None:
        return [_NO_PARAMETERS[item.name](scope, item)]
    if item.chain:
        return chained(scope, item, parameter)
    if item.modifier == "missing":
        if item.name == "_profile":  # HAPI ignores it
            return []
        return [_missing(scope, parameter, item.values[0] == "true")]
    if item.name == "_id":
        return [_by_id(scope, item)]
    return KINDS[parameter.kind].conditions(scope, parameter, item)


def _by_id(scope: SearchScope, item: Criterion) -> Condition:
    ids = [unescape(value).removeprefix(scope.resource_type).removeprefix("/") for value in item.values]
    if item.modifier == "not":  # HAPI then ignores the type
        known = f"EXISTS (SELECT 1 FROM resources WHERE type = ? AND id IN ({placeholders(ids)}))"
        where = f"text IS NOT NULL AND id NOT IN ({placeholders(ids)}) AND {known}"
        return Condition("resources", where, (*ids, scope.resource_type, *ids), weight=8)
    where = f"type = ? AND id IN ({placeholders(ids)}) AND text IS NOT NULL"
    return Condition("resources", where, (scope.resource_type, *ids), weight=0)


def _in_list(scope: SearchScope, item: Criterion) -> Condition:
    where = (
        "type || '/' || id IN (SELECT target FROM links WHERE param = ? AND row_id ="
        " (SELECT row_id FROM resources AS lists WHERE lists.type = 'List' AND lists.id = ?))"
    )
    return of_type(scope.resource_type, where, (scope.registry.number("List", "item"), item.values[0]), weight=7)


LIBRARY_MODIFIERS = frozenset(("in", "not-in", "above", "below"))
"""Modifiers that need a value set or a code system, which may change."""


def _missing(scope: SearchScope, parameter: SearchParameter, missing: bool) -> Condition:
    """`:missing`: whether there is an index row of the resource for the parameter.

    A composite itself does not get rows. HAPI's result is a side effect of its joins (observed), and is the same
    for true and false. token+token matches every resource. token+string matches the resources with the string.
    token+anything else matches none.
    """
    name, kind = parameter.name, parameter.kind
    if kind == "composite":
        others = ((part.parameter, part.kind) for part in parameter.components if part.kind != "token")
        name, kind = next(others, ("", ""))
        if kind != "string":
            return of_type(scope.resource_type, str(int(kind == "")))
        missing = False
    elif name in ("_id", "_lastUpdated"):  # HAPI: no resource, and every one, whatever is asked
        return of_type(scope.resource_type, str(int(name == "_lastUpdated")))
    having = f"SELECT row_id FROM {KINDS[kind].table} WHERE param = ?"
    if name == "_source":  # a value that is only a request id is not a source
        having += " AND " + names.where("value", "substr(names.text, 1, 1) <> '#'")
    where = f"row_id {'NOT ' if missing else ''}IN ({having})"
    return of_type(scope.resource_type, where, (scope.number(name),), weight=6)


MAX_DEPTH = 10
"""Longer chains are refused."""


def _too_long() -> FhirError:
    return FhirError(400, f"The chain is too long; a chain may have at most {MAX_DEPTH} links", "too-costly")


def chained(scope: SearchScope, item: Criterion, parameter: SearchParameter) -> list[Condition]:
    """The conditions that the resource refers to one that matches the chain, in the order of the chained condition."""
    if item.chain.count(".") >= MAX_DEPTH:
        raise _too_long()
    name = item.chain.partition(".")[0].partition(":")[0]
    types = target_types(item, parameter)
    number = scope.number(item.name)
    refers = Condition("links", "param = ?", (number,))
    if not item.modifier:  # even if the path allows only patients, the chain may name a parameter of groups
        types = tuple(dict.fromkeys((*types, *parameter.targets)))
    known = [kind for kind in types if name in scope.registry.parameters(kind) or name == "_has"]
    if not known:
        raise FhirError(400, f"HAPI-1243: Invalid parameter chain: {item.name}.{item.chain}")
    if "." in item.chain:
        known = [] if name == "_has" else [kind for kind in known if _kind_of(scope, kind, name) == "reference"]
        if not known:
            raise FhirError(400, f"HAPI-1242: Invalid parameter chain: {item.name}.{item.chain}")
    final = scope.registry.parameters(known[0]).get(name)
    if name in FULLTEXT or (name == "_id" and len(types) > 1 and item.values):  # then HAPI finds nothing
        return [replace(refers, where="param = ? AND 0")]
    if final is not None and item.chain.partition(".")[0] == f"{name}:missing":
        # HAPI tests the parameter of that name of the referring resource.
        if final.kind == "reference" and not scope.number(name):
            raise FhirError(400, f"HAPI-1209: Unknown parameter name: {scope.resource_type}:{name}")
        return [refers, *_conditions(scope, final, Criterion(name, "missing", item.values or ("false",)))]
    inner: list[tuple[str, Condition]] = []
    for kind in known:
        conditions = scope.conditions(
            kind, criteria(scope.registry, kind, item.chain, ",".join(item.values), nested=True)
        )
        inner += [(kind, condition) for condition in conditions]
    if not inner:
        return [refers]
    targets = Nested(_aims(inner), tuple(arg for _, condition in inner for arg in condition.args))
    if inner[0][1].negated:  # of any type, as in HAPI
        return [replace(refers, where=f"param = ? AND target NOT IN ({MEMBERS})", args=(number, targets))]
    where = f"param = ? AND target IN ({MEMBERS})"
    return [Condition("links", where, (number, targets), weight=3, lead=_walk(number, inner), access=CHAIN)]


def _kind_of(scope: SearchScope, resource_type: str, name: str) -> str:
    return scope.registry.parameters(resource_type)[name].kind


def _aims(inner: Sequence[tuple[str, Condition]]) -> str:
    """SQL for the resources that match the conditions, as references."""
    return " UNION ALL ".join(
        f"SELECT '{kind}/' || id FROM resources WHERE type = '{kind}' AND row_id IN ({condition.row_ids()})"
        for kind, condition in inner
    )


def _walk(number: int, inner: Sequence[tuple[str, Condition]]) -> Sql:
    """The referring resources, in the order of their targets.

    In an overlay, the tables are views, which a join would read as a whole. So each is read by itself: the targets'
    ids, then the links to these targets.
    """
    walks: list[str] = []
    args: list[object] = []
    for kind, condition in inner:
        # In HAPI, a `_has` at the end of a chain does not change the order.
        unranked = f"SELECT row_id, 0 AS k FROM ({condition.row_ids()})", condition.args
        walk, walk_args = unranked if condition.referring else condition.walk()
        walks.append(f"SELECT row_id, k, '{kind}' AS type FROM ({walk})")
        args += walk_args
    identified = "(SELECT id FROM resources WHERE resources.row_id = walked.row_id AND resources.type = walked.type)"
    aims = (
        f"SELECT type || '/' || {identified} FROM ({' UNION ALL '.join(walks)}) AS walked GROUP BY row_id, type"
        " ORDER BY min(k), row_id"
    )
    # The ranks reach the links by a window: in a join, SQLite would read all targets again for each link.
    sql = (
        "WITH aims AS MATERIALIZED (SELECT value AS target, key AS k FROM json_each(?))"
        " SELECT row_id, k FROM (SELECT row_id, max(k) OVER (PARTITION BY target) AS k FROM"
        " (SELECT NULL AS row_id, target, k FROM aims UNION ALL SELECT row_id, target, NULL FROM links"
        " WHERE param = ? AND target IN (SELECT target FROM aims))) WHERE row_id IS NOT NULL"
    )
    return sql, (Nested(aims, tuple(args)), number)


def has(scope: SearchScope, item: Criterion) -> Condition:
    """The condition that a resource with a further condition refers to this one (`_has:Observation:patient:code=x`)."""
    resource_type = scope.resource_type
    if item.chain.count("_has:") >= MAX_DEPTH:
        raise _too_long()
    parts = item.chain.split(":", 2)
    if len(parts) != 3:
        raise FhirError(400, f"HAPI-1942: Invalid _has parameter syntax: :{item.chain}")
    source, reference, name = parts
    if source not in resource_types():
        raise FhirError(400, f"HAPI-1208: Invalid resource type: {source}")
    known = scope.registry.parameters(source)
    nested = name.startswith("_has:")
    base = "_has" if nested else name.partition(".")[0]  # a modifier makes it unknown
    missing = f"HAPI-2305: Reference field does not exist: {reference}"
    if (nested or base == "_id") and reference not in known:
        raise FhirError(400, missing)
    for parameter in (base, reference):  # if both are unknown, HAPI reports `name`
        if parameter not in known and not (nested and parameter == base):
            raise FhirError(400, f"HAPI-1209: Unknown parameter name: {source}:{parameter}")
    if reference.startswith("_"):
        raise FhirError(400, missing)
    if base in FULLTEXT:
        return Condition("resources", "type = ? AND 0", (resource_type,))
    inner = criteria(scope.registry, source, name, ",".join(item.values), nested=True)
    conditions = [condition.positive(source) for condition in scope.conditions(source, inner)]
    members = tuple(condition.members() for condition in conditions)
    # The plus keeps SQLite from a look-up of each member for each target.
    tests = f" AND +source.row_id IN ({MEMBERS})" * len(members)
    start, number = f"{resource_type}/", scope.registry.number(source, reference)
    where = (
        "type = ? AND text IS NOT NULL AND EXISTS"
        f" (SELECT 1 FROM links AS source WHERE param = ? AND target = ? || id{tests})"
    )
    # In the order of the referring resources, which is the order of the condition on them. Their ranks are joined by
    # a window: in a join, SQLite would read all ranks again for each reference.
    ordered = len(conditions) == 1 and conditions[0].order != "updated"
    ranked = (conditions[0].ranked(),) if ordered else ()
    ranks = "SELECT value AS row_id, key AS k, NULL AS target FROM json_each(?) UNION ALL " * len(ranked)
    pointed = (
        f"SELECT row_id FROM resources WHERE type = ? AND text IS NOT NULL AND id = substr(target, {len(start) + 1})"
    )
    walk = (
        f"SELECT row_id, k FROM (SELECT ({pointed}) AS row_id, rank AS k FROM"
        " (SELECT target, coalesce(max(k) OVER (PARTITION BY row_id), 0) AS rank FROM"
        f" ({ranks}SELECT row_id, NULL AS k, target FROM links AS source"
        f" WHERE param = ? AND target >= ? AND target < ?{tests}))"
        " WHERE target IS NOT NULL) WHERE row_id IS NOT NULL"
    )
    lead = (walk, (resource_type, *ranked, number, start, f"{resource_type}0", *members))
    args = (resource_type, number, start, *members)
    return Condition("resources", where, args, weight=5, lead=lead, access=CHAIN, referring=True)


_NO_PARAMETERS: dict[str, Callable[[SearchScope, Criterion], Condition]] = {
    "_has": has,
    "_list": _in_list,
    "_filter": filtered,
}
"""Conditions that are not search parameters."""
