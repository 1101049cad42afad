"""Two runs over the same tasks, compared task by task."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from medagent.errors import UserError
from refsol.stats import Interval, bootstrap, mcnemar_exact


@dataclass(frozen=True, slots=True)
class Comparison:
    """Tasks that both runs have a verdict on. `gained` were wrong in the first and right in the second run.

    `p` is McNemar's exact p of the flips; `difference` is the second's rate less the first's, with a 95 % bootstrap
    interval over tasks.
    """

    both_right: tuple[str, ...]
    both_wrong: tuple[str, ...]
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    difference: float
    interval: Interval

    @property
    def tasks(self) -> int:
        """How many tasks were compared."""
        return len(self.both_right) + len(self.both_wrong) + len(self.gained) + len(self.lost)


def compare(first: Mapping[str, bool], second: Mapping[str, bool]) -> Comparison:
    """Pair the verdicts by task id. Raises UserError where no task is in both."""
    shared = [task for task in first if task in second]
    if not shared:
        raise UserError("the two runs have no graded task in common")
    steps = [second[task] - first[task] for task in shared]
    cells: dict[tuple[bool, bool], list[str]] = {}
    for task in shared:
        cells.setdefault((first[task], second[task]), []).append(task)
    gained, lost = cells.get((False, True), []), cells.get((True, False), [])
    return Comparison(
        both_right=tuple(cells.get((True, True), [])),
        both_wrong=tuple(cells.get((False, False), [])),
        gained=tuple(gained),
        lost=tuple(lost),
        p=mcnemar_exact(len(gained), len(lost)),
        difference=sum(steps) / len(steps),
        interval=bootstrap(lambda items: sum(steps[i] for i in items) / len(items), len(steps)),
    )
