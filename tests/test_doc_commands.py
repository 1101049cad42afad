"""The commands of the documentation: each is one that exists, and prints what its page shows."""

from __future__ import annotations

import re
import shlex
from pathlib import Path
from typing import Any

import pytest
import typer.main

from medagent.cli.app import app, spelled
from tests.shared_data import ROOT
from tools import checked_table, doc_pages

PAGES = doc_pages.pages()
ROOT_COMMAND: Any = typer.main.get_command(app)
TAIL = re.compile(r" (?:[|<>&].*|&)$")
ALL = [
    pytest.param(path, command, id=f"{path.name}: {command}")
    for path in PAGES
    for command in doc_pages.commands(path.read_text(encoding="utf-8"))
]


def test_the_pages_have_commands() -> None:
    assert len(ALL) > 130


@pytest.mark.parametrize(
    ("shown", "printed", "same"),
    [
        (["3 of 30"], ["3 of 30"], True),
        (["3 of 30"], ["4 of 30"], False),
        (["a", "…", "z"], ["a", "b", "c", "z"], True),
        (["a", "…"], ["b"], False),
        (["done in 3.1 s, 0.2 MB"], ["done in 12 s, 1.5 MB"], True),
        (["digest 614c03adc8d7 at 2026-11-26T04:07:05"], ["digest 99f0af0c1de2 at 2027-01-01T00:00:00"], True),
        (["rate 16.7%"], ["rate 16.8%"], False),
    ],
)
def test_outputs_are_compared_apart_from_what_varies(shown: list[str], printed: list[str], same: bool) -> None:
    assert doc_pages.same(shown, printed) == same


def test_a_page_is_played(tmp_path: Path) -> None:
    page = (
        "Save this as `two.py`:\n\n```python\nprint(2)\n```\n\n"
        "```console\n$ python two.py\n3\n$ python \\\n  two.py\n2\n```\n\n```sh\npython missing.py\ndocker ps\n```\n"
    )
    outcome = doc_pages.play(page, tmp_path)
    assert outcome.text == page.replace("two.py\n3\n", "two.py\n2\n").replace("python \\\n  two.py", "python two.py")
    assert [problem.splitlines()[0] for problem in outcome.problems] == ["$ python two.py", "$ python missing.py"]
    assert outcome.skipped == ["docker ps: needs Docker"]


def test_every_medagent_command_is_one_that_there_is() -> None:
    wrong = []
    for case in ALL:
        path, command = case.values
        words = shlex.split(TAIL.sub("", str(command).removeprefix(".venv/bin/")))
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


@pytest.mark.long
def test_the_tutorial_prints_what_it_says(tmp_path: Path) -> None:
    played(ROOT / "docs" / "tutorial.md", tmp_path, sections=1)


@pytest.mark.long
@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_commands_of_a_page_print_what_it_shows(page: Path, tmp_path: Path) -> None:
    played(page, tmp_path)


def played(page: Path, folder: Path, sections: int | None = None) -> None:
    """Play a page, and assert that its commands print what it shows."""
    try:
        outcome = doc_pages.play(page.read_text(encoding="utf-8"), folder, sections)
    except doc_pages.Missing as missing:
        pytest.skip(str(missing))
    assert not outcome.problems, "\n\n".join(
        [*outcome.problems, f"If the new output is right, run: python -m tools.doc_pages {page.relative_to(ROOT)}"]
    )
