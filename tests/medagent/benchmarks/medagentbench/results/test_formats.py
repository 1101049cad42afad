"""Files of other runners: recognised by their shape, graded as far as they allow, compared with what they recorded."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from refsol.errors import InputError
from tests.command import Ran, medagent
from tests.medagent.benchmarks.medagentbench.results.test_rows import PATIENT, TASKS, graded, item
from tests.refsol.medagentbench.items import MRN
from tests.refsol.medagentbench.test_results import FILE

RIGHT = json.dumps([MRN])


def answer(task_id: str, result: Any, **fields: Any) -> dict[str, Any]:
    return {"task_id": task_id, "status": "completed", "result": result, **fields}


def episode(index: int, result: Any, **fields: Any) -> dict[str, Any]:
    """An episode of the official runner."""
    history = [{"role": "user", "content": "Made up."}, {"role": "agent", "content": f"FINISH({result})"}]
    return {"index": index, "status": "completed", "result": result, "history": history, **fields}


def lines(path: Path, *values: Any) -> Path:
    path.write_text("".join(f"{json.dumps(value)}\n" for value in values), encoding="utf-8")
    return path


def grade(path: Path, *words: str) -> Ran:
    tasks, ehr = path.with_name("tasks.json"), path.with_name("ehr.ndjson")
    tasks.write_text(json.dumps(TASKS), encoding="utf-8")
    ehr.write_text(json.dumps(PATIENT) + "\n", encoding="utf-8")
    return medagent("grade", path, "--tasks", tasks, "--ehr", ehr, *words)


@pytest.mark.parametrize("name", ["runs.jsonl", "answers.json", "answers.txt"])
@pytest.mark.parametrize("listed", [False, True])
def test_answers_without_messages_are_graded_where_no_order_can_be_due(name: str, listed: bool, tmp_path: Path) -> None:
    answers = [answer("task1_1", RIGHT, index=0), answer("task2_1", "[1]", index=2), answer("task5_1", "[]", index=4)]
    path = tmp_path / name
    if listed:
        path.write_text(json.dumps(answers, indent=1), encoding="utf-8")
    else:
        lines(path, *answers)
    report = graded(path)
    assert {scored.item: scored.correct for scored in report.items} == {
        "task1_1": True,
        "task2_1": False,
        "task5_1": None,
    }
    assert any(note.startswith("POSTs unknown: only task1, task2, task4, task6, task7 are") for note in report.notes)
    assert grade(path, "--partial").code == 2, "one item is not graded"


def test_an_answer_may_have_a_number_instead_of_an_id_or_come_with_its_messages(tmp_path: Path) -> None:
    conversation = episode(3, "[]") | {"task_id": "task3_1"}
    report = graded(lines(tmp_path / "runs.jsonl", {"index": 0, "result": RIGHT}, conversation))
    assert {scored.item: scored.correct for scored in report.items} == {"task1_1": True, "task3_1": False}
    assert not any(note.startswith("POSTs unknown") and "task3_1" in note for note in report.notes)


@pytest.mark.parametrize("failure", [{"status": "error"}, {"error": "time-out"}, {"status": "task error"}])
def test_a_failed_line_without_a_result_is_not_the_agents_doing(failure: dict[str, Any], tmp_path: Path) -> None:
    report = graded(lines(tmp_path / "runs.jsonl", answer("task1_1", RIGHT), answer("task1_2", None) | failure))
    assert {scored.item: scored.correct for scored in report.items} == {"task1_1": True, "task1_2": None}


def test_a_file_of_the_official_runner_may_have_any_name(tmp_path: Path) -> None:
    outputs = [episode(0, RIGHT), episode(2, "[1]")]
    overall = tmp_path / "overall.jsonl"
    overall.write_text(json.dumps({"custom": {"raw_results": outputs}}, indent=4), encoding="utf-8")
    runs = lines(
        tmp_path / "runs.json", *({"index": output["index"], "error": None, "output": output} for output in outputs)
    )
    for path in (overall, runs):
        assert {scored.item: scored.correct for scored in graded(path).items} == {"task1_1": True, "task2_1": False}


@pytest.mark.parametrize(
    "line", [{"task_id": "task1_1", "answer": RIGHT}, {"index": 1}, {"output": None, "result": "[]"}, ["task1_1"]]
)
def test_any_other_line_is_one_clear_error(line: Any, tmp_path: Path) -> None:
    path = lines(tmp_path / "runs.jsonl", answer("task1_1", RIGHT), line)
    with pytest.raises(InputError, match=r"runs\.jsonl:2: is neither an episode of the official runner"):
        graded(path)
    ran = medagent("validate", path)
    assert (ran.code, ran.out, ran.err.count("\n")) == (1, "", 1)


def test_recorded_verdicts_are_compared(tmp_path: Path) -> None:
    right, wrong = answer("task1_1", RIGHT, correct=True), answer("task2_1", "[1]", correct=True)
    ran = grade(lines(tmp_path / "runs.jsonl", right, wrong), "--partial")
    assert ran.code == 0, "a difference is not a failure"
    words = " ".join(ran.out.split())
    assert "Equal to the recorded verdict in 1 of 2; different: task2_1 (recorded right, here wrong: answered" in words
    assert grade(tmp_path / "runs.jsonl", "--partial", "--expect-recorded").code == 1
    equal = lines(tmp_path / "equal.jsonl", right, wrong | {"correct": False})
    ran = grade(equal, "--partial", "--expect-recorded")
    assert ran.code == 0
    assert "Equal to the recorded verdict in 2 of 2\n" in ran.out
    assert "recorded verdict" not in grade(equal, "--rules", "fair").out


def test_the_official_runners_verdicts_are_compared(tmp_path: Path) -> None:
    outputs = [
        episode(0, RIGHT, status="completedIncorrect"),
        episode(1, '["Patient not found"]', status="completedCorrect"),
        episode(2, None, status="agent invalid action"),
    ]
    path = tmp_path / "overall.json"
    path.write_text(json.dumps({"custom": {"raw_results": outputs}}), encoding="utf-8")
    document = json.loads(grade(path, "--json").out)["recorded"]
    assert (document["compared"], document["equal"]) == (2, 1)
    (different,) = document["different"]
    assert (different["unit"], different["recorded"], different["here"]) == ("task1_1", False, True)


def test_a_results_file_may_contain_verdicts_too(tmp_path: Path) -> None:
    path = tmp_path / "results.json"
    items = [item("task1_1", RIGHT, sol=[MRN]) | {"correct": False}, item("task2_1", "[60]")]
    path.write_text(json.dumps({**FILE, "results": items, "total_tasks": 2}), encoding="utf-8")
    assert "Equal to the recorded verdict in 0 of 1; different: task1_1" in grade(path, "--full").out


def test_no_recorded_verdict_to_expect_is_one_line(tmp_path: Path) -> None:
    path = lines(tmp_path / "runs.jsonl", answer("task1_1", RIGHT))
    assert "--expect-recorded: no verdicts to compare" in grade(path, "--expect-recorded").err


def test_a_file_that_lacks_items_says_so_in_its_headline(tmp_path: Path) -> None:
    path = lines(tmp_path / "runs.jsonl", answer("task1_1", RIGHT), answer("task2_1", "[60]"))
    ran = grade(path)
    assert (ran.code, "Score 100.0% (2 of 2; 3 of 5 missing" in ran.out) == (2, True)
    assert grade(path, "--partial").code == 0
    assert json.loads(grade(path, "--json").out)["missing"] == {"missing": 3, "of": 5}
    path.write_text(
        "".join(f"{json.dumps(answer(task['id'], RIGHT))}\n" for task in TASKS if task["id"] < "task3"),
        encoding="utf-8",
    )
    assert "2 of 5 missing" in grade(path).out


def problems(tmp_path: Path, *items: dict[str, Any], tasks: list[dict[str, Any]] | None = None) -> list[str]:
    """The lines of `validate` about a results file with these items."""
    path = tmp_path / "results.json"
    path.write_text(json.dumps({**FILE, "results": items, "total_tasks": len(items)}), encoding="utf-8")
    words = []
    if tasks is not None:
        path.with_name("tasks.json").write_text(json.dumps(tasks), encoding="utf-8")
        words = ["--tasks", path.with_name("tasks.json")]
    return medagent("validate", path, *words).out.splitlines()[:-1]


def posted(url: str, body: str = "{}") -> dict[str, Any]:
    history = [
        {"role": "agent", "content": f"POST {url}\n{body}"},
        {"role": "user", "content": "POST request accepted and executed successfully."},
    ]
    return item("task3_1", "[]") | {"post_history": history, "post_count": 1}


@pytest.mark.parametrize("base", ["http://localhost:9090/fhir", "https://localhost:8080/fhir", "http://ehr/fhir"])
def test_validate_warns_of_posts_to_another_server(base: str, tmp_path: Path) -> None:
    (line,) = problems(tmp_path, posted(f"{base}/Observation"), tasks=TASKS)
    assert "post_history[0]: 'task3_1': is a POST to another server than http://localhost:8080/fhir/" in line
    assert line.endswith(f"{base}/Observation")
    assert problems(tmp_path, posted("http://localhost:8080/fhir/Observation"), tasks=TASKS) == []


@pytest.mark.parametrize(("text", "name"), [("[NaN]", "NaN"), ('[{"a": -Infinity}]', "-Infinity")])
def test_validate_warns_of_numbers_that_json_does_not_have(text: str, name: str, tmp_path: Path) -> None:
    found = problems(tmp_path, item("task3_1", text), tasks=TASKS)
    assert f"warning: results[0].answer: 'task3_1': is not JSON: it contains a number that is none: {name}" in found
    found = problems(tmp_path, posted("http://localhost:8080/fhir/Observation", text), tasks=TASKS)
    assert any(line.startswith("warning: results[0].post_history[0]: 'task3_1': is not JSON") for line in found)


def test_validate_warns_of_patients_that_the_tasks_do_not_have(tmp_path: Path) -> None:
    known, strange = item("task2_1", "[60]"), item("task3_1", "[]", mrn="S0000000")
    (line,) = problems(tmp_path, known, strange, tasks=TASKS)
    assert line.startswith("warning: results[1].eval_MRN: 'task3_1': is not a patient of the tasks")
    assert problems(tmp_path, item("task1_2", "[]", mrn=None, sol=None), tasks=TASKS)[:1] != [line]
    ours = [task.patient for task in load_dataset("synthetic", "v2").tasks if task.type == "task2"][:2]
    items = [item(f"task2_{n}", "[60]", mrn=mrn) for n, mrn in enumerate([*ours, "S0000000"], 1)]
    assert [line.partition(": ")[2][:19] for line in problems(tmp_path, *items)] == ["results[2].eval_MRN"]


def test_show_lists_the_wrong_items_of_a_file(tmp_path: Path) -> None:
    path = lines(tmp_path / "runs.jsonl", answer("task1_1", RIGHT), answer("task2_1", "[1]"))
    grade(path)  # writes tasks and patients
    data = ("--tasks", tmp_path / "tasks.json", "--ehr", tmp_path / "ehr.ndjson")
    ran = medagent("show", path, "--wrong", *data)
    first, last = ran.out.splitlines()
    assert (ran.code, first.split()[:4]) == (0, ["task2_1", "wrong", "wrong", "value"])
    assert "born 1963-11-13, so 60 years old" in first
    assert last.startswith("1 of 2 ")
    assert "verdict: wrong" in medagent("show", path, "task2_1", *data).out
    assert "does not contain item task9_9" in medagent("show", path, "task9_9", *data).err
    assert "Score 50.0% (1 of 2" in medagent("show", path, *data).out
