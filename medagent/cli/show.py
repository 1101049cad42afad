"""`medagent show`: a run's summary, or one item with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    item: Annotated[str | None, typer.Argument(metavar="[ID]", help="An item's id, or id#trial.")] = None,
) -> None:
    """Show a run's summary, also of one that is going on, or one item: what was said, the verdict and the reasons.

    Example: medagent show results/v2_r2_reference task5_7
    """
    import medagent.api as api
    from medagent.reports.show import show_item, show_run

    found = api.load_run(run)
    if item is None:
        show_run(found.report)
    else:
        show_item(found.item(item))
