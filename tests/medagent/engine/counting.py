"""A benchmark of its own for the engine's tests: a unit is a number, and a plan says what happens to it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from medagent.core.errors import ModelError, StopRunError
from medagent.engine.rows import Row, Spent
from medagent.models.limiter import EndpointStats


@dataclass(frozen=True, slots=True)
class Number:
    """The unit `n7`."""

    value: int

    @property
    def key(self) -> str:
        return f"n{self.value}"


class NumberRow(Row):
    square: int = 0


@dataclass(slots=True)
class Counting:
    """A job that is its own worker. `failing` units end as model_error, `stopping` ones stop the run, `slow` wait."""

    failing: frozenset[int] = frozenset()
    stopping: frozenset[int] = frozenset()
    slow: frozenset[int] = frozenset()
    tokens: int = 0
    cost: float | None = None
    ran: list[int] = field(default_factory=list)
    most: int = 0
    running: int = 0
    stats: Sequence[EndpointStats] = ()
    row: type[NumberRow] = NumberRow

    @asynccontextmanager
    async def open(self) -> AsyncIterator[Counting]:
        yield self

    async def run(self, unit: Number, row: NumberRow) -> None:
        self.ran.append(unit.value)
        self.running += 1
        self.most = max(self.most, self.running)
        row.spent = Spent(calls=1, prompt=self.tokens, cost=self.cost)
        try:
            await asyncio.sleep(60 if unit.value in self.slow else 0)
            if unit.value in self.stopping:
                raise StopRunError("401: the key is refused")
            if unit.value in self.failing:
                raise ModelError("500: down")
            row.square = unit.value**2
        finally:
            self.running -= 1


def numbers(count: int) -> list[Number]:
    """The units n0 … n(count-1)."""
    return [Number(value) for value in range(count)]
