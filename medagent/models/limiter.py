"""The number of concurrent requests at a model endpoint: additive increase, multiplicative decrease, as in TCP.

The limit starts at N and halves when the endpoint answers 429. A burst of 429s for requests that were already sent
counts once. After as many successes as the limit, it grows by one, up to N. All episodes of a run share one limiter.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial


@dataclass(slots=True)
class EndpointStats:
    """The state of an endpoint for a person watching the run. The counts only grow."""

    limit: int
    """The current limit of requests in flight."""
    in_flight: int = 0
    """The number of requests in flight."""
    retries: int = 0
    """Attempts that repeated a failed one."""
    throttled: int = 0
    """Answers 429."""
    waits: int = 0
    """The number of times that a call waited: before a retry, or for a slot."""
    waited_s: float = 0.0
    """The seconds of these waits, over all calls."""
    notes: list[str] = field(default_factory=list)
    """Changes to requests because of what was learnt about the endpoint, one per line."""


class AdaptiveLimiter:
    """A fair semaphore whose size depends on the endpoint's 429s. Belongs to one event loop."""

    def __init__(self, limit: int) -> None:
        self.stats = EndpointStats(limit=limit)
        self._ceiling = limit
        self._successes = 0
        self._era = 0
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Callable[[], None]]:
        """A slot for one attempt, held while the context is open: `async with limiter.slot() as throttled`. Call
        `throttled()` if the attempt got a 429.
        """
        era = await self._acquire()
        try:
            yield partial(self._throttled, era)
            self._succeeded()
        finally:
            self._release()

    @property
    def throttled(self) -> bool:
        """Whether the endpoint's 429s have reduced the limit."""
        return self.stats.limit < self._ceiling

    async def _acquire(self) -> int:
        """Wait for a slot. Returns the era (the number of decreases so far) in which it starts."""
        stats = self.stats
        if stats.in_flight < stats.limit and not self._queue:
            stats.in_flight += 1
            return self._era
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queue.append(turn)
        started = time.monotonic()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._release()
            raise
        finally:
            stats.waits += 1
            stats.waited_s += time.monotonic() - started
        return self._era

    def _release(self) -> None:
        """Release a slot."""
        self.stats.in_flight -= 1
        self._admit()

    def _succeeded(self) -> None:
        """Count a success. After as many successes as the limit, the limit grows by one."""
        if self.stats.limit == self._ceiling:
            return
        self._successes += 1
        if self._successes >= self.stats.limit:
            self._successes = 0
            self.stats.limit += 1
            self._admit()

    def _throttled(self, era: int) -> None:
        """A request that started in `era` got a 429."""
        self.stats.throttled += 1
        if era == self._era:
            self._era += 1
            self._successes = 0
            self.stats.limit = max(1, self.stats.limit // 2)

    def _admit(self) -> None:
        while self._queue and self.stats.in_flight < self.stats.limit:
            turn = self._queue.popleft()
            if not turn.done():
                self.stats.in_flight += 1
                turn.set_result(None)
