"""The two intervals of a rate, from the scores of a run. Each answers a different question.

* *These types, other patients*: items are sampled within each type; the types are fixed. The table shows this one.
* *Other types*: types are sampled, with their items.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Protocol

from refsol.intervals import FEWEST_TYPES, other_types, stratified_tango, stratified_wilson
from refsol.stats import Interval

THESE, OTHERS = "These types, other patients", "Other types"
"""The names of the two questions in reports."""


class GradedUnit(Protocol):
    """The part of a graded unit that rates use. `Scored` has it."""

    @property
    def item(self) -> Any:
        """The unit's `Item`."""

    @property
    def correct(self) -> bool | None:
        """Whether it is right; None if it is neither right nor wrong."""

    @property
    def grounded(self) -> bool | None:
        """See `Score.grounded`."""

    @property
    def reading(self) -> str:
        """See `Score.reading`."""


def by_type(scores: Sequence[GradedUnit]) -> list[list[list[bool]]]:
    """For each type and each of its items: whether the graded trials are right."""
    types: dict[str, dict[str, list[bool]]] = {}
    for one in scores:
        if one.correct is not None:
            types.setdefault(one.item.group, {}).setdefault(one.item.id, []).append(one.correct)
    return [list(items.values()) for items in types.values()]


def by_item(scores: Sequence[GradedUnit]) -> dict[str, list[bool]]:
    """For each item: whether its graded trials are right."""
    items: dict[str, list[bool]] = {}
    for one in scores:
        if one.correct is not None:
            items.setdefault(one.item.id, []).append(one.correct)
    return items


def these_types(scores: Sequence[GradedUnit]) -> Interval:
    """The 95 % interval of the rate for these types and other patients."""
    return stratified_wilson([[(sum(trials), len(trials)) for trials in items] for items in by_type(scores)])


def of_other_types(scores: Sequence[GradedUnit]) -> Interval | None:
    """The 95 % interval of the rate for other types; None below five types. The trials of an item are averaged."""
    return other_types([[sum(trials) / len(trials) for trials in items] for items in by_type(scores)])


def interval_notes(scores: Sequence[GradedUnit]) -> Iterator[str]:
    """Both intervals of all trials as texts, if there are several types."""
    types = by_type(scores)
    if len(types) < 2:
        return
    yield f"{THESE}: 95 % {shown(these_types(scores))}"
    others = of_other_types(scores)
    yield f"{OTHERS}: " + (f"95 % {shown(others)}" if others else f"no interval below {FEWEST_TYPES} types")


def interval_document(scores: Sequence[GradedUnit]) -> dict[str, list[float] | None]:
    """Both intervals as JSON."""
    these, others = these_types(scores), of_other_types(scores)
    return {
        "these_types": [these.low, these.high],
        "other_types": None if others is None else [others.low, others.high],
    }


def above(scores: Sequence[GradedUnit], floor: Mapping[str, bool | None]) -> tuple[float, Interval] | None:
    """The rate minus that of a baseline on the same items, paired, with its 95 % interval.

    `floor` has the baseline's verdict on each item. None if no item has both verdicts.
    """
    types: dict[str, list[int]] = {}
    for one in scores:
        base = floor.get(one.item.id)
        if one.correct is not None and base is not None:
            types.setdefault(one.item.group, []).append(one.correct - base)
    pairs = [(steps.count(1), steps.count(-1), len(steps)) for steps in types.values()]
    if not pairs:
        return None
    return sum(up - down for up, down, _ in pairs) / sum(n for *_, n in pairs), stratified_tango(pairs)


def shown(interval: Interval, unit: str = " %") -> str:
    """An interval of shares in percent, or in points (`unit` empty)."""
    return f"{100 * interval.low:.1f}{unit} to {100 * interval.high:.1f}{unit}"
