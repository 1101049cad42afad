"""The table of several trials of the same tasks."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile

from medagent.core.number_formats import counted
from medagent.engine.report import TableLine, TableSection
from medagent.reports.tables import named
from refsol.trials import Rates, by_type, flipping, rates, reliability


def trials_title(title: str, trials: int) -> str:
    """The title of a table of several trials."""
    return ", ".join(filter(None, (title, f"mean of {trials} trials" if trials > 1 else "")))


def trial_sections(
    outcomes: Mapping[str, Sequence[bool]], groups: Mapping[str, str], patients: Mapping[str, str]
) -> list[TableSection]:
    """pass@1 with its error, pass@k and pass^k by task type; then those of all tasks with their 95 % intervals.
    `groups` has the types as in `by_type`, `patients` what dependent tasks share.

    `k` doubles up to the number of trials, so that the table of many trials stays readable.
    """
    whole = rates(outcomes, groups, patients)
    depths = [*takewhile(lambda k: k < whole.trials, (2**power for power in count(1))), whole.trials]
    parts = [(name, rates(group, groups, patients)) for name, group in by_type(outcomes, groups).items() if name]
    lines = [_line(name, group, depths) for name, group in [*parts, ("all", whole)]]
    figures = [
        TableLine(
            name=f"{name}{k}", n=whole.tasks, value=values[k - 1], interval=(bounds[k - 1].low, bounds[k - 1].high)
        )
        for name, values, bounds, shown in (
            ("pass@", whole.at, whole.at_intervals, (1, *depths)),
            ("pass^", whole.hat, whole.hat_intervals, depths),
        )
        for k in shown
    ]
    title = counted(whole.trials, "trials")
    return [
        TableSection(title=title, lines=tuple(lines), name="task", figure="pass@1", count="tasks", detail=True),
        TableSection(
            title=f"{title}, all tasks",
            lines=tuple(figures),
            name="figure",
            figure="value",
            count="tasks",
            detail=True,
        ),
    ]


def flip_notes(outcomes: Mapping[str, Sequence[bool]]) -> list[str]:
    """The tasks that are right in some trials and wrong in others, with the share of right ones."""
    shares = reliability(outcomes)
    flips = [f"{task} {shares[task]:.0%}" for task in flipping(outcomes)]
    if not flips:
        return ["Every task ended alike in all its trials."]
    return [
        f"Right in some trials and wrong in others: {len(flips)} of {counted(len(shares), 'tasks')}: {named(flips)}"
    ]


def _line(name: str, group: Rates, depths: Sequence[int]) -> TableLine:
    at = {f"pass@{k}": group.at[k - 1] for k in depths}
    hat = {f"pass^{k}": group.hat[k - 1] for k in depths}
    return TableLine(name=name, n=group.tasks, value=group.pass1, more={"± SE": group.error, **at, **hat})
