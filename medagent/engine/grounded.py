"""Grounded rates: the share of right items whose agent had read the deciding data, of all items that need a reading.

Benchmarks whose scores have `Score.grounded` get a column in the table, and a line below the overall rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medagent.engine.intervals import GradedUnit
from medagent.engine.report import GroundedRate, TableLine
from refsol.intervals import stratified_wilson
from refsol.reads import NO_READING

GROUNDED = "grounded"
"""The name of the line and of the column."""
LUCKY = "lucky"
"""The name in lists for a right item whose agent had not read the deciding data."""


def grounded_rate(scores: Sequence[GradedUnit]) -> GroundedRate | None:
    """The grounded rate of some units, with the interval for these types; None if no score has `grounded`."""
    types: dict[str, dict[str, list[bool]]] = {}
    notes: dict[str, None] = {}
    lucky = 0
    for one in scores:
        if one.grounded is not None:
            types.setdefault(one.item.group, {}).setdefault(one.item.id, []).append(one.grounded)
            lucky += one.correct is True and not one.grounded
        elif one.reading:
            notes[one.reading] = None
    if not types:
        note = next((one for one in notes if one != NO_READING.reading), NO_READING.reading)
        return GroundedRate(right=0, n=0, note=note) if notes else None
    strata = [[(sum(trials), len(trials)) for trials in items.values()] for items in types.values()]
    right, n = (sum(cluster[part] for stratum in strata for cluster in stratum) for part in range(2))
    bounds = stratified_wilson(strata)
    return GroundedRate(right=right, n=n, lucky=lucky, value=right / n, interval=(bounds.low, bounds.high))


def grounded_line(overall: TableLine) -> Iterator[TableLine]:
    """The line below the overall one, if the benchmark has grounded rates."""
    if (rate := overall.grounded) is not None:
        yield TableLine(name=GROUNDED, n=rate.n, value=rate.value, interval=rate.interval, counts={"right": rate.right})
