"""From a `Query` to SQL that gives the numbers of the matches in HAPI's order.

One condition leads: its index table is walked, the others filter. Without `_sort` the order is that of the range or
string condition, unless two or more equalities stand beside it, and that of insertion otherwise; this is what HAPI's
database does in the recorded searches, not something HAPI promises.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fhir_server.errors import FhirError
from fhir_server.search import conditions
from fhir_server.search.chains import chained, has, referring
from fhir_server.search.conditions import Condition
from fhir_server.search.filter_expression import filtered
from fhir_server.search.moments import dates, updated
from fhir_server.search.parameter_numbers import Params
from fhir_server.search.parameters import SearchParameter, parameters
from fhir_server.search.query import Criterion, Query, split, unescape
from fhir_server.search.sort import sorted_sql

MAX_CONDITIONS = 200
"""More conditions than this are refused: SQLite's parser has its limits, and no one asks so much."""

MAX_ALTERNATIVES = 500
MAX_IDS = 10_000
"""The most values one condition may list; ids and references go into one IN list, other values do not."""

TABLES = {
    "token": "tokens",
    "string": "strings",
    "date": "dates",
    "quantity": "quantities",
    "number": "numbers",
    "uri": "uris",
    "reference": "links",
    "special": "coords",
}


@dataclass(frozen=True, slots=True)
class Plan:
    """SQL for the numbers of the matches, in order and without a limit, and its arguments."""

    sql: str
    args: tuple[object, ...]


def plan(query: Query, params: Params) -> Plan:
    """The SQL of a search."""
    if len(query.criteria) > MAX_CONDITIONS:
        raise FhirError(400, f"A search may have at most {MAX_CONDITIONS} conditions", "too-costly")
    for item in query.criteria:
        known = parameters(query.resource_type).get(item.name)
        many = item.name == "_id" or (known is not None and known.kind == "reference" and not item.chain)
        if len(item.values) > (MAX_IDS if many else MAX_ALTERNATIVES):
            raise FhirError(400, f"{item.name} has too many values", "too-costly")
    found = all_conditions(query.resource_type, query.criteria, params)
    lead, rest = _choose(query.resource_type, found, sorted_anyway=bool(query.sort))
    where = lead.where.replace("@pid", "lead.pid") + "".join(f" AND {item.filter('lead.pid')}" for item in rest)
    filter_args = tuple(arg for item in rest for arg in item.args)
    if query.sort:
        matches = f"SELECT DISTINCT pid FROM {lead.table} AS lead WHERE {where}"
        sql, key_args = sorted_sql(query.resource_type, matches, query.sort, params)
        return Plan(sql, (*lead.args, *filter_args, *key_args))
    if not lead.order and not lead.lead:
        # Grouping what the index gives in order costs nothing and stops at the limit, which DISTINCT does not.
        once = "" if lead.table == "resources" else " GROUP BY pid"
        sql = f"SELECT pid FROM {lead.table} AS lead WHERE {where}{once} ORDER BY pid"
        return Plan(sql, (*lead.args, *filter_args))
    walk, walk_args = lead.walk()
    filters = " AND ".join(item.filter("lead.pid") for item in rest) or "1"
    sql = f"SELECT pid FROM ({walk}) AS lead WHERE {filters} GROUP BY pid ORDER BY min(k), pid"
    return Plan(sql, (*walk_args, *filter_args))


def all_conditions(resource_type: str, criteria: Sequence[Criterion], params: Params) -> list[Condition]:
    """The conditions of all criteria; the bounds of one date parameter become one condition."""
    found: list[Condition] = []
    ranges: dict[str, list[str]] = {}
    for item in criteria:
        parameter = parameters(resource_type).get(item.name)
        if not (parameter and parameter.kind == "date" and not item.chain and item.modifier != "missing"):
            found += _conditions(resource_type, item, parameter, params)
        elif len(item.values) > 1:
            found.append(_dates(resource_type, item.name, item.values, params, any_of=True))
        else:
            ranges.setdefault(item.name, []).extend(item.values)
    return found + [_dates(resource_type, name, values, params, any_of=False) for name, values in ranges.items()]


def _dates(resource_type: str, name: str, values: Sequence[str], params: Params, *, any_of: bool) -> Condition:
    if name == "_lastUpdated":
        return updated(resource_type, values, any_of=any_of)
    return dates(params.number(resource_type, name), values, any_of=any_of)


def _choose(resource_type: str, found: list[Condition], *, sorted_anyway: bool) -> tuple[Condition, list[Condition]]:
    """The condition that leads, and the others."""
    leaders = [item for item in found if not item.negated]
    if not leaders:
        return Condition("resources", "type = ? AND text IS NOT NULL", (resource_type,)), found
    lead = min(leaders, key=lambda item: item.weight)
    ordered = [item for item in leaders if item.order or item.lead]
    equalities = sum(not item.order and not item.lead for item in leaders)
    if ordered and equalities < 2 and not sorted_anyway:
        lead = min(reversed(ordered), key=lambda item: item.weight)
    elif lead.order or lead.lead:
        lead = replace(lead, order="", lead=None)
    return lead, [item for item in found if item is not lead and item != lead]


def _conditions(
    resource_type: str, item: Criterion, parameter: SearchParameter | None, params: Params
) -> list[Condition]:
    if item.name == "_has":
        return [has(resource_type, item, params, all_conditions)]
    if item.name == "_filter":
        return [filtered(resource_type, item.values[0], params, all_conditions)]
    if item.name == "_list":
        return [_in_list(resource_type, item.values[0], params)]
    assert parameter is not None
    if item.chain:
        return [chained(resource_type, item, parameter, params, all_conditions)]
    if item.modifier == "missing":
        return [_missing(resource_type, parameter, item.values[0] == "true", params)]
    if item.name == "_id":
        return [_by_id(resource_type, item.values)]
    number = params.number(resource_type, item.name)
    if item.name == "_source" and not item.modifier:
        return [conditions.sources(number, item.values)]
    match parameter.kind:
        case "reference":
            return [referring(number, item, parameter)]
        case "composite":
            return _composite(resource_type, item, parameter, params)
        case "token":
            return [conditions.tokens(number, item.values, item.modifier, (resource_type, item.name))]
        case kind:
            return [conditions.BY_KIND[kind](number, item.values, item.modifier)]


def _by_id(resource_type: str, values: Sequence[str]) -> Condition:
    ids = [unescape(value).removeprefix(f"{resource_type}/") for value in values]
    where = f"type = ? AND id IN ({', '.join('?' * len(ids))}) AND text IS NOT NULL"
    return Condition("resources", where, (resource_type, *ids), weight=0)


def _missing(resource_type: str, parameter: SearchParameter, missing: bool, params: Params) -> Condition:
    """`:missing`: whether the resource has an index row for the parameter.

    A composite has no rows of its own, and HAPI's answer is an accident of its joins (observed): two tokens hold of
    every resource, a token and a string where the string does, a token and anything else of none.
    """
    name, kind = parameter.name, parameter.kind
    if kind == "composite":
        others = ((part.parameter, part.kind) for part in parameter.components if part.kind != "token")
        name, kind = next(others, ("", ""))
        if kind != "string":
            return _all_or_none(resource_type, (kind == "") != missing)
    elif name in ("_id", "_lastUpdated"):
        return _all_or_none(resource_type, not missing)
    having = f"SELECT pid FROM {TABLES[kind]} WHERE param = ?"
    where = f"type = ? AND text IS NOT NULL AND pid {'NOT ' if missing else ''}IN ({having})"
    return Condition("resources", where, (resource_type, params.number(resource_type, name)), weight=6)


def _all_or_none(resource_type: str, hold: bool) -> Condition:
    return Condition("resources", f"type = ? AND text IS NOT NULL AND {int(hold)}", (resource_type,))


def _in_list(resource_type: str, list_id: str, params: Params) -> Condition:
    where = (
        "type = ? AND text IS NOT NULL AND type || '/' || id IN (SELECT target FROM links WHERE param = ? AND pid ="
        " (SELECT pid FROM resources AS lists WHERE lists.type = 'List' AND lists.id = ?))"
    )
    return Condition("resources", where, (resource_type, params.number("List", "item"), list_id), weight=7)


def _composite(resource_type: str, item: Criterion, parameter: SearchParameter, params: Params) -> list[Condition]:
    """`value$value`: each component holds of the resource, as HAPI joins the components' own tables."""
    alternatives: list[list[Condition]] = []
    for value in item.values:
        parts = split(value, "$")
        if len(parts) != len(parameter.components):
            raise FhirError(
                400,
                "HAPI-1938: Invalid value for composite parameter (only"
                f" {len(parts) - 1} separators found, expected {len(parameter.components) - 1})",
            )
        criteria = [
            Criterion(component.parameter, "", (part,))
            for component, part in zip(parameter.components, parts, strict=True)
        ]
        alternatives.append(all_conditions(resource_type, criteria, params))
    if len(alternatives) == 1:
        return alternatives[0]
    tests = [" AND ".join(one.filter("@pid") for one in found) for found in alternatives]
    args = tuple(arg for found in alternatives for one in found for arg in one.args)
    where = f"type = ? AND text IS NOT NULL AND {conditions.either(tests)}"
    return [Condition("resources", where, (resource_type, *args), weight=6)]
