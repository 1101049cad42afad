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
from fhir_server.search.condition import Condition, Criterion, of_type, placeholders, unescape
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import Scope
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
            scope = Scope(resource_type, registry, library, partial(all_conditions, registry, library))
            conditions += _conditions(scope, parameter, item)
        else:
            conditions += _remembered(registry, resource_type, item)
    return conditions


@lru_cache(maxsize=2048)
def _remembered(registry: ParameterRegistry, resource_type: str, item: Criterion) -> list[Condition]:
    """The conditions of a criterion without a value set.

    They never change. They are cached, since other searches use the same patients and codes.
    """
    scope = Scope(resource_type, registry, HL7, partial(all_conditions, registry, HL7))
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


def _conditions(scope: Scope, parameter: SearchParameter | None, item: Criterion) -> list[Condition]:
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


def _by_id(scope: Scope, item: Criterion) -> Condition:
    ids = [unescape(value).removeprefix(f"{scope.resource_type}/") for value in item.values]
    if item.modifier == "not":  # HAPI then ignores the type
        known = f"EXISTS (SELECT 1 FROM resources WHERE type = ? AND id IN ({placeholders(ids)}))"
        where = f"text IS NOT NULL AND id NOT IN ({placeholders(ids)}) AND {known}"
        return Condition("resources", where, (*ids, scope.resource_type, *ids), weight=8)
    where = f"type = ? AND id IN ({placeholders(ids)}) AND text IS NOT NULL"
    return Condition("resources", where, (scope.resource_type, *ids), weight=0)


def _in_list(scope: Scope, item: Criterion) -> Condition:
    where = (
        "type || '/' || id IN (SELECT target FROM links WHERE param = ? AND row_id ="
        " (SELECT row_id FROM resources AS lists WHERE lists.type = 'List' AND lists.id = ?))"
    )
    return of_type(scope.resource_type, where, (scope.registry.number("List", "item"), item.values[0]), weight=7)


LIBRARY_MODIFIERS = frozenset(("in", "not-in", "above", "below"))
"""Modifiers that need a value set or a code system, which may change."""


def _missing(scope: Scope, parameter: SearchParameter, missing: bool) -> Condition:
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
    elif name in ("_id", "_lastUpdated"):
        return of_type(scope.resource_type, str(int(not missing)))
    having = f"SELECT row_id FROM {KINDS[kind].table} WHERE param = ?"
    if name == "_source":  # a value that is only a request id is not a source
        having += " AND " + names.where("value", "substr(names.text, 1, 1) <> '#'")
    where = f"row_id {'NOT ' if missing else ''}IN ({having})"
    return of_type(scope.resource_type, where, (scope.number(name),), weight=6)


MAX_DEPTH = 10
"""Longer chains are refused."""


def chained(scope: Scope, item: Criterion, parameter: SearchParameter) -> list[Condition]:
    """The conditions that the resource refers to one that matches the chain, in the order of the chained condition."""
    if item.chain.count(".") >= MAX_DEPTH:
        raise FhirError(400, f"The chain is too long; a chain may have at most {MAX_DEPTH} links", "too-costly")
    name = item.chain.partition(".")[0].partition(":")[0]
    types = target_types(item, parameter)
    number = scope.number(item.name)
    refers = Condition("links", "param = ?", (number,))
    if not item.modifier:  # even if the path allows only patients, the chain may name a parameter of groups
        types = tuple(dict.fromkeys((*types, *parameter.targets)))
    if name in FULLTEXT or (name == "_id" and len(types) > 1):  # then HAPI finds nothing
        return [replace(refers, where="param = ? AND 0")]
    known = [kind for kind in types if name in scope.registry.parameters(kind) or name == "_has"]
    if not known:
        raise FhirError(400, f"HAPI-1243: Invalid parameter chain: {item.name}.{item.chain}")
    if item.chain == f"{name}:missing":  # HAPI tests the parameter of that name of the referring resource
        final = scope.registry.parameters(known[0])[name]
        if final.kind == "reference" and not scope.number(name):
            raise FhirError(400, f"HAPI-1209: Unknown parameter name: {scope.resource_type}:{name}")
        return [refers, *_conditions(scope, final, Criterion(name, "missing", item.values))]
    inner: list[tuple[str, Condition]] = []
    for kind in known:
        conditions = scope.conditions(
            kind, criteria(scope.registry, kind, item.chain, ",".join(item.values), nested=True)
        )
        inner += [(kind, one.positive(kind)) for one in conditions]
    if not inner:
        return [refers]
    aims = " UNION ALL ".join(
        f"SELECT '{kind}/' || id FROM resources WHERE type = '{kind}' AND row_id IN ({one.row_ids()})"
        for kind, one in inner
    )
    args = (number, *(arg for _, one in inner for arg in one.args))
    where = f"param = ? AND target IN ({aims})"
    return [Condition("links", where, args, weight=3, lead=_walk(number, inner), access=CHAIN)]


def _walk(number: int, inner: Sequence[tuple[str, Condition]]) -> tuple[str, tuple[object, ...]]:
    """The referring resources, in the order of their targets."""
    walks: list[str] = []
    args: list[object] = []
    for kind, one in inner:
        walk, walk_args = one.walk()
        walks.append(f"SELECT row_id, k, '{kind}' AS type FROM ({walk})")
        args += walk_args
    ranked = (
        "SELECT row_id, type, row_number() OVER (ORDER BY min(k), row_id) AS k"
        f" FROM ({' UNION ALL '.join(walks)}) GROUP BY row_id, type"
    )
    sql = (
        f"SELECT links.row_id AS row_id, aim.k AS k FROM ({ranked}) AS aim"
        " JOIN resources AS target ON target.row_id = aim.row_id AND target.type = aim.type"
        " JOIN links ON links.param = ? AND links.target = target.type || '/' || target.id"
    )
    return sql, (*args, number)


def has(scope: Scope, item: Criterion) -> Condition:
    """The condition that a resource with a further condition refers to this one (`_has:Observation:patient:code=x`)."""
    resource_type = scope.resource_type
    parts = item.chain.split(":", 2)
    if len(parts) != 3 or item.chain.count(":") > 2 * MAX_DEPTH:
        raise FhirError(400, f"HAPI-1942: Invalid _has parameter syntax: :{item.chain}")
    source, reference, name = parts
    if source not in resource_types():
        raise FhirError(400, f"HAPI-1208: Invalid resource type: {source}")
    known = scope.registry.parameters(source)
    base = "_has" if name.startswith("_has:") else name.partition(".")[0]  # a modifier makes it unknown
    if base in ("_id", "_has") and reference not in known and reference != "_has":
        raise FhirError(400, f"HAPI-2305: Reference field does not exist: {reference}")
    for parameter in (base, reference):  # if both are unknown, HAPI reports `name`
        if parameter not in known and parameter != "_has":
            raise FhirError(400, f"HAPI-1209: Unknown parameter name: {source}:{parameter}")
    if base in FULLTEXT:
        return Condition("resources", "type = ? AND 0", (resource_type,))
    inner = criteria(scope.registry, source, name, ",".join(item.values), nested=True)
    conditions = [one.positive(source) for one in scope.conditions(source, inner)]
    tests = "".join(f" AND source.row_id IN ({one.row_ids()})" for one in conditions)
    start, number = f"{resource_type}/", scope.registry.number(source, reference)
    inner_args = tuple(arg for one in conditions for arg in one.args)
    where = (
        "type = ? AND text IS NOT NULL AND EXISTS"
        f" (SELECT 1 FROM links AS source WHERE param = ? AND target = ? || id{tests})"
    )
    # In the order of the referring resources, which is the order of the condition on them. Their ranks are joined by
    # a window: in a join, SQLite would read all ranks again for each reference.
    ranked, ranked_args = conditions[0].walk() if len(conditions) == 1 else ("SELECT NULL AS row_id, NULL AS k", ())
    walk = (
        "SELECT aim.row_id AS row_id, rank AS k FROM"
        " (SELECT target, coalesce(max(k) OVER (PARTITION BY row_id), row_id) AS rank FROM"
        " (SELECT row_id, row_number() OVER (ORDER BY min(k), row_id) AS k, NULL AS target"
        f" FROM ({ranked}) GROUP BY row_id UNION ALL SELECT row_id, NULL, target FROM links AS source"
        f" WHERE param = ? AND target >= ? AND target < ?{tests}))"
        f" JOIN resources AS aim ON aim.type = ? AND aim.text IS NOT NULL AND aim.id = substr(target, {len(start) + 1})"
    )
    lead = (walk, (*ranked_args, number, start, f"{resource_type}0", *inner_args, resource_type))
    args = (resource_type, number, start, *inner_args)
    return Condition("resources", where, args, weight=5, lead=lead, access=CHAIN, referring=True)


_NO_PARAMETERS: dict[str, Callable[[Scope, Criterion], Condition]] = {
    "_has": has,
    "_list": _in_list,
    "_filter": filtered,
}
"""Conditions that are not search parameters."""
