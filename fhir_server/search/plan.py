"""From a `Query` to SQL that gives the numbers of the matches in HAPI's order.

One condition leads: its index table is walked, the others filter. Without `_sort` the order is that of the index that
HAPI's database would start with (`join_order`); HAPI itself promises none.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from fhir_server.errors import FhirError
from fhir_server.search.condition import Condition, of_type
from fhir_server.search.conditions import all_conditions
from fhir_server.search.join_order import leading
from fhir_server.search.query import Query
from fhir_server.search.registry import ParameterRegistry
from fhir_server.search.sort import sorted_sql
from fhir_server.terminology.library import Library

MAX_CONDITIONS = 200
"""More conditions than this are refused: SQLite's parser has limits."""

MAX_ALTERNATIVES = 500
MAX_IDS = 10_000
"""The most values one condition may list; ids and references go into one IN list, other values do not."""


MAX_SPAN = 2_000
"""Up to this distance between the smallest and the greatest number that a condition leaves, what lies between is walked
by another condition."""


@dataclass(frozen=True, slots=True)
class Narrowing:
    """A quicker way to the same matches where those of the leading condition lie close together, as those of a patient
    do who was loaded with all that belongs to them: another condition's rows between the smallest and the greatest of
    their numbers are few.

    `bounds` is SQL for the two numbers; `sql` takes them as its last arguments.
    """

    bounds: str
    bounds_args: tuple[object, ...]
    sql: str
    args: tuple[object, ...]


@dataclass(frozen=True, slots=True)
class SearchSql:
    """SQL for the numbers of the matches, in order and without a limit, and its arguments.

    `whole_type` is the type where all resources of one are asked for.
    """

    sql: str
    args: tuple[object, ...]
    whole_type: str | None = None
    narrowing: Narrowing | None = None

    def counting(self) -> tuple[str, tuple[object, ...]]:
        """SQL for how many matches there are, and its arguments.

        Whether a resource is deleted stands in its row, but rows need not be read to count a type with what is deleted
        of it, nor to count that.
        """
        if self.whole_type is None:
            return f"SELECT count(*) FROM ({self.sql})", self.args
        of_type = "SELECT count(*) FROM resources WHERE type = ?"
        return f"SELECT ({of_type}) - ({of_type} AND text IS NULL)", (self.whole_type, self.whole_type)


def plan(query: Query, registry: ParameterRegistry, library: Library) -> SearchSql:
    """The SQL of a search; `library` has the value sets that it may name."""
    _check_size(query, registry)
    found = all_conditions(registry, library, query.resource_type, query.criteria)
    # With `_offset` HAPI asks for distinct rows, which come in order of insertion.
    ordered = not query.sort and query.offset is None
    by_type = ordered and any(item.by_type or (item.negated and not _asked_for(item, found)) for item in found)
    lead, rest = _choose(query.resource_type, found, ordered=ordered and not by_type)
    where = lead.where.replace("@row_id", "lead.row_id") + "".join(
        f" AND {item.filter('lead.row_id')}" for item in rest
    )
    filter_args = tuple(arg for item in rest for arg in item.args)
    if query.sort:
        matches = f"SELECT DISTINCT row_id FROM {lead.table} AS lead WHERE {where}"
        sql, key_args = sorted_sql(query.resource_type, matches, query.sort, registry)
        return SearchSql(sql, (*lead.args, *filter_args, *key_args), None if found else query.resource_type)
    if not lead.order and not lead.lead:
        # Grouping what the index gives in order costs nothing and stops at the limit, which DISTINCT does not.
        # Of a type HAPI walks the index by type and time of the last write.
        order = "ORDER BY updated, row_id" if lead.table == "resources" else "GROUP BY row_id ORDER BY row_id"
        if by_type and lead.table != "resources":
            changed = "(SELECT updated FROM resources WHERE resources.row_id = lead.row_id)"
            order = f"GROUP BY row_id ORDER BY {changed}, row_id"
        sql = f"SELECT row_id FROM {lead.table} AS lead WHERE {where} {order}"
        whole_type = None if found else query.resource_type
        return SearchSql(sql, (*lead.args, *filter_args), whole_type, None if by_type else _narrowing(lead, rest))
    walk, walk_args = lead.walk()
    filters = " AND ".join(item.filter("lead.row_id") for item in rest) or "1"
    sql = f"SELECT row_id FROM ({walk}) AS lead WHERE {filters} GROUP BY row_id ORDER BY min(k), row_id"
    return SearchSql(sql, (*walk_args, *filter_args))


def _narrowing(lead: Condition, rest: list[Condition]) -> Narrowing | None:
    """The way by another condition, where the rows of both are in order of the resources' numbers."""
    other = next((item for item in rest if item.clustered and not item.negated), None)
    if other is None or not lead.clustered:
        return None
    filters = [lead, *(item for item in rest if item is not other)]
    where = " AND ".join([other.where, *(item.filter("lead.row_id") for item in filters)])
    ends = (f"(SELECT {end}(row_id) FROM {lead.table} WHERE {lead.where})" for end in ("min", "max"))
    return Narrowing(
        f"SELECT {', '.join(ends)}",
        lead.args * 2,
        f"SELECT row_id FROM {other.table} AS lead WHERE {where} AND row_id BETWEEN ? AND ?"
        " GROUP BY row_id ORDER BY row_id",
        (*other.args, *(arg for item in filters for arg in item.args)),
    )


def _asked_for(negated: Condition, found: list[Condition]) -> bool:
    """Whether another condition asks for values of the parameter that this one excludes values of."""
    return any((one.table, one.args[0]) == (negated.table, negated.args[0]) and not one.negated for one in found)


def _check_size(query: Query, registry: ParameterRegistry) -> None:
    """Raises where a search has more conditions or values than SQLite can take."""
    if len(query.criteria) > MAX_CONDITIONS:
        raise FhirError(400, f"A search may have at most {MAX_CONDITIONS} conditions", "too-costly")
    for item in query.criteria:
        known = registry.parameters(query.resource_type).get(item.name)
        many = item.name == "_id" or (known is not None and known.kind == "reference" and not item.chain)
        if len(item.values) > (MAX_IDS if many else MAX_ALTERNATIVES):
            raise FhirError(400, f"{item.name} has too many values", "too-costly")


def _choose(resource_type: str, found: list[Condition], *, ordered: bool) -> tuple[Condition, list[Condition]]:
    """The condition that leads, and the others."""
    leaders = [item for item in found if not item.negated]
    if not leaders:
        return of_type(resource_type), found
    # The time of the last change leads only where nothing else does.
    leaders = [item for item in leaders if item.order != "updated"] or leaders
    first = leaders[leading(tuple(item.access for item in leaders))]
    if (first.order or first.lead) and ordered:
        lead = first
    else:  # in order of insertion, whatever leads: the condition with the fewest rows is the quickest
        lead = replace(min(leaders, key=lambda item: item.weight), order="", lead=None)
        found = [item for item in found if item.negated or item.where != lead.where or item.args != lead.args]
    return lead, [item for item in found if item is not lead and item != lead]
