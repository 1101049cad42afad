"""The table of rates over trials, and the interval that knows about templates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import count, takewhile

from medagent.report.tables import percent, print_table
from refsol.trials import Rates, by_type, clustered, rates


def print_trials(outcomes: Mapping[str, Sequence[bool]]) -> None:
    """Print pass@1 with its error, and for several trials pass@k and pass^k, by type and overall.

    `k` doubles up to the number of trials, so that the table of many trials can still be read.
    """
    whole = rates(outcomes)
    if whole.trials > 1:
        _print_rates(outcomes, whole)
    if len(by_type(outcomes)) > 1:  # one type alone says nothing of how types differ
        interval = clustered(outcomes)
        print(f"95 % by bootstrap over task types: {percent(interval.low)} to {percent(interval.high)}")


def _print_rates(outcomes: Mapping[str, Sequence[bool]], whole: Rates) -> None:
    depths = [*takewhile(lambda k: k < whole.trials, (2**power for power in count(1))), whole.trials]
    columns = ["task", "tasks", "pass@1", "± SE", *(f"pass@{k}" for k in depths), *(f"pass^{k}" for k in depths)]
    groups = [(name, rates(group)) for name, group in by_type(outcomes).items()]
    print_table(
        f"{whole.trials} trials",
        columns,
        [*(_row(*g, depths) for g in groups), [], _row("all", whole, depths)],
    )


def _row(name: str, group: Rates, depths: Sequence[int]) -> list[str]:
    at = [percent(group.at[k - 1]) for k in depths]
    hat = [percent(group.hat[k - 1]) for k in depths]
    return [name, str(group.tasks), percent(group.pass1), percent(group.error), *at, *hat]
