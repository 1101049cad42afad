"""Lets two runs take their units in turns, so that a change of the provider's during the runs affects both alike."""

from __future__ import annotations

import asyncio


class Turns:
    """The turns of two runs, numbered 0 and 1. Neither starts more than one unit before the other, until one leaves."""

    def __init__(self) -> None:
        self._started = [0, 0]
        self._left = [False, False]
        self._changed = asyncio.Condition()

    async def take(self, run: int) -> None:
        """Wait until it is the run's turn to start a unit."""
        async with self._changed:
            await self._changed.wait_for(lambda: self._is_turn_of(run))
            self._started[run] += 1
            self._changed.notify_all()

    async def leave(self, run: int) -> None:
        """A run has ended: the other one goes on alone."""
        async with self._changed:
            self._left[run] = True
            self._changed.notify_all()

    def _is_turn_of(self, run: int) -> bool:
        second = 1 - run
        return self._left[second] or self._started[run] <= self._started[second] - run
