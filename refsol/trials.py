"""Figures over several trials of the same tasks: pass@1 with its error, pass@k, pass^k, and which tasks flip."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

from refsol.intervals import Value, share_interval, standard_error
from refsol.stats import Interval, pass_at_k, pass_hat_k


@dataclass(frozen=True, slots=True)
class Rates:
    """Figures of a group of tasks. `error` is the standard error of pass@1 over tasks and their patients.

    `at` and `hat` are pass@k and pass^k for k = 1 … trials, `at_intervals` and `hat_intervals` are their 95% intervals
    for these types and other patients.
    """

    tasks: int
    trials: int
    pass1: float
    error: float
    at: tuple[float, ...]
    hat: tuple[float, ...]
    at_intervals: tuple[Interval, ...]
    hat_intervals: tuple[Interval, ...]


def rates(
    outcomes: Mapping[str, Sequence[bool]],
    types: Mapping[str, str] | None = None,
    patients: Mapping[str, str] | None = None,
) -> Rates:
    """The scores of `outcomes`, which states for each task whether each graded trial was right.

    `types` maps tasks to their types (default: one type), `patients` to the name that tasks of one patient share
    (default: each task has its own). A task with fewer trials than others counts in pass@1 with its trials. For pass@k,
    k goes up to the smallest number of trials. Raises ValueError without tasks or for a task without trials.
    """
    if not outcomes or not all(outcomes.values()):
        raise ValueError("rates need at least one graded trial of each task")
    means = [sum(trials) / len(trials) for trials in outcomes.values()]
    pass1 = sum(means) / len(means)
    types, patients = types or {}, patients or {}
    depth = min(len(trials) for trials in outcomes.values())
    counts = {task: (len(trials), sum(trials)) for task, trials in outcomes.items()}
    at, hat = (
        [_mean(figure, counts, k, depth, types, patients) for k in range(1, depth + 1)]
        for figure in (pass_at_k, pass_hat_k)
    )
    return Rates(
        tasks=len(means),
        trials=depth,
        pass1=pass1,
        error=standard_error([(patients.get(task, task), mean) for task, mean in zip(outcomes, means, strict=True)]),
        at=tuple(mean for mean, _ in at),
        hat=tuple(mean for mean, _ in hat),
        at_intervals=tuple(interval for _, interval in at),
        hat_intervals=tuple(interval for _, interval in hat),
    )


def _mean(
    figure: Callable[[int, int, int], float],
    counts: Mapping[str, tuple[int, int]],
    k: int,
    depth: int,
    types: Mapping[str, str],
    patients: Mapping[str, str],
) -> tuple[float, Interval]:
    """The mean of pass@k or pass^k over tasks with (trials, right ones), computed once for equal counts, with its
    interval. A task counts as `depth` trials, its score as their share of right ones.
    """
    values = {pair: figure(*pair, k) for pair in set(counts.values())}
    rows = (
        Value(types.get(task, ""), task, patients.get(task, task), (depth * values[pair], float(depth)))
        for task, pair in counts.items()
    )
    return sum(values[pair] for pair in counts.values()) / len(counts), share_interval(rows)


def by_type(
    outcomes: Mapping[str, Sequence[bool]], types: Mapping[str, str] | None = None
) -> dict[str, dict[str, Sequence[bool]]]:
    """The outcomes by task type, in the order in which types first appear.

    `types` maps tasks to their types. Without it, the type is the part of the id before `_`.
    """
    groups: dict[str, dict[str, Sequence[bool]]] = {}
    for task_id, trials in outcomes.items():
        kind = task_id.partition("_")[0] if types is None else types[task_id]
        groups.setdefault(kind, {})[task_id] = trials
    return groups


def reliability(outcomes: Mapping[str, Sequence[bool]]) -> dict[str, float]:
    """Each task's share of right trials among its graded ones. Tasks without graded trials are left out."""
    return {task: sum(trials) / len(trials) for task, trials in outcomes.items() if trials}


def flipping(outcomes: Mapping[str, Sequence[bool]]) -> tuple[str, ...]:
    """The tasks with both right and wrong trials, those closest to one half first."""
    shares = {task: share for task, share in reliability(outcomes).items() if 0 < share < 1}
    return tuple(sorted(shares, key=lambda task: abs(shares[task] - 0.5)))
