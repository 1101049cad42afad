"""`medagent power`: the smallest difference between two runs that is more than chance."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.terminal import options


def command(
    items: Annotated[
        str, typer.Argument(metavar="N|RUN", help="Number of items in each run, or a run's folder with these items.")
    ],
    discordant: Annotated[
        float | None, typer.Option(help="Share of items on which the two runs differ (default: 0.2).")
    ] = None,
    patients: Annotated[
        int | None,
        typer.Option(min=1, help="Number of patients of the items (default: one item a patient)."),
    ] = None,
    benchmark: options.BenchmarkCode = None,
) -> None:
    """Before a run: print the smallest difference between two runs that is more than chance.

    Example: medagent power 300 --patients 90

    Example: medagent power results/v2_r1_gpt-4o-mini
    """
    from medagent.core.errors import UserError
    from medagent.reports.power import print_power, sizes_of

    if not items.isdigit():
        from medagent._finished import checked_report

        if patients is not None:
            raise UserError("--patients is for a number of items; a run's items state their patients")
        report = checked_report(Path(items), benchmark, {})
        print_power(sizes_of(report), discordant, patients=report.patients)
        return
    n = int(items)
    if patients is not None and patients > n:
        raise UserError(f"--patients {patients}: more patients than items ({n})")
    of_each = [n / patients] * patients if patients else [1.0] * n
    print_power(of_each, discordant, assumed=patients is None)
