"""`medagent export`: a run in the forms of other tools, read back by whoever reads that form."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run

TASKS = ("--types", "task1,task5,task9", "--limit", 40)


def official(folder: Path, *args: object) -> Path:
    """A run in the official form."""
    assert run(folder, *TASKS, *args).code in (0, 2)
    made = medagent("export", "official", next(folder.iterdir()), folder / "official")
    assert (made.code, made.err) == (0, "")
    return folder / "official"


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return official(tmp_path_factory.mktemp("export"), "--agent", "constant")


@pytest.mark.parametrize("name", ["runs.jsonl", "overall.json"])
def test_official_files_grade_as_the_run(exported: Path, name: str, tmp_path: Path) -> None:
    run_grade = json.loads((exported.parent / "v2_r1_constant" / "grade.json").read_text())
    # v1 or v2 is told from the numbers, which a part of a task set does not prove: the task file is named.
    bundled, tasks = load_dataset("synthetic", "v2"), tmp_path / "tasks.json"
    tasks.write_text(json.dumps([task.published for task in bundled.tasks]), encoding="utf-8")
    key = bundled.reads
    alone = tmp_path / name  # its run.json names the set, and not this file of its tasks
    alone.write_bytes((exported / name).read_bytes())
    found = medagent("grade", alone, "--tasks", tasks, "--key", key, "--json")
    graded = json.loads(found.out)
    assert graded["overall"] == run_grade["overall"]
    assert [(item["task_id"], item["correct"]) for item in graded["items"]] == [
        (item["task_id"], item["correct"]) for item in run_grade["items"]
    ]


def test_official_summary_and_lines(exported: Path) -> None:
    overall = json.loads((exported / "overall.json").read_text())
    lines = [json.loads(line) for line in (exported / "runs.jsonl").read_text().splitlines()]
    assert overall["total"] == len(lines) == 40
    assert overall["validation"]["completed"] == 1.0
    right = sum(result["status"] == "completedCorrect" for result in overall["custom"]["raw_results"])
    assert 0 < right < 40
    assert overall["custom"]["success rate"] == right / 40
    assert [set(line) for line in lines] == [{"index", "error", "info", "output", "time"}] * 40
    assert lines[0]["output"]["history"][0]["role"] == "user"
    assert not (exported / "error.jsonl").exists()


def test_official_form_of_failures_and_trials(tmp_path: Path) -> None:
    script = tmp_path / "script.json"
    script.write_text(json.dumps({"task1_1#1": ["I think"], "task1_2#1": ["FINISH([])"], "task1_1#2": ["FINISH([1])"]}))
    runs = tmp_path / "runs"
    ran = run(runs, "--model", f"scripted:{script}", "--ids", "task1_1,task1_2,task1_3", "--trials", 2)
    assert ran.code == 2
    out = tmp_path / "out"
    assert medagent("export", "official", next(runs.iterdir()), out).code == 0
    first = [json.loads(line)["output"]["status"] for line in (out / "trial-1" / "runs.jsonl").read_text().splitlines()]
    assert first == ["agent invalid action", "completed"]
    failed = json.loads((out / "trial-1" / "error.jsonl").read_text())
    assert (failed["index"], failed["error"], failed["output"]) == (2, "model_error", None)
    assert len((out / "trial-2" / "error.jsonl").read_text().splitlines()) == 2


def test_export_says_what_it_cannot_do(exported: Path, tmp_path: Path) -> None:
    folder = exported.parent / "v2_r1_constant"
    again = medagent("export", "official", folder, exported)
    assert (again.code, again.out) == (1, "")
    assert "runs.jsonl: already exists; name another folder" in again.err
    assert "not a run's folder" in medagent("export", "official", tmp_path, tmp_path / "out").err
    (tmp_path / "file").write_text("")
    assert "cannot be created" in medagent("export", "official", folder, tmp_path / "file").err
