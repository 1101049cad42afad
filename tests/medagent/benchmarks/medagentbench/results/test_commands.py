"""`medagent grade`, `validate` and `data key`, through the command line."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from medagent.benchmarks.medagentbench.tasks.dataset import load_dataset
from medagent.engine.folder import RunFile
from medagent.engine.report import DataRef
from tests.command import medagent
from tests.refsol.medagentbench.items import BLOOD_PRESSURE, post, put
from tests.shared_data import DATA, SHARED, need, read_xz

REAL = SHARED / "medagentbench" / "results_v2_r2_20251127_000553.json"
PUBLISHED = SHARED / "medagentbench" / "official" / "test_data_v2.json"


@pytest.fixture
def rebuilt(tmp_path: Path) -> Path:
    path = tmp_path / "rebuilt.ndjson"
    path.write_text(read_xz(DATA / "medagentbench" / "rebuilt_ehr.ndjson.xz"), encoding="utf-8")
    return path


def results_file(folder: Path, spoil: dict[str, dict[str, Any]] | None = None, **root: Any) -> Path:
    """A results file of the bundled v1: every task answered `[]`, some items changed."""
    items = [
        {
            "task_id": task.id,
            "answer": "[]",
            "expected_sol": task.fields.get("sol"),
            "eval_MRN": task.patient,
            "timestamp": "2026-01-01T00:00:00",
            "post_history": [],
            "post_count": 0,
            **(spoil or {}).get(task.id, {}),
        }
        for task in load_dataset("synthetic", "v1").tasks
    ]
    document = {
        "version": "v1",
        "round": "r1",
        "timestamp": "2026-01-01T00:00:00",
        "total_tasks": len(items),
        "results": items,
        **root,
    }
    path = folder / "results.json"
    path.write_text(json.dumps(document), encoding="utf-8")
    return path


def run_file(settings: dict[str, Any]) -> str:
    """The text of a `run.json` with these settings."""
    run = RunFile(
        format=1,
        command="medagent run",
        benchmark="medagentbench",
        data=DataRef(name="synthetic"),
        settings=settings,
        places={},
        versions={},
    )
    return run.model_dump_json()


def test_the_bundled_set_needs_nothing_beside_the_results(tmp_path: Path) -> None:
    code, out, err = medagent("grade", results_file(tmp_path), "--full")
    assert (code, err) == (0, "")
    lines = {line.split("  ")[1].strip(): line.split() for line in out.splitlines() if line.startswith("  ")}
    assert lines["overall"][1:3] == lines["baseline doing nothing"][3:5]
    assert "nop" not in out.replace("Agent: nop", "")
    assert list(tmp_path.iterdir()) == [tmp_path / "results.json"]


def test_the_nop_agent_stays_under_15_percent(tmp_path: Path) -> None:
    _, out, _ = medagent("grade", results_file(tmp_path), "--json")
    assert json.loads(out)["baselines"]["nop"]["rate"] < 0.15


def test_the_real_results_file(rebuilt: Path) -> None:
    code, out, _ = medagent(
        "grade", need(REAL), "--tasks", need(PUBLISHED), "--ehr", rebuilt, "--side-by-side", "--json"
    )
    document = json.loads(out)
    assert code == 0
    assert document["overall"] == {
        "right": 275,
        "wrong": 25,
        "ungraded": 0,
        "rate": 275 / 300,
        "rate_of_all": 275 / 300,
        "interval_95": pytest.approx([0.8919, 0.9361], abs=1e-4),
        "grounded": {"right": 0, "n": 0, "lucky": 0, "value": None, "interval": None, "note": "unknown"},
    }
    assert document["baselines"]["nop"]["right"] == 70
    assert document["baselines"]["constant"]["right"] == 99 < document["baselines"]["blind"]["right"]
    assert document["differing"] == {"fair": [], "state": []}
    assert document["others"]["state"]["ungraded"] == 300


def test_a_key_built_once_grades_afterwards(rebuilt: Path, tmp_path: Path) -> None:
    key = tmp_path / "key.json"
    code, out, _ = medagent("data", "key", key, "--tasks", need(PUBLISHED), "--ehr", rebuilt)
    assert code == 0
    assert "for 300 tasks" in out
    graded = [
        json.loads(medagent("grade", need(REAL), "--tasks", PUBLISHED, *facts, "--json")[1])
        for facts in (("--key", key), ("--ehr", rebuilt))
    ]
    assert graded[0] == graded[1]


def test_key_build_asks_where_the_facts_are(tmp_path: Path) -> None:
    code, _, err = medagent("data", "key", tmp_path / "key.json")
    assert (code, err) == (1, "medagent: pass the source of the facts: --fhir URL or --ehr FILE.ndjson\n")


def test_what_could_not_be_graded_is_exit_code_2_and_shown(tmp_path: Path) -> None:
    path = results_file(tmp_path, {"task2_1": {"answer": [60]}, "task2_2": {"task_id": "task2_1"}})
    code, out, _ = medagent("grade", path, "--full")
    assert code == 2
    assert "Not graded: 'task2_1': the answer is not a JSON text but list: [60]" in out
    assert "Duplicates in the file, of which only the first was graded: task2_1" in out
    assert "1 of 100 items are not in the file." in out
    assert "rate of all" in out


def test_other_rules_are_named_in_the_table(tmp_path: Path) -> None:
    path = results_file(tmp_path)
    assert "under the rules 'fair'" in medagent("grade", path, "--rules", "fair")[1]
    _, out, _ = medagent("grade", path, "--side-by-side")
    assert "The same items under each rule set" in out
    code, _, err = medagent("grade", path, "--rules", "mild")
    assert (code, err) == (1, "medagent: unknown rules 'mild'; known: official, fair, state.\n")


def test_a_results_file_of_another_set_names_the_way_on(tmp_path: Path) -> None:
    code, out, err = medagent("grade", need(REAL))
    assert (code, out) == (1, "")
    assert err.count("\n") == 1
    assert "--tasks" in err
    assert "--ehr" in err


def test_run_json_beside_says_which_set_it_was(tmp_path: Path) -> None:
    path = results_file(tmp_path)
    run = tmp_path / "run.json"
    settings = {"dataset": "synthetic", "tasks-digest": load_dataset("synthetic", "v1").digest}
    run.write_text(run_file(settings), encoding="utf-8")
    assert medagent("grade", path)[0] == 0
    run.write_text(run_file({"tasks-digest": "0" * 64}), encoding="utf-8")
    code, _, err = medagent("grade", path)
    assert code == 1
    assert "by the run.json next to it, the run used another task set" in err
    run.write_text(run_file({"ehr-digest": "ehr-0123-0.1.0"}), encoding="utf-8")
    code, _, err = medagent("grade", path)
    assert code == 1
    assert "the run used other patient data than the data set's; name it with --ehr" in err
    assert medagent("grade", path, "--key", load_dataset("synthetic", "v1").reads)[0] == 0
    run.write_text("[]", encoding="utf-8")
    assert medagent("grade", path)[2] == f"medagent: {run}: is damaged; move it away to grade without it\n"


def test_a_runs_folder_stands_for_its_results_file(tmp_path: Path) -> None:
    results_file(tmp_path)
    assert medagent("grade", tmp_path)[0] == 0
    assert medagent("validate", tmp_path)[0] == 0
    for command in ("grade", "validate"):
        code, _, err = medagent(command, tmp_path / "away")
        assert (code, err.count("\n")) == (1, 1)
        assert "no such file; name a finished run's folder or a results file" in err


def test_compare_grades_by_the_base_and_patients_of_the_run(tmp_path: Path) -> None:
    base = "http://ehr.test/fhir/"
    task = next(task for task in load_dataset("synthetic", "v1").tasks if task.id == "task3_1")
    body = put(BLOOD_PRESSURE, ("subject",), {"reference": f"Patient/{task.patient}"})
    for name, history in (("a", post(body, base=base)), ("b", [])):
        (tmp_path / name).mkdir()
        results_file(tmp_path / name, {"task3_1": {"post_history": history, "post_count": len(history) // 2}})
    run = tmp_path / "a" / "run.json"
    run.write_text(run_file({"api-base": base}), encoding="utf-8")
    assert json.loads(medagent("compare", tmp_path / "a", tmp_path / "b", "--json")[1])["lost"] == ["task3_1"]
    run.write_text(run_file({"ehr-digest": "ehr-0123-0.1.0"}), encoding="utf-8")
    code, _, err = medagent("compare", tmp_path / "a", tmp_path / "b")
    assert code == 1
    assert "name it with --ehr" in err


def test_runs_over_different_task_sets_are_not_compared(tmp_path: Path) -> None:
    for name, spoil in (("a", {}), ("b", {"task2_1": {"eval_MRN": "S0000000"}})):
        (tmp_path / name).mkdir()
        results_file(tmp_path / name, spoil)
    code, out, err = medagent("compare", tmp_path / "a", tmp_path / "b")
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert "have different task sets: 1 of 100 tasks have another patient, first 'task2_1'" in err


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("--ehr", "nowhere.ndjson"), "nowhere.ndjson: no such file"),
        (("--key", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--key", "k", "--ehr", "e"), "pass only one of them"),
        (("--tasks", "nowhere.json"), "nowhere.json: cannot be read"),
        (("--dataset", "nothing"), "unknown data set 'nothing'; known: synthetic, official"),
        (("--dataset", "official"), "medagent data import"),
    ],
)
def test_a_users_mistake_is_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, words: tuple[str, ...], error: str
) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path))
    code, out, err = medagent("grade", results_file(tmp_path), *words)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert error in err


def test_a_task_file_without_facts_asks_for_them(tmp_path: Path) -> None:
    tasks = tmp_path / "tasks.json"
    tasks.write_text(json.dumps([task.published for task in load_dataset("synthetic", "v1").tasks]), encoding="utf-8")
    code, _, err = medagent("grade", results_file(tmp_path), "--tasks", tasks)
    assert code == 1
    assert "this task set does not contain an answer key; pass --key, --ehr or --fhir" in err


def test_a_key_of_other_tasks_is_refused(tmp_path: Path) -> None:
    whole, key = load_dataset("synthetic", "v2").reads, tmp_path / "key.jsonl"
    assert whole is not None
    key.write_text("".join(whole.read_text("utf-8").splitlines(keepends=True)[:50]), "utf-8")
    code, _, err = medagent("grade", results_file(tmp_path), "--key", key)
    assert code == 1
    assert "is the answer key of another task set" in err


def test_an_unknown_version_asks_for_the_task_file(tmp_path: Path) -> None:
    code, _, err = medagent("grade", results_file(tmp_path, version="v9"))
    assert code == 1
    assert "unknown version 'v9'; name its task file with --tasks" in err


def test_a_server_that_is_away_leaves_items_ungraded(tmp_path: Path) -> None:
    code, out, _ = medagent("grade", results_file(tmp_path), "--fhir", "http://127.0.0.1:9/fhir", "--json")
    document = json.loads(out)
    assert code == 2
    assert document["overall"]["ungraded"] == 70
    assert document["by_type"]["task1"]["ungraded"] == 0
    assert "the facts could not be read: http://127.0.0.1:9/fhir/Patient" in document["items"][10]["reason"]


def test_a_file_without_labels_is_graded_and_its_labels_are_warnings(tmp_path: Path) -> None:
    path = results_file(tmp_path)
    whole = medagent("grade", path)
    document = json.loads(path.read_text(encoding="utf-8"))
    for label in ("round", "timestamp", "total_tasks"):
        del document[label]
    path.write_text(json.dumps(document), encoding="utf-8")
    code, out, err = medagent("grade", path)
    assert (code, err) == (whole.code, whole.err)
    assert "Read as results file without round, timestamp, total_tasks." in out
    assert [line for line in out.splitlines() if line.startswith("Warning: ")] == [
        f"Warning: {label} is missing" for label in ("round", "timestamp", "total_tasks")
    ]
    code, out, _ = medagent("validate", path)
    assert code == 0
    assert [line for line in out.splitlines() if line.endswith("is missing")] == [
        f"warning: {label}: is missing" for label in ("round", "timestamp", "total_tasks")
    ]


def test_a_folder_of_the_official_runner_is_graded(tmp_path: Path) -> None:
    tasks = load_dataset("synthetic", "v1").tasks
    lines = [
        {
            "index": number,
            "error": None,
            "output": {
                "index": number,
                "status": "completed",
                "result": "[]",
                "history": [{"role": "user", "content": task.text}, {"role": "agent", "content": "FINISH([])"}],
            },
        }
        for number, task in enumerate(tasks)
    ]
    (tmp_path / "runs.jsonl").write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
    code, out, _ = medagent("grade", tmp_path, "--json")
    assert code == 0
    overall = json.loads(out)["overall"]
    assert overall["right"] == json.loads(out)["baselines"]["nop"]["right"]
    assert overall["grounded"]["lucky"] == overall["right"], "conversations without a GET"
    assert "Read as runs.jsonl of the official runner." in medagent("grade", tmp_path)[1]
    code, out, _ = medagent("validate", tmp_path, "--all")
    assert code == 0
    first, second, *_, last = out.splitlines()
    assert first == "warning: the file: is runs.jsonl of the official runner; only its answers are checked"
    assert second.startswith("warning: task1_1.answer: the answer is not a list of one MRN")
    assert ": 0 errors, " in last


def test_the_real_results_file_is_valid_with_warnings() -> None:
    code, out, _ = medagent("validate", need(REAL))
    assert code == 0
    assert out.endswith("0 errors, 21 warnings\n")
    assert out.splitlines()[0] == (
        "warning: 21 times: the answer is not a list of one number; a grader rejects this format: results[189].answer "
        "'task7_10' ('94.0'), results[190].answer 'task7_11' ('107.0'), results[191].answer 'task7_12' ('79.0'), …"
    )
    every = medagent("validate", need(REAL), "--all").out.splitlines()
    assert len(every) == 22
    assert every[0].startswith("warning: results[189].answer: 'task7_10': the answer is not a list of one number; a g")


def test_equal_problems_are_one_line_and_different_ones_are_not(tmp_path: Path) -> None:
    spoil = {f"task2_{number}": {"answer": None, "timestamp": "today"} for number in (1, 2)}
    spoil["task8_1"] = {"answer": "none"}
    lines = medagent("validate", results_file(tmp_path, spoil)).out.splitlines()
    null = "is null: the episode did not complete and is graded as wrong"
    assert f"warning: 2 times: {null}: results[10].answer 'task2_1', results[11].answer 'task2_2'" in lines
    assert (
        "warning: 2 times: is not an ISO time: results[10].timestamp 'task2_1' ('today'), results[11].timestamp"
        in "\n".join(lines)
    )
    single = "the answer is not JSON; the answer of this task is not graded: 'none'"
    assert f"warning: results[70].answer: 'task8_1': {single}" in lines
    every = medagent("validate", tmp_path / "results.json", "--all").out.splitlines()
    assert f"warning: results[11].answer: 'task2_2': {null}" in every
    assert every[-1] == lines[-1]
    assert len(every) - len(lines) > 40  # the other items' `[]`


def test_a_broken_schema_hides_no_other_problem(tmp_path: Path) -> None:
    path = results_file(tmp_path, {"task1_1": {"post_count": "0"}, "task1_2": {"task_id": "task1_3"}}, total_tasks=7)
    assert medagent("validate", path, "--all")[1].splitlines()[:3] == [
        "error: results[0].post_count: is not a whole number",
        "error: total_tasks: is 7, but there are 100 results",
        "error: results: contains 'task1_3' 2 times; only the first is graded",
    ]
    path.write_text("[]", encoding="utf-8")
    assert medagent("validate", path)[1].startswith("error: the top: is not a JSON object\n")


def test_the_validator_names_every_problem_with_its_place(tmp_path: Path) -> None:
    post = {"role": "agent", "content": "POST http://x\n{"}
    accepted = {"role": "user", "content": "POST request accepted"}
    spoil: dict[str, dict[str, Any]] = {
        "task1_1": {"task_id": "task1_99"},
        "task1_2": {"answer": ["S1"]},
        "task1_3": {"post_count": "0"},
        "task1_4": {"task_id": "task1_5"},
        "task1_6": {"post_count": 2},
        "task1_7": {"eval_MRN": 7},
        "task1_8": {"answer": '["S12"]'},
        "task2_1": {"answer": "[60.0]"},
        "task2_2": {"answer": "60"},
        "task2_3": {"answer": "nothing"},
        "task3_1": {"answer": "[1]"},
        "task10_1": {"answer": "[5]"},
        "task3_2": {"post_history": [post, accepted], "post_count": 1},
        "task3_3": {"post_history": [post]},
        "task3_4": {"post_history": [{"role": "agent", "content": "GET"}, {"role": "agent", "content": "POST"}]},
        "task3_5": {"post_history": [{"role": "system", "content": ""}]},
        "task3_6": {"note": 1, "timestamp": "today"},
    }
    places = {task.id: number for number, task in enumerate(load_dataset("synthetic", "v1").tasks)}
    code, out, _ = medagent("validate", results_file(tmp_path, spoil, total_tasks=7, version="v9"), "--json")
    document = json.loads(out)
    found = {(problem["level"], problem["place"]) for problem in document["problems"]}
    assert code == 1
    assert found >= {
        ("error", f"results[{places['task1_1']}].task_id"),
        ("error", f"results[{places['task1_2']}].answer"),
        ("error", f"results[{places['task1_3']}].post_count"),
        ("error", f"results[{places['task1_6']}].post_count"),
        ("error", f"results[{places['task1_7']}].eval_MRN"),
        ("warning", f"results[{places['task1_8']}].answer"),
        ("warning", f"results[{places['task2_1']}].answer"),
        ("warning", f"results[{places['task2_2']}].answer"),
        ("warning", f"results[{places['task2_3']}].answer"),
        ("warning", f"results[{places['task3_1']}].answer"),
        ("warning", f"results[{places['task10_1']}].answer"),
        ("warning", f"results[{places['task3_2']}].post_history[0]"),
        ("warning", f"results[{places['task3_3']}].post_history[0]"),
        ("warning", f"results[{places['task3_4']}].post_history[0]"),
        ("warning", f"results[{places['task3_4']}].post_history[1].role"),
        ("warning", f"results[{places['task3_5']}].post_history[0].role"),
        ("warning", f"results[{places['task3_6']}].note"),
        ("warning", f"results[{places['task3_6']}].timestamp"),
    }
    del spoil["task1_3"]
    _, out, _ = medagent("validate", results_file(tmp_path, spoil, total_tasks=7, version="v9", extra=1, timestamp=""))
    for line in (
        "error: total_tasks: is 7, but there are 100 results",
        "error: results: contains 'task1_5' 2 times; only the first is graded",
        "warning: version: is 'v9', which is not a version of the benchmark; to grade the file, pass --tasks",
        "warning: extra: is a field that the format does not have",
        "warning: timestamp: is not an ISO time: ''",
    ):
        assert line in out.splitlines()


def test_a_grader_accepts_some_departures_and_says_so(tmp_path: Path) -> None:
    spoil = {"task2_1": {"answer": "[60.0]"}, "task2_2": {"answer": '["60"]'}, "task8_1": {"answer": "none"}}
    lines = medagent("validate", results_file(tmp_path, spoil), "--all")[1].splitlines()
    said = {line.split(": ")[2]: line for line in lines if line.startswith("warning: results")}
    assert "a grader accepts this format" in said["'task2_1'"]
    assert "a grader rejects this format" in said["'task2_2'"]
    assert "the answer of this task is not graded" in said["'task8_1'"]


@pytest.mark.parametrize("content", [b"{", b"\xff", b"[" * 100_000])
@pytest.mark.parametrize("command", ["grade", "validate"])
def test_a_file_that_is_no_json_is_one_line(tmp_path: Path, content: bytes, command: str) -> None:
    path = tmp_path / "results.json"
    path.write_bytes(content)
    code, out, err = medagent(command, path)
    assert (code, out, err.count("\n")) == (1, "", 1)
    assert err.startswith(f"medagent: {path}:1: is n")


def test_the_base_is_the_runs_or_the_one_that_is_named(tmp_path: Path) -> None:
    task = next(task for task in load_dataset("synthetic", "v1").tasks if task.id == "task3_1")
    payload = put(BLOOD_PRESSURE, ("subject", "reference"), f"Patient/{task.patient}")
    history = post(payload, base="https://ehr.test/r4/")
    path = results_file(tmp_path, {task.id: {"post_history": history, "post_count": 1}})

    def right(*words: object) -> int:
        return int(json.loads(medagent("grade", path, "--json", *words)[1])["by_type"]["task3"]["right"])

    assert (right(), right("--base", "https://ehr.test/r4/")) == (0, 1)
    (tmp_path / "run.json").write_text(run_file({"api-base": "https://ehr.test/r4/"}), encoding="utf-8")
    assert (right(), right("--base", "http://localhost:8080/fhir/")) == (1, 0)


def test_the_commands_print_whatever_an_agent_said(tmp_path: Path) -> None:
    said = ["\ud800", "[" * 3000, "9" * 5000, "[NaN]", "\x1b[31m", "\n"]
    spoil = {
        f"task2_{number}": {
            "answer": text,
            "eval_MRN": text,
            "post_history": [{"role": text, "content": text}],
            ascii(text): text,
        }
        for number, text in enumerate(said, start=1)
    }
    path = results_file(tmp_path, {**spoil, "task9_1": {"task_id": "\ud800"}})
    assert medagent("validate", path)[0] == 1
    for words in (("grade", path), ("grade", path, "--json"), ("grade", path, "--side-by-side")):
        code, out, err = medagent(*words)
        assert (code, err) == (2, "")
        out.encode("utf-8")
