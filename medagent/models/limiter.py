"""The number of concurrent requests at a model endpoint: slow start, additive increase, multiplicative decrease.

As in TCP, the limit starts low, and doubles after each window of successes (as many as the limit) until the endpoint is
congested for the first time: a 429, a 503, a time-out. Then it halves, and from then on grows by one after each window.
A burst of failures of requests that were already sent counts once. A server that answers one request after the other is
noticed before a request times out: see `_is_queueing`.

All models behind one base URL share one limiter.
"""

from __future__ import annotations

import asyncio
import time
from collections import Counter, deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

LARGER_WINDOW = (
    "start the server with a larger window (llama.cpp: -c N, Ollama: num_ctx, vLLM: --max-model-len N), or pass a "
    "lower --max-tokens"
)
"""What to do about a window that is too small."""
START = 4
"""Requests at once at the start, if neither the user nor the endpoint states a number."""


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
    last_failure: str = ""
    """The last failure that was repeated, without the endpoint's own words."""
    notes: list[str] = field(default_factory=list)
    """Changes to requests because of what was learnt about the endpoint, one per line."""
    left_out: Counter[str] = field(default_factory=Counter)
    """The parts of replies that are neither text nor reasoning, by their types."""
    replies: int = 0
    offered: int = 0
    """The replies to requests that offered tools."""
    called: int = 0
    """The replies with a tool call."""
    leaks: Counter[str] = field(default_factory=Counter)
    """The replies with markup that the server should have read, by its kind."""
    stated: dict[str, Any] = field(default_factory=dict)
    """What the server states of itself."""
    listener: Callable[[str], None] | None = field(default=None, compare=False, repr=False)
    """Shows a warning at once."""

    def warn(self, text: str) -> None:
        """Show a line about the endpoint at once; without a listener, at the end."""
        if self.listener is not None:
            self.listener(text)
        else:
            self.notes.append(text)


@dataclass(frozen=True, slots=True)
class _Attempt:
    """One attempt: the number of decreases before it, the requests in flight with it, and when it began."""

    era: int
    position: int
    began: float


class AdaptiveLimiter:
    """A fair semaphore whose size adapts to the endpoint. Belongs to one event loop.

    `limit` is the upper limit, `start` the size at the start (None: the upper limit). `timeout_s` is the time limit of
    an attempt; None if there is none.
    """

    def __init__(self, limit: int, start: int | None = None, timeout_s: float | None = None) -> None:
        self.stats = EndpointStats(limit=limit if start is None else max(1, min(limit, start)))
        self._ceiling = limit
        self._timeout_s = timeout_s
        self._starting = True
        self._successes = 0
        self._era = 0
        self._ended = 0.0
        self._queue: deque[asyncio.Future[None]] = deque()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[Callable[[], None]]:
        """A slot for one attempt, held while the context is open: `async with limiter.slot() as congested`. Call
        `congested()` if the attempt shows that the endpoint gets too many requests.
        """
        await self._acquire()
        attempt = _Attempt(self._era, self.stats.in_flight, time.monotonic())
        try:
            yield partial(self._congested, attempt)
            self._succeeded(attempt)
        finally:
            self._release()

    @property
    def throttled(self) -> bool:
        """Whether the endpoint's congestion has reduced the limit."""
        return not self._starting and self.stats.limit < self._ceiling

    def begin_with(self, slots: int) -> None:
        """Start at the number of slots that the endpoint states."""
        if self._starting and not self._successes:
            self.stats.limit = max(1, min(self._ceiling, slots))
            self._admit()

    async def _acquire(self) -> None:
        """Wait for a slot."""
        stats = self.stats
        if stats.in_flight < stats.limit and not self._queue:
            stats.in_flight += 1
            return
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

    def _release(self) -> None:
        """Release a slot."""
        self.stats.in_flight -= 1
        self._admit()

    def _succeeded(self, attempt: _Attempt) -> None:
        """Count a success. After a window of successes, the limit grows."""
        now = time.monotonic()
        queueing = self._is_queueing(attempt, now)
        self._ended = now
        if queueing:
            self._congested(attempt)
            return
        if self.stats.limit == self._ceiling:
            return
        self._successes += 1
        if self._successes >= self.stats.limit:
            self._successes = 0
            self.stats.limit = min(self._ceiling, self.stats.limit * 2 if self._starting else self.stats.limit + 1)
            self._admit()

    def _is_queueing(self, attempt: _Attempt, now: float) -> bool:
        """Whether a success shows a queue at the server that will soon be longer than a time-out: it took more than
        half of the time, and as long as if the requests in flight had been answered one after the other.
        """
        if self._timeout_s is None or attempt.position < 2:
            return False
        took = now - attempt.began
        one_by_one = attempt.position * (now - max(self._ended, attempt.began))
        return took > self._timeout_s / 2 and abs(took - one_by_one) <= took / 4

    def _congested(self, attempt: _Attempt) -> None:
        """Halve the limit, unless the attempt began before the last decrease."""
        self._starting = False
        if attempt.era == self._era:
            self._era += 1
            self._successes = 0
            self.stats.limit = max(1, self.stats.limit // 2)

    def _admit(self) -> None:
        while self._queue and self.stats.in_flight < self.stats.limit:
            turn = self._queue.popleft()
            if not turn.done():
                self.stats.in_flight += 1
                turn.set_result(None)


_shared: WeakKeyDictionary[asyncio.AbstractEventLoop, WeakValueDictionary[str, AdaptiveLimiter]] = WeakKeyDictionary()


def shared_limiter(place: str, limit: int, start: int | None, timeout_s: float) -> AdaptiveLimiter:
    """The limiter of the models behind one base URL in the running event loop. The first model's numbers count."""
    try:
        known = _shared.setdefault(asyncio.get_running_loop(), WeakValueDictionary())
    except RuntimeError:  # no loop runs yet
        return AdaptiveLimiter(limit, start, timeout_s)
    limiter = known.get(place)
    if limiter is None:
        limiter = known[place] = AdaptiveLimiter(limit, start, timeout_s)
    return limiter
