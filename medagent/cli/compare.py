"""`medagent compare`: two runs, paired by task."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.cli import options


def command(
    a: Annotated[Path, typer.Argument(help="A run's folder or results file.")],
    b: Annotated[Path, typer.Argument(help="Another one over the same tasks.")],
    as_json: options.AsJson = False,
) -> None:
    """Compare two runs task by task: who flipped, and whether that is more than chance.

    Example: medagent compare results/v2_r1_gpt-4o-mini results/v2_r1_gpt-4o
    """
    import json
    from dataclasses import asdict

    from medagent.benchmarks.medagentbench.results.verdicts import check_same_tasks, read_verdicts
    from medagent.reports.compare import compare
    from medagent.reports.tables import percent, print_table

    check_same_tasks(a, b)
    verdicts = [
        {item.task_id: item.correct for item in read_verdicts(path).items if item.correct is not None}
        for path in (a, b)
    ]
    found = compare(verdicts[0], verdicts[1])
    if as_json:
        print(json.dumps(asdict(found), indent=1))
        return
    rows = [
        ["both right", str(len(found.both_right))],
        ["both wrong", str(len(found.both_wrong))],
        ["only A right", str(len(found.lost))],
        ["only B right", str(len(found.gained))],
        [],
        ["compared", str(found.tasks)],
    ]
    print(f"A: {a}\nB: {b}")
    print_table("", ["tasks", "count"], rows)
    low, high = found.interval.low, found.interval.high
    print(
        f"B − A: {percent(found.difference)} (95 % {percent(low)} to {percent(high)}); McNemar exact p = {found.p:.4g}"
    )
    for name, ids in (("Only A right", found.lost), ("Only B right", found.gained)):
        if ids:
            print(f"{name}: {', '.join(ids)}")
