"""Bounds on the cost of one request, for callers that do not trust the client, such as a language model's agent.

Each request is measured by a `Meter`. It counts the steps of SQLite's virtual machine, the characters read and the
characters answered; these are the same on every machine. It can also limit the time of a request, after which the
caller runs it elsewhere. A request that ends early leaves the store unchanged.
"""

from __future__ import annotations

import sys
from dataclasses import dataclass
from time import monotonic

EVERY = 100_000
"""SQLite's steps between two checks of the limits: each check needs Python's lock, which other threads use too."""
EVERY_TIMED = 2_000
"""The same for a request with a time limit: about 50 µs."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """The limits of one request."""

    steps: int = 50_000_000
    """Steps of SQLite's virtual machine in one query (all queries of a Bundle together), about a second of one core."""
    read: int = 50_000_000
    """Characters of stored resources."""
    reply: int = 20_000_000
    """Bytes of the answer."""
    entries: int = 500
    """Entries of a batch or transaction."""


OPEN = Bounds(steps=5_000_000_000, read=sys.maxsize, reply=100_000_000, entries=sys.maxsize)
"""The limits of a client that uses the server's own data. A load may read and write all of it."""


class OverBoundsError(Exception):
    """A request is over its limits; the text says which limit, and how to ask for less. Nothing was written."""


class UnfinishedError(Exception):
    """A request took longer than its time limit. Nothing was written: the request can be repeated."""


class Meter:
    """Counts the cost of one request. Use a new one for each request."""

    def __init__(self, bounds: Bounds, seconds: float | None = None) -> None:
        self.bounds = bounds
        self.every = EVERY if seconds is None else EVERY_TIMED
        self.in_bundle = False
        self._until = None if seconds is None else monotonic() + seconds
        self._steps = 0
        self._read = 0
        self._reply = 0
        self._bundle = 0
        self._armed = False
        self._problem: Exception | None = None

    def stop(self) -> None:
        """Ends the request at its next step; may be called from another thread."""
        self._until = 0.0

    def begin_query(self) -> None:
        """Starts a query. Raises the error that has ended the request, if any."""
        self.check()
        self._armed = True
        if not self.in_bundle:
            self._steps = 0

    def begin_write(self) -> None:
        """Call before statements that write: SQLite rolls the whole transaction back if one is interrupted."""
        self._armed = False

    def tick(self) -> int:
        """SQLite calls this after each `every` steps; a result other than 0 ends the query."""
        if not self._armed:
            return 0
        self._steps += self.every
        if self._steps > self.bounds.steps:
            self._problem = OverBoundsError(
                f"the search takes more than {self.bounds.steps:,} steps of the database; "
                "ask for less, for instance with fewer conditions"
            )
        elif self._until is not None and monotonic() > self._until:
            self._problem = UnfinishedError()
        return int(self._problem is not None)

    def read(self, characters: int) -> None:
        """Counts characters that were read. Raises OverBoundsError or UnfinishedError."""
        self._read += characters
        if self._read > self.bounds.read:
            raise OverBoundsError(f"the answer is made of more than {self.bounds.read:,} characters; {_LESS}")
        self.check()

    def answered(self, characters: int) -> None:
        """Counts characters of the answer. Raises OverBoundsError or UnfinishedError."""
        self._reply += characters
        self.check_reply(self._reply)
        self.check()

    def entered(self, characters: int) -> None:
        """Counts characters of an entry of a Bundle's answer. Raises OverBoundsError or UnfinishedError."""
        self._bundle += characters
        self.check_reply(self._bundle)
        self.check()

    def check_reply(self, size: int) -> None:
        """Raises OverBoundsError if the answer is longer than `bounds.reply` bytes."""
        if size > self.bounds.reply:
            raise OverBoundsError(f"the answer is over {self.bounds.reply / 1e6:g} MB; {_LESS}")

    def begin_bundle(self, entries: int) -> None:
        """Starts a batch or transaction. Raises OverBoundsError if it contains too many entries."""
        self.in_bundle = True
        if entries > self.bounds.entries:
            raise OverBoundsError(f"a Bundle may have at most {self.bounds.entries} entries, not {entries}")

    def check(self) -> None:
        """Raises the error that ends the request, if there is one."""
        if self._problem is None and self._until is not None and monotonic() > self._until:
            self._problem = UnfinishedError()
        if self._problem is not None:
            raise self._problem


_LESS = "ask for less, for instance by _count"
