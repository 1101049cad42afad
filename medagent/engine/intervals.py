"""The two intervals of a rate, from the scores of a run. Each answers a different question.

* *These types, other patients*: items are sampled within each type; the types are fixed. The table shows this one.
* *Other types*: types are sampled, with their items.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from medagent.core.figures import spread
from medagent.engine.report import unit_of
from refsol.intervals import FEWEST_TYPES, other_types, paired_difference, strata, stratified_wilson
from refsol.stats import Clusters, Interval, clustered_wilson

THESE, OTHERS = "These types, other patients", "Other types"
"""The names of the two questions in reports."""


class GradedUnit(Protocol):
    """The part of a graded unit that rates use. `Scored` implements it."""

    @property
    def item(self) -> Any:
        """The unit's `Item`."""

    @property
    def cluster(self) -> str:
        """The name that its item shares with dependent items; empty for an independent item."""

    @property
    def correct(self) -> bool | None:
        """Whether it is right; None if it is neither right nor wrong."""

    @property
    def grounded(self) -> bool | None:
        """Whether the agent had read what decides; None if nothing had to be read, or if it is unknown."""

    @property
    def reading(self) -> str:
        """What the agent had not read."""


def _correct(one: GradedUnit) -> bool | None:
    return one.correct


def by_unit(
    scores: Sequence[GradedUnit], outcome: Callable[[GradedUnit], bool | None] = _correct
) -> Sequence[Clusters]:
    """For each type and each of its units: the number of trials with a true outcome, and with any. By default, the
    outcome is whether a trial is right.
    """
    known = ((one, outcome(one)) for one in scores)
    return strata((*_place(one), (int(true), 1)) for one, true in known if true is not None)


def _place(one: GradedUnit) -> tuple[str, str]:
    """Its type and its unit."""
    return one.item.group, unit_of(one.item.id, one.cluster)


def by_item(scores: Sequence[GradedUnit]) -> dict[str, list[bool]]:
    """For each item: whether its graded trials are right."""
    items: dict[str, list[bool]] = {}
    for one in scores:
        if one.correct is not None:
            items.setdefault(one.item.id, []).append(one.correct)
    return items


def these_types(scores: Sequence[GradedUnit]) -> Interval:
    """The 95% interval of the rate for these types and other patients."""
    return stratified_wilson(by_unit(scores))


def one_group(scores: Sequence[GradedUnit]) -> Interval:
    """The 95% interval of the rate of units that are not separated by type."""
    return clustered_wilson([cluster for type_ in by_unit(scores) for cluster in type_])


def of_other_types(scores: Sequence[GradedUnit]) -> Interval | None:
    """The 95% interval of the rate for other types; None below five types."""
    return other_types(by_unit(scores))


def interval_notes(scores: Sequence[GradedUnit]) -> Iterator[str]:
    """Both intervals of all trials as texts, if there are several types."""
    if len(by_unit(scores)) < 2:
        return
    yield f"{THESE}: 95% interval {_shown(these_types(scores))}"
    others = of_other_types(scores)
    yield f"{OTHERS}: " + (f"95% interval {_shown(others)}" if others else f"no interval below {FEWEST_TYPES} types")


def _shown(interval: Interval) -> str:
    return spread((interval.low, interval.high))


def interval_document(scores: Sequence[GradedUnit]) -> dict[str, list[float] | None]:
    """Both intervals as JSON."""
    these, others = these_types(scores), of_other_types(scores)
    return {
        "these_types": [these.low, these.high],
        "other_types": None if others is None else [others.low, others.high],
    }


def above(scores: Sequence[GradedUnit], floor: Mapping[str, bool | None]) -> tuple[float, Interval] | None:
    """The difference of the rate from a baseline's on the same items (paired), with its 95% interval.

    `floor` contains the baseline's verdict on each item. None if no item got both verdicts.
    """
    steps = [
        (one, int(one.correct) - int(base))
        for one in scores
        if one.correct is not None and (base := floor.get(one.item.id)) is not None
    ]
    if not steps:
        return None
    margin = paired_difference(strata((*_place(one), (max(step, 0), max(-step, 0), 1)) for one, step in steps))
    return margin.value, margin.interval
