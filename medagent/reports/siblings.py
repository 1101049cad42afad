"""Compares runs over two sibling sets (the same types, different items): rates by group, and the drop between them.

Nothing is paired. If a model may have memorised one set and cannot know the other, the drop measures recall, apart from
chance and the difficulty of the sets.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from medagent.core.errors import UserError
from medagent.engine.figures import natural, percent
from medagent.engine.report import ItemOutcome
from medagent.reports.tables import print_table
from refsol.intervals import other_types_difference, stratified_newcombe
from refsol.stats import Interval, newcombe


@dataclass(frozen=True, slots=True)
class Drop:
    """The results of two sets: right and graded items of each, the second rate minus the first, its 95 % interval."""

    first: tuple[int, int]
    second: tuple[int, int]
    difference: float
    interval: Interval


@dataclass(frozen=True, slots=True)
class SetComparison:
    """Two runs over sibling sets, by group (task type) and overall."""

    groups: dict[str, Drop]
    overall: Drop
    other_types: Interval | None = None
    """The interval of the difference for other types; None below five."""

    @property
    def difference(self) -> float:
        """The second rate minus the first."""
        return self.overall.difference


def compare_sets(first: Sequence[ItemOutcome], second: Sequence[ItemOutcome]) -> SetComparison:
    """Compare the graded items of the first trials by group. Raises UserError if no group is in both."""
    ours, theirs = _by_group(first), _by_group(second)
    shared = sorted((group for group in ours if group in theirs), key=natural)
    if not shared:
        raise UserError("the two runs have no graded task type in common")
    groups = {group: _drop(ours[group], theirs[group]) for group in shared}
    whole = _drop(*([one for group in shared for one in outcomes[group]] for outcomes in (ours, theirs)))
    first_strata, second_strata = (
        [[(int(one), 1) for one in outcomes[group]] for group in shared] for outcomes in (ours, theirs)
    )
    overall = replace(whole, interval=stratified_newcombe(first_strata, second_strata))
    return SetComparison(groups, overall, other_types_difference([[drop.difference] for drop in groups.values()]))


def print_sets(a: object, b: object, comparison: SetComparison) -> None:
    """Print the comparison of the runs A and B."""
    print(f"A: {a}\nB: {b}\nThe two are over sibling sets: the same types of task, other patients. Nothing is paired.")
    rows = [_row(group, drop) for group, drop in comparison.groups.items()]
    print_table("", ["group", "A right", "B right", "B − A", "95 %"], [*rows, [], _row("overall", comparison.overall)])
    if comparison.other_types is not None:
        low, high = percent(comparison.other_types.low), percent(comparison.other_types.high)
        print(f"The intervals are those of these types and other patients. Other types: 95 % {low} to {high}")


def _by_group(items: Sequence[ItemOutcome]) -> dict[str, list[bool]]:
    groups: dict[str, list[bool]] = {}
    for item in items:
        if item.correct is not None and item.trial == 1:
            groups.setdefault(item.group, []).append(item.correct)
    return groups


def _drop(first: Sequence[bool], second: Sequence[bool]) -> Drop:
    a, n, b, m = sum(first), len(first), sum(second), len(second)
    return Drop((a, n), (b, m), b / m - a / n, newcombe(a, n, b, m))


def _row(name: str, drop: Drop) -> list[str]:
    (a, n), (b, m) = drop.first, drop.second
    bounds = f"{percent(drop.interval.low)} to {percent(drop.interval.high)}"
    return [name, f"{a} of {n}", f"{b} of {m}", percent(drop.difference), bounds]
