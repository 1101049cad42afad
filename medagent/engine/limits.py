"""What a run may take."""

from __future__ import annotations

from dataclasses import dataclass

UNKNOWN = 5
"""So many calls of unknown cost make a budget void: before, they are taken to be too few to matter."""


@dataclass(frozen=True, slots=True)
class Account:
    """What counts against a run's limits: US dollars of the calls whose cost is known, the number of the others, tokens
    (prompt and completion).
    """

    cost: float = 0.0
    unknown: int = 0
    tokens: int = 0

    def __add__(self, other: Account) -> Account:
        return Account(self.cost + other.cost, self.unknown + other.unknown, self.tokens + other.tokens)


@dataclass(frozen=True, slots=True)
class Limits:
    """When to take no new units. `cost` in US dollars, `tokens` prompt and completion, `fail_after` the share of units
    that may fail; None is no limit. `before` is what the run's other journals have spent.
    """

    cost: float | None = None
    tokens: int | None = None
    fail_after: float | None = None
    before: Account = Account()

    @property
    def any_budget(self) -> bool:
        """Whether what is spent counts."""
        return self.cost is not None or self.tokens is not None

    def reached(self, spent: Account) -> str | None:
        """Which limit `spent`, the whole run's sum, has reached, in words, or None."""
        if self.cost is not None and spent.unknown >= UNKNOWN:
            return (
                f"--max-cost cannot be kept: the cost of {spent.unknown} calls is unknown "
                "(replies came without a count of tokens)"
            )
        if self.cost is not None and spent.cost >= self.cost:
            return f"--max-cost {self.cost:g} is reached (${spent.cost:.4f} spent)"
        if self.tokens is not None and spent.tokens >= self.tokens:
            return f"--max-tokens-total {self.tokens} is reached ({spent.tokens} spent)"
        return None

    def exceeded(self, spent: Account) -> str | None:
        """Which limit `spent`, the whole run's sum, is above, in words, or None."""
        if self.cost is not None and spent.cost > self.cost:
            return f"--max-cost {self.cost:g} is exceeded (${spent.cost:.4f} spent)"
        if self.tokens is not None and spent.tokens > self.tokens:
            return f"--max-tokens-total {self.tokens} is exceeded ({spent.tokens} spent)"
        return None


UNLIMITED = Limits()
