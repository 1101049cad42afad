"""Results files as rows: rates, duplicates, foreign files, baselines, episodes, and 10,000 spoiled files."""

from __future__ import annotations

import contextlib
import json
import random
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent import Report
from refsol.clinical.recorded import recorded, result_lines
from refsol.errors import FactsError, InputError
from refsol.medagentbench import Constants, NdjsonEhr
from refsol.medagentbench.twins import case_of
from tests.medagent.benchmarks.medagentbench.results.test_commands import PUBLISHED, REAL
from tests.refsol.medagentbench.items import MRN
from tests.refsol.medagentbench.test_results import FILE, ITEM, written
from tests.shared_data import DATA, need, read_xz

TASKS = [
    {"id": "task1_1", "eval_MRN": MRN, "sol": [MRN], "instruction": "Made up."},
    {"id": "task1_2", "sol": ["Patient not found"], "instruction": "Made up."},
    {"id": "task2_1", "eval_MRN": MRN, "instruction": "Made up."},
    {"id": "task3_1", "eval_MRN": MRN, "instruction": "Made up."},
    {"id": "task5_1", "eval_MRN": MRN, "instruction": "Made up."},
]
PATIENT = {"resourceType": "Patient", "id": MRN, "identifier": [{"value": MRN}], "birthDate": "1963-11-13"}


def item(task_id: str, answer: Any, mrn: str | None = MRN, sol: list[str] | None = None) -> dict[str, Any]:
    return {**ITEM, "task_id": task_id, "answer": answer, "eval_MRN": mrn, "expected_sol": sol}


def graded(path: Path, **options: Any) -> Report:
    """The report of a results file, by the tasks and the patient above."""
    tasks, ehr = path.with_name("tasks.json"), path.with_name("ehr.ndjson")
    tasks.write_text(json.dumps(TASKS), encoding="utf-8")
    ehr.write_text(json.dumps(PATIENT) + "\n", encoding="utf-8")
    return medagent.grade(path, tasks=tasks, ehr=ehr, **options)


def grade(tmp_path: Path, *items: dict[str, Any], **options: Any) -> Report:
    return graded(written(tmp_path, {**FILE, "results": items, "total_tasks": len(items)}), **options)


def rates(rate: dict[str, Any]) -> tuple[int, int, int]:
    """Right, wrong and not graded."""
    return rate["right"], rate["wrong"], rate["ungraded"]


def document(report: Report) -> dict[str, Any]:
    grades: dict[str, Any] = report.details["grades"][0]
    return grades


def verdicts(report: Report) -> list[bool | None]:
    return [scored.correct for scored in report.items]


def test_rates_count_what_could_not_be_graded_apart(tmp_path: Path) -> None:
    report = grade(tmp_path, item("task1_1", f'["{MRN}"]'), item("task2_1", [60]), item("task5_1", None))
    grades = document(report)
    assert rates(grades["overall"]) == (1, 1, 1)
    assert (grades["overall"]["rate"], grades["overall"]["rate_of_all"]) == (1 / 2, 1 / 3)
    assert {kind: rates(rate) for kind, rate in grades["by_type"].items()} == {
        "task1": (1, 0, 0),
        "task2": (0, 0, 1),
        "task5": (0, 1, 0),
    }
    assert [rates(rate) for rate in grades["groups"].values()] == [(1, 0, 1), (0, 1, 0)]
    branches = {branch: rates(rate) for branch, rate in grades["branches"].items()}
    assert branches == {"query": (1, 0, 0), "order": (0, 0, 0), "no order": (0, 1, 0)}
    assert "2 of 5 items are not in the file." in report.notes
    assert not report.complete


def test_baselines_are_those_of_the_tasks_in_the_file(tmp_path: Path) -> None:
    report = grade(tmp_path, item("task1_1", "[]"), item("task2_1", "[]"), item("task3_1", "[]"), item("task5_1", "[]"))
    baselines = {name: rates(rate) for name, rate in document(report)["baselines"].items()}
    assert baselines == {"nop": (1, 3, 0), "constant": (3, 1, 0), "blind": (3, 1, 0)}


def test_no_rate_of_nothing(tmp_path: Path) -> None:
    report = grade(tmp_path)
    overall = document(report)["overall"]
    assert (overall["rate"], overall["rate_of_all"], report.complete) == (None, None, True)
    assert overall["interval_95"] == [0.0, 1.0]


def test_of_duplicates_the_first_is_graded_and_all_are_named(tmp_path: Path) -> None:
    report = grade(
        tmp_path, item("task2_1", "[60]"), item("task2_1", "[1]"), item("task5_1", "[]"), item("task2_1", "[]")
    )
    assert document(report)["duplicates"] == ["task2_1"]
    assert verdicts(report) == [True, True]
    assert (report.ungraded, report.complete) == (1, False)


def test_an_unknown_id_is_named_and_not_graded(tmp_path: Path) -> None:
    report = grade(tmp_path, item("task2_1", "[60]"), item("task2_99", "[60]"), item("\ud800", "[60]"))
    assert verdicts(report) == [True, None, None]
    assert report.items[1].reason == "unknown task id 'task2_99'"


def test_a_file_of_another_task_set_is_refused_with_the_way_on(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"belongs to another task set.*first task2_1.*--tasks.*--ehr"):
        grade(tmp_path, item("task2_1", "[60]", mrn="S7654321"), item("task3_1", "[]", mrn="S7654321"))
    with pytest.raises(InputError, match="another task set"):
        grade(tmp_path, item("task1_2", "[]", mrn=None, sol=["S7654321"]))
    with pytest.raises(InputError, match="another task set"):
        grade(tmp_path, item("task1_2", "[]", mrn=MRN))


def test_one_foreign_item_is_not_graded(tmp_path: Path) -> None:
    report = grade(tmp_path, item("task2_1", "[60]"), item("task3_1", "[]"), item("task5_1", "[]", mrn="S7654321"))
    assert verdicts(report) == [True, False, None]
    assert "S7654321" in report.items[2].reason


def test_what_a_file_does_not_say_is_no_evidence_of_another_set(tmp_path: Path) -> None:
    report = grade(tmp_path, item("task1_1", f'["{MRN}"]', mrn=None), item("task2_1", "[60]", mrn=""))
    assert verdicts(report) == [True, True]


def row(task_id: str, status: str, **fields: Any) -> str:
    return json.dumps({"task_id": task_id, "status": status, **fields}) + "\n"


def test_episodes_beside_the_file_say_what_was_not_the_agents_fault(tmp_path: Path) -> None:
    (tmp_path / "episodes.jsonl").write_text(
        row("task2_1", "model_error", trial=1)
        + row("task5_1", "fhir_error", trial=1)
        + row("task5_1", "completed", trial=1)
        + row("task5_1", "cancelled", trial=2)
        + '{"task_id": "task3_1", "sta',
        encoding="utf-8",
    )
    report = grade(tmp_path, item("task2_1", None), item("task5_1", "[]"), item("task3_1", "[]"))
    assert verdicts(report) == [None, True, False]
    (tmp_path / "results.json").rename(tmp_path / "results.2.json")
    assert verdicts(graded(tmp_path / "results.2.json")) == [False, None, False]


@pytest.mark.parametrize(
    "line",
    [
        "{",
        "[]",
        '{"task_id": 1}',
        '{"task_id": "task2_1"}',
        row("task2_1", "completed", created=1).strip(),
        "[" * 100_000,
    ],
)
def test_a_damaged_row_of_episodes_is_named(tmp_path: Path, line: str) -> None:
    (tmp_path / "episodes.jsonl").write_text(f"\n{line}\n" + row("task2_1", "completed"), encoding="utf-8")
    with pytest.raises(FactsError, match=r"episodes\.jsonl:2: .*each line must be an episode$"):
        grade(tmp_path, item("task2_1", "[60]"))


def test_other_rules_stand_beside_with_the_items_that_differ(tmp_path: Path) -> None:
    prose = [{"role": "agent", "content": "GET x?code=POST"}, {"role": "user", "content": "{}"}]
    (tmp_path / "episodes.jsonl").write_text(row("task2_1", "completed", created=[]), encoding="utf-8")
    said = {**item("task2_1", "[60]"), "post_history": prose}
    report = grade(tmp_path, said, item("task5_1", "[]"), side_by_side=True)
    assert verdicts(report) == [False, True]
    assert rates(report.details["others"]["fair"]) == (2, 0, 0)
    assert rates(report.details["others"]["state"]) == (1, 0, 1)
    assert report.details["differing"] == {"fair": ["task2_1"], "state": ["task2_1"]}


def spoil(data: Any, rng: random.Random) -> Any:
    """Replace, drop, repeat or add something somewhere in a JSON value."""
    junk: list[Callable[[], Any]] = [
        lambda: None,
        lambda: rng.choice([True, -1, 0.5, float("nan"), float("inf"), 10**400]),
        lambda: rng.choice(["", "POST", "\ud800", "[" * 3000, "9" * 5000, "[NaN]", "task5_1", "agent"]),
        lambda: [],
        lambda: {},
        lambda: [[["x"]]] * 3,
    ]
    node = data
    while True:
        keys = list(node) if isinstance(node, dict) else list(range(len(node)))
        if not keys:
            return data
        key = rng.choice(keys)
        if isinstance(node[key], dict | list) and node[key] and rng.random() < 0.85:
            node = node[key]
            continue
        kind = rng.randrange(5)
        if kind == 0:
            del node[key]
        elif kind == 1 and isinstance(node, list):
            node.append(node[key])
        elif kind == 2 and isinstance(node[key], str) and node[key]:
            text, place = node[key], rng.randrange(len(node[key]))
            node[key] = text[:place] + rng.choice(["", "\n", "{", '"', "POST", text]) + text[place + 1 :]
        elif kind == 3 and isinstance(node, dict):
            node[rng.choice(["answer", "role", "x"])] = node[key]
        else:
            node[key] = rng.choice(junk)()
        return data


def crashes(count: int, tmp_path: Path) -> None:
    """Grade so many spoiled copies of thirty of the real file's items: a report or a clear error each time."""
    real = json.loads(need(REAL).read_text(encoding="utf-8"))
    facts, tasks, key = (tmp_path / name for name in ("ehr.ndjson", "tasks.json", "key.json"))
    facts.write_text(read_xz(DATA / "medagentbench" / "rebuilt_ehr.ndjson.xz"), encoding="utf-8")
    ids = {f"task{kind}_{number}" for kind in range(1, 11) for number in (1, 5, 9)}
    chosen = [task for task in json.loads(need(PUBLISHED).read_text(encoding="utf-8")) if task["id"] in ids]
    tasks.write_text(json.dumps(chosen), encoding="utf-8")
    cases = [(case_of(task, Constants()), ()) for task in chosen]
    key.write_text("".join(result_lines(recorded(cases, NdjsonEhr(facts), complete=False, whole=False))))
    whole = json.dumps({**real, "results": [result for result in real["results"] if result["task_id"] in ids]})
    rng, reports = random.Random(20231113), 0
    for _ in range(count):
        data = json.loads(whole)
        for _ in range(rng.randrange(1, 6)):
            spoil(data, rng)
        path = tmp_path / "results.json"
        path.write_text(json.dumps(data), encoding="utf-8")
        with contextlib.suppress(InputError):
            report = medagent.grade(path, tasks=tasks, key=key, rules=rng.choice(["official", "fair"]))
            assert sum(rates(document(report)["overall"])) == len(report.items)
            reports += 1
    assert 0 < reports < count


def test_spoiled_files_get_a_report_or_a_clear_error(tmp_path: Path) -> None:
    crashes(250, tmp_path)


@pytest.mark.long
def test_ten_thousand_spoiled_files_get_a_report_or_a_clear_error(tmp_path: Path) -> None:
    crashes(10_000, tmp_path)
