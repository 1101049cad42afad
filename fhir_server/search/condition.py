"""Criteria, the conditions of a search as written in the query string, and conditions as SQL over the index tables.

A condition can lead a query (its table is read in index order) or filter one (`EXISTS` on the same resource). `order`
is the column of HAPI's order if the condition leads; empty for insertion order.
"""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from sqlite3 import Cursor
from typing import Protocol, TypeAlias

from fhir_server.search._join_order import EQUAL, IndexCost

AFTER_ALL = "\U0010ffff"
"""text + `AFTER_ALL` sorts after all texts that begin with `text`."""


GROUP = 100

Sql: TypeAlias = tuple[str, tuple[object, ...]]
"""A statement and its arguments."""


@dataclass(frozen=True, slots=True)
class Nested:
    """An argument: the first column of a statement's rows, as a JSON list.

    The links of a chain are statements of their own. In one statement, SQLite's parser would limit the depth, and the
    views of an overlay would double the statement with each link.
    """

    sql: str
    args: tuple[object, ...]


MEMBERS = "SELECT value FROM json_each(?)"
"""SQL for the rows of an argument that is `Nested`."""


class Searched(Protocol):
    """The interface of a store for searches."""

    def query(self, sql: str, values: Sequence[object]) -> Cursor:
        """Runs a statement."""


def execute(store: Searched, sql: str, args: Sequence[object]) -> Cursor:
    """Runs a statement after those that are among its arguments."""
    return store.query(sql, [_listed(store, value) if isinstance(value, Nested) else value for value in args])


def _listed(store: Searched, nested: Nested) -> str:
    return json.dumps([row[0] for row in execute(store, nested.sql, nested.args)])


@dataclass(frozen=True, slots=True)
class Condition:
    """A condition on a resource.

    `where` is SQL over the columns of `table`; in it, `@row_id` is the `row_id` of the table. `weight` estimates the
    number of matching rows (small: few). `access` is the cost in HAPI's database. `lead` is SQL for `row_id` and the
    order `k`, if the order does not come from `table`.
    """

    table: str
    where: str
    args: tuple[object, ...]
    order: str = ""
    weight: int = 2
    negated: bool = False
    order_args: tuple[object, ...] = ()
    lead: Sql | None = None
    access: IndexCost = EQUAL
    by_type: bool = False
    """Whether HAPI tests all resources of the type, in the order of their last change."""
    clustered: bool = False
    """Whether the matching rows are together in the index, in the order of `row_id`."""
    referring: bool = False
    """Whether it is `_has`. Its walk contains a resource once for each one that refers to it. HAPI leads with any other
    condition if there is one.
    """
    streams: bool = False
    """Whether an index is in the order of `order`."""
    tie: str = ""
    """The column of the order of rows with the same `order`, with a comma after it; empty for insertion order."""
    spread: bool = False
    """Whether the matching rows are spread over the index, so that testing one resource would read all rows of the
    parameter. As a filter, all matching rows are then collected once.
    """

    def filter(self, row_id: str) -> str:
        """SQL that tests the condition for one resource. `row_id` is an SQL expression for its number."""
        negation = "NOT " if self.negated else ""
        if self.spread:
            return f"{row_id} {negation}IN ({self.row_ids()})"
        alias = f"one{self.where.count(' AS one')}"  # nested tests need different names
        where = self.where.replace("@row_id", f"{alias}.row_id")
        return f"{negation}EXISTS (SELECT 1 FROM {self.table} AS {alias} WHERE {where} AND {alias}.row_id = {row_id})"

    def row_ids(self) -> str:
        """SQL for the numbers of the resources with a matching row, with the arguments `args`."""
        where = self.where.replace("@row_id", "each.row_id")
        return f"SELECT row_id FROM {self.table} AS each WHERE {where}"

    def walk(self) -> Sql:
        """SQL for the numbers of the matching resources with an order `k`, and its arguments."""
        if self.lead:
            return self.lead
        where = self.where.replace("@row_id", "walked.row_id")
        sql = f"SELECT row_id, {self.order or '0'} AS k FROM {self.table} AS walked WHERE {where}"
        return sql, self.order_args + self.args

    def members(self) -> Nested:
        """The numbers of the resources with a matching row."""
        return Nested(self.row_ids(), self.args)

    def ranked(self) -> Nested:
        """The numbers of the matching resources, in their order."""
        sql, args = self.walk()
        return Nested(f"SELECT row_id FROM ({sql}) GROUP BY row_id ORDER BY min(k), row_id", args)

    def positive(self, resource_type: str) -> Condition:
        """The condition itself, or for a negated one an equivalent condition that can lead."""
        if not self.negated:
            return self
        return of_type(resource_type, self.filter("@row_id"), self.args, weight=8)


def of_type(
    resource_type: str, where: str = "1", args: tuple[object, ...] = (), order: str = "", weight: int = 2
) -> Condition:
    """A condition on the table of resources, for the live resources of a type."""
    where = f"type = ? AND text IS NOT NULL AND {where}"
    return Condition("resources", where, (resource_type, *args), order, weight, by_type=not order)


def either(parts: Sequence[str]) -> str:
    """The parts joined by OR, in parentheses. Many are joined in groups: SQLite limits the depth of expressions."""
    if len(parts) > GROUP:
        parts = [either(parts[start : start + GROUP]) for start in range(0, len(parts), GROUP)]
    return parts[0] if len(parts) == 1 else "(" + " OR ".join(f"({part})" for part in parts) + ")"


def placeholders(values: Sequence[object]) -> str:
    """A question mark for each value, separated by commas."""
    return ", ".join("?" * len(values))


@dataclass(frozen=True, slots=True)
class Criterion:
    """One condition. `values` are alternatives, still escaped. `chain` is the text after the first dot of the name.

    If `all_of` is set, the values are not alternatives: one index row must match all of them.
    """

    name: str
    modifier: str
    values: tuple[str, ...]
    chain: str = ""
    all_of: bool = False


def split(text: str, separator: str) -> tuple[str, ...]:
    """Splits at each separator without a backslash before it. Escapes are not resolved."""
    if "\\" not in text:
        return tuple(text.split(separator))
    parts, current, escaped = [], "", False
    for letter in text:
        if letter == separator and not escaped:
            parts.append(current)
            current = ""
        else:
            current += letter
        escaped = letter == "\\" and not escaped
    return (*parts, current)


def escaped(text: str) -> str:
    """Escapes a text for a value. `unescape` is the inverse."""
    return re.sub(r"([,|$\\])", r"\\\1", text)


def unescape(text: str) -> str:
    r"""Resolves `\,` `\|` `\$` and `\\`."""
    return re.sub(r"\\([,|$\\])", r"\1", text) if "\\" in text else text
