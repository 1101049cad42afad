"""`medagent docs`: the pages for those who have no repository."""

from __future__ import annotations

import tomllib

import pytest

from tests.command import medagent
from tests.shared_data import ROOT
from tools import doc_menu

PAGES = [page for pages in doc_menu.PARTS.values() for page in pages]


def test_the_list_has_the_folder_and_every_page() -> None:
    ran = medagent("docs")
    folder, *rows = ran.out.splitlines()
    assert (ran.code, ran.err, folder) == (0, "", str(ROOT / "docs"))
    assert {row.split()[0] for row in rows} == {page.removesuffix(".md") for page in PAGES} | {"skill"}
    assert all(len(row.split()) > 1 for row in rows)


@pytest.mark.parametrize("word", ["models", "models.md", "docs/models.md", "integrations/mcp", "README"])
def test_a_page_is_printed_as_markdown(word: str) -> None:
    path = ROOT / "docs" / f"{word.removeprefix('docs/').removesuffix('.md')}.md"
    assert medagent("docs", word).out == path.read_text(encoding="utf-8")


def test_every_page_is_printed_whole() -> None:
    changed = [
        page for page in PAGES if medagent("docs", page).out != (ROOT / "docs" / page).read_text(encoding="utf-8")
    ]
    assert changed == []


def test_the_skill() -> None:
    skill = (ROOT / "skills" / "medagent" / "SKILL.md").read_text(encoding="utf-8")
    assert medagent("docs", "skill").out == skill


@pytest.mark.parametrize(
    ("word", "hint"), [("modelss", " Did you mean 'models'?"), ("../README", ""), ("/etc/passwd", ""), ("", "")]
)
def test_an_unknown_page_is_one_line(word: str, hint: str) -> None:
    ran = medagent("docs", word)
    assert (ran.code, ran.out) == (1, "")
    assert len(ran.err.splitlines()) == 1
    assert "unknown page" in ran.err
    assert hint in ran.err
    assert "`medagent docs` lists the pages" in ran.err


def test_the_last_line_of_help_leads_agents_to_the_pages() -> None:
    assert medagent("--help").out.splitlines()[-1] == (
        f"For coding agents: run `medagent docs skill`. All pages are in {ROOT / 'docs'}"
    )


def test_the_wheel_contains_the_pages_inside_the_package() -> None:
    """`make release` builds the wheel, looks for every page in it, and prints one."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    wheel = project["tool"]["hatch"]["build"]["targets"]["wheel"]
    assert set(wheel["only-include"]) >= {"medagent", "docs", "skills"}
    assert wheel["sources"] == {"docs": "medagent/docs", "skills": "medagent/skills"}
