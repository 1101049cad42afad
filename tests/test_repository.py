"""`tools/repository.py` writes the repository's address, which no file contains before."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest
import yaml

from medagent.core.version import __version__
from tests.shared_data import ROOT
from tools import index_readme, repository

ADDRESS = "https://github.com/somebody/medagent"


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for name in ("pyproject.toml", "CITATION.cff"):
        shutil.copy(ROOT / name, tmp_path)
    return tmp_path


def test_no_file_has_a_placeholder() -> None:
    listing = ("git", "grep", "--files-with-matches", "github.com/OWNER", "--", ".", ":!tests/test_repository.py")
    assert subprocess.run(listing, cwd=ROOT, capture_output=True, text=True).stdout == ""


@pytest.mark.parametrize("written", [ADDRESS, ADDRESS + "/", ADDRESS + ".git"])
def test_the_address_is_written(checkout: Path, written: str) -> None:
    repository.write(written, checkout)
    project = tomllib.loads((checkout / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    assert repository.address(checkout) == ADDRESS
    assert project["urls"].keys() == {"Repository", "Documentation", "Changelog", "Issues"}
    assert project["scripts"] == {"medagent": "medagent.cli.app:main"}
    citation = yaml.safe_load((checkout / "CITATION.cff").read_text(encoding="utf-8"))
    assert (citation["repository-code"], citation["title"]) == (ADDRESS, "medagent")


def test_a_second_address_replaces_the_first(checkout: Path) -> None:
    repository.write(ADDRESS, checkout)
    first = [(checkout / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CITATION.cff")]
    repository.write("https://github.com/else/medagent", checkout)
    second = [(checkout / name).read_text(encoding="utf-8") for name in ("pyproject.toml", "CITATION.cff")]
    assert [text.replace("github.com/somebody/", "github.com/else/") for text in first] == second


def test_the_entry_of_the_mcp_registry(checkout: Path) -> None:
    repository.write(ADDRESS, checkout)
    entry = json.loads((checkout / "server.json").read_text(encoding="utf-8"))
    assert entry["name"] == "io.github.somebody/medagent"
    assert len(entry["description"]) <= 100
    (package,) = entry["packages"]
    assert entry["version"] == package["version"] == __version__
    assert [part["value"] for part in (*package["runtimeArguments"], *package["packageArguments"])] == [
        "mcp>=2.3,<3",
        "mcp",
    ]
    ignored = subprocess.run(("git", "check-ignore", "-q", "server.json"), cwd=ROOT)
    assert ignored.returncode == 0


@pytest.mark.parametrize(
    "address", ["somebody", "http://github.com/a/b", "https://github.com/a", "https://example.org/a/b"]
)
def test_another_address_is_refused(checkout: Path, address: str) -> None:
    before = (checkout / "pyproject.toml").read_bytes()
    with pytest.raises(ValueError, match="not the address of a repository"):
        repository.write(address, checkout)
    assert (checkout / "pyproject.toml").read_bytes() == before


def test_it_runs_as_a_program() -> None:
    done = subprocess.run([sys.executable, "tools/repository.py", "nothing"], cwd=ROOT, capture_output=True, text=True)
    assert (done.returncode, len(done.stderr.splitlines())) == (1, 1)


@pytest.mark.parametrize("urls", [{}, {"Repository": ADDRESS}])
def test_the_readme_of_the_index(urls: dict[str, str]) -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    page = index_readme.page(text, urls.get("Repository", ""))
    assert page.startswith(index_readme.absolute(text, ADDRESS) if urls else text)
    assert ("<!-- mcp-name: io.github.somebody/medagent -->" in page) == bool(urls)
