"""Two runs that take turns."""

from __future__ import annotations

import asyncio

from medagent.engine.turns import Turns


def order(first: int, second: int) -> list[int]:
    """Which of two runs starts each unit, if they have this number of units."""
    started: list[int] = []

    async def run(turns: Turns, number: int, units: int) -> None:
        for _ in range(units):
            await turns.take(number)
            started.append(number)
        await turns.leave(number)

    async def both() -> None:
        turns = Turns()
        await asyncio.gather(run(turns, 0, first), run(turns, 1, second))

    asyncio.run(both())
    return started


def test_units_start_in_turns_until_a_run_has_none_left() -> None:
    assert order(3, 3) == [0, 1, 0, 1, 0, 1]
    assert order(1, 3) == [0, 1, 1, 1]
    assert order(3, 0) == [0, 0, 0]
    assert order(0, 2) == [1, 1]
