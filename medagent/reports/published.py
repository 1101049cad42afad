"""Published figures for the same items, from a TOML file, for comparison with a run."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Sequence
from datetime import date
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from medagent.engine.report import PUBLISHED_FIGURES, TableLine, TableSection


class PublishedRate(BaseModel):
    """A model's rates, 0 to 1: over all items, and over named parts of them."""

    model_config = ConfigDict(frozen=True, extra="allow")
    __pydantic_extra__: dict[str, float]

    model: str
    overall: float


class PublishedSource(BaseModel):
    """Who reported the figures, on how many items (0: not stated), under which settings, when (year and month; empty:
    not stated), and when they were copied. `prompt` is what the prompt gave away. `group` names the items if they are
    not all; `version` is that of the tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    where: str
    url: str
    table: str
    settings: str
    reported: str = ""
    prompt: str = ""
    items: int = 0
    group: str = ""
    version: str = ""
    taken: date
    rates: tuple[PublishedRate, ...]


@cache
def published_sources(file: Path) -> tuple[PublishedSource, ...]:
    """All sources of a file."""
    listed = tomllib.loads(file.read_text(encoding="utf-8"))["source"]
    return tuple(PublishedSource.model_validate(source) for source in listed)


def published_sections(sources: Sequence[PublishedSource]) -> list[TableSection]:
    """A table of each source that states the number of its items."""
    return [
        TableSection(
            title=PUBLISHED_FIGURES,
            name=f"model ({source.group})" if source.group else "model",
            figure="overall",
            count="tasks",
            detail=True,
            lines=tuple(
                TableLine(name=rate.model, n=source.items, value=rate.overall, more=dict(rate.__pydantic_extra__))
                for rate in source.rates
            ),
        )
        for source in sources
        if source.items
    ]


def published_notes(sources: Sequence[PublishedSource]) -> list[str]:
    """The sources of the figures of `published_sections`."""
    return [*_newest(sources), *map(_note, sources)]


def _newest(sources: Sequence[PublishedSource]) -> Iterator[str]:
    """From when the newest figure is."""
    if newest := max((source.reported for source in sources), default=""):
        yield f"{PUBLISHED_FIGURES}: the newest is from {newest}."


def _note(source: PublishedSource) -> str:
    reported = f", reported {source.reported}" if source.reported else ""
    prompt = f"; prompt: {source.prompt}" if source.prompt else ""
    rates = ", ".join(f"{rate.model} {rate.overall:.1%}" for rate in source.rates)
    without_table = "" if source.items else f"; {rates}, number of items not stated"
    return (
        f"{PUBLISHED_FIGURES}: {source.title}. {source.where}; {source.table}{without_table}; {source.settings}"
        f"{prompt}; {source.url}{reported}, taken {source.taken}"
    )
