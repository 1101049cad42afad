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

from fhir_server.search.condition import Condition, Slot

MAX_SPAN = 2_000
"""If the smallest and largest `row_id` of a condition's matches differ by at most this, another condition's rows
between them are read instead."""
MAX_SORTED = 1_000
"""Up to this many matches are sorted. For more, an index in the requested order is read."""

Sql = tuple[str, tuple[object, ...]]
"""A statement and its arguments."""


class Searched(Protocol):
    """The interface of a store for searches."""

    @property
    def is_file(self) -> bool:
        """Whether all tables are those of a file. False for an overlay with its own tables."""

    def query(self, sql: str, values: Sequence[object]) -> Cursor:
        """Runs a statement."""


@dataclass(frozen=True, slots=True)
class Walk:
    """SQL for the numbers of matches, in order and without a limit, and its arguments.

    `repeats`: a number may occur several times; its first place counts. `rest` has the last matches. `joined` is
    equivalent SQL that is faster on a file, but much slower on an overlay with its own tables.
    """

    sql: str
    args: tuple[object, ...]
    repeats: bool = False
    rest: Walk | None = None
    joined: Sql | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SearchSql:
    """The SQL for searches of one form. Arguments are values or slots.

    `usual` and `few` are two ways to find the matches. If the first number that `test` returns is at most `most`, `few`
    is used; the other numbers of `test` are its first arguments.
    """

    usual: Walk
    count: Sql
    few: Walk | None = None
    test: Sql = ("", ())
    most: int = 0
    first: str = ""
    """SQL for the first matches, with the limit as its last argument. Empty unless the matches are rows of one index in
    its order, so that finding them again is fast.
    """


@dataclass(slots=True)
class Planned:
    """A search to run: its SQL and the values for the slots."""

    sql: SearchSql
    values: tuple[object, ...]

    def first(self, limit: int) -> Sql:
        """`SearchSql.first` with its arguments."""
        return self.sql.first, (*self.filled(self.sql.usual.args), limit)

    def filled(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments with values instead of slots."""
        return tuple([self.values[arg.place] if type(arg) is Slot else arg for arg in args])

    @property
    def count(self) -> Sql:
        """SQL for the number of matches."""
        sql, args = self.sql.count
        return sql, self.filled(args)


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


def narrowed(lead: Condition, others: Sequence[Condition]) -> tuple[Sql, Sql] | None:
    """Another way to find the matches, if those of the leading condition have close numbers.

    The resources of one patient often have close numbers, since they were loaded together. Then another condition's
    rows between the first and the last of these numbers are read. Returns two statements, or None. The first statement
    returns the distance, the first and the last number. The second returns the matches without an order; its first
    arguments are the first and last number.
    """
    other = clustered(others)
    if other is None or not lead.clustered or not lead.weight:  # weight 0: few matches, no other way is needed
        return None
    ends = ", ".join(
        f"(SELECT row_id FROM {lead.table} WHERE {lead.where} ORDER BY row_id {order} LIMIT 1) AS {name}"
        for order, name in (("ASC", "first"), ("DESC", "last"))
    )
    test = f"SELECT last - first, first, last FROM (SELECT {ends} LIMIT 1)"  # LIMIT: SQLite then evaluates it only once
    tests, args = where(other, [lead, *(item for item in others if item is not other)])
    sql = f"SELECT row_id FROM {other.table} AS lead WHERE row_id BETWEEN ? AND ? AND {tests}"
    return (test, lead.args * 2), (sql, args)


def by_index(condition: Condition) -> Condition:
    """The condition with `param + 0`, so that SQLite uses the indexes of `Kind.orders`.

    These indexes have `param + 0` because SQLite, without statistics, would otherwise use them for other searches too.
    """
    return replace(condition, where=condition.where.replace("param = ?", "param + 0 = ?", 1))


def in_order(lead: Condition, others: Sequence[Condition]) -> SearchSql:
    """The matches in the order of an index of the leading condition. If few match a code, these are sorted instead."""
    count = counted(lead, others)
    tests, args = where(by_index(lead), others)
    sql = f"SELECT row_id, {lead.order} AS k FROM {lead.table} AS lead WHERE {tests} ORDER BY k, row_id"
    stream = Walk(sql, args, repeats=True)
    rare = clustered(others)
    if rare is None:
        return SearchSql(stream, count)
    tests, args = where(rare, [item for item in others if item is not rare])
    key = f"SELECT {lead.order} FROM {lead.table} AS one WHERE {lead.where} AND one.row_id = lead.row_id"
    key += " ORDER BY 1 LIMIT 1"
    keyed = f"SELECT DISTINCT row_id, ({key}) AS k FROM {rare.table} AS lead WHERE {tests}"
    few = Walk(f"SELECT row_id FROM ({keyed}) WHERE k IS NOT NULL ORDER BY k, row_id", lead.args + args)
    return SearchSql(stream, count, few, at_most(rare, MAX_SORTED), MAX_SORTED)


def matches(store: Searched, planned: Planned, limit: int = -1, offset: int = 0) -> array[int]:
    """The numbers of the matches in order, found by the faster way."""
    ways = planned.sql
    if ways.few is not None:
        test, args = ways.test
        number, *others = store.query(test, planned.filled(args)).fetchone()
        if number is not None and number <= ways.most:
            return _walked(store, ways.few, planned, tuple(others), limit, offset)
    return _walked(store, ways.usual, planned, (), limit, offset)


def _walked(
    store: Searched, walk: Walk, planned: Planned, first: tuple[object, ...], limit: int, offset: int
) -> array[int]:
    """The numbers that a walk returns. `first` are arguments before its own."""
    sql, args = (walk.sql, walk.args) if walk.joined is None or not store.is_file else walk.joined
    args = (*first, *planned.filled(args))
    if not walk.repeats:
        return array("q", [row[0] for row in store.query(f"{sql} LIMIT ? OFFSET ?", (*args, limit, offset))])
    numbers: dict[int, None] = {}
    end = offset + limit if limit >= 0 else None
    for row in store.query(sql, args):
        numbers[row[0]] = None
        if len(numbers) == end:
            break
    else:
        if walk.rest is not None:
            missing = -1 if end is None else end - len(numbers)
            numbers |= dict.fromkeys(_walked(store, walk.rest, planned, (), missing, 0))
    return array("q", list(numbers)[offset:end])
