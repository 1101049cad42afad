"""The documentation holds: programs print what it says, links lead somewhere, lists are whole, arrows run one way."""

from __future__ import annotations

import ast
import json
import re
import runpy
import sys
import tomllib
from collections.abc import Iterator
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
import typer.main
import yaml

import medagent
import medagent.blocks
import medagent.clinical
import medagent.engine
import medagent.fhir
import medagent.judging
import medagent.rl
import medagent.testing
from medagent.benchmarks.base import names
from medagent.benchmarks.medagentbench.results.files import result_item
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.cli.app import app
from medagent.engine.report import Report
from medagent.engine.rows import Spent
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.session import Turn, Write
from tests.command import medagent as medagent_command
from tests.shared_data import ROOT
from tools import doc_menu, doc_pages, extension_points, index_readme, option_tables

DOCS = ROOT / "docs"
PAGES = doc_pages.pages()
FENCE = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
OPTION = re.compile(r"(?<![\w-])--[a-z][a-z-]+")
PROGRAM_PAGES = ("agents.md", "benchmarks.md", "clinical.md", "judging.md", "models.md")
LONGEST = {
    "agents.md-1": 30,
    "agents.md-2": 16,
    "agents.md-3": 20,
    "agents.md-4": 30,
    "agents.md-5": 30,
    "agents.md-6": 30,
    "agents.md-7": 20,
    "benchmarks.md-1": 60,
    "benchmarks.md-2": 80,
    "judging.md-1": 60,
    "models.md-1": 30,
}
"""Lines that a program may have: of an agent or a model the class's file, without the lines that run it."""
PUBLIC = {
    "medagent": medagent.__all__,
    "medagent.judging": medagent.judging.__all__,
    "medagent.integrations.inspect.tools": ("fhir_tools", "finish"),  # needs the extra inspect
    "medagent.benchmarks.medagentbench.settings": ("MedAgentBenchSettings",),
    "medagent.blocks": medagent.blocks.__all__,
    "medagent.clinical": medagent.clinical.__all__,
    "medagent.engine": medagent.engine.__all__,
    "medagent.fhir": medagent.fhir.__all__,
    "medagent.rl": medagent.rl.__all__,
    "medagent.testing": medagent.testing.__all__,
}
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
    for page in PROGRAM_PAGES
    for number, (program, printed) in enumerate(programs(page), 1)
]


def test_the_page_of_extension_points_is_the_docstrings() -> None:
    written = extension_points.PAGE.read_text(encoding="utf-8")
    assert written == extension_points.page(), "run: python -m tools.extension_points"


def test_inspect_s_page_lists_every_benchmark() -> None:
    page = (ROOT / "docs" / "integrations" / "inspect.md").read_text(encoding="utf-8")
    assert [name for name in names() if f"`medagent/{name}`" not in page] == []


@pytest.mark.parametrize("peer", ["langgraph", "openai-agents", "pydantic-ai", "smolagents"])
def test_the_page_names_the_packages_of_each_own_loop_example(peer: str) -> None:
    page = (ROOT / "docs" / "agents.md").read_text(encoding="utf-8")
    recipe = tomllib.loads((ROOT / "tests" / "integrations" / peer / "peer.toml").read_text(encoding="utf-8"))
    packages = [re.split("[<>=]", package)[0] for package in recipe["packages"]]
    assert [package for package in packages if f"`{package}`" not in page] == []


def test_pages_have_their_programs() -> None:
    assert [case.id for case in CASES] == [
        "agents.md-1",
        "agents.md-2",
        "agents.md-3",
        "agents.md-4",
        "agents.md-5",
        "agents.md-6",
        "agents.md-7",
        "benchmarks.md-1",
        "benchmarks.md-2",
        "clinical.md-1",
        "clinical.md-2",
        "judging.md-1",
        "models.md-1",
    ]


@pytest.mark.parametrize(("program", "printed"), CASES)
def test_program_prints_what_the_page_says(
    program: str, printed: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    script = tmp_path / "program.py"
    script.write_text(program, encoding="utf-8")
    runpy.run_path(str(script), run_name="__main__")
    lines = capsys.readouterr().out.splitlines()
    assert [
        line for line in lines if not line.startswith(("building the hospital", "importing"))
    ] == printed.splitlines()


@pytest.mark.parametrize(("case", "longest"), LONGEST.items())
def test_programs_are_short(case: str, longest: int) -> None:
    program = next(str(example.values[0]) for example in CASES if example.id == case)
    assert len(program.partition("\n\n\nif __name__")[0].splitlines()) <= longest


def test_agent_of_the_page_runs_from_the_command_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    program = next(str(example.values[0]) for example in CASES if example.id == "agents.md-2")
    Path("age_agent.py").write_text(program, encoding="utf-8")
    command = "run --agent age_agent.py:AgeAgent --types task2 --round cli"
    assert f"$ medagent {command}\n" in (DOCS / "agents.md").read_text(encoding="utf-8")
    ran = medagent_command(*command.split(), "--json", "--quiet")
    assert (ran.code, json.loads(ran.out)["overall"]["counts"]) == (0, {"right": 30})


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_pages_import_the_public_api_alone(page: Path) -> None:
    for language, program in fences(page.read_text(encoding="utf-8")):
        if language != "python":
            continue
        for node in ast.walk(ast.parse(program)):
            if isinstance(node, ast.Import):
                assert [name.name for name in node.names if name.name.startswith("medagent.")] == []
            elif isinstance(node, ast.ImportFrom) and str(node.module).startswith("medagent"):
                assert node.module in PUBLIC
                names = {name.name for name in node.names if f"{node.module}.{name.name}" not in PUBLIC}
                assert names <= set(PUBLIC[node.module])
            elif isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id == "medagent":
                assert node.attr in medagent.__all__


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


def test_the_benchmarks_pages_have_the_same_headings_in_the_same_order() -> None:
    headings = {}
    for name in ("medagentbench", "psb-300", "fhir-agentbench", "promptcblue", "simpleqa", "imapscore"):
        prose = FENCE.sub("", (DOCS / f"{name}.md").read_text(encoding="utf-8"))
        headings[name] = re.findall(r"^## (.+)$", prose, re.MULTILINE)
    assert len(headings["medagentbench"]) == 9
    assert len({tuple(found) for found in headings.values()}) == 1, headings


def test_every_option_that_a_benchmark_has_not_has_a_reason() -> None:
    rows = [row.strip("| ").split(" | ") for row in option_tables.matrix().splitlines()]
    assert {len(row) for row in rows if not row[0].startswith("---")} == {7}
    assert all(cell.strip() for row in rows for cell in row)


def subcommands(command: Any) -> dict[str, Any]:
    if not hasattr(command, "list_commands"):
        return {}
    return {name: command.get_command(None, name) for name in command.list_commands(None)}


def own_options(command: Any) -> set[str]:
    """The long options of a command, hidden ones apart."""
    return {name for option in command.params if not option.hidden for name in option.opts if name.startswith("--")}


def all_options(command: Any) -> set[str]:
    """The long options of a command and of its subcommands."""
    return own_options(command).union(*(all_options(inner) for inner in subcommands(command).values()))


def named_options(page: str) -> set[str]:
    return set(OPTION.findall((DOCS / page).read_text(encoding="utf-8")))


@pytest.mark.parametrize("page", ["running.md", "read-results.md", "results-file.md", "agents.md"])
def test_pages_name_only_options_that_exist(page: str) -> None:
    known = all_options(typer.main.get_command(app)) | {"--help"}
    assert named_options(page) - known == set()


def test_every_option_is_in_the_reference() -> None:
    run = subcommands(subcommands(typer.main.get_command(app))["run"])["medagentbench"]
    listed = set(OPTION.findall(option_tables.table())) | named_options("running.md") | named_options("config.md")
    assert own_options(run) - {"--help"} <= listed


def test_every_page_is_in_the_menu_and_the_readme_is_short() -> None:
    assert doc_menu.problems() == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_tables_have_at_most_four_columns(page: Path) -> None:
    rules = re.findall(r"^\|[ :|-]+\|$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert [rule for rule in rules if rule.count("|") > 5] == []


def test_results_file_page_names_every_field() -> None:
    text = (DOCS / "results-file.md").read_text(encoding="utf-8")
    row = EpisodeRow(unit="task1_1#1", status="completed", task_id="task1_1")
    item = result_item(row, Task(id="task1_1", type="task1", text=""))
    fields = {*Report.model_fields} - {"command"}  # which is not written
    fields |= {*EpisodeRow.model_fields, *Spent.model_fields, *Turn.__slots__, *Write.__slots__, *item}
    assert [field for field in sorted(fields) if f"`{field}`" not in text] == []


def imports(path: Path) -> set[str]:
    """The top-level packages that a file, or every file below a folder, imports anywhere."""
    found: set[str] = set()
    for file in path.rglob("*.py") if path.is_dir() else [path]:
        for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Import):
                found |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module:
                found.add(node.module.partition(".")[0])
    return found


@pytest.mark.parametrize(("package", "foreign"), [("refsol", "fhir_server"), ("fhir_server", "refsol")])
def test_arrows_run_one_way(package: str, foreign: str) -> None:
    assert imports(ROOT / package) & {"medagent", foreign} == set()


@pytest.mark.parametrize("path", ["errors.py", "stats.py", "promptcblue", "simpleqa"])
def test_parts_of_refsol_need_python_alone(path: str) -> None:
    assert imports(ROOT / "refsol" / path) - sys.stdlib_module_names - {"refsol"} == set()


def test_limit_is_explained_alike_everywhere() -> None:
    words = "At most N items, spread over the types"
    for name in ("medagentbench", "promptcblue", "simpleqa", "imapscore"):
        text = " ".join(medagent_command("run", name, "--help").out.replace("│", " ").split())
        assert words in text, name
    pages = {page.name: " ".join(page.read_text(encoding="utf-8").split()) for page in DOCS.glob("*.md")}
    assert words in pages["running.md"]
    assert "`--limit 20` sends twenty lines, spread over the tasks" in pages["promptcblue.md"]
    assert [name for name, text in pages.items() if re.search(r"--limit \d+`?\s+\w+\s+the first", text)] == []


def test_the_readme_of_the_index_has_no_relative_link() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = index_readme.absolute(text, "https://github.com/somebody/medagent")
    links = re.findall(r"\]\(([^)\s]+)\)", page)
    assert len(links) > 10
    assert [link for link in links if not link.startswith(("https://", "#"))] == []
    pictures = re.findall(r"!\[[^\]]*\]\(([^)\s]+)\)", page)
    raw = "https://raw.githubusercontent.com/somebody/medagent/main/"
    assert pictures
    assert all((ROOT / picture.removeprefix(raw)).is_file() for picture in pictures)


def test_the_page_for_coding_agents_is_short() -> None:
    assert len((ROOT / "AGENTS.md").read_text(encoding="utf-8").split()) <= 400
    assert "](AGENTS.md)" in (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")


def test_the_skill_has_the_format_of_agent_skills() -> None:
    path = ROOT / "skills" / "medagent" / "SKILL.md"
    _, head, body = path.read_text(encoding="utf-8").split("---\n", 2)
    fields = yaml.safe_load(head)
    assert fields.keys() <= {"name", "description", "license", "compatibility", "metadata", "allowed-tools"}
    assert fields["name"] == path.parent.name
    assert 0 < len(fields["description"]) <= 1024
    assert len(fields["compatibility"]) <= 500
    assert len(body.splitlines()) < 500


def test_the_skill_starts_no_paid_run_without_a_budget() -> None:
    text = (ROOT / "skills" / "medagent" / "SKILL.md").read_text(encoding="utf-8")
    runs = [line for line in doc_pages.commands(text) if line.startswith("medagent run") and "--model" in line]
    assert len(runs) == 2
    assert [line for line in runs if "--max-cost" not in line and "--base-url http://localhost" not in line] == []


def test_no_table_has_an_escaped_bar() -> None:
    """Some viewers show the backslash."""
    assert "\\|" not in "".join(path.read_text(encoding="utf-8") for path in (ROOT / "docs").rglob("*.md"))
