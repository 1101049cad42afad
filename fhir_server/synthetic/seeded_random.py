"""Random numbers that are the same on every version of Python and every platform.

Python promises the same numbers in every version only for `random.Random.random`, so everything here is built on it.
Only the four basic operations of IEEE arithmetic are used: exp, log and sin differ between C libraries.
"""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SeededRandom:
    """A seeded source of random numbers."""

    def __init__(self, seed: int) -> None:
        self.unit = random.Random(seed).random

    def between(self, low: int, high: int) -> int:
        """An integer from `low` to `high`, both included."""
        return low + int(self.unit() * (high - low + 1))

    def chance(self, probability: float) -> bool:
        """True with the given probability."""
        return self.unit() < probability

    def pick(self, items: Sequence[T]) -> T:
        """One of the items."""
        return items[int(self.unit() * len(items))]

    def bell(self) -> float:
        """A bell-shaped number from -3 to 3 with mean 0 and standard deviation 1: the sum of three uniform numbers."""
        unit = self.unit
        return 2.0 * (unit() + unit() + unit()) - 3.0

    def shuffled(self, items: Sequence[T]) -> list[T]:
        """The items in random order (Fisher-Yates shuffle)."""
        out = list(items)
        for last in range(len(out) - 1, 0, -1):
            chosen = int(self.unit() * (last + 1))
            out[last], out[chosen] = out[chosen], out[last]
        return out
