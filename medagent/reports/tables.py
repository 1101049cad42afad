"""One way to print a table: rich's in a terminal, the same without colours in a file or a pipe."""

from __future__ import annotations

from collections.abc import Iterable, Sequence


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to standard output. The first column is text, the others are figures; the last row set off by
    an empty one stands below a line.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=160, no_color=True)
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, title_style="bold")
    for number, column in enumerate(columns):
        table.add_column(column, justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        if row:
            table.add_row(*row)
        else:
            table.add_section()
    console.print(table)


def percent(share: float | None) -> str:
    """A share as `91.7 %`; `–` where there is none."""
    return "–" if share is None else f"{share:.1%}".replace("%", " %")
