"""Hands out the units that are owed, as the run's limits allow.

A budget is reserved before a unit begins: each unit under way counts as the mean of those that have been paid. While
little is known of what a unit takes, few are under way: four at first, then as many as have ended. So what is spent
over the limit is at most what those under way differ from the mean, at any concurrency.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Generic, TypeVar

from medagent.engine._limits import UNKNOWN, Limits
from medagent.engine.job import Unit
from medagent.engine.journal import Journal
from medagent.engine.rows import FAILED, Row

U = TypeVar("U", bound=Unit)
R = TypeVar("R", bound=Row)

FIRST_GROUP = 4
"""So many units begin before any has told what one takes."""
FEWEST = 10
"""A share of failed units says nothing before so many have ended."""


class Feed(Generic[U, R]):
    """The `count` units of one stage. `stopped` says what ended it early: a limit, or `stop`."""

    def __init__(self, units: Iterator[U], count: int, journal: Journal[R], limits: Limits) -> None:
        self._units = units
        self._left = count
        self._journal = journal
        self._limits = limits
        self._running = 0
        self._ended = 0
        self._failed = 0
        self._last_failure = ""
        self._changed = asyncio.Event()
        self.stopped: str | None = None

    async def take(self) -> U | None:
        """The next unit, once there is room for it; None where there is none, or a limit is reached."""
        while self._left and self.stopped is None:
            self.stopped = self._reached()
            if self.stopped is not None:
                break
            if why_not := self._no_room():
                if not self._running:
                    self.stopped = why_not
                    break
                self._changed.clear()
                await self._changed.wait()
                continue
            self._running += 1
            self._left -= 1
            return next(self._units)
        self._changed.set()  # nobody waits for what does not come
        return None

    def stop(self, why: str) -> None:
        """Hand out no more units, for a reason in words."""
        self.stopped = self.stopped or why
        self._changed.set()

    def end(self, row: R) -> None:
        """A unit has ended with this row, which the journal has."""
        self._running -= 1
        self._ended += row.status != "cancelled"
        if row.status == FAILED or (row.owed and row.status != "cancelled"):
            self._failed += 1
            self._last_failure = f"{row.unit}: {row.status}: {row.error}"
        self._changed.set()

    def _reached(self) -> str | None:
        share = self._limits.fail_after
        if share is not None and self._ended >= FEWEST and self._failed > share * self._ended:
            failed = f"{self._failed} of {self._ended} failed, last {self._last_failure}"
            return f"--fail-after {share:g} is reached ({failed})"
        return self._limits.reached(self._limits.before + self._journal.account)

    def _no_room(self) -> str | None:
        """Why one more unit might go over a budget, in words, or None."""
        if not self._limits.any_budget:
            return None
        paid, own = self._journal.paid, self._journal.account
        spent = self._limits.before + own
        if self._running >= max(FIRST_GROUP, paid):
            return "too little is known of what a unit takes"
        if self._limits.cost is not None and own.unknown and not own.cost and self._running + own.unknown >= UNKNOWN:
            return "the cost of calls is unknown"
        if self._limits.tokens is not None and own.uncounted and self._running + own.uncounted >= UNKNOWN:
            return "the tokens of calls are unknown"
        if not paid:
            return None
        units = self._running + 1
        if self._limits.cost is not None:
            mean = own.cost / paid
            if spent.cost + units * mean > self._limits.cost * (1 + 1e-9):
                return f"--max-cost {self._limits.cost:g} is reached (${spent.cost:.4f} spent, ${mean:.4f} a unit)"
        if self._limits.tokens is not None:
            tokens = own.tokens / paid
            if spent.tokens + units * tokens > self._limits.tokens:
                return (
                    f"--max-tokens-total {self._limits.tokens} is reached ({spent.tokens} spent, {tokens:.0f} a unit)"
                )
        return None
