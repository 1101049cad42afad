"""Estimates for calls whose reply did not arrive whole: they were sent, so they are billed by an unknown amount."""

from __future__ import annotations

import asyncio

from medagent.models.base import Completion, Usage

BYTES_PER_TOKEN = 4.0
"""Used for a request before any reply has arrived."""


class CallCutOffError(asyncio.CancelledError):
    """A call was cancelled after it was sent. `paid` is an estimate of its cost."""

    def __init__(self, paid: Completion) -> None:
        super().__init__("a call was cut off")
        self.paid = paid


class Estimator:
    """Learns from an endpoint's replies how many tokens a request takes per byte, and how many a reply takes."""

    def __init__(self) -> None:
        self._size = self._calls = 0
        self._seen = Usage()

    def learn(self, size: int, usage: Usage) -> None:
        """Add the usage of a request of `size` bytes."""
        if usage.known:
            self._size += size
            self._calls += 1
            self._seen += usage

    def usage(self, size: int) -> Usage:
        """The estimated usage of a request of `size` bytes: average tokens per byte, and an average reply."""
        return Usage(self._prompt(size), round(self._seen.output / self._calls) if self._seen.prompt else 0)

    def partial(self, size: int, received: int, most: int | None) -> Usage:
        """The estimated usage of a request of `size` bytes of whose reply `received` bytes arrived. `most` is the
        request's token limit.
        """
        completion = round(received / BYTES_PER_TOKEN)
        return Usage(self._prompt(size), completion if most is None else min(completion, most))

    def _prompt(self, size: int) -> int:
        return round(size * self._seen.prompt / self._size if self._seen.prompt else size / BYTES_PER_TOKEN)
