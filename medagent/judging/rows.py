"""A call to a judge, as a row of `judgements.jsonl`: the whole exchange."""

from __future__ import annotations

from typing import Self

from medagent.agents.calls import Call, ReplyRow
from medagent.core.wire import Text

JUDGEMENTS = "judgements.jsonl"
"""The journal of judgements."""


class ExchangeRow(ReplyRow):
    """A message to a model and its reply, None if the call failed."""

    model: str
    message: Text

    @classmethod
    def begin(cls, unit: Call) -> Self:
        """See `Row.begin`."""
        return cls(unit=unit.key, status="completed", model=unit.model, message=unit.message)

    @property
    def payee(self) -> str:
        """See `Row.payee`."""
        return self.model
