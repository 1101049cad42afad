"""The limits of a unit and of a run: time, tokens, cost, failures at the start.

A unit's limits are checked after every counted call. A run's limits decide whether another unit may start.
"""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass

from medagent.core.errors import UnitLimitError


@dataclass(frozen=True, slots=True)
class UnitLimits:
    """The limits of one unit: seconds, tokens (prompt and completion), US dollars; None means unlimited."""

    seconds: float | None = None
    tokens: int | None = None
    cost: float | None = None

    def check(self, tokens: int, cost: float | None) -> None:
        """Raises UnitLimitError if a unit spent more than a limit."""
        if self.tokens is not None and tokens > self.tokens:
            raise UnitLimitError("token_limit", f"{tokens} tokens; --per-item tokens is {self.tokens}")
        if self.cost is not None and cost is not None and cost > self.cost:
            raise UnitLimitError("cost_limit", f"${cost:.4f}; --per-item cost is {self.cost:g}")


UNIT_UNLIMITED = UnitLimits()
unit_limits: ContextVar[UnitLimits] = ContextVar("medagent_unit_limits", default=UNIT_UNLIMITED)
"""The limits of the current unit."""


UNKNOWN = 5
"""A run with a budget stops at this number of calls with unknown cost or tokens; fewer are ignored."""


@dataclass(frozen=True, slots=True)
class Spending:
    """What counts against a run's limits: US dollars of calls with known cost, the number of calls with unknown cost,
    tokens (prompt and completion), the number of calls with unknown tokens.
    """

    cost: float = 0.0
    unknown: int = 0
    tokens: int = 0
    uncounted: int = 0

    def __add__(self, other: Spending) -> Spending:
        return Spending(
            self.cost + other.cost,
            self.unknown + other.unknown,
            self.tokens + other.tokens,
            self.uncounted + other.uncounted,
        )


@dataclass(frozen=True, slots=True)
class Stop:
    """Why a run ended early. `text` is for people."""

    text: str
    option: str = ""
    """The option whose limit ended it, such as `--max-cost`."""
    enforceable: bool = True
    """Whether the option's limit can be enforced: the run continues with a higher limit, otherwise without it."""


@dataclass(frozen=True, slots=True)
class RunLimits:
    """The limits at which no new unit starts; None means unlimited. `cost` is in US dollars, `tokens` are prompt and
    completion tokens, `fail_after` is the share of units that may fail. `before` is what the run's other journals
    spent. `units` are the limits of one unit, which also need known costs and tokens.
    """

    cost: float | None = None
    tokens: int | None = None
    fail_after: float | None = None
    before: Spending = Spending()
    units: UnitLimits = UNIT_UNLIMITED

    @property
    def any_budget(self) -> bool:
        """Whether cost or tokens are limited."""
        return self.cost is not None or self.tokens is not None

    def unkept(self, spent: Spending) -> Stop | None:
        """The reason to stop if a limit cannot be enforced because replies lack token counts; otherwise None."""
        by_cost = {"--max-cost": self.cost, "--per-item cost": self.units.cost}
        by_tokens = {"--max-tokens-total": self.tokens, "--per-item tokens": self.units.tokens}
        for limits, unknown, what in (
            (by_cost, spent.unknown, "the cost of {} calls is unknown"),
            (by_tokens, spent.uncounted, "the tokens of {} calls are unknown"),
        ):
            option = next((name for name, limit in limits.items() if limit is not None), None)
            if option is not None and unknown >= UNKNOWN:
                text = f"{option} cannot be kept: {what.format(unknown)} (the replies contain no token counts)"
                return Stop(text, option, enforceable=False)
        return None

    def reached(self, spent: Spending) -> Stop | None:
        """The reason to stop if `spent`, the sum of the run, has reached a limit, or if a limit cannot be enforced;
        otherwise None.
        """
        if unkept := self.unkept(spent):
            return unkept
        if self.cost is not None and spent.cost >= self.cost:
            return Stop(f"--max-cost {self.cost:g} is reached (${spent.cost:.4f} spent)", "--max-cost")
        if self.tokens is not None and spent.tokens >= self.tokens:
            return Stop(f"--max-tokens-total {self.tokens} is reached ({spent.tokens} spent)", "--max-tokens-total")
        return None

    def exceeded(self, spent: Spending) -> str | None:
        """A message if `spent`, the sum of the run, is above a limit; otherwise None."""
        if self.cost is not None and spent.cost > self.cost:
            return f"--max-cost {self.cost:g} is exceeded (${spent.cost:.4f} spent)"
        if self.tokens is not None and spent.tokens > self.tokens:
            return f"--max-tokens-total {self.tokens} is exceeded ({spent.tokens} spent)"
        return None


UNLIMITED = RunLimits()
