"""`medagent run` from the command line to the files it leaves."""

from __future__ import annotations

import json
import re
import shlex
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.loopback import ModelServer, status
from tests.medagent.benchmarks.medagentbench.oracle import asked, text_reply, tool_reply
from tests.medagent.benchmarks.medagentbench.runs import episodes, results, run, settled
from tests.shared_data import SHARED, need

REAL = SHARED / "medagentbench" / "results_v2_r2_20251127_000553.json"


def test_the_reference_agent_solves_everything(tmp_path: Path) -> None:
    ran = run(tmp_path, "--version", "v2", "--round", "r2", "--agent", "reference")
    assert ran.code == 0, ran.err
    assert "Score 100.0% (300 of 300; " in ran.out
    document = results(tmp_path, "v2_r2_reference")
    assert list(document) == ["version", "round", "timestamp", "total_tasks", "results"]
    assert (document["version"], document["round"], document["total_tasks"]) == ("v2", "r2", 300)
    first = document["results"][0]
    assert list(first) == [
        "task_id", "answer", "expected_sol", "eval_MRN", "timestamp", "post_history", "post_count",
    ]  # fmt: skip
    assert [item["task_id"] for item in document["results"]][:2] == ["task1_1", "task1_2"]
    assert all(isinstance(item["answer"], str) for item in document["results"])
    assert medagent("validate", tmp_path / "v2_r2_reference" / "results.json").code == 0
    assert medagent("grade", tmp_path / "v2_r2_reference" / "results.json").code == 0


def test_a_run_is_the_same_whenever_it_is_run(tmp_path: Path) -> None:
    for folder, concurrency in (("a", 1), ("b", 10)):
        words = ("--version", "v1", "--per-type", 4, "--agent", "reference", "--concurrency", concurrency)
        assert run(tmp_path / folder, *words).code == 0
    a, b = (tmp_path / folder / "v1_r1_reference" for folder in ("a", "b"))
    transcripts = [{k: row["transcript"] for k, row in episodes(path).items()} for path in (a, b)]
    assert transcripts[0] == transcripts[1]
    assert settled(results(tmp_path / "a", "v1_r1_reference")) == settled(results(tmp_path / "b", "v1_r1_reference"))


@pytest.mark.parametrize("agent", ["nop", "constant"])
def test_the_baselines_score_what_the_table_says(tmp_path: Path, agent: str) -> None:
    ran = run(tmp_path, "--agent", agent, "--json")
    assert ran.code == 0
    grade = json.loads(ran.out)["grades"][0]
    assert grade["overall"]["right"] == grade["baselines"][agent]["right"]
    assert json.loads((tmp_path / f"v2_r1_{agent}" / "grade.json").read_text())["overall"] == grade["overall"]
    if agent == "nop":
        assert grade["overall"]["rate"] < 0.15


@pytest.mark.parametrize("protocol", ["text", "tools"])
def test_a_model_behind_an_endpoint(tmp_path: Path, protocol: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "sk-very-secret-0123456789")
    with ModelServer(reply=text_reply if protocol == "text" else tool_reply) as server:
        ran = run(
            *(tmp_path, "--version", "v1", "--per-type", 3, "--model", "acme/oracle", "--base-url", server.url),
            *("--protocol", protocol),
        )
    assert ran.code == 0, ran.err
    folder = tmp_path / "v1_r1_acme--oracle"
    rows = episodes(folder)
    assert {row["status"] for row in rows.values()} == {"completed"}
    assert sum(row["spent"]["calls"] for row in rows.values()) == len(server.calls)
    for row in rows.values():
        calls = row["spent"]["each"]
        assert len(calls) == row["spent"]["calls"]
        assert sum(call["prompt"] for call in calls) == row["spent"]["prompt"] > 0
        assert all(call["latency"] > 0 for call in calls)
    assert json.loads((folder / "grade.json").read_text())["overall"]["right"] == 30
    before = {file.name: file.stat().st_mtime_ns for file in folder.iterdir() if file.name != ".lock"}
    with ModelServer() as elsewhere:
        again = ("--version", "v1", "--per-type", 3, "--model", "acme/oracle", "--base-url", elsewhere.url)
        assert run(tmp_path, *again, "--protocol", protocol).code == 0
    assert {file.name: file.stat().st_mtime_ns for file in folder.iterdir() if file.name != ".lock"} == before
    reference = run(tmp_path, "--version", "v1", "--per-type", 3, "--agent", "reference")
    assert reference.code == 0
    by_model, by_rule = results(tmp_path, folder.name), results(tmp_path, "v1_r1_reference")
    assert [item["answer"] for item in by_model["results"]] == [item["answer"] for item in by_rule["results"]]
    assert [item["post_count"] for item in by_model["results"]] == [item["post_count"] for item in by_rule["results"]]
    for file in folder.iterdir():
        assert "very-secret" not in file.read_text()
        assert server.url not in file.read_text()


def test_what_is_not_an_action_is_recorded_and_wrong_but_never_a_failure(tmp_path: Path) -> None:
    odd: list[Any] = ["", "x" * 300_000, "\ud800", "I think GET is best", "<think>a</think>FINISH([])"]
    with ModelServer(reply=lambda request: odd[int(asked(request).id.partition("_")[2]) % len(odd)]) as server:
        ran = run(tmp_path, "--version", "v1", "--model", "m", "--base-url", server.url, "--types", "task4,task7")
    assert ran.code == 0, ran.err
    assert {row["status"] for row in episodes(tmp_path / "v1_r1_m").values()} == {"invalid_action", "empty"}
    assert "16 invalid message, 4 empty reply" in ran.out
    assert "4 replies were empty" in ran.out
    assert "--strip-thinking" in ran.out


def test_failed_episodes_are_no_wrong_answers_and_are_run_again(tmp_path: Path) -> None:
    def faults(call: Any) -> Any:
        return status(400, message="bad request") if asked(call.body).id == "task7_2" else None

    with ModelServer(reply=text_reply, faults=faults) as server:
        args = ("--version", "v1", "--model", "m", "--base-url", server.url, "--types", "task7")
        ran = run(tmp_path, *args)
        assert ran.code == 2
        assert "model_error" in ran.out
        assert "Continue: medagent run --version v1 --model m" in ran.out
        assert "--types task7" in ran.out
        item = results(tmp_path, "v1_r1_m")["results"][1]
        assert (item["task_id"], item["answer"]) == ("task7_2", None)
        grade = json.loads((tmp_path / "v1_r1_m" / "grade.json").read_text())
        assert (grade["overall"]["right"], grade["overall"]["ungraded"]) == (9, 1)
        smaller = run(tmp_path, *args, "--ids", "task7_1,task7_3")
        assert smaller.code == 0, smaller.out  # all that was asked is done
    with ModelServer(reply=text_reply) as server:
        ran = run(tmp_path, *args[:-3], server.url, *args[-2:])
        assert ran.code == 0
        assert {asked(call.body).id for call in server.calls} == {"task7_2"}
        before = (tmp_path / "v1_r1_m" / "results.json").read_bytes()
        again = run(tmp_path, *args[:-3], server.url, *args[-2:])
        assert again.code == 0
        assert "is complete" in again.err
        assert "--overwrite" in again.err
        assert "Score 100.0% (10 of 10)" in again.out
        assert (tmp_path / "v1_r1_m" / "results.json").read_bytes() == before


def test_a_refused_key_stops_at_once_with_the_providers_words(tmp_path: Path) -> None:
    with ModelServer(reply="x", faults=lambda call: status(401, message="Incorrect API key provided")) as server:
        ran = run(tmp_path, "--model", "m", "--base-url", server.url, "--concurrency", 1)
    assert ran.code == 1
    assert "Incorrect API key provided" in ran.err
    assert "Traceback" not in ran.err
    assert len(server.calls) == 1
    assert not (tmp_path / "v2_r1_m" / "results.json").exists()


def test_other_settings_in_the_same_folder_are_refused(tmp_path: Path) -> None:
    assert run(tmp_path, "--agent", "reference", "--limit", 3).code == 0
    ran = run(tmp_path, "--agent", "reference", "--limit", 3, "--max-rounds", 4)
    assert ran.code == 1
    assert "max-rounds 8 → 4" in ran.err
    assert run(tmp_path, "--agent", "reference", "--limit", 5).code == 0
    assert results(tmp_path, "v2_r1_reference")["total_tasks"] == 5
    assert run(tmp_path, "--agent", "reference", "--limit", 3, "--max-rounds", 4, "--overwrite").code == 0
    assert results(tmp_path, "v2_r1_reference")["total_tasks"] == 3


def test_further_fields_reach_the_endpoint_and_are_settings(tmp_path: Path) -> None:
    with ModelServer(reply=text_reply) as server:
        args = ("--model", "m", "--base-url", server.url, "--limit", 1)
        assert run(tmp_path, *args, "--extra", "top_p=0.5", "--extra", "reasoning_effort=low").code == 0
        assert server.calls[0].body["top_p"] == 0.5
        assert server.calls[0].body["reasoning_effort"] == "low"
        assert "extra reasoning_ef… → (none)" in run(tmp_path, *args).err


def test_the_commands_to_copy_work(tmp_path: Path) -> None:
    """The command that continues a run, and the old settings as a command, are run as they are printed."""
    with ModelServer(reply=text_reply) as server:
        odd = ("--extra", 'stop=["a b"]', "--extra", "note=it's", "--temperature", -1, "--strip-thinking")
        args = ("--model", "m", "--base-url", server.url, "--limit", 4, "--concurrency", 1, "--trials", 2, *odd)
        stopped = run(tmp_path, *args, "--max-tokens-total", 1)
        assert stopped.code == 2
        _, _, command = stopped.err.partition("Raise --max-tokens-total to continue: ")
        words = shlex.split(command.splitlines()[0])
        assert words[-2] == "--max-tokens-total"
        assert int(words[-1]) > sum(row["spent"]["prompt"] for row in episodes(tmp_path / "v2_r1_m").values())
        continued = medagent(*words[1:-1], 1_000_000)
        assert continued.code == 0, continued.err
        assert len({call.body["messages"][0]["content"] for call in server.calls}) == 4
        assert all(call.body["note"] == "it's" and "temperature" not in call.body for call in server.calls)
        refused = run(tmp_path, "--model", "m", "--base-url", server.url)
        assert refused.code == 1
        old = refused.err.partition("Continue it with its settings: ")[2].partition("; or choose another")[0]
        again = medagent(*shlex.split(old)[1:])
        assert (again.code, "is complete and was not changed" in again.err) == (0, True)


@pytest.mark.parametrize("option", ["--ids", "--types"])
def test_an_empty_selection_is_no_selection_of_all(tmp_path: Path, option: str) -> None:
    ran = run(tmp_path, "--agent", "nop", option, ", ")
    assert (ran.code, ran.err) == (
        1,
        f"medagent: {option} is empty and selects nothing; to select everything, leave the option out\n",
    )


def test_the_report_has_the_rates_of_each_trial_and_its_grade_file_the_checks_too(tmp_path: Path) -> None:
    assert run(tmp_path, "--agent", "reference", "--limit", 4, "--trials", 2).code == 0
    folder = tmp_path / "v2_r1_reference"
    files = [json.loads((folder / name).read_text()) for name in ("grade.json", "grade.2.json")]
    grades = json.loads((folder / "report.json").read_text())["grades"]
    beside = {"data", "settings", "versions", "items"}
    assert grades == [{name: file[name] for name in file if name not in beside} for file in files]
    assert all(item["checks"] for file in files for item in file["items"])
    every = [{**item, "trial": trial} for trial, file in enumerate(files, 1) for item in file["items"]]
    assert json.loads(medagent("grade", folder, "--json").out)["items"] == every


def test_trials_leave_a_results_file_each_and_their_rates(tmp_path: Path) -> None:
    ran = run(tmp_path, "--agent", "reference", "--limit", 4, "--trials", 3)
    assert ran.code == 0, ran.err
    folder = tmp_path / "v2_r1_reference"
    assert {p.name for p in folder.glob("results*.json")} == {"results.json", "results.2.json", "results.3.json"}
    assert "pass@3" in ran.out
    assert "pass^3" in ran.out
    trials = json.loads(run(tmp_path, "--agent", "reference", "--limit", 4, "--trials", 3, "--json").out)["trials"]
    assert trials["pass^k"] == trials["by_type"]["task1"]["pass^k"] == [1.0, 1.0, 1.0]
    assert re.search(r"all +12 +12 +100.0% +0", medagent("show", folder).out)


def test_a_part_of_a_run_has_all_types_and_the_file_keeps_the_tasks_order(tmp_path: Path) -> None:
    types = [f"task{number}" for number in range(1, 11)]
    for option, count, round_ in (("--limit", 10, "few"), ("--per-type", 1, "each")):
        assert run(tmp_path, "--agent", "nop", "--round", round_, option, count).code == 0
        found = [item["task_id"] for item in results(tmp_path, f"v2_{round_}_nop")["results"]]
        assert [task.partition("_")[0] for task in found] == types
    assert run(tmp_path, "--agent", "nop", "--round", "few", "--limit", 25).code == 0
    assert set(found) <= {item["task_id"] for item in results(tmp_path, "v2_few_nop")["results"]}


def test_a_limit_leaves_the_rest_owed(tmp_path: Path) -> None:
    with ModelServer(reply=text_reply) as server:
        args = ("--version", "v1", "--model", "m", "--base-url", server.url, "--concurrency", 2)
        ran = run(tmp_path, *args, "--max-tokens-total", 1)
        assert ran.code == 2
        assert "--max-tokens-total 1 is reached" in ran.err
        assert 1 <= results(tmp_path, "v1_r1_m")["total_tasks"] < 100
        assert run(tmp_path, *args).code == 0
        assert results(tmp_path, "v1_r1_m")["total_tasks"] == 100


def test_a_cost_limit_without_a_price_is_refused_before_the_run(tmp_path: Path) -> None:
    with ModelServer(reply=text_reply) as server:
        ran = run(tmp_path, "--version", "v1", "--model", "m", "--base-url", server.url, "--max-cost", 100)
        assert (ran.code, server.calls) == (1, [])
        assert "--max-cost cannot be kept: the price of m is unknown" in ran.err
    assert not (tmp_path / "v1_r1_m").exists()


def test_the_published_tasks_over_the_rebuilt_patient_data(tmp_path: Path) -> None:
    tasks = need(SHARED / "medagentbench" / "official" / "test_data_v2.json")
    ehr = need(SHARED / "medagentbench" / "rebuilt_ehr.ndjson")
    ran = run(tmp_path, "--dataset", tasks, "--ehr", ehr, "--agent", "reference", "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["grades"][0]["overall"]["right"] == 300


def test_replay_reproduces_a_real_results_file(tmp_path: Path) -> None:
    tasks = need(SHARED / "medagentbench" / "official" / "test_data_v2.json")
    ehr = need(SHARED / "medagentbench" / "rebuilt_ehr.ndjson")
    ran = run(tmp_path, "--dataset", tasks, "--ehr", ehr, "--agent", "replay", need(REAL), "--json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["grades"][0]["overall"]["right"] == 275
    real, ours = json.loads(REAL.read_text()), results(tmp_path, "test_data_v2_r1_replay")
    assert len(real["results"]) == len(ours["results"]) == 300
    for theirs, mine in zip(real["results"], ours["results"], strict=True):
        assert mine["answer"] == theirs["answer"]
        assert mine["post_count"] == theirs["post_count"]
        assert [m["role"] for m in mine["post_history"]] == [m["role"] for m in theirs["post_history"]]
        for a, b in zip(mine["post_history"], theirs["post_history"], strict=True):
            if a["role"] == "agent":
                assert a["content"] == b["content"]
            else:
                assert a["content"].startswith(b["content"].partition(":")[0])


BAD = [
    (("--version", "v3", "--agent", "nop"), ["v3", "v1, v2"]),
    (("--agent", "nop", "--types", "task11"), ["task11", "task1, task2"]),
    (("--agent", "nop", "--ids", "task1_99"), ["task1_99", "task1_30"]),
    (("--agent", "nop", "--types", "task1", "--ids", "task2_1"), ["empty"]),
    (("--agent", "banana"), ["banana", "reference"]),
    ((), ["OPENAI_API_KEY", "OPENAI_BASE_URL", "--agent reference"]),
    (("--agent", "nop", "--dataset", "other"), ["other", "synthetic"]),
    (("--agent", "nop", "--dataset", "missing.json"), ["missing.json"]),
    (("--agent", "nop", "--ehr", "missing.ndjson"), ["missing.ndjson"]),
    (("--agent", "nop", "--fhir", "http://127.0.0.1:9/fhir"), ["http://127.0.0.1:9/fhir"]),
    (("--agent", "nop", "--fhir", "http://127.0.0.1:9/fhir", "--fhir-header", "x"), ["Name: value"]),
    (("--agent", "nop", "--writes", "never"), ["--writes"]),
    (("--agent", "nop", "--round", "a/b"), ["--round", "letters, digits"]),
    (("--agent", "nop", "--model", "m"), ["--model"]),
    (("--agent", "nop", "--protocol", "tools"), ["--protocol tools needs --model"]),
    (("--model", "m", "--protocol", "tools", "--loop", "lenient"), ["--loop needs --protocol text"]),
    (("--agent", "nop", "--loop", "kind"), ["--loop"]),
    (("--agent", "nop", "--ehr", "x", "--fhir", "http://127.0.0.1:9/fhir"), ["--ehr and --fhir"]),
    (("--agent", "nop", "--cluster", "tcp://127.0.0.1:1", "--workers", "2"), ["--workers"]),
    (("--agent", "nop", "--ca-file", "x"), ["--ca-file needs --fhir"]),
    (("--model", "m", "--extra", "top_p"), ["name=value"]),
    (("--model", "gpt-4o-mini"), ["OPENAI_API_KEY"]),
    (("--model", "scripted:missing.json"), ["missing.json"]),
    (("--agent", "replay"), ["replay results.json"]),
    (("--agent", "replay", "missing.json"), ["missing.json"]),
    (("--model", "m", "--base-url", "localhost:1"), ["http://"]),
]


@pytest.mark.parametrize(("words", "loop"), [((), "published"), (("--loop", "lenient"), "lenient")])
def test_the_loop_is_a_setting_and_is_named(tmp_path: Path, words: tuple[str, ...], loop: str) -> None:
    (tmp_path / "replies.json").write_text(json.dumps({"*": ["GET Patient?a=b", "FINISH([])"]}))
    ran = run(tmp_path, "--model", f"scripted:{tmp_path / 'replies.json'}", "--limit", 1, "--full", *words)
    assert ran.code == 0
    assert f", loop {loop}, rules official" in ran.out
    folder = next(path for path in tmp_path.iterdir() if path.is_dir())
    assert json.loads((folder / "run.json").read_text())["settings"]["loop"] == loop
    said = next(iter(episodes(folder).values()))["transcript"][2]["content"]
    assert ("No scheme supplied" in said) == (loop == "published")
    changed = "lenient" if loop == "published" else "published"
    again = run(tmp_path, "--model", f"scripted:{tmp_path / 'replies.json'}", "--limit", 1, "--loop", changed)
    assert again.code == 1
    assert f"loop {loop} → {changed}" in again.err


@pytest.mark.parametrize(("args", "words"), BAD)
def test_bad_input_is_one_clear_line(tmp_path: Path, args: tuple[str, ...], words: list[str]) -> None:
    ran = run(tmp_path, *args)
    assert ran.code == 1
    (line,) = (
        message for message in ran.err.splitlines() if not message.startswith("building the hospital")
    )  # if it is the first
    for word in words:
        assert word in line
    assert list(tmp_path.rglob("*.json*")) == []


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '[{"id": "task1_1"}]', '[{"id": "taskX", "instruction": "i"}]', "[" * 100_000, "\x00"]
)
def test_a_task_file_that_is_none_is_named(tmp_path: Path, text: str) -> None:
    (tmp_path / "tasks.json").write_text(text)
    ran = run(tmp_path / "out", "--agent", "nop", "--dataset", tmp_path / "tasks.json")
    assert ran.code == 1
    assert "tasks.json" in ran.err
    assert "Traceback" not in ran.err


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    ran = run(tmp_path / "file", "--agent", "nop")
    assert ran.code == 1
    assert "cannot be written" in ran.err


def test_what_an_agent_said_reaches_no_terminal_as_a_command(tmp_path: Path) -> None:
    with ModelServer(reply="\x1b[2J\x07\ud800") as server:
        run(tmp_path, "--model", "m", "--base-url", server.url, "--ids", "task1_1")
    shown = medagent("show", tmp_path / "v2_r1_m", "task1_1")
    assert "␛[2J␇" in shown.out
    assert "\x1b" not in shown.out


def test_json_is_laid_out_and_folded_in_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert run(tmp_path, "--agent", "reference", "--ids", "task3_1").code == 0
    plain = medagent("show", tmp_path / "v2_r1_reference", "task3_1", "--full").out
    monkeypatch.setenv("FORCE_COLOR", "1")
    shown = medagent("show", tmp_path / "v2_r1_reference", "task3_1", "--full").out
    text = re.sub(r"\x1b\[[\d;]*m", "", shown)
    assert '[{"name": "GET {api_base}/Condition"' in plain
    assert '[\n  {\n    "name": "GET {api_base}/Condition"' in text
    assert "--full shows" not in plain + text
    assert re.search(
        r"… [\d,]+ characters \(--full shows", medagent("show", tmp_path / "v2_r1_reference", "task3_1").out
    )
    question = next(line for line in plain.splitlines() if line.startswith("Question: "))
    assert question in text
    assert '\n  "valueString": "118/77 mmHg"' in text
    assert shown != text


def test_show_and_compare(tmp_path: Path) -> None:
    assert run(tmp_path, "--version", "v1", "--agent", "reference").code == 0
    assert run(tmp_path, "--version", "v1", "--agent", "nop").code == 0
    good, poor = tmp_path / "v1_r1_reference", tmp_path / "v1_r1_nop"
    shown = medagent("show", good)
    assert shown.code == 0
    assert "100 completed" in shown.out
    details = medagent("show", good, "task3_1")
    assert "POST http://localhost:8080/fhir/Observation" in details.out
    assert "verdict: right" in details.out
    assert "\x1b" not in details.out
    assert "✗" in medagent("show", poor, "task3_1").out
    assert "does not contain item" in medagent("show", good, "task99_1").err
    compared = medagent("compare", poor, good, "--json")
    found = json.loads(compared.out)
    assert found["lost"] == []
    assert len(found["gained"]) + len(found["both_right"]) == 100
    assert found["p"] < 1e-9
    assert "paired score test" in medagent("compare", poor, good).out
