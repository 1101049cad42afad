"""Repeat calls that may succeed the next time, within limits of count and time: calls to models and FHIR servers.

An attempt raises `EndpointFailure` if it may be repeated; every other error passes through. The wait starts at half a
second and doubles, with jitter. If the server sends `Retry-After`, exactly that time is waited instead.
"""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from email.utils import parsedate_to_datetime
from typing import TypeVar

from medagent.core.errors import EpisodeError, ModelError, StopRunError
from medagent.models.base import Completion, Usage
from medagent.models.limiter import AdaptiveLimiter

T = TypeVar("T")

FIRST_WAIT_S = 0.5
LONGEST_WAIT_S = 60.0
LONGEST_RETRY_AFTER_S = 86_400.0
"""A server that asks for more than a day is treated as asking for a day, which exceeds every policy."""
LONGEST_PAUSE_S = 900.0
"""The longest `Retry-After` of a model endpoint that is waited. A longer one stops the run."""
EPOCH_S, EPOCH_MS = 1e9, 1e12
"""Numbers above these are moments, in seconds and in milliseconds since 1970, if they are within a day of now."""
SPREAD_S = 0.25
"""Waiters with the same `Retry-After` resume spread over this many seconds after it, not all at once."""


class EndpointFailure(Exception):
    """An attempt failed in a way that may pass. `retry_after`: the seconds that the server asks to wait, if any.
    `throttled`: it answered 429. `congested`: it gets more requests than it can answer. `paid`: the tokens of an
    unusable reply, or an estimate if the reply never arrived. `unquoted`: the reason without the server's own words.
    """

    def __init__(
        self,
        reason: str,
        *,
        retry_after: float | None = None,
        throttled: bool = False,
        congested: bool = False,
        paid: Usage | None = None,
        estimated: bool = False,
        unquoted: str = "",
    ) -> None:
        super().__init__(reason)
        self.unquoted = unquoted or reason
        self.retry_after = retry_after
        self.throttled = throttled
        self.congested = congested or throttled
        self.paid = paid
        self.estimated = estimated
        self.states_error = False
        """Whether the reply says that it is an error, and so costs nothing unless it reports tokens."""


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Limits of one call: `retries` attempts after the first; `seconds` for all attempts and waits."""

    retries: int = 8
    seconds: float = 900.0

    def wait(self, failed: int, failure: EndpointFailure) -> float:
        """Seconds before the next attempt, after `failed` attempts have failed."""
        if failure.retry_after is not None:
            return failure.retry_after + random.uniform(0, SPREAD_S)
        return min(LONGEST_WAIT_S, FIRST_WAIT_S * 2.0 ** (failed - 1)) * random.uniform(0.5, 1.0)


class Retries:
    """The failed attempts of one call and their cost. `error` is raised when the policy is exhausted. `problem` is what
    holds the call up: the last failure, or before any failure this text. A model may think for long, so it gets none; a
    FHIR server answers at once.
    """

    def __init__(self, policy: RetryPolicy, error: type[EpisodeError] = ModelError, problem: str = "") -> None:
        self.failed = 0
        self.problem = problem
        self.queue: AdaptiveLimiter | None = None
        """The limiter, while the call waits for a slot."""
        self.waited = 0.0
        self.paid: Usage | None = None
        self.estimated_tokens = 0
        self._policy = policy
        self._error = error
        self._spent = 0.0

    def after(self, failure: EndpointFailure, seconds: float) -> float:
        """The seconds to wait before the next attempt, after a failure that took `seconds`. Raises the error of the
        policy, or StopRunError if a model endpoint asks for more time than a run waits.
        """
        self.failed += 1
        self.problem = str(failure)
        if failure.paid is not None:
            self.pay(failure.paid, estimated=failure.estimated)
        self._spent += seconds
        pause = failure.retry_after
        if pause is not None and self._stops(pause):
            back = _come_back(pause)
            raise StopRunError(f"{failure}: {back}", unquoted=f"{failure.unquoted}: {back}")
        wait = self._policy.wait(self.failed, failure)
        if self.failed > self._policy.retries:
            raise self._given_up(f"{failure} ({self.failed} attempts)")
        server_pause = pause or 0.0  # this time is not the call's: it is waited, however long earlier attempts took
        if max(server_pause, self._spent + wait - server_pause) > self._policy.seconds:
            raise self._given_up(f"{failure} (gave up after {self.failed} attempts and {self._spent:.0f} s)")
        self._spent += wait - server_pause
        self.waited += wait
        return wait

    def _stops(self, pause: float) -> bool:
        """Whether a pause that a model endpoint asks for stops the run, because all other calls would wait as long."""
        return self._error is ModelError and pause > LONGEST_PAUSE_S and self._policy.seconds >= LONGEST_PAUSE_S

    def pay(self, usage: Usage, *, estimated: bool) -> None:
        """Count the tokens of an attempt without a usable reply."""
        self.paid = usage + (self.paid or Usage())
        if estimated:
            self.estimated_tokens += usage.total

    def completion(self) -> Completion | None:
        """What the attempts without a usable reply cost, as a completion without text; None if nothing."""
        if self.paid is None:
            return None
        return Completion("", usage=self.paid, estimated_tokens=self.estimated_tokens)

    def held_up(self, limit: str) -> EpisodeError | None:
        """The failure of a call that is still open when a time limit expires; None if the endpoint did not fail."""
        problem = self.problem
        if self.queue is not None and self.queue.throttled:
            problem = problem or "the call had to wait because others were answered 429 or 503, or timed out"
        if not problem:
            return None
        return self._error(f"{problem} ({limit})", retries=max(0, self.failed - 1), waited=self.waited)

    def _given_up(self, reason: str) -> EpisodeError:
        return self._error(reason, retries=self.failed - 1, waited=self.waited, paid=self.completion())


open_calls: ContextVar[list[Retries] | None] = ContextVar("medagent_open_calls", default=None)
"""The calls of the current unit that have not ended; None outside a run."""


@contextmanager
def _open(retries: Retries) -> Iterator[None]:
    calls = open_calls.get()
    if calls is None:
        yield
        return
    calls.append(retries)
    try:
        yield
    finally:
        calls.remove(retries)


async def call_with_retries(attempt: Callable[[], Awaitable[T]], *, limiter: AdaptiveLimiter, retries: Retries) -> T:
    """Run `attempt` in the limiter's slots until it succeeds.

    Time in the queue for a slot does not count for the policy's seconds: it is not the endpoint's fault.
    Raises the error of `retries`, with the last failure's reason, when its policy is exhausted.
    """
    with _open(retries):
        return await _until_it_succeeds(attempt, limiter, retries)


async def _until_it_succeeds(attempt: Callable[[], Awaitable[T]], limiter: AdaptiveLimiter, retries: Retries) -> T:
    while True:
        retries.queue = limiter
        try:
            async with limiter.slot() as congested:
                retries.queue = None
                began = time.monotonic()
                try:
                    return await attempt()
                except EndpointFailure as failure:
                    limiter.stats.throttled += failure.throttled
                    if failure.congested:
                        congested()
                    raise
                finally:
                    seconds = time.monotonic() - began
        except EndpointFailure as failure:
            try:
                wait = retries.after(failure, seconds)
            except (EpisodeError, StopRunError) as given_up:
                raise given_up from None
            limiter.stats.retries += 1
            limiter.stats.last_failure = failure.unquoted
            limiter.stats.waits += 1
            limiter.stats.waited_s += wait
            await asyncio.sleep(wait)


class Outage:
    """Counts the failures of one endpoint since its last success, to detect that it is down."""

    def __init__(self, seconds: float, attempts: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._attempts = attempts
        self._clock = clock
        self._failed = 0
        self._since = 0.0

    async def watch(self, attempt: Awaitable[T]) -> T:
        """The result of an attempt. A 429 that says when to come back does not count. Raises StopRunError if there were
        enough failures for long enough.
        """
        try:
            value = await attempt
        except EndpointFailure as failure:
            told_when = failure.throttled and failure.retry_after is not None
            if not told_when and (reason := self.failed()):
                raise StopRunError(f"{failure} ({reason})", unquoted=f"{failure.unquoted} ({reason})") from None
            raise
        self._failed = 0
        return value

    def failed(self) -> str | None:
        """Record a failure. Returns why the run should stop if there were enough failures for long enough."""
        now = self._clock()
        if self._failed == 0:
            self._since = now
        self._failed += 1
        if self._failed < self._attempts or now - self._since < self._seconds:
            return None
        return f"no attempt has succeeded for {now - self._since:.0f} s; {self._failed} attempts failed"


def retry_after(headers: Mapping[str, str]) -> float | None:
    """The seconds that a response asks to wait (RFC 9110, 10.2.3: seconds or a date; OpenAI's `retry-after-ms`; some
    providers send the moment in seconds or milliseconds since 1970).

    None if the header is missing or unreadable. A past time is 0; more than a day is a day.
    """
    for name, scale in (("retry-after-ms", 1000.0), ("retry-after", 1.0)):
        try:
            number = float(headers.get(name, ""))
        except ValueError:
            continue
        moment = number / (1000.0 if number > EPOCH_MS else 1.0) - time.time()
        if number > EPOCH_S and abs(moment) <= LONGEST_RETRY_AFTER_S:
            return max(0.0, moment)
        if number >= 0:
            return min(number / scale, LONGEST_RETRY_AFTER_S)
    try:
        date = parsedate_to_datetime(headers.get("retry-after", ""))
        if date.tzinfo is None:  # "-0000" and obsolete formats; HTTP dates are UTC
            date = date.replace(tzinfo=UTC)
        seconds = (date - datetime.now(UTC)).total_seconds()
    except (ValueError, OverflowError):
        return None
    return min(max(0.0, seconds), LONGEST_RETRY_AFTER_S)


def _come_back(seconds: float) -> str:
    """When an endpoint asks to come back, in local time."""
    moment = datetime.now().astimezone() + timedelta(seconds=seconds)
    later = seconds >= LONGEST_RETRY_AFTER_S
    return f"the endpoint asks to come back {'in a day or later' if later else f'at {moment:%H:%M}'}"
