"""What `show`, `grade` and `compare` say of a run: items by outcome, several trials, what it was measured on."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from fhir_server.synthetic.bundled import DIGEST
from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from tests.command import medagent
from tests.medagent.benchmarks.medagentbench.runs import run


def test_show_lists_items_by_outcome_kind_and_type(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps({"task2_1#1": ["FINISH([99])"], "*": ["FINISH([-1])"]}))
    words = ("--types", "task2,task4", "--ids", "task2_1,task2_2,task4_1,task4_2", "--trials", 2)
    run(tmp_path, "--model", f"scripted:{tmp_path / 's.json'}", *words, "--round", "x")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    items = [json.loads(line) for line in (folder / "items.jsonl").read_text().splitlines()]
    wrong = [f"{item['item']}#{item['trial']}" for item in items if item["correct"] is False]
    listed = medagent("show", folder, "--wrong").out.splitlines()
    assert sorted(line.split()[0] for line in listed[:-1]) == sorted(wrong)
    assert listed[-1] == f"{len(wrong)} of 8 (item, outcome, share of its trials that are right, kind, why)"
    assert all(line.split()[1] == "wrong" for line in listed[:-1])
    only = medagent("show", folder, "--type", "task4", "--kind", "reading-missed").out.splitlines()
    assert {line.split("_")[0] for line in only[:-1]} <= {"task4"}
    assert medagent("show", folder, "--type", "task4", "--kind", "data never read").out.splitlines() == only
    assert [line.split()[0] for line in medagent("show", folder, "--type", "task2").out.splitlines()[:-1]] == [
        "task2_1#1",
        "task2_1#2",
        "task2_2#1",
        "task2_2#2",
    ]
    assert "--kind order-missing: matches no item of" in medagent("show", folder, "--kind", "order-missing").err
    assert "--type task9: matches no item of" in medagent("show", folder, "--type", "task9").err
    assert "to list items; not both" in medagent("show", folder, "task2_1", "--wrong").err
    shown = medagent("show", folder).out
    assert "2 trials" in shown
    assert "pass^2" in shown
    assert "Every task ended alike in all its trials." in shown


def test_grade_and_compare_know_all_trials(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    tmp_path = Path()
    right = {task.id: (task.fields.get("sol") or [""])[0] for task in load_dataset("synthetic", "v2").tasks[:4]}
    script = {f"{name}#1": [f'FINISH(["{answer}"])'] for name, answer in right.items()}
    (tmp_path / "s.json").write_text(json.dumps({**script, "*": ['FINISH(["S0"])']}))
    words = ("--ids", ",".join(right), "--trials", 2)
    run(tmp_path, "--model", f"scripted:{tmp_path / 's.json'}", *words)
    run(tmp_path, "--agent", "reference", "--ids", ",".join(right), "--round", "b")
    (folder,) = (path for path in tmp_path.glob("v2_r1_*") if path.is_dir())
    graded = medagent("grade", folder, "--full")
    flips = "Right in some trials and wrong in others: 4 of 4 tasks: task1_1 50%, task1_2 50%"
    assert flips in graded.out
    found = json.loads(medagent("grade", folder, "--json").out)["trials"]
    assert (found["pass@k"], found["pass^k"]) == ([0.5, 1.0], [0.5, 0.0])
    assert found["reliability"] == dict.fromkeys(right, 0.5)
    assert found["flipping"] == list(right)
    second = tmp_path / "v2_b_reference"
    compared = medagent("compare", folder, second)
    rows = [re.sub(r"\d\S*–\S+", "…", line).split() for line in compared.out.splitlines()]
    assert ["A", "4", "2", "50.0%", "…", "100.0%", "…", "0.0%", "…", "4"] in rows
    assert ["B", "4", "1", "100.0%", "…", "100.0%", "…", "100.0%", "…", "0"] in rows
    assert "Flip between the trials of A: task1_1, task1_2, task1_3, task1_4" in compared.out
    assert "B right more often: task1_1, " in compared.out
    several = medagent("compare", second, folder, folder / "results.2.json")
    assert [line.split()[1:5] for line in several.out.splitlines() if line.startswith(f"  {folder}")] == [
        ["4", "0", "4", "0"],
        ["4", "0", "4", "0"],
    ]
    assert len(json.loads(medagent("compare", second, folder, second, "--json").out)) == 2
    assert medagent("compare", second).err == "medagent: pass at least two runs: medagent compare A B\n"


def test_compare_takes_the_task_file_and_the_facts_that_it_asks_for(tmp_path: Path) -> None:
    bundled = load_dataset("synthetic", "v1")
    tasks = tmp_path / "mine.json"
    tasks.write_text(json.dumps([task.published for task in bundled.tasks[:10]]))
    for agent in ("nop", "reference"):
        assert run(tmp_path / "runs", "--dataset", tasks, "--agent", agent).code == 0
    nop, reference = (tmp_path / "runs" / f"mine_r1_{agent}" / "results.json" for agent in ("nop", "reference"))
    for path in (nop, reference):  # as a file of somebody else's: nothing beside it
        for beside in ("grade.json", "run.json"):
            path.with_name(beside).unlink()
    refused = medagent("compare", nop, reference)
    assert (refused.code, "name its task file with --tasks" in refused.err) == (1, True)
    patients = tmp_path / "patients.ndjson"  # task1 asks for none
    patients.write_text('{"resourceType": "Patient", "id": "S1"}\n', encoding="utf-8")
    found = medagent("compare", nop, reference, "--tasks", tasks, "--ehr", patients, "--json")
    assert (found.code, len(json.loads(found.out)["gained"])) == (0, 10)


def test_what_a_score_was_measured_on_stands_under_the_table(tmp_path: Path) -> None:
    (tmp_path / "s.json").write_text(json.dumps(["FINISH([1])"]))
    words = ("--model", f"scripted:{tmp_path / 's.json'}", "--limit", 1, "--max-tokens", 99, "--temperature", 0.5)
    ran = run(tmp_path, *words, "--full")
    (folder,) = (path for path in tmp_path.iterdir() if path.is_dir())
    for out in (ran.out, medagent("grade", folder, "--full").out, medagent("show", folder).out):
        digest = load_dataset("synthetic", "v2").digest[:12]
        assert f"Data set: MedAgentBench-Synthetic v2, digest {digest}, patients {DIGEST[:12]}; " in out
        assert "Protocol: text, prompts " in out
        assert ", loop published, rules official" in out
        assert "scripted:s.json, temperature 0.5, max tokens 99" in out.replace(f"{tmp_path}/", "")
        assert re.search(r"Ran: \d{4}-\d\d-\d\dT\S+ to \d{4}", out)
        assert re.search(r"Versions: medagent \S+ .*python 3\.\d+[.\d]*\n", out)
    assert "Published figures" not in ran.out
    grade = json.loads((folder / "grade.json").read_text())
    assert grade["data"]["name"] == "MedAgentBench-Synthetic"
    assert grade["settings"]["max-tokens"] == 99
    assert "openai" in grade["versions"]


def test_a_missing_order_is_one_line(tmp_path: Path) -> None:
    """Not a line for each of its fields."""
    assert run(tmp_path, "--agent", "nop", "--types", "task3,task9").code == 0
    shown = medagent("show", tmp_path / "v2_r1_nop", "task3_1").out
    assert "  ✗ Observation: this order is missing (8 checks)\n" in shown
    assert "why: order missing: 1 order was due, none was placed: the instruction asks to record" in shown
    assert "got nothing" not in shown
    items = json.loads((tmp_path / "v2_r1_nop" / "grade.json").read_text())["items"]
    low = next(item["task_id"] for item in items if item["task_id"].startswith("task9_") and not item["correct"])
    two = medagent("show", tmp_path / "v2_r1_nop", low).out
    assert re.findall(r"✗ (\w+): this order is missing", two) == ["MedicationRequest", "ServiceRequest"]
