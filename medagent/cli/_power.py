"""`medagent power`: the smallest difference between two runs that is more than chance."""

from __future__ import annotations

from typing import Annotated

import typer


def command(
    items: Annotated[int, typer.Argument(help="Number of items in each run.")],
    discordant: Annotated[
        float | None, typer.Option(help="Share of items on which the two runs differ (default: 0.2).")
    ] = None,
) -> None:
    """Before a run: print the smallest difference between two runs that is more than chance.

    Example: medagent power 300
    """
    from medagent.reports.power import print_power

    print_power(items, discordant)
