"""A journal row and its cost. Benchmarks add their own fields to `Row`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Self, TypeVar

from pydantic import BaseModel, ConfigDict, Field

from medagent.core.errors import EpisodeError
from medagent.engine.limits import unit_limits
from medagent.models.base import Completion, Usage
from medagent.models.endings import USUAL

OWED = frozenset({"model_error", "fhir_error", "grader_error", "benchmark_error", "cancelled"})
"""The statuses of a unit that failed for a reason that is not the agent's. The unit is owed again."""
REFUSED, REFUSED_AGAIN = "refused", 3
"""The status of a unit that a provider's content filter refused. It is owed until it was refused 3 times."""
RETRIED = (
    "agent_error",
    "refused",
    "invalid_action",
    "cut",
    "empty",
    "only_thought",
    "round_limit",
    "context_limit",
    "time_limit",
    "token_limit",
    "cost_limit",
)
"""The final statuses that can be run again with `--retry`."""
FAILED = "agent_error"
"""The status of a unit whose agent raised an exception. It is final, and counts as failed."""


class CallSpent(BaseModel):
    """The cost of one model call: tokens, US dollars (None if unknown), `retries` (failed attempts before the
    successful one), seconds `waited` between attempts, `latency` (seconds of the successful one); and why its reply
    ended.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    unreported: int | None = None
    """Completion tokens that the provider counts only in its total; None: none."""
    uncounted: int | None = None
    """The number of calls whose tokens the provider did not count; None: none."""
    estimated: int | None = None
    """The number of calls that a signal or a time limit ended: their tokens and cost are estimates; None: none."""
    cost: float | None = None
    retries: int = 0
    waited: float = 0.0
    latency: float = 0.0
    started: str | None = None
    """The start of the successful attempt (ISO 8601); None in sums, and in journals of earlier versions."""
    finish_reason: str | None = None
    """Named as in chat completions; None in sums, and if the provider sent none."""


class Spent(CallSpent):
    """The cost of one unit, or the sum for several units. A unit's lists `each` call too, in order.

    A call whose last attempt failed is not in `calls`; its attempts are in `retries` and `waited`.
    """

    calls: int = 0
    reused: int | None = None
    """The number of calls with a cached reply (`--cache`), which cost nothing; None: none."""
    served: list[str] | None = None
    """The models that replied, by the provider's names, each once."""
    each: list[CallSpent] = Field(default_factory=list)

    def add(self, completion: Completion) -> None:
        """Count one completion. Raises UnitLimitError if the current unit is above its limit."""
        self.add_unchecked(completion)
        unit_limits.get().check(self.usage.total, self.cost)

    def add_unchecked(self, completion: Completion) -> None:
        """Count one completion without checking the unit's limits, because the unit is ending."""
        usage = completion.usage
        if completion.model:
            self._serve(
                [f"{completion.model} ({completion.fingerprint})" if completion.fingerprint else completion.model]
            )
        self.reused = _sum(self.reused, int(completion.reused))
        call = CallSpent(
            prompt=usage.prompt,
            completion=usage.completion,
            cached=usage.cached,
            reasoning=usage.reasoning,
            unreported=usage.unreported or None,
            uncounted=None if usage.known or usage.total else 1,
            estimated=1 if completion.estimated else None,
            cost=completion.cost,
            retries=completion.retries,
            waited=round(completion.waited, 3),
            latency=round(completion.latency, 3),
            started=completion.started or None,
            finish_reason=completion.finish_reason,
        )
        self._count(call, 1)
        self.each.append(call)

    def add_failure(self, failure: EpisodeError) -> None:
        """Count the attempts of a failed call, and its paid reply if there is one."""
        if isinstance(failure.paid, Completion):
            self.add(failure.paid)
        self.retries += failure.retries
        self.waited = round(self.waited + failure.waited, 3)

    def take(self, other: Spent) -> None:
        """Add another sum with its single calls. Raises UnitLimitError like `add`."""
        self.merge(other)
        self.each.extend(other.each)
        unit_limits.get().check(self.usage.total, self.cost)

    def merge(self, other: Spent) -> None:
        """Add another sum without its single calls. If the cost of one is unknown, the cost of the sum is unknown."""
        if other == _NOTHING:  # a fast path: a run may contain many thousand rows of agents without a model
            return
        self._count(other, other.calls)
        self.reused = _sum(self.reused, other.reused)
        self._serve(other.served or [])

    def _serve(self, names: Sequence[str]) -> None:
        if names:
            self.served = sorted({*(self.served or []), *names})

    def _count(self, other: CallSpent, calls: int) -> None:
        if calls:
            known = other.cost is not None and (self.calls == 0 or self.cost is not None)
            self.cost = (self.cost or 0.0) + (other.cost or 0.0) if known else None
        self.calls += calls
        self.prompt += other.prompt
        self.completion += other.completion
        self.cached += other.cached
        self.reasoning += other.reasoning
        self.unreported = _sum(self.unreported, other.unreported)
        self.uncounted = _sum(self.uncounted, other.uncounted)
        self.estimated = _sum(self.estimated, other.estimated)
        self.retries += other.retries
        self.waited = round(self.waited + other.waited, 3)
        self.latency = round(self.latency + other.latency, 3)

    @property
    def usage(self) -> Usage:
        """The tokens."""
        return Usage(self.prompt, self.completion, self.cached, self.reasoning, unreported=self.unreported or 0)

    @property
    def through_context(self) -> bool:
        """Whether a call went through medagent, and was not only reported by an agent (`env.spend`)."""
        return bool(self.latency or self.reused)

    @property
    def unusual(self) -> list[str]:
        """The finish reasons of the calls that the model did not end itself, such as `length`."""
        return [call.finish_reason for call in self.each if call.finish_reason and call.finish_reason not in USUAL]


def merged(spents: Sequence[Spent]) -> Spent:
    """The sum of several accounts."""
    whole = Spent()
    for one in spents:
        whole.merge(one)
    return whole


def _sum(one: int | None, other: int | None) -> int | None:
    """The sum of two numbers, with None for zero."""
    return (one or 0) + (other or 0) or None


_NOTHING = Spent()


class Row(BaseModel):
    """One finished unit in the journal. `unit` is its key; a later row of the same unit replaces an earlier one."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    unit: str
    status: str
    error: str | None = None
    spent: Spent = Field(default_factory=Spent)
    started: str = ""
    timestamp: str = ""
    seconds: float = 0.0
    traceback: str | None = None
    """The traceback, if an agent, model, grader or benchmark raised an exception."""

    @classmethod
    def begin(cls, unit: Any) -> Self:
        """The row of a unit that is about to start."""
        return cls(unit=unit.key, status="completed")

    @property
    def payee(self) -> str:
        """The model that was called, if the rows of a journal call different ones."""
        return ""

    @property
    def owed(self) -> bool:
        """Whether the unit must be run again."""
        return self.status in OWED


R = TypeVar("R", bound=Row)
