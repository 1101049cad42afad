"""The table of rates over trials, and the interval that knows about templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from medagent.report.tables import percent, print_table
from medagent.report.trials import Rates, by_type, clustered, rates


def print_trials(outcomes: Mapping[str, Sequence[bool]]) -> None:
    """Print pass@1 with its error, and for several trials pass@k and pass^k, by type and overall."""
    whole = rates(outcomes)
    interval = clustered(outcomes)
    note = f"95 % by bootstrap over task types: {percent(interval.low)} to {percent(interval.high)}"
    if whole.trials == 1:
        print(note)
        return
    depths = range(2, whole.trials + 1)
    columns = ["task", "tasks", "pass@1", "± SE", *(f"pass@{k}" for k in depths), *(f"pass^{k}" for k in depths)]
    groups = [(name, rates(group)) for name, group in by_type(outcomes).items()]
    print_table(
        f"{whole.trials} trials",
        columns,
        [*(_row(*g, whole.trials) for g in groups), [], _row("all", whole, whole.trials)],
    )
    print(note)


def _row(name: str, group: Rates, depth: int) -> list[str]:
    at = [percent(value) for value in group.at[1:depth]]
    hat = [percent(value) for value in group.hat[1:depth]]
    return [name, str(group.tasks), percent(group.pass1), percent(group.error), *at, *hat]
