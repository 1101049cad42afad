"""Samples of one stage of an item, and what becomes of the item where too few of them can be used."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Generic, Literal, TypeVar

from medagent.errors import MedagentError
from medagent.imapscore.samples import SAMPLES, Sampler
from medagent.run.rows import Spent

T = TypeVar("T")


class UnusableError(MedagentError):
    """A stage that leaves nothing to score; `failure` is the item's status."""

    def __init__(self, failure: Literal["no_agreement", "extraction_failed"], reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class Reading(Generic[T]):
    """What was read from one reply, and what had to be guessed or left out."""

    value: T
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Ballot:
    """The stages of one item: their samples, warnings and calls."""

    sampler: Sampler
    min_votes: int
    spent: Spent
    _warnings: dict[str, list[str]] = field(default_factory=dict)

    async def votes(self, stage: str, prompt: str, read: Callable[[str], Reading[T] | None]) -> list[T]:
        """The readable samples. Raises UnusableError where none is, or fewer than could ever agree."""
        readings = await self.sampler.samples(prompt, read, self.spent)
        self._warnings[stage] = [warning for reading in readings for warning in reading.warnings]
        if len(readings) < self.min_votes:
            failure: Literal["no_agreement", "extraction_failed"] = "no_agreement" if readings else "extraction_failed"
            raise UnusableError(failure, f"{stage}: {len(readings)} of {SAMPLES} samples could be read")
        return [reading.value for reading in readings]

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all stages, each once, in an order that does not depend on which reply came first."""
        return tuple(
            dict.fromkeys(
                f"{stage}: {warning}" for stage in sorted(self._warnings) for warning in self._warnings[stage]
            )
        )
