"""A line of the test file as a unit of the run engine, and the stored row of its answer."""

from __future__ import annotations

from typing import ClassVar

from medagent.agents.base import Move
from medagent.agents.calls import CallRow


class LineRow(CallRow):
    """A row of `episodes.jsonl`: the model's unchanged text, and what the endpoint returned separately."""

    too_long_is_final: ClassVar[bool] = False  # a missing answer is not a wrong answer

    answer: str | None = None
    reasoning: str | None = None
    finish_reason: str | None = None

    def take(self, move: Move) -> None:
        """See `CallRow.take`."""
        self.answer, self.reasoning, self.finish_reason = move.text, move.reasoning, move.finish_reason
