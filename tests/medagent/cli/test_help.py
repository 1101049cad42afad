"""The help of every command: an example, 80 columns, whole words."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from typing import Any

import pytest
import typer.main

from medagent.benchmarks.base import find, names
from medagent.cli.app import app
from medagent.core.options import options
from medagent.fhir_episodes.settings import FhirSettings
from medagent.judging.panel import PanelSettings
from tests.command import medagent


def paths(command: Any, path: tuple[str, ...] = ()) -> Iterator[tuple[str, ...]]:
    """The words of a command and of every command below it."""
    yield path
    for name in command.list_commands(None) if hasattr(command, "list_commands") else ():
        yield from paths(command.get_command(None, name), (*path, name))


PANEL = {option.written.split()[0] for option in options(PanelSettings)}
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
    lines = [line for line in ran.out.splitlines() if not line.startswith("For coding agents: ")]  # a path stays whole
    assert [line for line in lines if len(line) > 80] == []
    assert pieces(ran.out) - pieces(wide) == set()  # no word is broken, no sentence is cut


def test_the_commands_are_grouped_by_what_they_are_for() -> None:
    out = medagent("--help").out
    titles = [line for line in out.splitlines() if line.endswith(":") and not line.startswith((" ", "Usage"))]
    assert titles == ["Options:", "Run and read:", "Data:", "Serve:", "One benchmark:", "More:"]
    more = out.split("\nMore:\n")[1]
    assert [line.split()[0] for line in more.splitlines() if re.match("  [a-z]", line)] == [
        "judge",
        "power",
        "doctor",
        "docs",
    ]
    assert "harbor" not in out


def test_the_help_of_run_shows_frequent_options_first(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "80")
    brief, whole = medagent("run", "--help").out, medagent("run", "--help-all").out
    assert len(brief.splitlines()) <= 72
    assert brief.startswith("Usage: medagent run [BENCHMARK] [OPTIONS]\n")
    shown = re.findall(r"^  (?:-\w, )?(--[a-z-]+)", brief, re.MULTILINE)
    assert set(shown) == {
        *(
            "--model",
            "--agent",
            "--skill",
            "--base-url",
            "--protocol",
            "--dataset",
            "--types",
            "--version",
            "--ids",
            "--limit",
        ),
        *("--system", "--per-item", "--trials", "--name", "--max-cost", "--concurrency", "--ehr", "--fhir", "--writes"),
        *("--config", "--report", "--quiet", "--json", "--full", "--help-all", "--help"),
    }
    assert set(re.findall(r"--[a-z-]+", brief)) < set(re.findall(r"--[a-z-]+", whole))
    assert all(option in whole for option in ("--results-dir", "--code seconds", "--temperature"))


@pytest.mark.parametrize("name", [name for name in names() if name != "medagentbench"])
def test_the_help_of_a_benchmark_shows_its_own_options(name: str) -> None:
    brief = medagent("run", name, "--help").out
    assert brief.startswith(f"Usage: medagent run {name} [OPTIONS]\n")
    of_benchmark = {
        option.written.split()[0] for option in options(find(name).Settings, "run") if not option.option.hidden
    }
    shared = {option.written.split()[0] for option in options(FhirSettings, "run")}
    assert all(re.search(rf"{option}\b", brief) for option in of_benchmark - shared - PANEL)
    assert "--results-dir" not in brief
    whole = medagent("run", name, "--help-all").out
    assert "--results-dir" in whole
    assert f"[default: {os.sep}" not in " ".join(whole.split()), "no path of this machine"
