"""Conditions along references: chains (`subject:Patient.name`) and reverse chains (`_has`)."""

from __future__ import annotations

from collections.abc import Sequence

from fhir_server.errors import FhirError
from fhir_server.search._criteria import Criterion
from fhir_server.search._join_order import CHAIN
from fhir_server.search.condition import Condition
from fhir_server.search.kinds.kind import Scope
from fhir_server.search.kinds.reference import target_types
from fhir_server.search.parameters import SearchParameter, resource_types
from fhir_server.search.query import FULLTEXT, criteria

MAX_DEPTH = 10
"""Longer chains are refused."""


def chained(scope: Scope, item: Criterion, parameter: SearchParameter) -> Condition:
    """The condition that the resource refers to one that matches the chain, in the order of the chained condition."""
    if item.chain.count(".") >= MAX_DEPTH:
        raise FhirError(400, f"The chain is too long; a chain may have at most {MAX_DEPTH} links", "too-costly")
    name = item.chain.partition(".")[0].partition(":")[0]
    types = target_types(item, parameter)
    if name in FULLTEXT:  # HAPI without a full-text index finds nothing
        return Condition("links", "param = ? AND 0", (scope.number(item.name),))
    if not item.modifier:  # even if the path allows only patients, the chain may name a parameter of groups
        types = tuple(dict.fromkeys((*types, *parameter.targets)))
    known = [kind for kind in types if name in scope.registry.parameters(kind) or name == "_has"]
    if not known:
        raise FhirError(400, f"HAPI-1243: Invalid parameter chain: {item.name}.{item.chain}")
    inner: list[tuple[str, Condition]] = []
    for kind in known:
        conditions = scope.conditions(
            kind, criteria(scope.registry, kind, item.chain, ",".join(item.values), nested=True)
        )
        inner += [(kind, one.positive(kind)) for one in conditions]
    if not inner:
        return Condition("links", "param = ?", (scope.number(item.name),))
    number = scope.number(item.name)
    aims = " UNION ALL ".join(
        f"SELECT '{kind}/' || id FROM resources WHERE type = '{kind}' AND row_id IN ({one.row_ids()})"
        for kind, one in inner
    )
    args = tuple(arg for _, one in inner for arg in one.args)
    return Condition(
        "links", f"param = ? AND target IN ({aims})", (number, *args), weight=3, lead=_walk(number, inner), access=CHAIN
    )


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
    base = name.partition(":")[0].partition(".")[0]
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
    start = f"{resource_type}/"
    where = (
        f"type = ? AND text IS NOT NULL AND id IN (SELECT substr(target, {len(start) + 1}) FROM links AS source"
        f" WHERE param = ? AND target >= ? AND target < ?{tests})"
    )
    args = (resource_type, scope.registry.number(source, reference), start, f"{resource_type}0")
    inner_args = tuple(arg for one in conditions for arg in one.args)
    # In the order of the referring resources, which is the order of the condition on them.
    walk = (
        "SELECT aim.row_id AS row_id, {key} AS k FROM links AS source JOIN resources AS aim ON aim.type = ? AND"
        f" aim.text IS NOT NULL AND aim.id = substr(target, {len(start) + 1})"
        f" {{ranks}} WHERE param = ? AND target >= ? AND target < ?{tests}"
    )
    lead = (walk.format(key="source.row_id", ranks=""), args + inner_args)
    if len(conditions) == 1:
        ranked, ranked_args = conditions[0].walk()
        ranks = f"SELECT row_id, row_number() OVER (ORDER BY min(k), row_id) AS k FROM ({ranked}) GROUP BY row_id"
        joined = walk.format(key="ranks.k", ranks=f"JOIN ({ranks}) AS ranks ON ranks.row_id = source.row_id")
        lead = (joined, (args[0], *ranked_args, *args[1:], *inner_args))
    return Condition("resources", where, args + inner_args, weight=5, lead=lead, access=CHAIN, referring=True)
