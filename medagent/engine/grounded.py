"""Grounded rates: of the items that need a reading, how many are right by an agent that had read what decides.

For every benchmark whose scores say so (`Score.grounded`): a column of the table, and a line below the overall rate.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from medagent.engine.report import GroundedRate, TableLine
from refsol.grounds import NO_READING
from refsol.intervals import stratified_wilson

if TYPE_CHECKING:
    from medagent.engine.scores import Scored

GROUNDED = "grounded"
"""The name of the line, and of the column."""
LUCKY = "lucky"
"""What lists call an item that is right, though its agent had not read what decides."""


def grounded_rate(scores: Sequence[Scored]) -> GroundedRate | None:
    """The rate of some units, with the interval of these groups; None if no score says whether it is grounded."""
    told = [one for one in scores if one.score is not None and (one.score.grounded is not None or one.score.reading)]
    if not told:
        return None
    groups: dict[str, dict[str, list[bool]]] = {}
    for one in told:
        if one.score is not None and one.score.grounded is not None:
            groups.setdefault(one.item.group, {}).setdefault(one.item.id, []).append(one.score.grounded)
    if not groups:
        notes = [one.score.reading for one in told if one.score is not None]
        return GroundedRate(right=0, n=0, note=next((one for one in notes if one != NO_READING.reading), notes[0]))
    strata = [[(sum(trials), len(trials)) for trials in items.values()] for items in groups.values()]
    right, n = (sum(cluster[part] for stratum in strata for cluster in stratum) for part in range(2))
    bounds = stratified_wilson(strata)
    lucky = sum(one.outcome.is_lucky for one in told)
    return GroundedRate(right=right, n=n, lucky=lucky, value=right / n, interval=(bounds.low, bounds.high))


def grounded_line(overall: TableLine) -> Iterator[TableLine]:
    """The line below the overall one; nothing if the benchmark does not say what is grounded."""
    if (rate := overall.grounded) is not None:
        yield TableLine(name=GROUNDED, n=rate.n, value=rate.value, interval=rate.interval, counts={"right": rate.right})
