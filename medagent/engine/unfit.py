"""A server whose window is too small for every prompt: the run stops, and its items are owed.

An item that does not fit is the model's failure (`context_limit`), but only if another request of the run had an
answer, in this command or an earlier one. Until then, it is owed.
"""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine
from typing import Any, Generic

from medagent.engine.journal import Journal
from medagent.engine.rows import R, Row, Spent
from medagent.models.limiter import LARGER_WINDOW

MOST = 3
"""First requests that may not fit before the run stops."""
_STATUS, _OWED = "context_limit", "model_error"


class Unfit(Generic[R]):
    """The rows whose first request did not fit, before any request of the run had an answer."""

    def __init__(self, journal: Journal[R]) -> None:
        self._journal = journal
        self._rows: list[R] = []
        self._executing: asyncio.Future[None] | None = None
        self._answered = _any_answer(journal.spent)
        self.stops = False
        """Whether enough of them did not fit to stop the run. An answer that arrives later changes nothing."""

    def written(self, row: R) -> R:
        """The row as it is written: as an owed one if it did not fit, and nothing was answered yet."""
        if not self.stops:
            self._answered = self._answered or _any_answer(row.spent)
        if self._answered or row.status != _STATUS:
            return row
        self._rows.append(row)
        if len(self._rows) >= MOST and not self.stops:
            self.stops = True
            if self._executing is not None:
                self._executing.cancel()
        return row.model_copy(update={"status": _OWED})

    async def watched(self, executing: Coroutine[Any, Any, None]) -> None:
        """Wait for the executor. It is cancelled as soon as enough requests did not fit."""
        self._executing = asyncio.ensure_future(executing)
        try:
            await self._executing
        except asyncio.CancelledError:
            if not self.stops:
                raise

    async def settled(self, *, quotes: bool) -> str:
        """At the end: why the run stops, if nothing was answered; otherwise empty, and the rows are written again as
        what they are.
        """
        if self._answered or not self._rows:
            for row in self._rows:
                await self._journal.append(row)
            return ""
        return self.text(quotes=quotes)

    def text(self, *, quotes: bool) -> str:
        """Why the run stops. Without `quotes`, it does not repeat the server's words."""
        first: Row = self._rows[0]
        error = f" ({first.error})" if quotes and first.error else ""
        return f"no first request fits the model's window{error}; {LARGER_WINDOW}"


def _any_answer(spent: Spent) -> bool:
    """Whether a call had a reply. A call that was cut off counts as a call, with an estimate of its tokens."""
    return spent.calls > (spent.estimated or 0)
