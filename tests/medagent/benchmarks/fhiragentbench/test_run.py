"""`medagent run fhir-agentbench` by agents that need no model: what is found, left out, filtered, shown, exported."""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest

import medagent as public
from tests.command import medagent
from tests.loopback import ModelServer
from tests.medagent.benchmarks.fhiragentbench.conftest import Run
from tests.medagent.benchmarks.fhiragentbench.ward import QUESTIONS, write_questions, write_ward
from tests.refsol.fhiragentbench.test_files import NINE
from tests.shared_data import SHARED, need


def line(report: dict[str, Any], name: str) -> dict[str, Any]:
    lines = [row for section in report["table"] for row in section["lines"]]
    found: dict[str, Any] = next(row for row in lines if row["name"] == name)
    return found


def rows(folder: Path) -> dict[str, dict[str, Any]]:
    lines = (folder / "episodes.jsonl").read_text(encoding="utf-8").splitlines()
    return {row["task_id"]: row for row in map(json.loads, lines)}


def test_reading_whole_charts_finds_everything_and_is_precise_by_the_handling(run: Run, tmp_path: Path) -> None:
    report = json.loads(run("--agent", "fetch-all", "--json").out)
    whole, baseline = line(report, "all")["more"], line(report, "fetch-all")["more"]
    assert (whole["recall"], whole["n (recall)"]) == (1.0, 6)
    assert baseline == {name: pytest.approx(whole[name]) for name in ("precision", "recall", "F1")}
    reads = rows(tmp_path / "fhir-agentbench_r1_fetch-all")["q4"]["reads"]
    assert [read["asked"] for read in reads if read.get("refused")] == [
        "Patient?patient=p1",
        "Location?patient=p1",
        "Medication?patient=p1",
    ]
    assert reads[0]["refused"].startswith("HTTP status 400. HAPI-0524")
    assert {"Medication": ["drug1", "drug2"]}.items() <= {k: v for r in reads for k, v in r["ids"].items()}.items()
    lenient = json.loads(run("--agent", "fetch-all", "--handling", "lenient", "--round", "l", "--json").out)
    assert line(lenient, "all")["more"]["recall"] == 1.0
    assert line(lenient, "all")["more"]["precision"] < whole["precision"]
    sent = [read["sent"] for read in rows(tmp_path / "fhir-agentbench_l_fetch-all")["q4"]["reads"]]
    assert sent[0] == "/Patient?_count=1000"
    corrected = run("--agent", "fetch-all", "--handling", "corrected", "--round", "c", "--full")
    assert "server handling corrected, found ids all" in corrected.out
    sent = [read["sent"] for read in rows(tmp_path / "fhir-agentbench_c_fetch-all")["q4"]["reads"]]
    assert sent[0] == "/Patient?_id=p1&_count=1000"


def test_invalid_actions_are_not_precise(run: Run) -> None:
    with ModelServer("hello") as server:
        ran = run("--model", "m", "--base-url", server.url, "--full")
    assert "100.0%" in ran.out.split("without true ids", 1)[1].splitlines()[0]
    assert "No answer found an id of a right type. Precision covers only questions without true ids (1)" in ran.out
    assert "No answer found an id" not in run("--agent", "fetch-all", "--full").out


@pytest.mark.parametrize("concurrency", [1, 16])
def test_questions_about_one_patient_have_the_same_reads(run: Run, tmp_path: Path, concurrency: int) -> None:
    assert run("--agent", "fetch-all", "--concurrency", concurrency).code == 0
    reads: dict[str, list[Any]] = {}
    for row in rows(tmp_path / "fhir-agentbench_r1_fetch-all").values():
        (asked,) = {
            re.findall(r"patient=(\w+)", read["asked"])[0] for read in row["reads"] if "patient=" in read["asked"]
        }
        reads.setdefault(asked, []).append(row["reads"])
    assert max(map(len, reads.values())) > 1
    assert all(question_reads == several[0] for several in reads.values() for question_reads in several)
    assert all(any(read["ids"].get("Observation") for read in several[0]) for several in reads.values())


def test_questions_without_their_resources_are_left_out_and_said(run: Run, tmp_path: Path) -> None:
    ran = run("--agent", "nop")
    assert ran.code == 0, ran.err
    assert "1 of 9 true ids are missing (1 of 2 Observation); 1 of 7 questions are left out" in ran.err
    assert "1 of 7 questions left out: true ids that the patients' file lacks" in ran.out
    run_file = json.loads((tmp_path / "fhir-agentbench_r1_nop" / "run.json").read_text())
    assert run_file["data"]["left_out"] == ["q7"]
    assert set(rows(tmp_path / "fhir-agentbench_r1_nop")) == {"q1", "q2", "q3", "q4", "q5", "q6"}


def test_agents_that_look_at_nothing_get_their_baselines(run: Run) -> None:
    nop = json.loads(run("--agent", "nop", "--json").out)
    assert line(nop, "without true ids")["counts"] == {"questions": 1, "right": 1}
    assert line(nop, "all")["more"]["precision"] == 1.0
    assert line(nop, "nop")["value"] == pytest.approx(1 / 6)
    assert line(nop, "nop, whole data set")["value"] == pytest.approx(1 / 7)
    yes = json.loads(run("--agent", "yes", "--round", "y", "--json").out)
    assert {item["item"] for item in yes["items"] if item["correct"]} == {"q2"}
    assert line(yes, "yes")["value"] == pytest.approx(1 / 6)


@pytest.mark.parametrize(
    ("words", "chosen"),
    [
        (["--split", "valid"], {"q5", "q6"}),
        (["--family", "stays,careunits"], {"q2", "q3", "q6"}),
        (["--template", "number of drugs", "--template", "gender"], {"q1", "q4"}),
        (["--ids", "q2,q5"], {"q2", "q5"}),
    ],
)
def test_filters(run: Run, tmp_path: Path, words: list[str], chosen: set[str]) -> None:
    assert run("--agent", "nop", *words).code == 0
    assert set(rows(tmp_path / "fhir-agentbench_r1_nop")) == chosen


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (
            ["--agent", "nop", "--family", "vital signs"],
            "unknown family 'vital signs'; known: prescriptions, laboratory",
        ),
        (["--agent", "nop", "--template", "nothing like it"], "--template nothing like it: no question matches"),
        (["--agent", "nop", "--split", "holdout"], "--split holdout: no question matches"),
        (["--agent", "nop", "--ids", "q9"], "q9"),
        (["--agent", "nop", "--model", "m"], "does not use a model"),
        (["--protocol", "multi_turn_resource"], "--protocol multi_turn_resource needs --model"),
        (["--model", "m", "--input-cap", "5"], "--input-cap needs a published strategy"),
        (
            ["--model", "m", "--protocol", "multi_turn_resource", "--code-returns"],
            "--code-returns needs a published code",
        ),
        (["--agent", "nop", "--judge-prompt", "x.toml"], "--judge-prompt needs --judge"),
        (["--agent", "reference"], "--agent reference can only read generated questions"),
        (["--agent", "nop", "--dataset", "synthetic"], "contains none of the"),
        (["--agent", "none-of-these"], "unknown agent 'none-of-these'; known: text, reference, nop, yes, fetch-all"),
    ],
)
def test_what_cannot_be_meant_is_refused_in_a_line(run: Run, words: list[str], problem: str) -> None:
    ran = run(*words)
    assert (ran.code, ran.err.count("medagent: ")) == (1, 1)
    assert problem in ran.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        ([], "--prompt published=DIR needs a published strategy: --protocol multi_turn_resource"),
        (
            ["--protocol", "multi_turn_resource", "--system", __file__],
            "--prompt published=DIR and --system both name the system prompt: leave one out",
        ),
    ],
)
def test_a_published_prompt_that_cannot_be_used_is_refused_in_a_line(run: Run, words: list[str], problem: str) -> None:
    with ModelServer(reply="1") as server:
        ran = run("--model", "m", "--base-url", server.url, "--prompt", "published=x", *words)
    _, last = ran.err.splitlines()  # the first is about a question of this ward that is left out
    assert (ran.code, last) == (1, f"medagent: {problem}")


def test_nine_columns_have_no_split(run: Run, tmp_path: Path) -> None:
    questions = write_questions(tmp_path, NINE)
    assert run("--agent", "nop", questions=questions).code == 0
    refused = run("--agent", "nop", "--split", "test", questions=questions)
    assert "the question file does not contain the column split" in refused.err


def test_patients_that_have_nothing_of_the_questions(run: Run, tmp_path: Path) -> None:
    elsewhere = [{**QUESTIONS[0], "true_fhir_ids": "{'Patient': ['elsewhere']}"}]
    ran = run("--agent", "nop", questions=write_questions(tmp_path, rows=elsewhere))
    assert (ran.code, "contains none of the 1 true ids of the questions" in ran.err) == (1, True)


def test_credentialed_patients_need_a_word(tmp_path: Path) -> None:
    many = [f"p{number}" for number in range(1, 102)]
    words = ("run", "fhir-agentbench", "--dataset", write_questions(tmp_path), "--ehr", write_ward(tmp_path, many))
    ran = medagent(*words, "--results-dir", tmp_path, "--model", "scripted:none.json", "--ids", "q1", "--quiet")
    assert ran.code == 1
    (tmp_path / "s.json").write_text(json.dumps({"*": ["FINISH([])"]}))
    model = ("--results-dir", tmp_path, "--model", f"scripted:{tmp_path / 's.json'}", "--ids", "q1", "--quiet")
    ran = medagent(*words, *model)
    assert (ran.code, "must not be sent to a model's provider without a suitable agreement" in ran.err) == (1, True)
    assert ran.err.rstrip().endswith("--yes")
    assert medagent(*words, *model, "--yes").code == 0
    assert medagent(*words, "--agent", "nop", "--results-dir", tmp_path, "--quiet").code == 0


def test_the_published_file_is_imported_once(ward: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MEDAGENT_HOME", str(tmp_path / "home"))
    data = ("--dataset", "published", "--ehr", ward / "ward.sqlite")
    words = ("run", "fhir-agentbench", "--agent", "nop", *data, "--results-dir", tmp_path)
    missing = medagent(*words)
    assert (missing.code, "medagent data import questions.csv" in missing.err) == (1, True)
    bad = write_questions(tmp_path, rows=[{**QUESTIONS[0], "true_fhir_ids": "open('x')"}, QUESTIONS[1], QUESTIONS[1]])
    refused = medagent("data", "import", bad)
    assert refused.code == 1
    assert "true_fhir_ids: is not a Python literal" in refused.err
    assert "duplicate question_id q2" in refused.err
    assert not (tmp_path / "home" / "data").exists()
    assert "7 questions of FHIR-AgentBench imported" in medagent("data", "import", ward / "questions.csv").out
    ran = medagent(*words, "--quiet", "--full")
    assert ran.code == 0
    assert "Published figures: the newest is from 2026-05." in ran.out
    print("OUT", ran.out[-3500:])
    assert re.search(r"o4-mini", ran.out)
    assert "Qwen3-8B, trained 77.0%, number of items not stated" in " ".join(ran.out.split())
    assert (
        "ward.ndjson: contains no published data that medagent imports"
        in medagent("data", "import", ward / "ward.ndjson").err
    )
    assert "no-such.csv: no such file or folder" in medagent("data", "import", ward / "no-such.csv").err


def test_own_agents_act_by_text_and_over_http(run: Run, ward: Path, tmp_path: Path) -> None:
    agent = tmp_path / "own.py"
    agent.write_text(
        "from medagent import Agent\n\n\nclass Own(Agent):\n    def play(self, task, prompt):\n"
        "        assert f'Patient FHIR ID is {task.mrn}.' in prompt\n"
        '        yield f"GET {self.context.base}Patient?_id={task.mrn}"\n'
        "        yield 'FINISH([\"male\"])'\n"
    )
    assert run("--agent", f"{agent}:Own", "--ids", "q1").code == 0
    row = rows(tmp_path / "fhir-agentbench_r1_Own")["q1"]
    (read,) = row["reads"]
    assert (read["ids"], read["sent"]) == ({"Patient": ["p1"]}, "/Patient?_id=p1&_format=json")
    options: dict[str, Any] = {"dataset": str(ward / "questions.csv"), "ehr": ward / "ward.sqlite"}
    with public.episode("q1", benchmark="fhir-agentbench", **options) as episode:
        episode.reset()
        episode.call("get_patient", {"_id": "p1"})
        episode.call("finish", {"answers": ["male"]})
        assert (episode.verdict().correct, episode.verdict().part["grounded"]) == (True, True)
    import httpx

    with (
        public.serve_episodes(benchmark="fhir-agentbench", handling="lenient", **options) as server,
        server.open("q6") as over_http,
        httpx.Client(headers=over_http.headers) as client,
    ):
        assert client.get(f"{over_http.base}/Location", params={"patient": "p3"}).json()["total"] == 2
        over_http.finish(["Icu"])
        (read,) = over_http.outcome().reads
        assert (read.ids, read.sent) == ({"Location": ["medicine", "icu"]}, "/Location")
        assert over_http.verdict().correct


def test_a_run_is_written_as_the_published_file_and_graded_from_it(run: Run, ward: Path, tmp_path: Path) -> None:
    assert run("--agent", "fetch-all").code == 0
    folder = tmp_path / "fhir-agentbench_r1_fetch-all"
    assert medagent("export", "official", folder, tmp_path / "out").out.strip() == str(
        tmp_path / "out" / "outputs.json"
    )
    again = medagent("export", "official", folder, tmp_path / "out")
    assert (again.code, "already exists" in again.err) == (1, True)
    written = json.loads((tmp_path / "out" / "outputs.json").read_text())
    assert [len(row) for row in written] == [11] * 6
    words = ("grade", "--benchmark", "fhir-agentbench", tmp_path / "out" / "outputs.json", "--json")
    from_file = json.loads(medagent(*words, "--dataset", ward / "questions.csv", "--ehr", ward / "ward.sqlite").out)
    from_run = json.loads(medagent("grade", folder, "--json").out)
    assert from_file["table"] == from_run["table"]
    shares = json.loads(medagent("grade", folder, "--rules", "paper", "--json").out)
    assert shares["rule_set"] == "paper"
    changed = [{**written[0], "question_id": "other"}, {**written[1], "true_answer": "[[99]]"}]
    (tmp_path / "own.json").write_text(json.dumps(changed))
    ran = medagent(
        "grade", "--benchmark", "fhir-agentbench", tmp_path / "own.json", "--dataset", ward / "questions.csv"
    )
    assert "1 rows are about other questions and do not count: other" in ran.out
    (tmp_path / "own.json").write_text(json.dumps(changed[:1]))
    ran = medagent(
        "grade", "--benchmark", "fhir-agentbench", tmp_path / "own.json", "--dataset", ward / "questions.csv"
    )
    assert (ran.code, "[0].question_id: 'other'" in ran.err) == (1, True)
    unknown = medagent("grade", "--benchmark", "fhir-agentbench", tmp_path / "own.json", "--key", "x")
    assert "--key does not apply to" in unknown.err


def test_show_and_the_page_have_ids_in_two_columns_and_the_resources(run: Run, tmp_path: Path) -> None:
    assert run("--agent", "fetch-all").code == 0
    folder = tmp_path / "fhir-agentbench_r1_fetch-all"
    shown = medagent("show", folder, "q5").out
    assert "  = Observation | p2-o1 | p2-o1" in shown
    assert "  + Observation |  | p2-o2" in shown
    assert "accepted: [[4.5]]" in shown
    assert "why: wrong answer" in shown
    assert medagent("report", folder, "-o", tmp_path / "page.html").code == 0
    assert (tmp_path / "page.html").stat().st_size > 10_000


@pytest.mark.long
@pytest.mark.parametrize(("handling", "recall", "precision"), [("strict", 0.9290, 0.4030), ("lenient", 1.0, 0.3541)])
def test_the_published_questions_over_the_demo(tmp_path: Path, handling: str, recall: float, precision: float) -> None:
    shared = need(SHARED / "fhiragentbench" / "questions.csv").parent
    data = tmp_path / "mimic.sqlite"
    assert medagent("ehr", "import", *sorted((shared / "mimic-demo").glob("*.gz")), "--data", data).code == 0
    words = ("run", "fhir-agentbench", "--dataset", shared / "questions.csv", "--ehr", data, "--results-dir", tmp_path)
    report = json.loads(medagent(*words, "--agent", "fetch-all", "--handling", handling, "--json", "--quiet").out)
    found = line(report, "all")
    assert found["counts"]["questions"] == 2535
    assert (round(found["more"]["recall"], 4), round(found["more"]["precision"], 4)) == (recall, precision)
    assert len(report["data"]["left_out"]) == 396
    assert round(line(report, "nop, whole data set")["value"], 3) == 0.239
    assert sum(report["faulty_truth"].values()) == 146


def test_no_integration_and_no_export_names_a_benchmark() -> None:
    folders = [Path(public.__file__).parent / name for name in ("integrations", "export")]
    files = [path for folder in folders for path in folder.rglob("*.py")]
    named = re.compile("fhiragentbench|fhir-agentbench|FhirAgentBench")
    assert not [str(path) for path in files if named.search(path.read_text(encoding="utf-8"))]


def test_questions_are_played_over_mcp_too(ward: Path, tmp_path: Path) -> None:
    from medagent.benchmarks.base import find
    from medagent.core.options import checked
    from medagent.integrations.mcp.run import serving

    benchmark: Any = find("fhir-agentbench")
    options = {"dataset": str(ward / "questions.csv"), "ehr": ward / "ward.sqlite", "results_dir": tmp_path}

    async def client(offer: Any) -> None:
        started = await offer.call("start_task", {"task_id": "q1"})
        handle = {"episode": started.data["episode"]}
        await offer.call("get_patient", {**handle, "_id": "p1"})
        await offer.call("finish", {**handle, "answers": ["male"]})

    settings = checked(benchmark.Settings, options)
    asyncio.run(serving(benchmark, settings, client, idle=60, say=lambda _: None, names_tasks=True))
    report = json.loads(medagent("grade", tmp_path / "fhir-agentbench_r1_mcp", "--json").out)
    assert line(report, "all")["more"]["grounded"] == 1
