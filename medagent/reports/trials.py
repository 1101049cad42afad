"""What several trials of the same tasks say: pass@1 with its error, pass@k, pass^k, and intervals.

Ten templates are not 300 independent items: beside Wilson's interval stands a bootstrap that draws whole task types.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import count, takewhile

from medagent.engine.report import TableLine, TableSection
from refsol.stats import Interval, cluster_bootstrap, pass_at_k, pass_hat_k, wilson


@dataclass(frozen=True, slots=True)
class Rates:
    """Figures of a group of tasks. `error` is the standard error of pass@1 over tasks (trials of one task go together).

    `wilson` holds for a single trial only. `at` and `hat` give pass@k and pass^k for k = 1 … trials.
    """

    tasks: int
    trials: int
    pass1: float
    error: float
    at: tuple[float, ...]
    hat: tuple[float, ...]
    wilson: Interval | None


def rates(outcomes: Mapping[str, Sequence[bool]]) -> Rates:
    """The figures of `outcomes`: for each task, whether each graded trial was right.

    Tasks with fewer trials than others count in pass@1 with those they have; pass@k takes k up to the smallest number.
    Raises ValueError where there is no task or a task without a trial.
    """
    if not outcomes or not all(outcomes.values()):
        raise ValueError("rates need at least one graded trial of each task")
    means = [sum(trials) / len(trials) for trials in outcomes.values()]
    pass1 = sum(means) / len(means)
    spread = sum((mean - pass1) ** 2 for mean in means)
    error = math.sqrt(spread / (len(means) - 1) / len(means)) if len(means) > 1 else 0.0
    depth = min(len(trials) for trials in outcomes.values())
    counts = [(len(trials), sum(trials)) for trials in outcomes.values()]
    single = all(len(trials) == 1 for trials in outcomes.values())
    return Rates(
        tasks=len(means),
        trials=depth,
        pass1=pass1,
        error=error,
        at=tuple(sum(pass_at_k(n, c, k) for n, c in counts) / len(counts) for k in range(1, depth + 1)),
        hat=tuple(sum(pass_hat_k(n, c, k) for n, c in counts) / len(counts) for k in range(1, depth + 1)),
        wilson=wilson(sum(c for _, c in counts), len(counts)) if single else None,
    )


def by_type(outcomes: Mapping[str, Sequence[bool]]) -> dict[str, dict[str, Sequence[bool]]]:
    """The outcomes grouped by task type, in the order in which the types appear."""
    groups: dict[str, dict[str, Sequence[bool]]] = {}
    for task_id, trials in outcomes.items():
        groups.setdefault(task_id.partition("_")[0], {})[task_id] = trials
    return groups


def clustered(outcomes: Mapping[str, Sequence[bool]]) -> Interval:
    """95 % bootstrap interval of pass@1 with the task type as cluster."""
    clusters = [[sum(trials) / len(trials) for trials in group.values()] for group in by_type(outcomes).values()]
    return cluster_bootstrap(clusters)


def trial_section(outcomes: Mapping[str, Sequence[bool]]) -> TableSection:
    """pass@1 with its error, pass@k and pass^k by type and overall, as a table of its own.

    `k` doubles up to the number of trials, so that the table of many trials can still be read.
    """
    whole = rates(outcomes)
    depths = [*takewhile(lambda k: k < whole.trials, (2**power for power in count(1))), whole.trials]
    groups = [(name, rates(group)) for name, group in by_type(outcomes).items()]
    lines = [_trial_line(name, group, depths) for name, group in [*groups, ("all", whole)]]
    return TableSection(title=f"{whole.trials} trials", lines=tuple(lines), name="task", figure="pass@1", count="tasks")


def _trial_line(name: str, group: Rates, depths: Sequence[int]) -> TableLine:
    at = {f"pass@{k}": group.at[k - 1] for k in depths}
    hat = {f"pass^{k}": group.hat[k - 1] for k in depths}
    return TableLine(name=name, n=group.tasks, value=group.pass1, more={"± SE": group.error, **at, **hat})
