"""SQL for the matches of a search, and the choice between two ways to find them.

The rows of a condition are either together in the order of `row_id`, or in the requested order in an index. The data
decides which way reads fewer rows. So a short query of the index chooses the way when the search runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sqlite3 import Cursor
from typing import Protocol

from fhir_server.search.condition import Condition

MAX_SORTED = 1_000
"""Up to this many matches are sorted. For more, an index in the requested order is read."""

Sql = tuple[str, tuple[object, ...]]
"""A statement and its arguments."""


class Searched(Protocol):
    """The interface of a store for searches."""

    def query(self, sql: str, values: Sequence[object]) -> Cursor:
        """Runs a statement."""


@dataclass(frozen=True, slots=True)
class Walk:
    """SQL for the numbers of matches, in order and without a limit, and its arguments.

    `repeats`: a number may occur several times; its first place counts. `rest` has the last matches.
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


def where(lead: Condition, others: Sequence[Condition]) -> Sql:
    """SQL that tests all conditions on a row of the leading condition's table. The table's alias is `lead`."""
    tests = [lead.where.replace("@row_id", "lead.row_id"), *(item.filter("lead.row_id") for item in others)]
    return " AND ".join(tests), tuple(arg for item in (lead, *others) for arg in item.args)


def counted(lead: Condition, others: Sequence[Condition]) -> Sql:
    """SQL for the number of resources that match all conditions."""
    tests, args = where(lead, others)
    return f"SELECT count(*) FROM (SELECT DISTINCT row_id FROM {lead.table} AS lead WHERE {tests})", args


def at_most(lead: Condition, most: int) -> Sql:
    """SQL for the number of rows that match a condition, at most `most` + 1."""
    tests, args = where(lead, ())
    return f"SELECT count(*) FROM (SELECT 1 FROM {lead.table} AS lead WHERE {tests} LIMIT {most + 1})", args


def clustered(conditions: Sequence[Condition]) -> Condition | None:
    """The first condition that is `clustered` and not negated, or None."""
    return next((item for item in conditions if item.clustered and not item.negated), None)


def by_index(condition: Condition) -> Condition:
    """The condition with `param + 0`, so that SQLite uses the indexes of `Kind.orders`.

    These indexes have `param + 0` because SQLite, without statistics, would otherwise use them for other searches too.
    """
    return replace(condition, where=condition.where.replace("param = ?", "param + 0 = ?", 1))


def in_order(lead: Condition, others: Sequence[Condition]) -> Planned:
    """The matches in the order of an index of the leading condition. If few match a code, these are sorted instead."""
    count = counted(lead, others)
    tests, args = where(by_index(lead), others)
    sql = f"SELECT row_id, {lead.order} AS k FROM {lead.table} AS lead WHERE {tests} ORDER BY k, row_id"
    stream = Walk(sql, args, repeats=True)
    rare = clustered(others)
    if rare is None:
        return Planned(stream, count)
    tests, args = where(rare, [item for item in others if item is not rare])
    key = f"SELECT {lead.order} FROM {lead.table} AS one WHERE {lead.where} AND one.row_id = lead.row_id"
    key += " ORDER BY 1 LIMIT 1"
    keyed = f"SELECT DISTINCT row_id, ({key}) AS k FROM {rare.table} AS lead WHERE {tests}"
    few = Walk(f"SELECT row_id FROM ({keyed}) WHERE k IS NOT NULL ORDER BY k, row_id", lead.args + args)
    return Planned(stream, count, few, at_most(rare, MAX_SORTED))


def matches(store: Searched, planned: Planned, limit: int = -1, offset: int = 0) -> array[int]:
    """The numbers of the matches in order, found by the faster way."""
    walk = planned.usual
    if planned.few is not None and store.query(*planned.test).fetchone()[0] <= MAX_SORTED:
        walk = planned.few
    return _walked(store, walk, limit, offset)


def _walked(store: Searched, walk: Walk, limit: int, offset: int) -> array[int]:
    if not walk.repeats:
        sql, args = f"{walk.sql} LIMIT ? OFFSET ?", (*walk.args, limit, offset)
        return array("q", [row[0] for row in store.query(sql, args)])
    numbers: dict[int, None] = {}
    end = offset + limit if limit >= 0 else None
    for row in store.query(walk.sql, walk.args):
        numbers[row[0]] = None
        if len(numbers) == end:
            break
    else:
        if walk.rest is not None:
            missing = -1 if end is None else end - len(numbers)
            numbers |= dict.fromkeys(_walked(store, walk.rest, missing, 0))
    return array("q", list(numbers)[offset:end])
