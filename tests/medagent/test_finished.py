"""Folders that version 0.1.0 left are shown, graded and compared; an unfinished one is continued or refused."""

from __future__ import annotations

import io
import json
import tarfile
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.prompts.protocol import load_protocol
from tests.command import medagent
from tests.shared_data import DATA


@pytest.fixture
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    with tarfile.open(fileobj=io.BytesIO((DATA / "finished" / "0.1.0.tar.xz").read_bytes()), mode="r:xz") as archive:
        archive.extractall(tmp_path, filter="data")
    monkeypatch.chdir(tmp_path)
    return Path("results")


FOLDERS = {
    "v2_old_m": ("all  ", "task1_1", "verdict: right"),
    "v2_old_reference": ("100.0 %", "task5_2", "verdict: right"),
    "promptcblue_old_m": ("MedDG", "CMeEE-V2#1", "score: "),
    "simpleqa-husimpleqa_old_m": ("rate", "H01/hu", "judge j: "),
    "imapscore_old_m": ("mean score", "en-3", "score = 1/2 + 9/10 = 7/5"),
}


@pytest.mark.parametrize("name", FOLDERS)
def test_a_finished_folder_is_shown_graded_and_compared_and_nothing_in_it_changes(results: Path, name: str) -> None:
    summary, item, said = FOLDERS[name]
    folder = results / name
    before = {file.name: file.read_bytes() for file in folder.iterdir()}
    shown = medagent("show", folder)
    assert shown.code == 0, shown.err
    assert summary in shown.out
    one = medagent("show", folder, item)
    assert one.code == 0, one.err
    assert said in one.out
    graded = medagent("grade", folder)
    assert graded.code == 0, graded.err
    compared = medagent("compare", folder, folder)
    assert compared.code == 0, compared.err
    after = {file.name: file.read_bytes() for file in folder.iterdir()}
    assert {file: text for file, text in after.items() if not file.startswith(("results", "report", "grade"))} == {
        file: text for file, text in before.items() if not file.startswith(("results", "report", "grade"))
    }
    assert {file: after[file] for file in before} == before


def test_an_unfinished_one_is_continued_under_the_same_settings_and_else_refused_by_name(results: Path) -> None:
    folder = results / "v2_owed_scripted:script.json"
    words = ["run", "--round", "owed", "--model", "scripted:script.json", "--ids", "task2_1,task2_2,task2_3"]
    refused = medagent(*words)
    assert refused.code == 1
    assert "max-tokens 2048 → (none)" in refused.err
    assert "loop (none) → published" in refused.err  # its rows were made before there was a published loop
    made = json.loads((folder / "run.json").read_text())
    made["settings"].update({"loop": "published", "prompts-digest": load_protocol("text").digest})
    (folder / "run.json").write_text(json.dumps(made))
    Path("script.json").write_text(json.dumps({"*": ["FINISH([1])"]}))
    ran = medagent(*words, "--max-tokens", 2048)
    assert ran.code == 0, ran.err
    assert "3 units, 2 of them done before" in ran.err
    assert (folder / "episodes.jsonl").read_text().count("\n") == 4


def test_what_is_no_run_is_one_line(tmp_path: Path) -> None:
    for words in (["show", tmp_path], ["compare", tmp_path, tmp_path], ["grade", tmp_path / "away"]):
        ran = medagent(*words)
        assert (ran.code, ran.err.count("\n")) == (1, 1)
