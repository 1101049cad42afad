"""Published figures for the same items, from a TOML file, for comparison with a run."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
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
    """Who reported the figures, on how many items, under which settings, and when they were copied. `group` names the
    items if they are not all; `version` is that of the tasks.
    """

    model_config = ConfigDict(frozen=True, extra="forbid")

    title: str
    where: str
    url: str
    table: str
    settings: str
    items: int
    group: str = ""
    version: str = ""
    taken: date
    rates: tuple[PublishedRate, ...]


@cache
def published_sources(file: Path) -> tuple[PublishedSource, ...]:
    """All sources of a file."""
    listed = tomllib.loads(file.read_text(encoding="utf-8"))["source"]
    return tuple(PublishedSource.model_validate(one) for one in listed)


def published_sections(sources: Sequence[PublishedSource]) -> list[TableSection]:
    """A table of each source."""
    return [
        TableSection(
            title=PUBLISHED_FIGURES,
            name=f"model ({source.group})" if source.group else "model",
            figure="overall",
            count="tasks",
            detail=True,
            lines=tuple(
                TableLine(name=one.model, n=source.items, value=one.overall, more=dict(one.__pydantic_extra__))
                for one in source.rates
            ),
        )
        for source in sources
    ]


def published_notes(sources: Sequence[PublishedSource]) -> list[str]:
    """The sources of the figures of `published_sections`."""
    return [
        f"{PUBLISHED_FIGURES}: {one.title}. {one.where}; {one.table}; {one.settings}; {one.url}, taken {one.taken}"
        for one in sources
    ]
