"""Starts interpreters before they are needed, so that an episode does not wait for one."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable, Coroutine
from typing import Any, Self

from medagent.sandbox._pipe import PipeInterpreter
from medagent.sandbox.base import Surface


class StartedAhead:
    """See `Interpreters`: keeps about `count` started processes ready. An async context manager."""

    def __init__(self, spawn: Callable[[], Coroutine[Any, Any, PipeInterpreter]], count: int) -> None:
        self._spawn, self._count = spawn, count
        self._starting: deque[asyncio.Task[PipeInterpreter]] = deque()

    async def start(self, surface: Surface) -> PipeInterpreter:
        """See `Interpreters.start`: returns the oldest waiting process and starts a replacement."""
        while len(self._starting) <= self._count:
            self._starting.append(asyncio.create_task(self._spawn()))
        interpreter = await self._starting.popleft()
        try:
            await interpreter.begin(surface)
        except asyncio.CancelledError:
            await interpreter.close()
            raise
        return interpreter

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        starting, self._starting = self._starting, deque()
        for one in await asyncio.gather(*starting, return_exceptions=True):
            if not isinstance(one, BaseException):
                await one.close()
