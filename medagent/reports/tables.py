"""A table, as a model that every view shows: a terminal, Markdown; and the tables of a report."""

from __future__ import annotations

import json
import re
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import inf
from operator import attrgetter

from medagent.core.number_formats import figure, spread
from medagent.core.scrub import json_text, markdown_text, one_line
from medagent.engine.report import GroundedRate, Measure, Report, TableLine, TableSection
from medagent.engine.scores import GROUNDED
from refsol.stats import Interval

DOING_NOTHING = "doing nothing"
"""The agent `nop` in words."""
WIDTH = 160
"""The width of a table in a file or a pipe, in characters."""
Cell = str | int | float | Interval | None
"""A text, a number of things, a figure, an interval of figures, or an unknown value."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table. The first column has names. `measure` is the format of figures and intervals. An empty row separates
    sections. `notes` are lines below it.
    """

    columns: Sequence[str]
    rows: Sequence[Sequence[Cell]]
    title: str = ""
    measure: Measure = "percent"
    notes: Sequence[str] = ()

    @property
    def texts(self) -> list[list[str]]:
        """The rows as texts."""
        return [[_text(cell, self.measure) for cell in row] for row in self.rows]


def _text(cell: Cell, measure: Measure) -> str:
    if isinstance(cell, Interval):
        return bounds(cell, measure)
    return str(cell) if isinstance(cell, str | int) else figure(cell, measure)


def bounds(interval: Interval, measure: Measure = "percent") -> str:
    """An interval as `3.1–7.9`."""
    return spread((interval.low, interval.high), measure)


def print_table(table: Table) -> None:
    """Print a table to standard output: with colours in a terminal, without them in a file or a pipe. Texts are shown
    without markup and control characters.
    """
    from rich import box
    from rich.console import Console
    from rich.table import Table as Drawn
    from rich.text import Text

    console = Console(highlight=False)
    if not console.is_terminal:
        console = Console(highlight=False, width=WIDTH, no_color=True)
    heading = Text(one_line(table.title), "bold") if table.title else None
    drawn = Drawn(title=heading, title_justify="left", box=box.SIMPLE_HEAD)
    for number, column in enumerate(table.columns):
        drawn.add_column(Text(one_line(column)), justify="right" if number else "left", no_wrap=not number)
    for row in table.texts:
        if row:
            drawn.add_row(*(Text(one_line(cell)) for cell in row))
        else:
            drawn.add_section()
    if console.is_terminal:
        console.print(drawn)
    else:
        with console.capture() as plain:
            console.print(drawn)
        print("\n".join(line.rstrip() for line in plain.get().splitlines()))
    for note in table.notes:
        put(note)


def markdown_table(table: Table) -> Iterator[str]:
    """The lines of a table in Markdown. Texts of runs and models cannot end a cell."""
    for row in (table.columns, ["---"] * len(table.columns), *table.texts):
        yield f"| {' | '.join(map(markdown_text, row))} |"


def report_tables(report: Report) -> list[Table]:
    """The tables of a report: the first one, and one for each further titled section."""
    groups: list[list[TableSection]] = []
    for section in report.table:
        if section.title or not groups:
            groups.append([])
        groups[-1].append(section)
    return [section_table(report, *group) for group in groups]


MOST_LINES = 20
"""A section with more lines is sorted by value, so that a reader finds the best and the worst of them."""


def sorted_lines(section: TableSection) -> Sequence[TableLine]:
    """The lines of a section: in the order of the benchmark, or the highest values first if there are many lines."""
    if len(section.lines) <= MOST_LINES:
        return section.lines
    return sorted(section.lines, key=lambda line: -inf if line.value is None else line.value, reverse=True)


def section_table(report: Report, head: TableSection, *more: TableSection) -> Table:
    """A section and the untitled ones that follow it, with the columns that their lines need."""
    sections = [section for section in (head, *more) if section.lines]
    lines = [line for section in sections for line in section.lines]
    names: Callable[[TableLine], Cell] = lambda line: line_words(report.named(line.name))  # noqa: E731  # as the others
    columns = [(head.name or "group", names)]
    columns += [
        (name, _member("counts", name)) for name in dict.fromkeys(name for line in lines for name in line.counts)
    ]
    columns.append((head.count or report.count, attrgetter("n")))
    if any(line.value is not None for line in lines):
        columns.append((head.figure or report.figure, attrgetter("value")))
    if any(line.interval for line in lines):
        columns.append(("95%", lambda line: Interval(*line.interval) if line.interval else None))
    further = dict.fromkeys(name for line in lines for name in line.more)
    columns += [(line_words(name), _member("more", name)) for name in further]
    if any(line.grounded is not None for line in lines):
        columns.append((GROUNDED, lambda line: grounded_words(line.grounded)))
    rows = [
        row
        for section in sections
        for row in ([], *([value(line) for _, value in columns] for line in sorted_lines(section)))
    ]
    return Table([name for name, _ in columns], rows[1:], head.title, report.measure)


def line_words(name: str) -> str:
    """The name of a line or a column for people: the agent `nop` is `doing nothing`."""
    return re.sub(r"\bnop\b", DOING_NOTHING, name)


def _member(field: str, name: str) -> Callable[[TableLine], Cell]:
    """The value of a further column; empty in lines that lack it."""
    return lambda line: getattr(line, field).get(name, "")


def grounded_words(rate: GroundedRate | None) -> str:
    """The number of grounded items, of how many, and the 95% interval; otherwise why it is unknown."""
    if rate is None or rate.interval is None:
        return rate.note if rate else ""
    return f"{rate.right} of {rate.n}, 95% {bounds(Interval(*rate.interval))}"


def named(names: Sequence[str], longest: int = 20) -> str:
    """Names for a sentence: the first ones, and the number of the others."""
    more = f" and {len(names) - longest} more" if len(names) > longest else ""
    return ", ".join(ascii(name)[1:-1] for name in names[:longest]) + more


def say(text: object) -> None:
    """Print a note to standard error, on one line without control characters."""
    print(one_line(str(text)), file=sys.stderr, flush=True)


def put(*lines: object) -> None:
    """Print lines to standard output, without control characters. A line break in a line is shown as a symbol."""
    for line in lines:
        print(one_line(str(line)), flush=True)


def put_json(value: object, *, indent: int | None = 2) -> None:
    """Print a value as JSON to standard output."""
    print(json_text(json.dumps(value, ensure_ascii=False, indent=indent)), flush=True)
