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
    """The number of calls with requests that got no complete reply, whose tokens and cost are estimates; None: none."""
    unanswered: int | None = None
    """The estimated tokens of these requests, which are included in the other counts; None: none."""
    cost: float | None = None
    retries: int = 0
    waited: float = 0.0
    latency: float = 0.0
    started: str | None = None
    """The start of the successful attempt (ISO 8601); None in sums, and for a model that states no times."""
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
        self._check()

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
            unanswered=completion.estimated_tokens or None,
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

    def take(self, spent: Spent) -> None:
        """Add another sum with its single calls. Raises UnitLimitError like `add`."""
        self.merge(spent)
        self.each.extend(spent.each)
        self._check()

    def merge(self, spent: Spent) -> None:
        """Add another sum without its single calls. If the cost of one is unknown, the cost of the sum is unknown."""
        if spent == _NOTHING:  # a fast path: a run may contain many thousand rows of agents without a model
            return
        self._count(spent, spent.calls)
        self.reused = _sum(self.reused, spent.reused)
        self._serve(spent.served or [])

    def _serve(self, names: Sequence[str]) -> None:
        if names:
            self.served = sorted({*(self.served or []), *names})

    def _count(self, spent: CallSpent, calls: int) -> None:
        if calls:
            known = spent.cost is not None and (self.calls == 0 or self.cost is not None)
            self.cost = (self.cost or 0.0) + (spent.cost or 0.0) if known else None
        self.calls += calls
        self.prompt += spent.prompt
        self.completion += spent.completion
        self.cached += spent.cached
        self.reasoning += spent.reasoning
        self.unreported = _sum(self.unreported, spent.unreported)
        self.uncounted = _sum(self.uncounted, spent.uncounted)
        self.estimated = _sum(self.estimated, spent.estimated)
        self.unanswered = _sum(self.unanswered, spent.unanswered)
        self.retries += spent.retries
        self.waited = round(self.waited + spent.waited, 3)
        self.latency = round(self.latency + spent.latency, 3)

    @property
    def usage(self) -> Usage:
        """The tokens."""
        return Usage(self.prompt, self.completion, self.cached, self.reasoning, unreported=self.unreported or 0)

    @property
    def limited_tokens(self) -> int:
        """The tokens that count against limits: estimates count only if they have a price, and so may be billed."""
        return self.usage.total - (self.unanswered or 0 if self.cost is None else 0)

    @property
    def tokens_text(self) -> str:
        """The tokens for people: those of replies, and apart from them the estimates for requests without a reply."""
        unanswered = self.unanswered or 0
        more = f", and up to {unanswered:,} of requests without a reply" if unanswered else ""
        return f"{self.usage.total - unanswered:,} tokens{more}"

    def _check(self) -> None:
        unit_limits.get().check(self.limited_tokens, self.cost)

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
    for spent in spents:
        whole.merge(spent)
    return whole


def _sum(first: int | None, second: int | None) -> int | None:
    """The sum of two numbers, with None for zero."""
    return (first or 0) + (second or 0) or None


_NOTHING = Spent()


class Row(BaseModel):
    """One finished unit in the journal. `unit` is its key; a later row of the same unit replaces an earlier one."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    unit: str
    status: str
    error: str | None = None
    error_type: str | None = None
    """The class of the exception that the user's code raised, such as `KeyError`."""
    spent: Spent = Field(default_factory=Spent)
    started: str = ""
    timestamp: str = ""
    seconds: float = 0.0
    traceback: str | None = None
    """The traceback, if an agent, model, grader or benchmark raised an exception."""
    recorded: bool | None = Field(default=None, exclude_if=lambda recorded: recorded is None)
    """Of an answer from a file: the verdict on it that the file contains."""

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


class FailedUnit(BaseModel):
    """A unit that failed instead of ending with an answer. `error_type` is empty if no code of the user raised it."""

    model_config = ConfigDict(frozen=True)

    unit: str
    status: str
    error: str
    error_type: str = ""

    def __str__(self) -> str:
        return f"{self.unit}: {self.status}: {self.error}"


R = TypeVar("R", bound=Row)
