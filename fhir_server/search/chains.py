"""Conditions along references: plain ones, chains (`subject:Patient.name`) and their reverse (`_has`)."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cache

from fhir_server.errors import FhirError
from fhir_server.search.conditions import TARGET, Condition
from fhir_server.search.parameter_numbers import Params
from fhir_server.search.parameters import SearchParameter, parameters, resource_types
from fhir_server.search.query import Criterion, criteria, unescape

MAX_DEPTH = 10
"""A longer chain is refused."""

Conditions = Callable[[str, Sequence[Criterion], Params], list[Condition]]
"""The planner's `all_conditions`, handed in because chains and planner need each other."""


def referring(param: int, item: Criterion, parameter: SearchParameter) -> Condition:
    """References to one of the values: an id, `Type/id` or a URL as it stands."""
    targets: list[str] = []
    for value in map(unescape, item.values):
        if "/" in value:
            targets.append(value.partition("/_history/")[0])
        else:
            targets += (f"{target}/{value}" for target in _targets(item, parameter))
    where = "param = ? AND target = ?" if len(targets) == 1 else f"param = ? AND target IN ({marks(targets)})"
    if len(item.values) == 1:
        return Condition("links", where, (param, *targets), weight=1)
    return Condition("links", where, (param, *targets), TARGET, weight=1)


def _targets(item: Criterion, parameter: SearchParameter) -> Sequence[str]:
    """The types an id without a type may belong to."""
    if item.modifier in resource_types():
        return (item.modifier,)
    if item.modifier and item.chain:
        raise FhirError(400, f'HAPI-1250: Invalid/unsupported resource type: "{item.modifier}"')
    return pointed_to(parameter)


@cache
def pointed_to(parameter: SearchParameter) -> Sequence[str]:
    """The types that rows of a reference parameter name: those its path resolves to, else its targets, else any."""
    only = re.findall(r"resolve\(\) is (\w+)", parameter.expression)
    return tuple(only) or parameter.targets or resource_types()


def marks(values: Sequence[object]) -> str:
    """As many question marks as there are values."""
    return ", ".join("?" * len(values))


def chained(
    resource_type: str, item: Criterion, parameter: SearchParameter, params: Params, conditions: Conditions
) -> Condition:
    """References to resources that meet a further condition, in the order of that condition."""
    if item.chain.count(".") >= MAX_DEPTH:
        raise FhirError(400, f"A chain may have at most {MAX_DEPTH} links", "too-costly")
    if parameter.kind != "reference":
        raise FhirError(400, f"HAPI-1245: Invalid parameter chain: {item.name}.{item.chain}")
    name = item.chain.partition(".")[0].partition(":")[0]
    types = _targets(item, parameter)
    known = [kind for kind in types if name in parameters(kind) or name == "_has"]
    if not known:
        raise FhirError(400, f"HAPI-1245: Invalid parameter chain: {item.name}.{item.chain}")
    inner: list[tuple[str, Condition]] = []
    for kind in known:
        found = conditions(kind, criteria(kind, item.chain, ",".join(item.values), nested=True), params)
        inner += [(kind, one.positive(kind)) for one in found]
    if not inner:
        return Condition("links", "param = ?", (params.number(resource_type, item.name),))
    number = params.number(resource_type, item.name)
    aims = " UNION ALL ".join(
        f"SELECT '{kind}/' || id FROM resources WHERE type = '{kind}' AND pid IN ({one.pids()})" for kind, one in inner
    )
    args = tuple(arg for _, one in inner for arg in one.args)
    return Condition("links", f"param = ? AND target IN ({aims})", (number, *args), weight=3, lead=_walk(number, inner))


def _walk(number: int, inner: Sequence[tuple[str, Condition]]) -> tuple[str, tuple[object, ...]]:
    """The referring resources, those of the first target first."""
    walks: list[str] = []
    args: list[object] = []
    for kind, one in inner:
        walk, walk_args = one.walk()
        walks.append(f"SELECT pid, k, '{kind}' AS type FROM ({walk})")
        args += walk_args
    ranked = (
        "SELECT pid, type, row_number() OVER (ORDER BY min(k), pid) AS k"
        f" FROM ({' UNION ALL '.join(walks)}) GROUP BY pid, type"
    )
    sql = (
        f"SELECT links.pid AS pid, aim.k AS k FROM ({ranked}) AS aim"
        " JOIN resources AS target ON target.pid = aim.pid AND target.type = aim.type"
        " JOIN links ON links.param = ? AND links.target = target.type || '/' || target.id"
    )
    return sql, (*args, number)


def has(resource_type: str, item: Criterion, params: Params, conditions: Conditions) -> Condition:
    """Resources that another one, which meets a further condition, refers to (`_has:Observation:patient:code=x`)."""
    parts = item.chain.split(":", 2)
    if len(parts) != 3 or item.chain.count(":") > 2 * MAX_DEPTH:
        raise FhirError(400, f"Invalid _has parameter: _has:{item.chain}")
    source, reference, name = parts
    if source not in resource_types():
        raise FhirError(400, f"HAPI-1208: Invalid resource type: {source}")
    known = parameters(source)
    base = name.partition(":")[0].partition(".")[0]
    for wanted in (reference, base):
        if wanted not in known and wanted != "_has":
            raise FhirError(400, f"HAPI-1209: Unknown parameter name: {source}:{wanted}")
    inner = criteria(source, name, ",".join(item.values), nested=True)
    found = [one.positive(source) for one in conditions(source, inner, params)]
    tests = "".join(f" AND source.pid IN ({one.pids()})" for one in found)
    start = f"{resource_type}/"
    where = (
        f"type = ? AND text IS NOT NULL AND id IN (SELECT substr(target, {len(start) + 1}) FROM links AS source"
        f" WHERE param = ? AND target >= ? AND target < ?{tests})"
    )
    args = (resource_type, params.number(source, reference), start, f"{resource_type}0")
    inner_args = tuple(arg for one in found for arg in one.args)
    # In the order of the resources that refer.
    walk = (
        "SELECT aim.pid AS pid, source.pid AS k FROM links AS source JOIN resources AS aim ON aim.type = ? AND"
        f" aim.text IS NOT NULL AND aim.id = substr(target, {len(start) + 1})"
        f" WHERE param = ? AND target >= ? AND target < ?{tests}"
    )
    return Condition("resources", where, args + inner_args, weight=5, lead=(walk, args + inner_args))
