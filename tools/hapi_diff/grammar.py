"""Random requests with weights, like those of agents, clients and apps, from likely to hostile ones.

The same seed gives the same requests. `{last}` in a URL is the resource that the server created last.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeAlias

from tools.hapi_diff import standard
from tools.hapi_diff.client import Case
from tools.hapi_diff.likely import LIKELY
from tools.hapi_diff.rarer import HOSTILE, RARER
from tools.hapi_diff.values import Values

Kinds: TypeAlias = Mapping[tuple[str, Callable[[Values], Case]], int]
TIERS: dict[str, tuple[int, Kinds]] = {
    "likely": (60, LIKELY | {("R4's parameter", partial(standard.search, modified=False)): 25}),
    "rarer": (
        25,
        RARER | {("R4's modifier", partial(standard.search, modified=True)): 60, ("feature", standard.feature): 40},
    ),
    "hostile": (15, HOSTILE | {("example, changed", standard.example): 40, ("feature", standard.feature): 30}),
}
"""The share of each tier in percent, and its kinds of requests."""


class Grammar(Values):
    """A source of requests."""

    def case(self, tier: str) -> Case:
        """One request of a tier."""
        _, kinds = TIERS[tier]
        rule, make = self.random.choices(list(kinds), list(kinds.values()))[0]
        made = make(self)
        return Case(made.method, made.url, made.headers, made.body, rule, tier)
