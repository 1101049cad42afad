"""`medagent run psb-300` over a made-up set of the published form: protocols, floors, clocks, cut-off, bad input."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

import medagent as api
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.psb300 import made
from tests.medagent.benchmarks.psb300.conftest import Set
from tests.medagent.fhir_data.live import LiveServer
from tests.medagent.sandbox.trying import working


def report(path: Path) -> dict[str, Any]:
    document: dict[str, Any] = json.loads((path / "report.json").read_text())
    return document


def lines(document: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """The lines of a report's tables, by name."""
    return {line["name"]: line for section in document["table"] for line in section["lines"]}


def test_the_reference_agent_is_right_and_grounded_in_all_300(reference: Path) -> None:
    table = lines(report(reference))
    assert (table["overall"]["counts"]["right"], table["overall"]["n"]) == (300, 300)
    grounded = table["grounded"]
    assert grounded["counts"]["right"] == grounded["n"] > 290, "the others are right whatever the chart says"
    due = {name: made.DUE.get(name, 0) for name in (f"task{n}" for n in range(1, 11))}
    nop = {name: round(30 * table[name]["more"]["nop"]) for name in due}
    assert nop == {name: 0 if name == "task3" else 30 - count for name, count in due.items()}
    assert table["something is due"]["n"] == sum(due.values())
    assert (table["task3"]["more"]["due"], table["task1"]["more"]["due"]) == (None, 1.0)
    assert table["overall"]["more"]["blind"] > table["overall"]["more"]["constant"] > table["overall"]["more"]["nop"]


def test_it_is_right_under_the_fair_rules_and_the_other_clock_is_shown(reference: Path) -> None:
    fair = medagent("grade", reference, "--side-by-side", "--full")
    assert fair.code == 0, fair.err
    assert fair.out.split("  fair")[1].split()[:2] == ["300", "300"]
    assert "task1 depends on the time of grading" not in fair.out
    later = medagent("grade", reference, "--clock", "2026-01-01T00:00:00Z", "--full")
    assert later.out.split("overall")[1].split()[:2] == ["285", "300"]
    clocks = later.out.split("task1 depends on the time of grading")[1]
    assert clocks.split("2026-01-01T00:00+00:00")[1].split()[:2] == ["15", "30"]
    assert clocks.split("the scenario's now")[1].split()[:2] == ["30", "30"]
    assert "clock 2026-01-01T00:00:00+00:00" in later.out
    assert medagent("grade", reference, "--clock", "noon").err.count("\n") == 1


@pytest.mark.parametrize(
    "words",
    [("tools",), ("code", "--sandbox", "monty"), pytest.param(("code", "--sandbox", "bwrap"), marks=pytest.mark.long)],
)
def test_the_reference_agent_acts_by_tools_and_by_programs(published: Set, words: tuple[str, ...]) -> None:
    if "--sandbox" in words:
        working(words[-1])
    ran = published.run("--agent", "reference", "--per-type", 2, "--round", "-".join(words), "--protocol", *words)
    assert ran.code == 0, ran.err
    assert re.search(r"^Score 100.0% \(20 of 20[;)]", ran.out, re.MULTILINE)
    assert re.search(r"\bdata read for (\d+) of \1\b", ran.out)
    full = medagent("grade", published.results / f"psb-300_{'-'.join(words)}_reference", "--full").out
    assert ("own tools" in full) == (words[0] == "tools")


@pytest.mark.parametrize("agent", ["nop", "constant"])
def test_a_baseline_scores_what_the_floor_says(published: Set, agent: str) -> None:
    ran = published.run("--agent", agent, "--round", "floor", "--full")
    assert ran.code == 0, ran.err
    overall = report(published.results / f"psb-300_floor_{agent}")["overall"]
    assert overall["value"] == overall["more"][agent]
    assert ("Not above doing nothing" in ran.out) == (agent == "nop")


def test_a_model_calls_the_published_tools(published: Set) -> None:
    patient = made.mrn(1)
    calls = [
        ("patient_search", {"identifier": patient}),
        ("fhir_observation_search", {"patient": patient, "code": "HEARTRATE"}),
        ("calculator", {"expression": "(72 + 75) / 2"}),
        ("calculator", {"expression": "__import__('os')"}),
        ("fhir_vitals_search", {"patient": patient}),
        ("finish", {"value": [73.5, (72 + 75 + 80) / 3]}),
    ]

    def reply(request: dict[str, Any]) -> Any:
        names = [tool["function"]["name"] for tool in request["tools"]]
        assert names[:2] == ["patient_search", "fhir_observation_search"]
        assert names[-2:] == ["calculator", "finish"]
        name, arguments = calls[sum(message["role"] == "tool" for message in request["messages"])]
        call = {"id": "1", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}
        choice = {"index": 0, "message": {"role": "assistant", "content": None, "tool_calls": [call]}}
        return {"id": "x", "object": "chat.completion", "created": 0, "model": "m",
                "choices": [{**choice, "finish_reason": "tool_calls"}]}  # fmt: skip

    with ModelServer(reply=reply) as server:
        endpoint = ("--model", "m", "--base-url", server.url, "--protocol", "tools")
        ran = published.run(*endpoint, "--ids", "task3_2", "--round", "tools")
    assert ran.code == 0, ran.err
    assert "(1 of 1)" in ran.out
    row = json.loads((published.results / "psb-300_tools_m" / "episodes.jsonl").read_text())
    assert [turn["content"] for turn in row["transcript"][6:9]] == [
        "73.5", "CALCULATE __import__('os')",
        "This call was not carried out: only numbers, lists, + - * / // % **, and abs, len, max, min, round, sum",
    ]  # fmt: skip
    assert "category=vital-signs" in row["transcript"][9]["content"]


def test_an_episode_without_finish_counts_as_an_empty_list_or_as_wrong(published: Set, tmp_path: Path) -> None:
    script = tmp_path / "model.json"
    script.write_text(json.dumps({"*": ["I need more time."]}))
    words = ("--model", f"scripted:{script}", "--types", "task9", "--round", "ends")
    ran = published.run(*words[:2], "--ids", "task9_1,task9_2", "--round", "ends")
    assert "(1 of 2)" in ran.out
    (path,) = published.results.glob("psb-300_ends_*")
    strict = medagent("grade", path, "--unfinished", "wrong")
    assert "(0 of 2)" in strict.out
    assert "Wrong: 2 invalid message" in strict.out
    full = medagent("grade", path, "--unfinished", "wrong", "--full")
    assert "an episode without FINISH is wrong" in full.out
    refused = published.run(*words[:2], "--ids", "task9_1", "--round", "ends", "--unfinished", "wrong")
    assert "the run uses other settings (unfinished empty → wrong)" in refused.err


def test_an_agent_that_raises_is_wrong_where_doing_nothing_is_right(published: Set, tmp_path: Path) -> None:
    agent = tmp_path / "raising.py"
    agent.write_text(
        "import medagent\n\n\nclass Raising(medagent.Agent):\n"
        "    def play(self, task, prompt):\n"
        "        if task.id == 'task9_2':\n            raise ValueError\n        yield 'FINISH([])'\n"
    )
    ran = published.run("--agent", f"{agent}:Raising", "--ids", "task9_2,task9_4", "--round", "raises")
    assert "(1 of 2)" in ran.out
    assert "Wrong: 1 agent error" in ran.out


def test_the_clock_is_recorded_when_the_run_begins(published: Set, tmp_path: Path) -> None:
    words = (
        "run", "psb-300", "--dataset", "published", "--ehr", published.patients, "--agent", "nop", "--ids", "task1_1",
        "--results-dir", tmp_path, "--quiet",
    )  # fmt: skip
    assert medagent(*words).code == 0
    path = tmp_path / "psb-300_r1_nop"
    clock = datetime.fromisoformat(json.loads((path / "run.json").read_text())["settings"]["clock"])
    assert timedelta(0) <= datetime.now(UTC) - clock < timedelta(minutes=10)
    again = medagent(*words)
    assert (again.code, "is complete and was not changed" in again.err) == (0, True)
    assert f"clock {clock.isoformat()}" in medagent("grade", path, "--full").out


def test_charts_of_a_server_are_those_before_the_first_episode(published: Set, tmp_path: Path) -> None:
    resources = [json.dumps(resource) for resource in made.resources(datetime(2026, 3, 1, tzinfo=UTC))]
    words = ("--agent", "reference", "--ids", "task1_1,task2_1,task9_1,task10_3", "--writes", "execute")
    with LiveServer(resources) as live:
        ran = published.run(*words, "--fhir", live.url, "--results-dir", tmp_path, "--full")
        assert ran.code == 0, ran.err
        orders = sum(method == "POST" for method, _ in live.requests)
        asked = len(live.requests)
        again = published.run(*words, "--fhir", live.url, "--results-dir", tmp_path)
        assert (again.code, "is complete and was not changed" in again.err) == (0, True)
        assert len(live.requests) - asked < 10  # the charts are not read again
    assert orders == 4
    assert "rules official 1, clock 2023-11-07T22:47:00+00:00, cut-off not applied" in ran.out
    assert "cut-off not applied: all" in ran.out
    path = tmp_path / "psb-300_r1_reference"
    document = report(path)
    assert (document["cut_off"], document["overall"]["counts"]["right"]) == ("not applied", 4)
    assert "cut-off not applied" in document["data"]["note"]
    results = json.loads((path / "results.json").read_text())
    assert (results["cut_off"], results["clock"]) == ("not applied", made.CLOCK)
    assert [len(result["history"]) for result in results["results"]] == [2, 2, 2, 2]
    graded = medagent("grade", path)  # the server is gone
    assert "(4 of 4;" in graded.out


def test_charts_stored_after_the_cut_off_are_never_empty_silently(published: Set, tmp_path: Path) -> None:
    resources = made.resources()
    for resource in resources:
        if made.mrn(1) in json.dumps(resource):
            resource["meta"]["lastUpdated"] = "2026-01-01T00:00:00Z"
    patients = tmp_path / "patients.ndjson"
    patients.write_text("".join(json.dumps(resource) + "\n" for resource in resources))
    ran = published.run("--agent", "reference", "--ids", "task9_2", "--ehr", patients, "--results-dir", tmp_path)
    assert f"1 charts were stored after 2025-01-01 and count as empty: {made.mrn(1)}" in ran.err + ran.out
    assert "(0 of 1)" in ran.out
    assert report(tmp_path / "psb-300_r1_reference")["cut_off"] == "applied"


@pytest.mark.parametrize(
    ("kept", "problem"),
    [
        (
            lambda resource: resource.get("id") not in (made.mrn(3), made.mrn(4)),
            "2 of 30 patients are not on the server: S1000003, ",
        ),
        (
            lambda resource: resource["resourceType"] == "Patient",
            "No chart contains anything that these tasks ask for.",
        ),
    ],
)
def test_patients_or_charts_that_are_missing_are_named_before_the_first_call(
    published: Set, tmp_path: Path, kept: Any, problem: str
) -> None:
    patients = tmp_path / "patients.ndjson"
    gone = [made.mrn(3), made.mrn(4)] if "patients are" in problem else []
    charts = [
        resource
        for resource in made.resources()
        if kept(resource) and not any(mrn in json.dumps(resource) for mrn in gone)
    ]
    patients.write_text("".join(json.dumps(resource) + "\n" for resource in charts))
    words = ("--agent", "nop", "--ehr", patients, "--results-dir", tmp_path / "results")
    refused = published.run(*words)
    assert refused.code == 1
    assert problem in refused.err.splitlines()[-1]
    assert not (tmp_path / "results").exists()
    named = published.run(*words, "--ids", "task9_4,task9_1")
    assert named.code == 0, named.err
    assert "warning: " in named.err


def test_a_split_is_a_run_of_its_own_with_its_own_floor(published: Set, tmp_path: Path) -> None:
    counts = {}
    for split in ("dev", "val", "id_test", "ood"):
        ran = published.run("--agent", "nop", "--split", split, "--results-dir", tmp_path)
        assert ran.code == 0, ran.err
        overall = report(tmp_path / f"psb-300-{split}_r1_nop")["overall"]
        counts[split] = overall["n"]
        assert overall["value"] == overall["more"]["nop"]
    assert counts == {"dev": 96, "val": 80, "id_test": 64, "ood": 60}
    lines = (tmp_path / "psb-300-id_test_r1_nop" / "items.jsonl").read_text().splitlines()
    items = [json.loads(line)["item"] for line in lines]
    assert sorted(int(item[6:]) for item in items if item.startswith("task1_")) == sorted([5, 25, 8, 9, 24, 1, 4, 21])
    assert sorted(int(item[7:]) for item in items if item.startswith("task10_")) == sorted(
        [14, 23, 6, 25, 1, 26, 9, 19]
    )
    unknown = published.run("--agent", "nop", "--split", "id_test", "--ids", "task1_2", "--results-dir", tmp_path)
    assert (unknown.code, unknown.err.count("\n")) == (1, 1)


def test_an_episode_in_one_call(published: Set) -> None:
    options = {"dataset": "published", "ehr": published.patients, "benchmark": "psb-300", "protocol": "tools"}
    with api.episode("task4_2", clock=made.CLOCK, **options) as e:
        e.reset()
        assert "NUR1373" in e.call("fhir_procedure_search", {"patient": e.task.mrn, "code": "NUR1373"})
        e.call("finish", {"value": []})
        verdict = e.verdict()
    assert (verdict.correct, verdict.kind) == (False, "reading-missed")
    assert verdict.because.startswith("last urinary catheter at 2023-11-08 21:00")


def test_a_packed_task_is_graded_alone(published: Set, tmp_path: Path) -> None:
    from medagent.benchmarks.base import find
    from medagent.fhir_episodes.episode import EpisodeRow

    benchmark: Any = find("psb-300")
    source = benchmark.Settings(dataset="published", ehr=published.patients, clock=made.CLOCK)
    item = benchmark.item(source, "task9_2")
    for name, content in benchmark.pack(source, item).items():
        (tmp_path / name).write_bytes(content)
    alone, grader = benchmark.unpack(tmp_path)
    row = EpisodeRow(unit="task9_2#1", status="completed", task_id="task9_2", answer="[]")
    with grader:
        import asyncio

        score = asyncio.run(grader.score(alone, row))
    assert (score.correct, score.part["branch"]) == (True, "no order")
    assert made.mrn(2) not in (tmp_path / "reads.jsonl").read_text()
