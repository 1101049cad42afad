"""Predicts the condition with which HAPI's database starts a search. Without `_sort`, its index decides the order.

HAPI 7.6.0 joins one index table per condition with the table of resources, in the order of the parameters' names. H2
2.2 uses the order of tables with the lowest estimated cost. Until a table has been changed 2,000 times, H2 assumes the
same selectivity for each column. So the estimate depends only on the format of the conditions. The numbers and the
formula are the ones that H2 prints (`SET TRACE_LEVEL_SYSTEM_OUT 3`, then `EXPLAIN`). They were compared with H2 for all
pairs of formats and a few hundred larger sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from itertools import permutations
from typing import NamedTuple


class IndexCost(NamedTuple):
    """The cost of using a condition's index: as the `first` table, or `joined` with a known resource.

    `tests` is the number of comparisons that the index can use, `effort` the cost of evaluating all of them. `column`
    is the hash by which a token is looked up.
    """

    first: int
    joined: int
    tests: int
    effort: int
    column: str = ""


EQUAL = IndexCost(90, 70, 1, 3)
"""One hash: exact texts, URIs."""
CODE, SYSTEM, SYSTEM_AND_CODE = (EQUAL._replace(column=column) for column in ("code", "system", "both"))
_ELSEWHERE = {"code": (320, 150), "system": (320, 150), "both": (320, 130)}
"""The costs of tokens in a search that uses several of the hashes, since then no index contains all columns."""
LINK = IndexCost(110, 100, 2, 6)
STARTS_WITH = IndexCost(90, 70, 3, 8)
CONTAINS = IndexCost(110, 110, 1, 8)
VALUE_EQUAL = IndexCost(90, 80, 2, 6)
VALUE_ABOVE = IndexCost(90, 70, 2, 6)
VALUE_BELOW = IndexCost(70, 50, 2, 6)
LOW_BELOW = IndexCost(90, 90, 2, 6)
"""Dates are in two indexes, one by low and high, one by high only. The costs of the second are the same as for other
values.
"""
LOW_ABOVE = IndexCost(110, 110, 2, 6)
BETWEEN = IndexCost(70, 50, 3, 9)
WITHIN = IndexCost(90, 70, 3, 9)
ALTERNATIVES = IndexCost(1000, 110, 1, 9)
"""Alternatives of numbers and quantities. Any other condition leads."""
ANY_DATE = IndexCost(130, 130, 1, 15)
CHAIN = IndexCost(100, 100, 2, 9)
COMPARED = {
    "eq": VALUE_EQUAL,
    "ne": IndexCost(110, 110, 1, 9),  # it uses no index
    "ap": WITHIN,
    "gt": VALUE_ABOVE,
    "ge": VALUE_ABOVE,
    "sa": VALUE_ABOVE,
    "lt": VALUE_BELOW,
    "le": VALUE_BELOW,
    "eb": VALUE_BELOW,
}
"""The costs of numbers and quantities by prefix."""
DATED = {**COMPARED, "eq": WITHIN, "ne": ANY_DATE, "sa": LOW_ABOVE, "lt": LOW_BELOW, "le": LOW_BELOW}
"""The costs of dates by prefix."""
_RESOURCE = 90
_JOIN_EFFORT = 5
_MOST = 6
"""Only this many conditions are considered."""


@lru_cache(maxsize=1024)
def leading(accesses: tuple[IndexCost, ...]) -> int:
    """The index of the leading condition. `accesses` are in the order of the parameters' names."""
    count = min(len(accesses), _MOST)
    if count < 2:
        return 0
    if len({access.column for access in accesses if access.column}) > 1:
        accesses = tuple(_uncovered(access) if access.column else access for access in accesses)
    # If H2 evaluates the conditions of two joins first, it also joins these two with each other.
    direct = count == 2 and accesses[0].effort + accesses[1].effort > 2 * _JOIN_EFFORT
    orders = list(permutations(range(count)))
    costs = [_cost([accesses[place] for place in order], direct=direct) for order in orders]
    return orders[costs.index(min(costs))][0]


def _uncovered(token: IndexCost) -> IndexCost:
    first, joined = _ELSEWHERE[token.column]
    return token._replace(first=first, joined=joined)


def _cost(order: Sequence[IndexCost], *, direct: bool) -> float:
    """The estimate for an order of tables. The table of resources is the second, or the third after a direct join."""
    joins = 2 if direct else 1
    place = len(order) if direct else 1
    steps = [(access.joined if number else access.first, access.tests + joins) for number, access in enumerate(order)]
    steps.insert(place, (_RESOURCE, len(order)))
    cost = 1.0
    for number, (access, tests) in enumerate(steps):
        cost *= 1 + access * (1 - tests / 100 / (number + 1))
    return cost
