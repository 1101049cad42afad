"""SQL for the matches of a search, and which of two ways to them is the quicker one.

A condition's rows either stand together in order of the resources' numbers, or an index has them in the order that is
asked for. Which way reads less depends on the data, so that a small question to the index decides when the search runs.
"""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, replace
from sqlite3 import Cursor
from typing import Protocol

from fhir_server.search.condition import Condition, Slot

MAX_SPAN = 2_000
"""Up to this distance between the smallest and the greatest number that a condition leaves, all that lies between is
walked by another condition."""
MAX_SORTED = 1_000
"""So many resources are sorted, rather than picked out of an index that has all in the order that is asked for."""

Sql = tuple[str, tuple[object, ...]]
"""A statement and its arguments."""


class Searched(Protocol):
    """What is searched."""

    @property
    def is_file(self) -> bool:
        """Whether its tables are those of a file, with no others over them."""

    def query(self, sql: str, values: Sequence[object]) -> Cursor:
        """Runs a statement."""


@dataclass(frozen=True, slots=True)
class Walk:
    """SQL for the numbers of matches, in order and without a limit, and its arguments.

    Where it `repeats`, a number may come again: its first place counts. `rest` comes behind all others. `joined` is
    SQL for the same, a tenth quicker over a file, and many times slower over the tables of an overlay.
    """

    sql: str
    args: tuple[object, ...]
    repeats: bool = False
    rest: Walk | None = None
    joined: Sql | None = None


@dataclass(frozen=True, slots=True, eq=False)
class SearchSql:
    """How the matches of searches of one form are found and counted; arguments are values or slots for them.

    Where the first number that `test` gives is at most `most`, `few` is taken in place of `usual`; the other numbers
    are its first arguments.
    """

    usual: Walk
    count: Sql
    few: Walk | None = None
    test: Sql = ("", ())
    most: int = 0
    first: str = ""
    """SQL for the first matches, which takes the limit too, where they are rows of one index, in its order: finding
    them again costs little.
    """


@dataclass(slots=True)
class Planned:
    """A search that can be run: its SQL and the values for the slots."""

    sql: SearchSql
    values: tuple[object, ...]

    def first(self, limit: int) -> Sql:
        """`SearchSql.first` with its arguments."""
        return self.sql.first, (*self.filled(self.sql.usual.args), limit)

    def filled(self, args: tuple[object, ...]) -> tuple[object, ...]:
        """The arguments, with values in place of slots."""
        return tuple([self.values[arg.place] if type(arg) is Slot else arg for arg in args])

    @property
    def count(self) -> Sql:
        """SQL for how many matches there are."""
        sql, args = self.sql.count
        return sql, self.filled(args)


def where(lead: Condition, others: Sequence[Condition]) -> Sql:
    """The condition on a row of the leading condition's table, `lead`, that all conditions hold."""
    tests = [lead.where.replace("@row_id", "lead.row_id"), *(item.filter("lead.row_id") for item in others)]
    return " AND ".join(tests), tuple(arg for item in (lead, *others) for arg in item.args)


def counted(lead: Condition, others: Sequence[Condition]) -> Sql:
    """SQL for how many resources meet all conditions."""
    tests, args = where(lead, others)
    return f"SELECT count(*) FROM (SELECT DISTINCT row_id FROM {lead.table} AS lead WHERE {tests})", args


def at_most(lead: Condition, most: int) -> Sql:
    """SQL for how many rows meet a condition, counted up to one more than `most`."""
    tests, args = where(lead, ())
    return f"SELECT count(*) FROM (SELECT 1 FROM {lead.table} AS lead WHERE {tests} LIMIT {most + 1})", args


def clustered(conditions: Sequence[Condition]) -> Condition | None:
    """A condition whose rows stand together in order of the resources' numbers."""
    return next((item for item in conditions if item.clustered and not item.negated), None)


def narrowed(lead: Condition, others: Sequence[Condition]) -> tuple[Sql, Sql] | None:
    """Another way to what the leading condition leaves, where that lies close together, as it does of a patient who was
    loaded with all that belongs to them: another condition's rows between the first and the last of its numbers.

    Gives SQL for the distance between these and for both, and SQL for the matches, which takes both, without an order.
    """
    other = clustered(others)
    if other is None or not lead.clustered or not lead.weight:  # what leaves few rows needs no other way
        return None
    ends = ", ".join(
        f"(SELECT row_id FROM {lead.table} WHERE {lead.where} ORDER BY row_id {order} LIMIT 1) AS {name}"
        for order, name in (("ASC", "first"), ("DESC", "last"))
    )
    test = f"SELECT last - first, first, last FROM (SELECT {ends} LIMIT 1)"  # the limit: found once, not at each name
    tests, args = where(other, [lead, *(item for item in others if item is not other)])
    sql = f"SELECT row_id FROM {other.table} AS lead WHERE row_id BETWEEN ? AND ? AND {tests}"
    return (test, lead.args * 2), (sql, args)


def by_index(condition: Condition) -> Condition:
    """The condition as only the indexes of `Kind.orders` have it, which hold `param + 0`: SQLite has no statistics, and
    would take them for other searches too.
    """
    return replace(condition, where=condition.where.replace("param = ?", "param + 0 = ?", 1))


def in_order(lead: Condition, others: Sequence[Condition]) -> SearchSql:
    """The matches in the order of the leading condition, which an index has; those of a rare code are looked up and
    sorted.
    """
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
    """The numbers of the matches, in order, by the quicker way."""
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
    """The numbers that a walk gives; `first` are arguments before its own."""
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
