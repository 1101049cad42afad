"""Markdown tables with escaped cells, since these contain texts of runs and models."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from medagent.core.scrub import printable


def row(texts: Sequence[str]) -> str:
    """A line of a table."""
    return f"| {' | '.join(cell(text) for text in texts)} |"


def table(columns: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """The lines of a table."""
    yield row(columns)
    yield row(["---"] * len(columns))
    yield from map(row, rows)


def cell(text: str) -> str:
    """An escaped text, which cannot change the table around it."""
    return printable(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
