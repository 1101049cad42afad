"""`medagent show`: a summary of a run, or one item with its verdict."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from medagent.terminal import options


def command(
    run: Annotated[Path, typer.Argument(help="A run's folder.")],
    item: Annotated[str | None, typer.Argument(metavar="[ID]", help="An item's id, or id#trial.")] = None,
    wrong: Annotated[bool, typer.Option("--wrong", help="List the wrong items, with the reasons.")] = False,
    kind: Annotated[
        list[str] | None,
        typer.Option(
            metavar="KIND",
            help="List the items with this kind of failure, e.g. order-missing, or lucky (right without reading); "
            "repeatable.",
        ),
    ] = None,
    type_: Annotated[
        list[str] | None,
        typer.Option("--type", metavar="TYPE", help="List the items of this type or group; repeatable."),
    ] = None,
    benchmark: options.BenchmarkCode = None,
    finish_reason: Annotated[
        list[str] | None,
        typer.Option(
            metavar="REASON", help="List the items with a reply of this finish reason, e.g. length; repeatable."
        ),
    ] = None,
    full: Annotated[bool, typer.Option("--full", help="Show an item's whole prompt and the JSON of Bundles.")] = False,
) -> None:
    """Show a summary of a run, finished or not, or one item: its messages, the verdict and the reasons.

    With --wrong, --kind, --type or --finish-reason, list the matching items, one line each.

    Example: medagent show results/v2_r2_reference task5_7
    """
    import medagent._api as api
    from medagent.core.errors import UserError
    from medagent.reports.show import list_items, show_item, show_run

    loaded = api.load_run(run, benchmark=benchmark)
    filtered = wrong or kind or type_ or finish_reason
    if item is not None and filtered:
        raise UserError("pass an item's id, or --wrong, --kind, --type, --finish-reason to list items; not both")
    if item is not None:
        show_item(loaded.item(item), full=full)
    elif filtered:
        list_items(loaded.report, wrong=wrong, kinds=kind or (), groups=type_ or (), finish_reasons=finish_reason or ())
    else:
        show_run(loaded.report)
