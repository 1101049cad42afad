"""The addresses and licences of the benchmarks' data sets, from `data_sources.toml`. Nothing is downloaded."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from medagent.core.errors import UserError


class DataSource(BaseModel):
    """A file, or several files at one address. `bytes` and `sha256` are known only if the authors had the file."""

    model_config = ConfigDict(frozen=True, extra="forbid")

    set: str
    file: str
    url: str
    licence: str
    use: str
    """The command that uses the file."""
    bytes: int | None = None
    sha256: str = ""


@cache
def _all() -> tuple[DataSource, ...]:
    text = Path(__file__).with_name("data_sources.toml").read_text(encoding="utf-8")
    return tuple(DataSource.model_validate(entry) for entry in tomllib.loads(text)["file"])


def data_sources(name: str | None = None) -> Sequence[DataSource]:
    """The files of a data set, or of all data sets. Raises UserError if the name is unknown."""
    sources = [source for source in _all() if name in (None, source.set)]
    if not sources:
        known = ", ".join(dict.fromkeys(source.set for source in _all()))
        raise UserError(f"unknown data set {name!r}; known: {known}")
    return sources
