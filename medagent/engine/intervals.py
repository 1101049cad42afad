"""The interval of a rate, and of its difference from a baseline, from the scores of a run.

The types of tasks are fixed, and patients are sampled: the interval says how the rate would change with other patients.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Protocol

from refsol.intervals import Value, paired_difference, share_interval
from refsol.stats import Interval


class RatedUnit(Protocol):
    """The part of a graded unit that rates use. `Scored` implements it."""

    @property
    def item(self) -> Any:
        """The unit's `Item`."""

    @property
    def cluster(self) -> str:
        """The name that its item shares with items that count as one; empty for any other item."""

    @property
    def correct(self) -> bool | None:
        """Whether it is right; None if it is neither right nor wrong."""

    @property
    def grounded(self) -> bool | None:
        """Whether the agent had read what decides; None if nothing had to be read, or if it is unknown."""

    @property
    def reading(self) -> str:
        """What the agent had not read."""


def _correct(score: RatedUnit) -> bool | None:
    return score.correct


def values_of(scores: Iterable[RatedUnit], outcome: Callable[[RatedUnit], bool | None] = _correct) -> Sequence[Value]:
    """The outcome of each trial as (1 or 0, 1), without trials of which it is unknown. By default, the outcome is
    whether a trial is right.
    """
    return [_value(score, (float(true), 1.0)) for score in scores if (true := outcome(score)) is not None]


def _value(score: RatedUnit, values: tuple[float, ...]) -> Value:
    unit = score.cluster or score.item.id
    return Value(score.item.group, unit, score.item.patient or unit, values)


def by_item(scores: Sequence[RatedUnit]) -> dict[str, list[bool]]:
    """For each item: whether its graded trials are right."""
    items: dict[str, list[bool]] = {}
    for score in scores:
        if score.correct is not None:
            items.setdefault(score.item.id, []).append(score.correct)
    return items


def rate_interval(scores: Iterable[RatedUnit]) -> Interval:
    """The 95% interval of the rate of right trials."""
    return share_interval(values_of(scores))


def above(scores: Sequence[RatedUnit], floor: Mapping[str, bool | None]) -> tuple[float, Interval] | None:
    """The difference of the rate from a baseline's on the same items (paired), with its 95% interval.

    `floor` contains the baseline's verdict on each item. None if no item got both verdicts.
    """
    steps = [
        (score, int(score.correct) - int(base))
        for score in scores
        if score.correct is not None and (base := floor.get(score.item.id)) is not None
    ]
    if not steps:
        return None
    margin = paired_difference(_value(score, (max(step, 0), max(-step, 0), 1)) for score, step in steps)
    return margin.value, margin.interval
