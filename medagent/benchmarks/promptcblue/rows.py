"""A line of the test file as a unit of the run engine, and what is kept of its answer."""

from __future__ import annotations

from typing import ClassVar

from medagent.agents.base import Move
from medagent.agents.calls import CallRow
from medagent.core.wire import Text


class LineRow(CallRow):
    """A row of `episodes.jsonl`: the model's text as it came, and what the endpoint returned apart from it."""

    too_long_is_final: ClassVar[bool] = False  # an unanswered line is not a wrong answer

    answer: Text | None = None
    reasoning: Text | None = None
    finish_reason: str | None = None

    def take(self, move: Move) -> None:
        """See `CallRow.take`."""
        self.answer, self.reasoning, self.finish_reason = move.text, move.reasoning, move.finish_reason
