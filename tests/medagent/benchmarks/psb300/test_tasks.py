"""The import of the published file, and what is said of files that cannot be used."""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.psb300 import tasks as task_sets
from medagent.benchmarks.psb300.tasks import load_tasks
from tests.command import medagent
from tests.medagent.benchmarks.psb300 import made
from tests.medagent.benchmarks.psb300.conftest import Set
from tests.shared_data import SHARED, need

Json = dict[str, Any]


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    return tmp_path / "home" / "data" / "psb-300" / "published"


def imported(folder: Path, listed: Any) -> Any:
    """`medagent data import` of a checkout with these tasks."""
    file = folder / "deep" / "inside" / "new_patient_tasks.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(listed if isinstance(listed, str) else json.dumps(listed))
    return medagent("data", "import", folder)


def test_the_file_is_copied_with_its_digest_and_the_published_functions(home: Path, tmp_path: Path) -> None:
    folder = tmp_path / "checkout"
    (folder / "deep" / "inside").mkdir(parents=True)
    functions = need(SHARED / "medagentbench" / "official" / "funcs_v1.json")
    shutil.copy(functions, folder / "deep" / "inside" / "funcs_v1.json")
    done = imported(folder, made.tasks())
    assert done.code == 0, done.err
    assert "300 tasks of psb-300 imported" in done.out
    assert done.err.count("\n") == 1
    assert "is not the published file (SHA-256 " in done.err
    assert done.err.strip().endswith("its fields are the published ones, but its texts or its layout differ")
    raw = (folder / "deep" / "inside" / "new_patient_tasks.json").read_bytes()
    loaded = load_tasks("published")
    assert (task_sets.psb_constants(loaded).published, len(loaded.tasks)) == (hashlib.sha256(raw).hexdigest(), 300)
    assert json.loads((home / "dataset.json").read_text())["files"]["tasks.jsonl"] == loaded.digest
    assert (home / "functions.json").read_bytes() == functions.read_bytes()


@pytest.mark.parametrize(
    ("change", "named"),
    [
        (lambda listed: listed[:-1], "it should have 30 tasks of each type, but contains 29 of task10"),
        (lambda listed: [{**task, "sol": []} for task in listed], "fields that the published file does not have: sol"),
        (
            lambda listed: [{**task, "instruction": "?"} for task in listed],
            "the instruction does not contain the MRN: task1_1, ",
        ),
        (
            lambda listed: [{**task, "context": "later"} if task["id"] == "task9_4" else task for task in listed],
            "one context should lack a readable time, but 2 do: task3_8, task9_4",
        ),
        (
            lambda listed: [{n: v for n, v in task.items() if n != "context"} for task in listed[:1]] + listed[1:],
            "the context of these tasks is missing: task1_1",
        ),
    ],
)
def test_a_file_of_another_form_is_imported_with_a_warning_that_says_how(
    home: Path, tmp_path: Path, change: Callable[[list[Json]], list[Json]], named: str
) -> None:
    done = imported(tmp_path, change(made.tasks()))
    assert done.code == 0
    assert named in done.err


@pytest.mark.parametrize(
    ("listed", "problem"),
    [
        (
            [{**made.tasks()[0], "id": "task11_1"}],
            "'task11_1' does not begin with a type of psb-300; the types are task1, ",
        ),
        ([{**made.tasks()[0], "id": "one two"}], "is not a valid id"),
        ([{"id": "task1_1", "instruction": "x"}], "[0].eval_MRN: is missing"),
        (made.tasks()[:1] * 2, "duplicate task id task1_1"),
        ([], "contains no task"),
        ({"tasks": []}, "is not a list"),
        ("{", "new_patient_tasks.json:"),
    ],
)
def test_a_file_that_cannot_be_used_is_refused_in_a_line(home: Path, tmp_path: Path, listed: Any, problem: str) -> None:
    done = imported(tmp_path, listed)
    assert (done.code, done.err.count("\n")) == (1, 1)
    assert problem in done.err
    assert not home.exists()


def test_what_is_not_here_or_was_changed_is_said(home: Path, tmp_path: Path) -> None:
    words = ("run", "psb-300", "--dataset", "published", "--agent", "nop", "--results-dir", tmp_path / "results")
    absent = medagent(*words)
    assert (absent.code, "import it with `medagent data import DIR`" in absent.err) == (1, True)
    assert imported(tmp_path, made.tasks()).code == 0
    assert "name their FHIR server with --fhir" in medagent(*words).err
    (home / "tasks.jsonl").write_text("")
    changed = medagent(*words)
    assert (changed.code, "is not the file that dataset.json next to it lists" in changed.err) == (1, True)
    unknown = medagent("run", "psb-300", "--dataset", "no-such", "--agent", "nop")
    assert (unknown.code, "unknown data set 'no-such'; known: synthetic, published" in unknown.err) == (1, True)


def test_a_set_without_splits_refuses_them(home: Path, tmp_path: Path) -> None:
    assert imported(tmp_path, made.tasks()[:40]).code == 0
    refused = medagent("run", "psb-300", "--dataset", "published", "--split", "dev", "--agent", "nop")
    assert (refused.code, refused.err.count("\n")) == (1, 1)
    assert "cannot be split: task2 contains 10 tasks, not 30" in refused.err


def test_published_figures_stand_on_the_leaderboard_of_published_tasks(
    published: Set, reference: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert "Published figures" not in medagent("leaderboard", reference).out
    monkeypatch.setattr(task_sets, "PUBLISHED_DIGEST", task_sets.psb_constants(load_tasks("published")).published)
    (reference / "report.json").unlink()  # which the first command has left
    page = medagent("leaderboard", reference).out
    assert "| model (64 items of id\\_test, without learning)" in page.replace("id_test", "id\\_test")
    for figure in ("gpt-4.1 | 70.5%", "gpt-4.1 | 84.9%", "deepseek-v4-flash | 20.4%", "76.9%", "87.1%"):
        assert figure in page
    assert "doing nothing is right in 55 of them, 91.7 %" in page
    assert page.count("GRASP") >= 4
