"""What a call took whose reply never came: it was sent, so it is paid for, and nobody says how much."""

from __future__ import annotations

import asyncio

from medagent.models.base import Completion, Usage

BYTES_PER_TOKEN = 4.0
"""Of a request, before any reply has told."""


class CallCutOffError(asyncio.CancelledError):
    """A call was cancelled after it was sent; `paid` is an estimate of what it cost."""

    def __init__(self, paid: Completion) -> None:
        super().__init__("a call was cut off")
        self.paid = paid


class Estimator:
    """Learns from an endpoint's replies how many tokens a request of so many bytes has, and a reply to it."""

    def __init__(self) -> None:
        self._size = self._calls = 0
        self._seen = Usage()

    def learn(self, size: int, usage: Usage) -> None:
        """A request of `size` bytes took this."""
        if usage.known:
            self._size += size
            self._calls += 1
            self._seen += usage

    def usage(self, size: int) -> Usage:
        """What a request of `size` bytes probably takes: as many tokens a byte, and as long a reply, as the others."""
        if not self._calls or not self._seen.prompt:
            return Usage(prompt=round(size / BYTES_PER_TOKEN))
        prompt = round(size * self._seen.prompt / self._size)
        return Usage(prompt=prompt, completion=round(self._seen.output / self._calls))
