"""Repeating what may succeed the next time, within bounds of count and time.

An attempt says by `EndpointFailure` that it may be repeated; every other error passes through. The wait doubles from
half a second, with jitter; a server's own `Retry-After` is kept to the second instead.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Generic, TypeVar

from medagent.clock import wall_clock
from medagent.errors import ModelError
from medagent.models.limiter import AdaptiveLimiter

T = TypeVar("T")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
LONGEST_RETRY_AFTER_S = 86_400.0
"""A server that asks for more is taken to ask for a day, which is over every policy."""
SPREAD_S = 0.25
"""Waiters whom a server told the same time come back within this many seconds after it, not all at once."""


class EndpointFailure(Exception):
    """An attempt failed in a way that may pass. `retry_after`: seconds the server asks to wait, if it does."""

    def __init__(self, reason: str, *, retry_after: float | None = None, throttled: bool = False) -> None:
        super().__init__(reason)
        self.retry_after = retry_after
        self.throttled = throttled


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Bounds of one call: `retries` attempts after the first; `seconds` for attempts and waits together."""

    retries: int
    seconds: float

    def wait(self, failed: int, failure: EndpointFailure) -> float:
        """Seconds before the next attempt, when `failed` attempts have failed."""
        if failure.retry_after is not None:
            return failure.retry_after + random.uniform(0, SPREAD_S)
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failed - 1)) * random.uniform(0.5, 1.0)


@dataclass(frozen=True, slots=True)
class Attempted(Generic[T]):
    """What the good attempt returned, when it began and ended, its seconds, the attempts that failed before it, and the
    seconds between.
    """

    value: T
    started: str
    ended: str
    latency: float
    retries: int
    waited: float


async def call_with_retries(
    attempt: Callable[[], Awaitable[T]], *, limiter: AdaptiveLimiter, policy: RetryPolicy
) -> Attempted[T]:
    """Run `attempt` in the limiter's slots until it succeeds.

    Queueing for a slot is not counted against the policy's seconds: it says nothing about the endpoint's health.
    Raises ModelError, with the last failure's reason, when the policy is used up.
    """
    failed, waited, spent = 0, 0.0, 0.0
    while True:
        try:
            async with limiter.slot() as slot:
                began, started = wall_clock(), time.monotonic()
                try:
                    value = await attempt()
                except EndpointFailure as failure:
                    if failure.throttled:
                        slot.throttled()
                    raise
                finally:
                    latency = time.monotonic() - started
                return Attempted(value, began, wall_clock(), latency, failed, waited)
        except EndpointFailure as failure:
            failed += 1
            spent += latency
            wait = policy.wait(failed, failure)
            if failed > policy.retries:
                raise ModelError(f"{failure} ({failed} attempts)", retries=failed - 1, waited=waited) from None
            if spent + wait > policy.seconds:
                reason = f"{failure} (gave up after {failed} attempts and {spent:.0f} s)"
                raise ModelError(reason, retries=failed - 1, waited=waited) from None
            limiter.stats.retries += 1
            limiter.stats.waits += 1
            limiter.stats.waited_s += wait
            spent += wait
            waited += wait
            await asyncio.sleep(wait)


def retry_after(headers: Mapping[str, str]) -> float | None:
    """Seconds a response asks to wait (RFC 9110, 10.2.3: seconds or a date; and OpenAI's `retry-after-ms`).

    None where the header is missing or says nothing that can be read. A moment that has passed is 0; more than a day is
    a day.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) / scale
        except ValueError:
            continue
        if seconds >= 0:
            return min(seconds, LONGEST_RETRY_AFTER_S)
    try:
        moment = parsedate_to_datetime(headers.get("retry-after", ""))
        if moment.tzinfo is None:  # "-0000" and obsolete forms; HTTP dates are UTC
            moment = moment.replace(tzinfo=UTC)
        seconds = (moment - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)
