"""When an endpoint is down: many attempts have failed over minutes, and none has succeeded between them."""

from __future__ import annotations

import time
from collections.abc import Callable


class Outage:
    """Counts the failures of one endpoint since its last success."""

    def __init__(self, seconds: float, attempts: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._seconds = seconds
        self._attempts = attempts
        self._clock = clock
        self._failed = 0
        self._since = 0.0

    def succeeded(self) -> None:
        """An attempt was answered."""
        self._failed = 0

    def failed(self) -> str | None:
        """An attempt failed; why the run should stop, where enough of them have for long enough."""
        now = self._clock()
        if self._failed == 0:
            self._since = now
        self._failed += 1
        if self._failed < self._attempts or now - self._since < self._seconds:
            return None
        return f"no attempt has succeeded for {now - self._since:.0f} s, {self._failed} have failed"
