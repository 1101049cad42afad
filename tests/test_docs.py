"""The documentation holds: its programs print what it says, its links lead somewhere, its lists are complete."""

from __future__ import annotations

import re
import runpy
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path

import pytest
import typer.main

from medagent.cli.app import app
from medagent.medagentbench.episode import EpisodeRow
from medagent.results.write import result_item
from medagent.run.rows import Spent
from medagent.session import Turn, Write
from medagent.tasks.dataset import Task
from tests.shared_data import ROOT

DOCS = ROOT / "docs"
PAGES = sorted([*ROOT.glob("*.md"), *DOCS.glob("*.md")])
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
LINK = re.compile(r"\[[^\]]+\]\(([^)\s]+)\)")


def fences(text: str) -> list[tuple[str, str]]:
    """The fenced blocks of a page, each with its language."""
    return [(match[1], match[2]) for match in FENCE.finditer(text)]


def programs(page: str) -> Iterator[tuple[str, str]]:
    """The Python programs of a page, each with what it is said to print: the text block that follows it."""
    blocks = fences((DOCS / page).read_text(encoding="utf-8"))
    for (language, program), (next_language, printed) in pairwise(blocks):
        if language == "python":
            assert next_language == "text", f"{page}: a program without its output"
            yield program, printed


CASES = [
    pytest.param(program, printed, id=f"{page}-{number}")
    for page in ("agents.md", "benchmarks.md")
    for number, (program, printed) in enumerate(programs(page), 1)
]


def test_pages_have_their_programs() -> None:
    assert [case.id for case in CASES] == ["agents.md-1", "agents.md-2", "agents.md-3", "benchmarks.md-1"]


@pytest.mark.parametrize(("program", "printed"), CASES)
def test_program_prints_what_the_page_says(
    program: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [line for line in lines if not line.startswith("building the hospital")] == printed.splitlines()


def anchors(page: Path) -> set[str]:
    """The places in a page that a link can name, as GitHub makes them from its headings."""
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    headings = re.findall(r"^#+ (.+)$", prose, re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in headings}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    prose = FENCE.sub("", page.read_text(encoding="utf-8"))
    for link in LINK.findall(prose):
        if "://" in link:
            continue
        path, _, anchor = link.partition("#")
        target = page.parent / path if path else page
        assert target.exists(), f"{page.name} links to {link}"
        if anchor:
            assert anchor in anchors(target), f"{page.name} links to {link}"


def test_index_lists_every_page() -> None:
    index = (DOCS / "README.md").read_text(encoding="utf-8")
    missing = [page.name for page in DOCS.glob("*.md") if page.name != "README.md" and f"({page.name})" not in index]
    assert missing == []


def test_running_names_every_option_of_run() -> None:
    run = typer.main.get_command(app).commands["run"]
    options = {option for parameter in run.params if not parameter.hidden for option in parameter.opts}
    named = set(OPTION.findall((DOCS / "running.md").read_text(encoding="utf-8")))
    assert {option for option in options if option.startswith("--")} - named == set()


@pytest.mark.parametrize("page", ["running.md", "results-file.md", "agents.md"])
def test_pages_name_only_options_that_exist(page: str) -> None:
    commands = typer.main.get_command(app).commands.values()
    known = {"--help"}.union(*(_options(command) for command in commands))
    assert set(OPTION.findall((DOCS / page).read_text(encoding="utf-8"))) - known == set()


def _options(command: typer.core.TyperCommand) -> Iterator[str]:
    for parameter in command.params:
        yield from parameter.opts
    for inner in getattr(command, "commands", {}).values():
        yield from _options(inner)


def test_results_file_page_names_every_field() -> None:
    text = (DOCS / "results-file.md").read_text(encoding="utf-8")
    row = EpisodeRow(unit="task1_1#1", status="completed", task_id="task1_1")
    item = result_item(row, Task(id="task1_1", instruction=""))
    fields = {*EpisodeRow.model_fields, *Spent.model_fields, *Turn.__slots__, *Write.__slots__, *item}
    assert [field for field in sorted(fields) if f"`{field}`" not in text] == []
