"""A run's folder: who may write into it, and under which settings."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Annotated

import pytest

from medagent.benchmarks.base import find, of_folder
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.core.errors import UserError
from medagent.core.options import Option, options
from medagent.core.writing import MANIFEST, write_whole, written_files
from medagent.engine.folder import RunFolder
from medagent.engine.settings import RunSettings
from tests.command import medagent

SETTINGS = {"version": "v2", "round": "r2", "model": "m", "writes": "ack", "tasks-digest": "abc"}


def test_the_same_settings_open_it_again(tmp_path: Path) -> None:
    for _ in range(2):
        with RunFolder(tmp_path / "run", "medagent run", SETTINGS):
            pass
    assert json.loads((tmp_path / "run" / "run.json").read_text())["settings"] == SETTINGS


def test_other_settings_are_refused_with_the_keys_and_the_ways_out(tmp_path: Path) -> None:
    first = {"places": {"ehr": "old.ndjson"}, "unwritten": {"base-url": ["http://old"]}}
    with RunFolder(tmp_path, "medagent run", SETTINGS, **first):
        pass
    assert "http://old" not in (tmp_path / "run.json").read_text()
    with pytest.raises(UserError) as caught:
        RunFolder(
            tmp_path,
            "medagent run",
            {**SETTINGS, "model": "other", "writes": "execute"},
            places={"ehr": "new.ndjson"},
            unwritten={"base-url": ["http://new"]},
            options=options(MedAgentBenchSettings, "run"),
        )
    message = str(caught.value)
    assert "model m → other, writes ack → execute" in message
    assert (
        "medagent run --version v2 --round r2 --model m --writes ack --ehr old.ndjson --base-url http://new;" in message
    )
    assert "another --round" in message
    assert "--overwrite" in message


def test_overwrite_removes_what_the_run_wrote_and_nothing_else(tmp_path: Path) -> None:
    folder = tmp_path / "run"
    with RunFolder(folder, "medagent run", SETTINGS):
        (folder / "episodes.jsonl").write_text("{}\n")
        write_whole(folder / "results.2.json", "{}")
        write_whole(tmp_path / "beside.json", "mine")
    mine = {name: folder / name for name in ("notes.jsonl", "results-copy.json", "grade.txt")}
    for file in mine.values():
        write_whole(file, "mine")
    write_whole(tmp_path / "beside.json", "mine")
    with (folder / MANIFEST).open("a") as manifest:
        manifest.write("../beside.json\n..\n.\n/etc/hostname\nnot-there.json\n\n")
    with RunFolder(folder, "medagent run", {**SETTINGS, "model": "other"}, overwrite=True):
        pass
    assert (folder / "episodes.jsonl").read_text() == ""
    assert (tmp_path / "beside.json").read_text() == "mine"
    assert all(file.read_text() == "mine" for file in mine.values())
    assert {file.name for file in folder.iterdir()} == {*mine, "episodes.jsonl", "run.json", MANIFEST, ".lock"}
    assert written_files(folder) == {"episodes.jsonl", "run.json"}


def test_a_run_lists_every_file_that_it_wrote(tmp_path: Path) -> None:
    words = ("run", "--agent", "reference", "--limit", 2, "--quiet", "--results-dir", tmp_path)
    folder = tmp_path / "v2_r1_reference"
    assert medagent(*words, "--trials", 2).code == 0
    assert written_files(folder) == {file.name for file in folder.iterdir()} - {MANIFEST, ".lock"}
    (folder / "results.mine.json").write_text("mine")
    assert medagent(*words, "--overwrite").code == 0
    assert (folder / "results.mine.json").read_text() == "mine"
    assert written_files(folder) == {
        "episodes.jsonl",
        "grade.json",
        "items.jsonl",
        "report.json",
        "results.json",
        "run.json",
        "scores.jsonl",
    }


def test_no_file_of_a_run_holds_an_address_that_may_change() -> None:
    class Settings(RunSettings):
        place: Annotated[str | None, Option("Own", "place", kind="address")] = None

    private = "http://private.example/v1"
    settings = Settings(base_url=[private], cluster="tcp://private.example:1", place=private, round="x")
    assert "private" not in json.dumps([settings.places(), settings.decides()])
    assert settings.unwritten()["place"] == private
    panel = find("imapscore").Settings(embed_base_url=[private])
    assert "private" not in json.dumps([panel.places(), panel.decides()])


def test_a_run_of_a_newer_version_is_refused_by_name(tmp_path: Path) -> None:
    with RunFolder(tmp_path, "medagent run", SETTINGS):
        pass
    path = tmp_path / "run.json"
    text = json.dumps({**json.loads(path.read_text()), "format": 2, "settings": "of another form"})
    path.write_text(text)
    for use in (lambda: RunFolder(tmp_path, "medagent run", SETTINGS), lambda: of_folder(tmp_path)):
        with pytest.raises(UserError, match=r"run.json: written by a newer medagent \(format 2 of run.json; "):
            use()
    assert path.read_text() == text


def test_results_that_are_not_its_own_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "results.json").write_text("{}")
    with pytest.raises(UserError, match=r"no run\.json"):
        RunFolder(tmp_path, "medagent run", SETTINGS)
    assert (tmp_path / "results.json").read_text() == "{}"


def test_a_second_run_into_the_folder_is_refused_with_the_first_ones_process_id(tmp_path: Path) -> None:
    program = (
        "import sys, time\nfrom pathlib import Path\nfrom medagent.engine.folder import RunFolder\n"
        f"with RunFolder(Path({str(tmp_path)!r}), 'medagent run', {SETTINGS!r}):\n"
        "    print('locked', flush=True)\n    time.sleep(60)\n"
    )
    with subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE, text=True) as first:
        assert first.stdout is not None
        assert first.stdout.readline() == "locked\n"
        with pytest.raises(UserError, match=f"process {first.pid} "):
            RunFolder(tmp_path, "medagent run", SETTINGS)
        first.kill()
        first.wait()
    with RunFolder(tmp_path, "medagent run", SETTINGS):  # the dead one's lock is stale
        assert (tmp_path / ".lock").read_text().strip() == str(os.getpid())


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="cannot be written"):
        RunFolder(tmp_path / "file" / "run", "medagent run", SETTINGS)
