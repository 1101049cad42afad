"""Finished folders of every benchmark are shown, graded and compared, and nothing in them changes."""

from __future__ import annotations

import io
import tarfile
from pathlib import Path

import pytest

from tests.command import medagent
from tests.shared_data import DATA


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(fileobj=io.BytesIO((DATA / "finished" / "0.1.0.tar.xz").read_bytes()), mode="r:xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    assert medagent("data", "allow", "items.jsonl", "test.json", "gold.json").code == 0  # another machine's runs
    return Path("results")


FOLDERS = {
    "promptcblue_old_m": ("MedDG", "CMeEE-V2#1", "score: "),
    "simpleqa-husimpleqa_old_m": ("rate", "H01/hu", "judge j: "),
    "imapscore_old_m": ("mean score", "en-3", "1/2 + 9/10 = 7/5"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_finished_folder_is_shown_graded_and_compared_and_nothing_in_it_changes(results: Path, name: str) -> None:
    summary, item, said = FOLDERS[name]
    folder = results / name
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    shown = medagent("show", folder)
    assert shown.code == 0, shown.err
    assert summary in shown.out
    details = medagent("show", folder, item)
    assert details.code == 0, details.err
    assert said in details.out
    graded = medagent("grade", folder)
    assert graded.code == 0, graded.err
    compared = medagent("compare", folder, folder)
    assert compared.code == 0, compared.err
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {file: text for file, text in after.items() if not file.startswith(("results", "report", "grade"))} == {
        file: text for file, text in before.items() if not file.startswith(("results", "report", "grade"))
    }
    assert {file: after[file] for file in before} == before


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    for words in (["show", tmp_path], ["compare", tmp_path, tmp_path], ["grade", tmp_path / "away"]):
        ran = medagent(*words)
        assert (ran.code, ran.err.count("\n")) == (1, 1)


def test_data_sets_of_two_benchmarks_are_no_siblings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("medagentbench", "psb-300"):
        assert medagent("run", name, "--agent", "nop", "--limit", 2, "--quiet").code == 0
    first, second = sorted(Path("results").iterdir())
    for given in (second, second / "results.json"):
        ran = medagent("compare", first, given)
        said = f"medagent: {first} is a run of psb-300, and {given} one of medagentbench; compare runs of one benchmark"
        assert (ran.code, ran.out, ran.err) == (1, "", f"{said}\n")
