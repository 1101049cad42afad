"""A run's folder may be a stranger's: nothing outside it is written or read through links, pipes or devices."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest

from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run

KEY = "sk-secret-of-the-user\n"
WRITTEN = (
    "episodes.jsonl",
    "scores.jsonl",
    ".lock",
    ".files",
    "run.json",
    "report.json",
    "items.jsonl",
    "results.json",
)
RUN = ("run", "--agent", "nop", "--version", "v1", "--results-dir", ".", "-q", "--limit", 20)


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> Path:
    place = tmp_path_factory.mktemp("links")
    run(place, "--agent", "nop", "--version", "v1", "--limit", 2)
    return place / "v1_r1_nop"


@pytest.fixture
def folder(finished: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A copy of a finished run, below the working folder, next to a file of the user."""
    monkeypatch.chdir(tmp_path)
    Path("victim").write_text(KEY)
    shutil.copytree(finished, "v1_r1_nop")
    return Path("v1_r1_nop")


def replaced_by_link(path: Path, target: str = "../victim") -> None:
    path.unlink(missing_ok=True)
    path.symlink_to(target)


def refused(*words: object) -> str:
    ran = medagent(*words)
    assert ran.code == 1, ran
    assert len(ran.err.splitlines()) == 1, ran.err
    return ran.err


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("limit", [2, 20])
def test_a_run_writes_through_no_link(folder: Path, name: str, limit: int) -> None:
    """Whether it is finished or continued."""
    assert (folder / name).is_file(), sorted(folder.iterdir())
    replaced_by_link(folder / name)
    error = refused(*RUN[:-1], limit)
    assert f"{folder / name}: is a" in error
    assert "link" in error
    assert Path("victim").read_text() == KEY


@pytest.mark.parametrize("name", WRITTEN)
def test_overwrite_writes_through_no_link(folder: Path, name: str) -> None:
    replaced_by_link(folder / name)
    medagent(*RUN, "--overwrite")
    assert Path("victim").read_text() == KEY


@pytest.mark.parametrize("name", ["episodes.jsonl", ".lock", "report.json"])
def test_a_link_to_nothing_makes_no_file(folder: Path, name: str) -> None:
    replaced_by_link(folder / name, "../made")
    refused(*RUN)
    assert not Path("made").exists()


def test_a_link_to_another_file_of_the_run_is_not_written_through(folder: Path) -> None:
    shutil.copy(folder / "scores.jsonl", folder / "copy.jsonl")
    replaced_by_link(folder / "scores.jsonl", "copy.jsonl")
    before = (folder / "copy.jsonl").read_bytes()
    assert "is a symbolic link" in refused(*RUN)
    assert (folder / "copy.jsonl").read_bytes() == before


@pytest.mark.parametrize("name", ["episodes.jsonl", ".lock", "scores.jsonl", ".files", "report.json", "run.json"])
def test_nothing_but_a_regular_file_is_opened(folder: Path, name: str) -> None:
    (folder / name).unlink()
    os.mkfifo(folder / name)  # opening it would wait for ever
    assert f"{folder / name}: is a named pipe" in refused(*RUN)
    if name in ("episodes.jsonl", "run.json"):
        assert "is a named pipe" in refused("show", folder)
    (folder / name).unlink()
    (folder / name).mkdir()
    assert f"{folder / name}: is a folder" in refused(*RUN)


@pytest.mark.parametrize("name", ["run.json", "episodes.jsonl", "report.json", "results.json"])
@pytest.mark.parametrize("words", ["show", "grade", "leaderboard", "validate", "submit pack --partial", "export csv"])
def test_nothing_outside_the_folder_is_read(folder: Path, name: str, words: str) -> None:
    outside = Path("outside").with_suffix(Path(name).suffix)
    shutil.copy(folder / name, outside)
    replaced_by_link(folder / name, f"../{outside}")
    out = ["out.csv"] if words == "export csv" else []
    ran = medagent(*words.split(), folder, *out)
    read = {"run.json", "episodes.jsonl"}
    if words in ("validate", "submit pack --partial"):
        read = {"results.json"}
    if name in read:
        assert (ran.code, "is a link to a file outside its folder" in ran.err) == (1, True), ran


def test_links_that_the_user_named_or_that_stay_inside_are_followed(folder: Path) -> None:
    Path("named").symlink_to(folder)
    assert medagent("show", "named").code == 0
    (folder / "journal").write_bytes((folder / "episodes.jsonl").read_bytes())
    replaced_by_link(folder / "episodes.jsonl", "journal")
    assert medagent("show", folder).code == 0
    Path("results").symlink_to(folder / "results.json")
    assert medagent("grade", "results").code in (0, 2)
    Path("out.csv").symlink_to("elsewhere.csv")
    assert medagent("export", "csv", folder, "out.csv").code == 0
    assert Path("out.csv").is_symlink()
    assert Path("elsewhere.csv").read_text()


def test_a_learning_agents_folder_may_not_be_a_link(folder: Path) -> None:
    from medagent import UserError
    from medagent.engine.learning import folder_of

    Path("elsewhere").mkdir()
    (folder / "agent").symlink_to("../elsewhere")
    with pytest.raises(UserError, match="agent: is a symbolic link"):
        folder_of(folder)
