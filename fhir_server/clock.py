"""The time of requests, and times as text."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import lru_cache

_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Clock:
    """The wall clock, which never goes back."""

    def __init__(self) -> None:
        self.last = 0
        """The time of the last request, in milliseconds since 1970; 0 before the first."""

    def now(self) -> int:
        """The time of a request, in milliseconds since 1970."""
        self.last = max(self.last, self._read())
        return self.last

    def rewind(self) -> None:
        """Resets the time to that before the last request, which was rolled back."""

    def _read(self) -> int:
        return time.time_ns() // 1_000_000


class SteppingClock(Clock):
    """A clock for repeatable runs: starts at a fixed moment and advances one millisecond per request."""

    def __init__(self, start: datetime) -> None:
        super().__init__()
        self._next = (start - _EPOCH) // timedelta(milliseconds=1)

    def rewind(self) -> None:
        self._next -= 1

    def _read(self) -> int:
        self._next += 1
        return self._next - 1


@lru_cache(maxsize=512)  # all resources of one request get the same time
def instant(ms: int) -> str:
    """A time as HAPI prints it in `meta.lastUpdated`."""
    seconds, millis = divmod(ms, 1000)
    return f"{_second(seconds)}.{millis:03d}+00:00"


@lru_cache(maxsize=512)
def _second(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).isoformat()[:19]


@lru_cache(maxsize=512)
def http_date(seconds: int) -> str:
    """A time as HTTP headers carry it (RFC 9110, section 5.6.7)."""
    return formatdate(seconds, usegmt=True)
