"""Makes conditions from criteria: by the kind of the parameter, for chains, `_id`, `_has`, `_list` and `_filter`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from operator import attrgetter

from fhir_server.search import names
from fhir_server.search._chains import chained, has
from fhir_server.search._criteria import Criterion, unescape
from fhir_server.search._filter_expression import filtered
from fhir_server.search.condition import Condition, of_type, placeholders
from fhir_server.search.kinds import KINDS
from fhir_server.search.kinds.kind import Scope
from fhir_server.search.parameters import SearchParameter
from fhir_server.search.registry import ParameterRegistry
from fhir_server.terminology.library import HL7, Library


def all_conditions(
    registry: ParameterRegistry, library: Library, resource_type: str, criteria: Sequence[Criterion]
) -> list[Condition]:
    """The conditions of all criteria. The bounds of one date parameter become one condition."""
    known = registry.parameters(resource_type)
    conditions: list[Condition] = []
    for item in _combined(known, criteria):
        parameter = known.get(item.name)
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
        return [chained(scope, item, parameter)]
    if item.modifier == "missing":
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
_NO_PARAMETERS: dict[str, Callable[[Scope, Criterion], Condition]] = {
    "_has": has,
    "_list": _in_list,
    "_filter": filtered,
}
"""Conditions that are not search parameters."""


def _missing(scope: Scope, parameter: SearchParameter, missing: bool) -> Condition:
    """`:missing`: whether the resource has an index row for the parameter.

    A composite has no rows of its own. HAPI's result is a side effect of its joins (observed), and is the same for true
    and false. token+token matches every resource. token+string matches the resources with the string. token+anything
    else matches none.
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
    if name == "_source":  # a value that is only a request id is no source
        having += " AND " + names.where("value", "substr(names.text, 1, 1) <> '#'")
    where = f"row_id {'NOT ' if missing else ''}IN ({having})"
    return of_type(scope.resource_type, where, (scope.number(name),), weight=6)
