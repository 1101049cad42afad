"""Markdown tables with texts of runs and models in their cells."""

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
    """A text without characters that would end a cell."""
    return printable(" ".join(text.split())).replace("|", "\\|").replace("<", "&lt;").replace("`", "'")
