"""The limits of one unit. They are checked after every counted call."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from medagent.core.errors import UnitLimitError


@dataclass(frozen=True, slots=True)
class UnitLimits:
    """The limits of one unit: seconds, tokens (prompt and completion), US dollars; None is no limit."""

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def check(self, tokens: int, cost: float | None) -> None:
        """Raises UnitLimitError if a unit has spent more than a limit."""
        if self.tokens is not None and tokens > self.tokens:
            raise UnitLimitError("token_limit", f"{tokens} tokens; --per-item tokens is {self.tokens}")
        if self.cost is not None and cost is not None and cost > self.cost:
            raise UnitLimitError("cost_limit", f"${cost:.4f}; --per-item cost is {self.cost:g}")


UNIT_UNLIMITED = UnitLimits()
unit_limits: ContextVar[UnitLimits] = ContextVar("medagent_unit_limits", default=UNIT_UNLIMITED)
"""The limits of the current unit."""
