"""Chance that comes out the same on every Python and platform.

Only `random.Random.random` is promised to give the same numbers in every version, so all else is built on it here,
with nothing but the four basic operations of IEEE arithmetic (no exp, log or sin, which differ between C libraries).
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class Dice:
    """A seeded source of chance."""

    def __init__(self, seed: int) -> None:
        self.unit = random.Random(seed).random

    def between(self, low: int, high: int) -> int:
        """A whole number from `low` to `high`, both included."""
        return low + int(self.unit() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.unit() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.unit() * len(items))]

    def bell(self) -> float:
        """A bell-shaped number of mean 0 and standard deviation 1, never beyond 3: the sum of three even ones."""
        unit = self.unit
        return 2.0 * (unit() + unit() + unit()) - 3.0

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in another order (Fisher and Yates)."""
        out = list(items)
        for last in range(len(out) - 1, 0, -1):
            other = int(self.unit() * (last + 1))
            out[last], out[other] = out[other], out[last]
        return out
