"""What no two runs share: page and bundle ids, request ids, and the time.

One source for all of them, so that an episode's answers are the same bytes each time: an overlay's marks come from its
seed and its clock starts at a given moment and moves on one millisecond with each request.
"""

from __future__ import annotations

import random
import string
import time
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from functools import lru_cache

_LETTERS = string.ascii_letters + string.digits
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Marks:
    """Marks of a running server: random ids, the wall clock (never going back)."""

    def __init__(self, seed: str | None = None) -> None:
        self._random = random.Random(seed)
        self._last = 0

    def uuid(self) -> str:
        """A random UUID (RFC 9562, version 4)."""
        bits = self._random.getrandbits(128) & ~(0xF << 76) & ~(0x3 << 62) | (4 << 76) | (2 << 62)
        text = f"{bits:032x}"
        return f"{text[:8]}-{text[8:12]}-{text[12:16]}-{text[16:20]}-{text[20:]}"

    def request_id(self) -> str:
        """Sixteen letters and digits, as HAPI names a request."""
        bits = self._random.getrandbits(96)
        pairs = _pairs()
        return "".join([pairs[bits >> shift & 4095] for shift in range(0, 96, 12)])

    def now(self) -> int:
        """The time of the request at hand, in milliseconds since 1970."""
        self._last = max(self._last, self._clock())
        return self._last

    def _clock(self) -> int:
        return time.time_ns() // 1_000_000


class SeededMarks(Marks):
    """Marks that derive from a seed and a moment only."""

    def __init__(self, seed: str, now: datetime) -> None:
        super().__init__(seed)
        self._next = (now - _EPOCH) // timedelta(milliseconds=1)

    def _clock(self) -> int:
        self._next += 1
        return self._next - 1


@lru_cache(maxsize=1)
def _pairs() -> list[str]:
    """Two characters for each number of twelve bits; two of the 62 stand twice."""
    letters = _LETTERS + _LETTERS[:2]
    return [first + second for first in letters for second in letters]


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
