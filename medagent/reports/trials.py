"""Several trials of the same tasks as a table of their own."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile

from medagent.engine.report import TableLine, TableSection
from refsol.trials import Rates, by_type, rates


def trial_section(outcomes: Mapping[str, Sequence[bool]]) -> TableSection:
    """pass@1 with its error, pass@k and pass^k by type and overall.

    `k` doubles up to the number of trials, so that the table of many trials can still be read.
    """
    whole = rates(outcomes)
    depths = [*takewhile(lambda k: k < whole.trials, (2**power for power in count(1))), whole.trials]
    groups = [(name, rates(group)) for name, group in by_type(outcomes).items()]
    lines = [_line(name, group, depths) for name, group in [*groups, ("all", whole)]]
    return TableSection(title=f"{whole.trials} trials", lines=tuple(lines), name="task", figure="pass@1", count="tasks")


def _line(name: str, group: Rates, depths: Sequence[int]) -> TableLine:
    at = {f"pass@{k}": group.at[k - 1] for k in depths}
    hat = {f"pass^{k}": group.hat[k - 1] for k in depths}
    return TableLine(name=name, n=group.tasks, value=group.pass1, more={"± SE": group.error, **at, **hat})
