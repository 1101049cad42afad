"""Task files of one's own: ids and types as one likes, checked in words, run and graded."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run
from tests.shared_data import ROOT


def written(folder: Path, tasks: Any) -> Path:
    path = folder / "mine.json"
    path.write_text(tasks if isinstance(tasks, str) else json.dumps(tasks), encoding="utf-8")
    return path


def test_the_example_of_the_docs_is_a_task_file(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "results-file.md").read_text(encoding="utf-8")
    example = page.partition("## Your own task file")[2].partition("```json\n")[2].partition("```")[0]
    path = written(tmp_path, example)
    checked = medagent("data", "check", path)
    assert (checked.code, checked.err) == (0, "")
    tasks, rules = checked.out.splitlines()
    assert re.fullmatch(rf"{re.escape(str(path))}: 2 tasks \(1 task9, 1 task1\), digest [0-9a-f]{{16}}", tasks)
    for part in ("2023-11-13T10:15", "MG, K, GLU, A1C, BP", "1.9 mg/dL", "3.5 mmol/L", "24 hours", "docs/clinical.md"):
        assert part in rules


def test_the_schema_names_every_field_and_the_types() -> None:
    schema = json.loads(medagent("data", "schema").out)
    task = schema["$defs"]["PublishedTask"]
    assert schema["type"] == "array"
    fields = {"id", "instruction", "context", "eval_MRN", "sol", "type"}
    assert set(task["properties"]) == fields
    assert task["required"] == ["id", "instruction"]
    assert task["properties"]["type"]["enum"] == [f"task{number}" for number in range(1, 11)]
    assert all(field["description"] for field in task["properties"].values())


@pytest.mark.parametrize(
    ("tasks", "problems"),
    [
        ("[", [":1: is not JSON"]),
        ({"a": 1}, [":1: is not a list"]),
        ([], [": contains no tasks"]),
        ([{"id": "task1_1", "instruction": ""}] * 2, [": duplicate task id task1_1"]),
        (
            [{"id": "a b"}, {"id": "x", "instruction": ""}, {"id": "y", "instruction": 1, "type": "task11"}, 7],
            [
                "[0].id: is not a valid id: it is empty, or contains white space, a comma or #",
                "[0].instruction: is missing",
                "[1]: its type is missing and its id does not begin with one, so add the field `type`",
                "[2].instruction: is not a text",
                "[2].type: 'task11' is not a task type; the types are task1 to task10",
                "[3]: is not a JSON object",
            ],
        ),
        (
            [{"id": "a#1", "type": "task2", "instruction": "", "sol": "x"}],
            ["[0].id: is not a valid id", "[0].sol: is not a list"],
        ),
    ],
)
def test_what_is_wrong_is_said_in_words(tmp_path: Path, tasks: Any, problems: list[str]) -> None:
    path = written(tmp_path, tasks)
    for words in (("data", "check", path), ("run", "--agent", "nop", "--dataset", path)):
        ran = medagent(*words)
        assert (ran.code, ran.out) == (1, "")
        assert [problem for problem in problems if problem not in ran.err] == []
        assert "pydantic" not in ran.err


def test_one_task_is_counted_as_one(tmp_path: Path) -> None:
    task = {"id": "a", "type": "task1", "instruction": "x", "sol": ["S1"]}
    assert ": 1 task (1 task1), digest" in medagent("data", "check", written(tmp_path, [task])).out


def test_tasks_that_nobody_can_grade_are_warnings(tmp_path: Path) -> None:
    tasks = [{"id": "a", "type": "task1", "instruction": " "}, {"id": "b", "type": "task4", "instruction": "x"}]
    checked = medagent("data", "check", written(tmp_path, tasks))
    assert checked.code == 0
    assert [line.partition(".json: ")[2] for line in checked.out.splitlines()[:-2]] == [
        "[0] 'a': sol is missing, so it cannot be graded",
        "[0] 'a': the instruction is empty",
        "[1] 'b': eval_MRN is missing, so it cannot be graded",
    ]


def test_tasks_of_other_ids_are_run_graded_shown_and_validated(tmp_path: Path) -> None:
    """Tasks of the bundled set under names of one's own have the verdicts that they have there."""
    bundled = [task for task in load_dataset("synthetic", "v1").tasks if task.id.endswith("_3")]
    tasks = [{**task.published, "id": f"Fall-{number}.{task.type}"} for number, task in enumerate(bundled)]
    path = written(tmp_path, tasks)
    ran = run(tmp_path, "--dataset", path, "--agent", "reference", "--full")
    assert ran.code == 0
    rows = [line.split() for line in ran.out.splitlines()]
    assert ["task9", "replace", "potassium", "1", "1", "100.0%"] in [row[:6] for row in rows]
    assert ["overall", "10", "10"] in [row[:3] for row in rows]
    assert "Data set: mine, digest " in ran.out
    folder = tmp_path / "mine_r1_reference"
    assert medagent("show", folder, "--type", "task5").out.startswith("Fall-4.task5  right")
    key = tmp_path / "key.json"
    patients = tmp_path / "patients.ndjson"
    patients.write_text('{"resourceType": "Patient", "id": "S1"}\n', encoding="utf-8")
    assert medagent("data", "key", key, "--tasks", path, "--ehr", patients).code == 0
    of_nobody = medagent("grade", folder, "--tasks", path, "--key", key, "--full")
    assert "right   of" in of_nobody.out
    valid = medagent("validate", folder / "results.json", "--tasks", path)
    assert (valid.code, "0 errors" in valid.out) == (0, True)
    alone = tmp_path / "alone.json"
    alone.write_bytes((folder / "results.json").read_bytes())
    altered = written(tmp_path, [{**tasks[0], "type": "task2", "eval_MRN": "S2"}, *tasks[1:]])
    refused = medagent("grade", alone, "--tasks", altered, "--key", key)
    assert (refused.code, "is the answer key of another task set" in refused.err) == (1, True)
    unknown = medagent("run", "--dataset", path, "--agent", "nop", "--ids", "Fall-99")
    assert "unknown task id Fall-99; known: " in unknown.err


def test_a_run_over_a_task_file_is_not_packed_as_its_pack_could_not_be_checked(tmp_path: Path) -> None:
    page = (ROOT / "docs" / "results-file.md").read_text(encoding="utf-8")
    example = page.partition("## Your own task file")[2].partition("```json\n")[2].partition("```")[0]
    path = written(tmp_path, example)
    assert medagent("run", "--dataset", path, "--agent", "nop", "-q", "--results-dir", tmp_path / "out").code in (0, 2)
    (run,) = (tmp_path / "out").iterdir()
    for partial in ([], ["--partial"]):
        packed = medagent("submit", "pack", run, "--out", tmp_path / "a.zip", *partial)
        assert packed.code == 1
        assert "Only a run over a data set with the versions v1 and v2 can be checked" in packed.err
    assert not (tmp_path / "a.zip").exists()
