"""`medagent show`: a run's summary, or one item with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.terminal import options


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    item: Annotated[str | None, typer.Argument(metavar="[ID]", help="An item's id, or id#trial.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="List the items that are wrong, with the reasons.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="List the items that failed like this, e.g. order-missing; lucky: right, but not read; repeatable.",
        ),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="List the items of this task type or group; repeatable."),
    ] = None,
    benchmark: options.BenchmarkCode = None,
    finish_reason: Annotated[
        list[str] | None,
        typer.Option(metavar="REASON", help="List the items with a reply that ended so, e.g. length; repeatable."),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Of an item, the whole prompt and the JSON of Bundles.")] = False,
) -> None:
    """Show a run's summary, also of one that is going on, or one item: what was said, the verdict and the reasons.

    --wrong, --kind, --type and --finish-reason list items instead, a line each.

    Example: medagent show results/v2_r2_reference task5_7
    """
    import medagent._api as api
    from medagent.core.errors import UserError
    from medagent.reports.show import ItemFilter, list_items, show_item, show_run

    loaded = api.load_run(run, benchmark=benchmark)
    chosen = ItemFilter(wrong, kind or (), type_ or (), finish_reason or ())
    if item is not None and not chosen.all:
        raise UserError("an item is shown whole; --wrong, --kind, --type and --finish-reason list items: leave one out")
    if item is not None:
        show_item(loaded.item(item), full=full)
    elif chosen.all:
        show_run(loaded.report)
    else:
        list_items(loaded.report, chosen)
