"""Assertions on an agent's episodes and runs; their messages say why an item is wrong."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Literal, get_args

from medagent._api import compare, grade
from medagent.core.errors import UserError
from medagent.core.suggest import check_option
from medagent.fhir_episodes.episodes import Episode
from medagent.reports.compare import Comparison, SetComparison, adjusted, compare_groups

By = Literal["task", "type"]
SHOWN = 20
"""The most lost items that an assertion lists."""


def assert_grade(episode: Episode) -> None:
    """Assert that the episode is right. Raises AssertionError with the failed checks and the facts."""
    __tracebackhide__ = True
    verdict = episode.verdict()
    if verdict.correct:
        return
    lines = [f"{episode.task.id}: {verdict.reason}"]
    lines += [
        f"  {check.name}: expected {check.expected}, got {check.actual}" for check in verdict.checks if not check.passed
    ]
    if verdict.because:
        lines.append(f"  because: {verdict.because}")
    lines.append(f"  the episode is {episode.outcome.status}, its answer {episode.outcome.answer!r}")
    raise AssertionError("\n".join(lines))


def assert_no_regression(run: str | Path, baseline: str | Path, by: By = "task", alpha: float = 0.05) -> None:
    """Assert that `run` is not worse than `baseline`. Each is a run's folder or a results file; items are paired.

    It is worse if the difference is below 0 with a p (two-sided, as `medagent compare` prints it) of at most `alpha`;
    with alpha=1 every net loss counts. With by="type", each type of task is tested separately, with p adjusted for
    their number (Holm).

    Raises AssertionError with the lost items and their reasons; UserError if the two cannot be paired.
    """
    __tracebackhide__ = True
    check_option("by", by, get_args(By))
    whole = compare(baseline, run)
    if isinstance(whole, SetComparison):
        raise UserError(f"{run} and {baseline}: they have different items; compare runs over the same items")
    parts = {"": whole} if by == "task" else compare_groups(grade(baseline).items, grade(run).items)
    worse = {name: comparison for name, comparison in parts.items() if name in _worse(parts, alpha)}
    if not worse:
        return
    wrong = {item.item: item.reason for item in grade(run).items if item.correct is not True}
    lines = []
    for name, comparison in worse.items():
        lost = comparison.lost
        lines.append(f"{run} is worse than {baseline}{f' in {name}' if name else ''}: {_measure(comparison)}")
        lines += [f"  {item}: {wrong[item]}" if item in wrong else f"  {item}" for item in lost[:SHOWN]]
        lines += [f"  and {len(lost) - SHOWN} more"] if len(lost) > SHOWN else []
    raise AssertionError("\n".join(lines))


def _worse(parts: Mapping[str, Comparison], alpha: float) -> list[str]:
    """The names of the comparisons in which the second run is significantly worse."""
    return [
        name
        for (name, comparison), p in zip(parts.items(), adjusted(list(parts.values())), strict=True)
        if p is not None and p <= alpha and comparison.difference < 0
    ]


def _measure(comparison: Comparison) -> str:
    if comparison.kind == "verdicts":
        flips = f"{len(comparison.lost)} lost, {len(comparison.gained)} gained of {comparison.tasks}"
        return f"{flips}, p = {comparison.p:.4g}"
    bounds = f"{comparison.interval.low:+.4f} to {comparison.interval.high:+.4f}"
    return (
        f"difference {comparison.difference:+.4f} (95% {bounds}, p = {comparison.p:.4g}) over {comparison.tasks} items"
    )
