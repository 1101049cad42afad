"""Progress as a count: on one line in a terminal, otherwise as a line every few seconds."""

from __future__ import annotations

import sys
import time

LINE_EVERY_S = 5.0


class Counter:
    """A callback with the finished and the total number; writes to standard error. `unit` is a plural."""

    def __init__(self, unit: str) -> None:
        self._unit = unit
        self._started: tuple[float, int] | None = None
        self._said = time.monotonic()

    def __call__(self, done: int, total: int) -> None:
        """Show `done` of `total`, at most every few seconds outside a terminal."""
        now = time.monotonic()
        if self._started is None:
            self._started = now, done
        if sys.stderr.isatty():
            print(
                f"\r{self._line(now, done, total)}\x1b[K",
                end="\n" if done >= total else "",
                file=sys.stderr,
                flush=True,
            )
        elif done >= total or now - self._said >= LINE_EVERY_S:
            self._said = now
            print(self._line(now, done, total), file=sys.stderr, flush=True)

    def _line(self, now: float, done: int, total: int) -> str:
        since, first = self._started or (now, done)
        text = f"{done:,} of {total:,} {self._unit}"
        if done > first:
            rate = (done - first) / max(now - since, 1e-6)
            text += f", {rate:,.0f} a second, {(total - done) / rate:,.0f} s left"
        return text
