"""Prints tables with rich: with colours in a terminal, without them in a file or a pipe."""

from __future__ import annotations

import sys
from collections.abc import Iterable, Sequence

from medagent.core.scrub import printable
from medagent.engine.figures import figure, percent
from medagent.engine.grounded import GROUNDED
from medagent.engine.report import GroundedRate, Measure, Report, TableLine, TableSection

WIDTH = 160
"""The width of a table in a file or a pipe, in characters."""


def print_table(title: str, columns: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Print a table to standard output. The first column is text, the others are figures. An empty row before the last
    one becomes a line. Texts are shown without markup and control characters.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH, no_color=True)
    heading = Text(printable(title), "bold") if title else None
    table = Table(title=heading, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(columns):
        table.add_column(Text(printable(column)), justify="left" if number == 0 else "right", no_wrap=number == 0)
    for row in rows:
        if row:
            table.add_row(*(Text(printable(cell)) for cell in row))
        else:
            table.add_section()
    if console.is_terminal:
        console.print(table)
        return
    with console.capture() as plain:
        console.print(table)
    print("\n".join(line.rstrip() for line in plain.get().splitlines()))


def print_report(report: Report) -> None:
    """Print the tables of a report: the first one, and one for each further titled section."""
    for title, sections in _tables(report.table):
        print_table(title, *_cells(report, sections))


def print_section(report: Report, section: TableSection) -> None:
    """Print a section that is not in the report's table like one that is."""
    print_table(section.title, *_cells(report, [section]))


def _tables(sections: Sequence[TableSection]) -> list[tuple[str, list[TableSection]]]:
    tables: list[tuple[str, list[TableSection]]] = []
    for section in sections:
        if section.title or not tables:
            tables.append((section.title, []))
        tables[-1][1].append(section)
    return tables


def _cells(report: Report, sections: Sequence[TableSection]) -> tuple[list[str], list[list[str]]]:
    """The columns that the lines need, and their rows, an empty row between sections."""
    lines = [line for section in sections for line in section.lines]
    counts = list(dict.fromkeys(name for line in lines for name in line.counts))
    more = list(dict.fromkeys(name for line in lines for name in line.more))
    grounded = any(line.grounded is not None for line in lines)
    intervals = any(line.interval for line in lines)
    valued = any(line.value is not None for line in lines)
    head = sections[0]
    columns = [
        head.name or "group",
        *counts,
        head.count or report.count,
        *([head.figure or report.figure] if valued else []),
        *(["95 %"] if intervals else []),
        *more,
        *([GROUNDED] if grounded else []),
    ]
    rows: list[list[str]] = []
    for section in sections:
        for line in section.lines:
            row = _row(line, report.measure, counts, more, intervals, valued)
            rows.append([*row, *([grounded_words(line.grounded)] if grounded else [])])
        rows.append([])
    return columns, rows[:-1]


def _row(
    line: TableLine, measure: Measure, counts: Sequence[str], more: Sequence[str], intervals: bool, valued: bool
) -> list[str]:
    interval = "–"
    if line.interval is not None:
        interval = f"{figure(line.interval[0], measure)} to {figure(line.interval[1], measure)}"
    cells = [line.name, *(str(line.counts.get(name, "")) for name in counts), str(line.n)]
    cells += [figure(line.value, measure)] if valued else []
    cells += [interval] if intervals else []
    return cells + [_further(line, name, measure) for name in more]


def grounded_words(rate: GroundedRate | None) -> str:
    """The number of grounded items, of how many, and the 95 % interval; otherwise why it is unknown."""
    if rate is None or rate.interval is None:
        return rate.note if rate else ""
    low, high = rate.interval
    return f"{rate.right} of {rate.n}, {percent(low)} to {percent(high)}"


def _further(line: TableLine, name: str, measure: Measure) -> str:
    if name not in line.more:
        return ""
    value = line.more[name]
    return str(value) if isinstance(value, int) else figure(value, measure)


def named(names: Sequence[str], longest: int = 20) -> str:
    """Names for a sentence: the first ones, and the number of the others."""
    more = f" and {len(names) - longest} more" if len(names) > longest else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:longest]) + more


def say(text: str) -> None:
    """Print a note to standard error."""
    print(printable(text), file=sys.stderr, flush=True)


def put(text: str) -> None:
    """Print a text to standard output, without control characters."""
    print(printable(text), flush=True)
