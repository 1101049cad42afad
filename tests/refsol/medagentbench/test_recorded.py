"""A run's answers in the forms that others keep them in: each is told, named, and graded as the results file is."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from refsol.errors import InputError
from refsol.medagentbench import NdjsonEhr, RecordedRun, read_recorded, stated_version
from tests.refsol.medagentbench import items
from tests.refsol.medagentbench.items import MRN, graded, lab, post
from tests.refsol.medagentbench.test_results import FILE, ITEM

TASKS = [
    {"id": "task4_1", "instruction": "What is the magnesium?", "eval_MRN": MRN},
    {"id": "task10_1", "instruction": "What is the HbA1c?", "eval_MRN": MRN},
    {"id": "task8_1", "instruction": "Order a referral.", "eval_MRN": MRN},
]
FACTS = lab("MG", (items.RECENT, 1.8))


def labelled(**changes: Any) -> dict[str, Any]:
    item = {**ITEM, "task_id": "task4_1", "answer": "[1.8]", "expected_sol": None, "eval_MRN": MRN}
    return {key: value for key, value in {**FILE, "results": [item], **changes}.items() if value != "absent"}


def output(index: int | str, result: Any, *said: dict[str, str], status: str = "completed") -> dict[str, Any]:
    prompt = {"role": "user", "content": f"… {TASKS[index]['instruction'] if isinstance(index, int) else ''} …"}
    return {"index": index, "status": status, "result": result, "history": [prompt, *said]}


def agent(text: str) -> dict[str, str]:
    return {"role": "agent", "content": text}


OUTPUTS = [
    output(0, "[2.0]", agent("GET x/Observation?code=MG"), {"role": "user", "content": "{}"}, agent("FINISH([2.0])")),
    output(1, "[-1]", *post(items.A1C_ORDER), agent("FINISH([-1])")),
    output(2, None, agent("I think so."), status="agent invalid action"),
]


def runs(tmp_path: Path, *lines: dict[str, Any]) -> Path:
    path = tmp_path / "runs.jsonl"
    path.write_text("".join(json.dumps(line, ensure_ascii=False) + "\n" for line in lines), encoding="utf-8")
    return path


def written(tmp_path: Path, document: Any, name: str = "results.json") -> Path:
    path = tmp_path / name
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def line(one: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"index": one["index"], "error": None, "info": None, "output": one, "time": {"timestamp": 1}, **more}


def verdicts(run: RecordedRun) -> dict[str, tuple[bool | None, str | None]]:
    found = graded(run, TASKS, FACTS)
    return {name: (verdict.correct, failure and failure.kind) for name, (verdict, failure) in found.items()}


def test_labels_may_be_missing_and_are_named(tmp_path: Path) -> None:
    path = written(tmp_path, labelled(round="absent", timestamp="absent", total_tasks="absent"))
    run = read_recorded(path, TASKS)
    assert run.form == "results file without round, timestamp, total_tasks"
    assert run.warnings == ("round is missing", "timestamp is missing", "total_tasks is missing")
    assert verdicts(run) == {"task4_1": (True, None)}
    assert stated_version(path) == "v2"


def test_a_complete_file_warns_of_nothing_and_a_wrong_count_is_named(tmp_path: Path) -> None:
    run = read_recorded(written(tmp_path, labelled()), TASKS)
    assert (run.form, run.warnings) == ("results file", ())
    miscounted = read_recorded(written(tmp_path, labelled(total_tasks=7)), TASKS)
    assert miscounted.warnings == ("total_tasks is 7, but there are 1 results",)


def test_agent_results_of_medagent_copilot(tmp_path: Path) -> None:
    document = labelled(round="absent", timestamp="absent", run_timestamp="20251127_212627", saved_at="2025-11-28")
    run = read_recorded(written(tmp_path, document, "agent_results.json"), TASKS)
    assert run.form == "agent_results of medagent-copilot"
    assert verdicts(run) == {"task4_1": (True, None)}


def test_runs_of_the_official_runner_have_transcripts(tmp_path: Path) -> None:
    path = runs(tmp_path, *map(line, OUTPUTS))
    run = read_recorded(path, TASKS)
    assert run.form == "runs.jsonl of the official runner"
    assert verdicts(run) == {
        "task4_1": (False, "reading-missed"),
        "task10_1": (True, None),
        "task8_1": (False, "invalid-action"),
    }


def test_overall_of_the_official_runner(tmp_path: Path) -> None:
    marked = [{**one, "status": one["status"] + "Incorrect"} for one in OUTPUTS]
    document = {"total": 3, "validation": {}, "custom": {"success rate": 0.3, "raw_results": [*marked, None]}}
    run = read_recorded(written(tmp_path, document, "overall.json"), TASKS)
    assert run.form == "overall.json of the official runner"
    assert verdicts(run) == verdicts(read_recorded(runs(tmp_path, *map(line, OUTPUTS)), TASKS))


def test_an_episode_that_the_runner_lost_is_not_graded(tmp_path: Path) -> None:
    path = runs(
        tmp_path,
        {"index": 0, "error": "TASK_ERROR", "info": "x", "output": None},
        line(OUTPUTS[1], error="NETWORK"),
        line(output("task8_1", None, status="task error")),
    )
    run = read_recorded(path, TASKS)
    assert list(verdicts(run).values()) == [(None, "infrastructure")] * 3


def test_runs_over_other_tasks_are_refused(tmp_path: Path) -> None:
    path = runs(tmp_path, *map(line, OUTPUTS))
    others = [{**task, "instruction": "Something else."} for task in TASKS]
    with pytest.raises(InputError, match=r"belongs to another task set \(the prompts of 3 of 3"):
        read_recorded(path, others)
    with pytest.raises(InputError, match=r"contains an episode of task 2, but the task file contains 2 tasks"):
        read_recorded(path, TASKS[:2])


@pytest.mark.parametrize(
    ("content", "fault"),
    [
        ('{"index": 0, "output": {"history": [{"role": "agent"}]}}', r":1: output.history\[0\].content: is missing"),
        ('{"output": {}}', ":1: index: is missing"),
        ("[]", ":1: is one JSON document"),
        ('{"index": 0', ":1: is not JSON"),
    ],
)
def test_damaged_runs_are_named(tmp_path: Path, content: str, fault: str) -> None:
    path = tmp_path / "runs.jsonl"
    path.write_text(content, encoding="utf-8")
    with pytest.raises(InputError, match=rf"runs\.jsonl{fault}.*each line must be an episode of the official runner"):
        read_recorded(path, TASKS)


def test_a_damaged_overall_is_named(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"overall\.json:1: custom.raw_results: is missing"):
        read_recorded(written(tmp_path, {"custom": {}}, "overall.json"), TASKS)


@pytest.mark.parametrize(("numbers", "version"), [(range(100), "v1"), (range(99), None), ([250], "v2"), ([], None)])
def test_the_version_that_the_numbers_prove(tmp_path: Path, numbers: Any, version: str | None) -> None:
    lines = [{"index": number, "output": {"index": number}} for number in numbers]
    assert stated_version(runs(tmp_path, *lines)) == version
    overall = {"custom": {"raw_results": [one["output"] for one in lines]}}
    assert stated_version(written(tmp_path, overall)) == version


def test_every_vector_as_a_run_has_the_official_verdict(
    tmp_path: Path,
    vector_cases: list[dict[str, Any]],
    vector_tasks: dict[str, dict[str, Any]],
    vector_ehr: NdjsonEhr,
) -> None:
    tasks = list(vector_tasks.values())
    places = {task["id"]: place for place, task in enumerate(tasks)}
    waiting = list(vector_cases)
    while waiting:
        chosen: dict[str, dict[str, Any]] = {}
        waiting = [case for case in waiting if chosen.setdefault(case["task_id"], case) is not case]
        path = runs(
            tmp_path,
            *(
                {"index": places[task_id], "output": {"result": case["answer"], "history": case["post_history"]}}
                for task_id, case in chosen.items()
            ),
        )
        run = read_recorded(path, without_words(tasks))
        found = {name: verdict.correct for name, (verdict, _) in graded(run, tasks, vector_ehr).items()}
        assert found == {task_id: case["verdict"] for task_id, case in chosen.items()}


def without_words(tasks: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The vectors' histories hold no prompt."""
    return [{**task, "instruction": ""} for task in tasks]
