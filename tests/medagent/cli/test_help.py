"""The help of every command: an example, 80 columns, whole words."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from medagent.cli.app import app
from tests.command import medagent


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command and of every command below it."""
    yield path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from paths(command.get_command(None, name), (*path, name))


ALL = list(paths(typer.main.get_command(app)))


def pieces(text: str) -> set[str]:
    """The words of a text, and the parts of words with hyphens, where a line may end."""
    return {piece for word in text.split() for piece in re.split(r"(?<=-)", word) if piece}


@pytest.mark.parametrize("path", ALL, ids=" ".join)
def test_help_has_an_example_and_fits_80_columns(path: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "1000")
    wide = medagent(*path, "--help").out
    monkeypatch.setenv("COLUMNS", "80")
    ran = medagent(*path, "--help")
    assert (ran.code, ran.err) == (0, "")
    assert ran.out.startswith("Usage: medagent ")
    assert "Example: " in ran.out
    assert [line for line in ran.out.splitlines() if len(line) > 80] == []
    assert pieces(ran.out) - pieces(wide) == set()  # no word is broken, no sentence is cut
