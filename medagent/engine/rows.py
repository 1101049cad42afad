"""A journal row, and what it cost. Benchmarks add their own fields to `Row`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar, Self

from pydantic import BaseModel, ConfigDict, Field

from medagent.core.errors import EpisodeError
from medagent.core.wire import Text
from medagent.engine._unit_limits import unit_limits
from medagent.engine.content import MadeUp
from medagent.models.base import Completion, Usage
from medagent.models.endings import USUAL

OWED = frozenset({"model_error", "fhir_error", "grader_error", "benchmark_error", "cancelled"})
"""Statuses of a unit that failed for a reason not the agent's: it is owed again."""
REFUSED, REFUSED_AGAIN = "refused", 3
"""What a provider's content filter refused: owed until it was refused so often, then final."""
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
"""Statuses that are final, and that a person may want to have done again (`--retry`)."""
FAILED = "agent_error"
"""The status of a unit whose agent raised: final, and counted as failed."""


class CallSpent(BaseModel):
    """What one model call spent: tokens, US dollars (None where unknown), attempts that failed before the good one, the
    seconds waited between them, the seconds of the good one; and why its reply ended.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    unreported: int | None = None
    """Output tokens that the provider counts in its total only; None: none."""
    uncounted: int | None = None
    """Calls whose tokens the provider did not count; None: none."""
    estimated: int | None = None
    """Calls that were cut off, by a signal or a limit of time: their tokens and cost are estimates; None: none."""
    cost: float | None = None
    retries: int = 0
    waited: float = 0.0
    latency: float = 0.0
    started: str | None = None
    """When the good one began (ISO 8601); None in sums, and in journals of earlier versions."""
    finish_reason: str | None = None
    """In the words of chat completions; None in sums, and where the provider gave none."""


class Spent(CallSpent):
    """What one unit, or a sum of units, spent at the model endpoint; a unit's has `each` call too, in order.

    Attempts of a call that failed for good count among `retries` and `waited`, and are no call.
    """

    calls: int = 0
    reused: int | None = None
    """How many of the calls were answered from a cache of replies (`--cache`), which costs nothing; None: none."""
    served: list[str] | None = None
    """The models that answered, as their provider names them, each once."""
    each: list[CallSpent] = Field(default_factory=list)

    def add(self, completion: Completion) -> None:
        """Count one completion. Raises UnitLimitError where a unit that is under way has spent what it may."""
        self.add_unchecked(completion)
        unit_limits.get().check(self.usage.total, self.cost)

    def add_unchecked(self, completion: Completion) -> None:
        """Count one completion, whatever the unit may take: it is at its end."""
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
        """Count the attempts of a call that failed for good, and the reply that it cost where there is one."""
        if isinstance(failure.paid, Completion):
            self.add(failure.paid)
        self.retries += failure.retries
        self.waited = round(self.waited + failure.waited, 3)

    def take(self, other: Spent) -> None:
        """Add another sum with its single calls. Raises UnitLimitError as `add` does."""
        self.merge(other)
        self.each.extend(other.each)
        unit_limits.get().check(self.usage.total, self.cost)

    def merge(self, other: Spent) -> None:
        """Add another sum; its single calls are left behind. A cost of calls whose price is unknown makes the whole
        unknown.
        """
        if other == _NOTHING:  # of agents without a model, a run may have many thousands
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
    def unusual(self) -> list[str]:
        """The finish reasons of the calls that the model did not end itself, such as `length`."""
        return [call.finish_reason for call in self.each if call.finish_reason and call.finish_reason not in USUAL]


def _sum(one: int | None, other: int | None) -> int | None:
    """A sum in which None is nothing."""
    return (one or 0) + (other or 0) or None


_NOTHING = Spent()


class RowHead(BaseModel):
    """What of a row counts while a run goes on; the rest of it is not looked at."""

    model_config = ConfigDict(ser_json_inf_nan="constants")

    unit: str
    status: str
    error: Text | None = None
    spent: Spent = Field(default_factory=Spent)
    started: str = ""
    timestamp: str = ""
    seconds: float = 0.0

    @property
    def payee(self) -> str:
        """The model that was called, where rows of one journal differ in it."""
        return ""


class Row(RowHead):
    """One finished unit in the journal. `unit` is its key; a later row of the same unit replaces an earlier one."""

    traceback: Text | None = None
    """Where an agent, model, grader or benchmark raised something of its own."""

    @classmethod
    def begin(cls, unit: Any) -> Self:
        """The row of a unit that is about to be carried out."""
        return cls(unit=unit.key, status="completed")

    made_up: ClassVar[Sequence[MadeUp]] = ()
    """Values in its line that differ between rows which are otherwise equal, and mean nothing."""

    @classmethod
    def key_members(cls, unit: str) -> str:
        """The JSON of the row's first own members if these only repeat the unit's key, each with a comma behind it."""
        return ""

    @property
    def owed(self) -> bool:
        """Whether the unit must be run again."""
        return self.status in OWED
