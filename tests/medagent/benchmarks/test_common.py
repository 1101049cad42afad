"""What all four benchmarks have by construction: the same flags, and show, grade and compare of their runs."""

from __future__ import annotations

import json
import os
import re
from pathlib import Path
from typing import Any

import pytest

from medagent.core.writing import MANIFEST, written_files
from tests.command import medagent
from tests.read_only import read_only
from tests.refsol.promptcblue.vectors import text, value
from tests.shared_data import ROOT

ITEMS = ROOT / "refsol" / "imapscore" / "data" / "items.jsonl"


@pytest.fixture
def words(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, list[Any]]:
    """The command of each benchmark over a scripted model, from a folder of its own."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OPENAI_API_KEY", "none")
    recorded = [json.loads(row) for row in text("predictions.jsonl").splitlines()]
    Path("test.json").write_text(
        "".join(json.dumps({**row, "input": "x", "target": ""}, ensure_ascii=False) + "\n" for row in recorded)
    )
    Path("gold.json").write_text(json.dumps(value("gold.json")))
    Path("model.json").write_text(json.dumps({"*": ["FINISH([])"]}))
    Path("judge.json").write_text(json.dumps({"*": ['{"evaluation": "CORRECT"}']}))
    model = ["--model", "scripted:model.json"]
    return {
        "medagentbench": ["run", *model, "--types", "task3"],
        "promptcblue": ["run", "promptcblue", *model, "--data", "test.json", "--gold", "gold.json"],
        "simpleqa": ["run", "simpleqa", *model, "--judge", "scripted:judge.json", "--lang", "hu"],
        "imapscore": ["run", "imapscore", *model, "--data", ITEMS, "--allow-empty", 1],
    }


@pytest.mark.parametrize("name", ["medagentbench", "promptcblue", "simpleqa", "imapscore"])
def test_trials_workers_limit_and_the_commands_that_read_a_run(words: dict[str, list[Any]], name: str) -> None:
    command = words[name]
    workers = 2 if name == "promptcblue" else 1
    ran = medagent(*command, "--trials", 2, "--limit", 3, "--workers", workers)
    assert ran.code == 0, ran.err + ran.out
    assert "medagent report results/" in ran.out
    (folder,) = [path for path in Path("results").iterdir() if (path / "run.json").is_file()]
    rows = [json.loads(line) for line in (folder / "episodes.jsonl").read_text().splitlines()]
    assert len(rows) == len({row["unit"] for row in rows}) == 6
    report = json.loads((folder / "report.json").read_text())
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    assert (report["benchmark"], len(items)) == (name, 6)
    assert len(report["data"]["digest"]) == 64
    again = medagent(*command, "--trials", 2, "--limit", 3)
    assert (again.code, "is complete and was not changed" in again.err) == (0, True)
    assert json.loads(medagent(*command, "--trials", 2, "--limit", 3, "--json", "--quiet").out)["benchmark"] == name
    shown = medagent("show", folder)
    assert (shown.code, "6 completed" in shown.out) == (0, name != "simpleqa")
    details = medagent("show", folder, items[0]["item"])
    assert details.code == 0, details.err
    assert "status: completed" in details.out
    assert medagent("show", folder, "nothing").err.count("\n") == 1
    graded = medagent("grade", folder)
    assert graded.code == 0, graded.err
    chosen = items[1]["item"].partition("/")[0]
    few = medagent(*command, "--round", "few", "--ids", chosen, "--strip-thinking", "--concurrency", 1)
    assert few.code == 0, few.err
    (few_folder,) = [path for path in Path("results").iterdir() if "_few_" in path.name]
    compared = medagent("compare", folder, few_folder)
    if name == "imapscore":  # a model that says one thing to everything leaves nothing to score
        assert (compared.code, "extraction_failed" in compared.err) == (1, True)
    else:
        assert compared.code == 0, compared.err
        assert "compared" in compared.out
    _check_the_folder(folder, [*command, "--trials", 2, "--limit", 3])
    unknown = medagent(*command, "--round", "none", "--ids", "no-such")
    assert (unknown.code, unknown.err.count("\n")) == (1, 1)
    assert "no-such" in unknown.err


@pytest.mark.parametrize("name", ["medagentbench", "promptcblue", "simpleqa", "imapscore"])
def test_overwrite_replaces_a_finished_run(words: dict[str, list[Any]], name: str) -> None:
    for _ in range(2):
        ran = medagent(*words[name], "--limit", 2, "--overwrite", "--quiet")
        assert ran.code == 0, ran.err
    (folder,) = [path for path in Path("results").iterdir() if (path / "run.json").is_file()]
    assert written_files(folder) == {file.name for file in folder.iterdir()} - {MANIFEST, ".lock"}


def _check_the_folder(folder: Path, command: list[Any]) -> None:
    """A finished folder is shown where it may only be read, made again where its content says so, and never believed
    where it was changed.
    """
    with read_only(folder):
        shown = medagent(*command)
    assert (shown.code, "is complete and was not changed" in shown.err) == (0, True), shown.err
    (official,) = [file for file in folder.iterdir() if file.name in ("results.json", "imaps.jsonl")]
    before, times = official.read_bytes(), official.stat()
    official.write_bytes(b"[]")
    os.utime(official, ns=(times.st_atime_ns, times.st_mtime_ns))
    again = medagent(*command)
    assert (again.code, f"made again from its journal: {official.name}." in again.err) == (0, True), again.err
    assert _settled(official.read_bytes()) == _settled(before)
    journal = folder / "episodes.jsonl"
    rows = journal.read_bytes()
    journal.write_bytes(rows.replace(b'"completed"', b'"complxted"', 1))
    for damaged in (medagent(*command), medagent("show", folder), medagent("grade", folder)):
        assert damaged.code == 1
        said = damaged.err.splitlines()[-1]
        assert f"{journal}:1: the row is damaged (its checksum does not match its content); restore it" in said
    journal.write_bytes(b"".join(rows.splitlines(keepends=True)[:-1]))  # a larger run that was interrupted
    smaller = medagent(*command[:-1], 1)
    assert smaller.code == 0, smaller.out + smaller.err


def _settled(content: bytes) -> bytes:
    return re.sub(rb'"timestamp": "[^"]*"', b"", content)
