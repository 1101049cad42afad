"""A counter of long work that is not a run: done, total, rate, and time left."""

from __future__ import annotations

import sys
import time

LINE_EVERY_S = 5.0


class Counter:
    """A callback with the finished and the total number. It shows them on one line of a terminal, otherwise on a line
    every few seconds, on standard error. `unit` is a plural.
    """

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._started: tuple[float, int] | None = None
        self._shown = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show `done` of `total`."""
        now = time.monotonic()
        since, first = self._started = self._started or (now, done)
        text = f"{done:,} of {total:,} {self._unit}"
        if done > first:
            rate = (done - first) / max(now - since, 1e-6)
            text += f", {rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
        if sys.stderr.isatty():
            print(f"\r{text}\x1b[K", end="\n" if done >= total else "", file=sys.stderr, flush=True)
        elif done >= total or now - self._shown >= LINE_EVERY_S:
            self._shown = now
            print(text, file=sys.stderr, flush=True)
