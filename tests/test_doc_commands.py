"""The commands of the documentation: each is one that there is, and those that need nothing are run."""

from __future__ import annotations

import os
import re
import shlex
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import typer.main

from medagent.cli.app import app, spelled
from tests.shared_data import ROOT
from tools import checked_table, doc_commands, tutorial

PAGES = [path for path in (*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))) if path.is_file()]
FAILING = ("--types task11", "--round part --agent reference --writes execute")
"""Commands that are shown for the error that they end with."""
ROOT_COMMAND: Any = typer.main.get_command(app)
TAIL = re.compile(r" (?:[|<>&].*|&)$")


def shown(page: Path) -> list[str]:
    """The commands of a page, in order."""
    fences = doc_commands.FENCED.findall(page.read_text(encoding="utf-8"))
    return [command for fence in fences for command in doc_commands.commands(fence)]


ALL = [pytest.param(path, command, id=f"{path.name}: {command}") for path in PAGES for command in shown(path)]


def test_the_pages_have_commands() -> None:
    assert len(ALL) > 130
    assert doc_commands.needs("medagent run --model gpt-4o-mini") == ["a model: a key, or your own endpoint"]
    assert doc_commands.needs("medagent run --agent reference") == []


def test_every_medagent_command_is_one_that_there_is() -> None:
    wrong = []
    for case in ALL:
        path, command = case.values
        words = shlex.split(TAIL.sub("", str(command)))
        if (
            words[0] == "medagent"
            and not any(".py:" in word or word.endswith(".py") for word in words[:5])
            and words[1:3] != ["run", "sums"]
        ):
            try:
                parsed(spelled(words[1:]))
            except Exception as error:
                wrong.append(f"{path}: {command}: {error!r}")
    assert not wrong


def parsed(words: list[str]) -> None:
    """Read a command line down to its last command, and run nothing. Raises what an option that is off raises."""
    command = ROOT_COMMAND
    context = command.make_context("medagent", list(words))
    while hasattr(command, "resolve_command"):
        left = [*context._protected_args, *context.args]
        name, command, left = command.resolve_command(context, left)
        context = command.make_context(name, left, parent=context)


def test_what_the_checked_page_counts() -> None:
    page = checked_table.PAGE.read_text(encoding="utf-8")
    assert checked_table.written(page) == page, "run: python tools/checked_table.py"


@pytest.mark.parametrize("sections", [1, pytest.param(None, marks=pytest.mark.long)])
def test_the_tutorial_prints_what_it_says(sections: int | None, tmp_path: Path) -> None:
    page = tutorial.PAGE.read_text(encoding="utf-8")
    assert tutorial.written(page, tmp_path, sections) == page, "run: python tools/tutorial.py"


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_commands_that_need_nothing_run(page: Path, tmp_path: Path) -> None:
    runnable = [command for command in shown(page) if not doc_commands.needs(command)]
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    for agent in ("reference", "nop") if any("results/v2_r2_" in command for command in runnable) else ():
        runnable.insert(0, f"medagent run --version v2 --round r2 --agent {agent} --quiet")
    for command in runnable:
        done = subprocess.run(["bash", "-c", command], cwd=tmp_path, env=environment, capture_output=True, text=True)
        expected = any(text in command for text in FAILING)
        assert (done.returncode != 0) == expected, f"{command}\n{done.stdout}{done.stderr}"
