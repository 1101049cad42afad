"""`medagent export`: rows, figures, trajectories and spans of finished folders; each form says what it cannot do."""

from __future__ import annotations

import contextlib
import csv
import hashlib
import http.server
import io
import json
import shutil
import sys
import tarfile
import threading
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path
from typing import Any

import pytest

from tests.command import medagent
from tests.loopback import ModelServer
from tests.shared_data import DATA

FOLDERS = ("v2_old_m", "simpleqa-husimpleqa_old_m", "imapscore_old_m")


@pytest.fixture(scope="module")
def results(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    folder = tmp_path_factory.mktemp("exports")
    with tarfile.open(fileobj=io.BytesIO((DATA / "finished" / "0.1.0.tar.xz").read_bytes()), mode="r:xz") as archive:
        archive.extractall(folder, filter="data")
    _played(folder / "results")
    with contextlib.chdir(folder):  # where the runs' own files are named from
        assert medagent("data", "allow", "items.jsonl", "test.json", "gold.json").code == 0  # another machine's runs
        yield folder / "results"


def _played(folder: Path) -> None:
    """The first task of each type, twice, by a model that repeats the reference agent: `v2_old_m`."""
    ids = ("--quiet", "--ids", ",".join(f"task{n}_1" for n in range(1, 11)))
    assert medagent("run", "--agent", "reference", *ids, "--results-dir", folder / "aside").code == 0
    journal = folder / "aside" / "v2_r1_reference" / "episodes.jsonl"
    replies = {}
    for row in map(json.loads, journal.read_text().splitlines()):
        said = row["transcript"]
        replies[said[0]["content"]] = [message["content"] for message in said if message["role"] == "agent"]
    with ModelServer(lambda call: replies[call["messages"][0]["content"]][len(call["messages"]) // 2]) as server:
        words = ("--model", "m", "--base-url", server.url, "--round", "old", "--trials", 2)
        assert medagent("run", *words, *ids, "--results-dir", folder).code == 0


@pytest.mark.parametrize("name", FOLDERS)
def test_every_eval_ever_fits_its_published_schemas(results: Path, tmp_path: Path, name: str) -> None:
    jsonschema = pytest.importorskip("jsonschema")
    schemas = DATA / "every_eval_ever"
    whole, sample = (
        jsonschema.Draft202012Validator(json.loads((schemas / f"{kind}.schema.json").read_text()))
        for kind in ("eval", "instance_level_eval")
    )
    done = medagent("export", "every-eval-ever", results / name, tmp_path)
    assert (done.code, done.err) == (0, "")
    log, lines = map(Path, done.out.split())
    record = json.loads(log.read_text())
    whole.validate(record)
    (result,) = record["evaluation_results"]
    assert None not in (result["metric_config"]["min_score"], result["metric_config"]["max_score"]), (
        "its validator's rule"
    )
    assert json.loads(record["model_info"]["additional_details"].get("served_as", "[]")) in ([], ["m"]), "no judge"
    rows = [json.loads(line) for line in lines.read_text().splitlines()]
    for row in rows:
        sample.validate(row)
        assert row["evaluation_id"] == record["evaluation_id"]
        assert row["model_id"] == record["model_info"]["id"] == "unknown/m"
    detailed = record["detailed_evaluation_results"]
    assert detailed["checksum"] == hashlib.sha256(lines.read_bytes()).hexdigest()
    assert (detailed["total_rows"], tmp_path / detailed["file_path"]) == (len(rows), lines)
    report = json.loads((results / name / "report.json").read_text()) if name == "v2_old_m" else None
    if report:
        assert (result["score_details"]["score"], len(rows)) == (report["overall"]["value"], 20)
        details = result["score_details"]["details"]
        assert (details["rules"], details["loop"], details["trials"]) == ("official", "published", "2")
        assert details["grounded"].endswith(f" of {report['overall']['grounded']['n']}")
        assert float(details["above_blind"]) == report["above_blind"]["difference"]
        assert result["source_data"]["additional_details"]["sha256"] == report["data"]["digest"]
        assert rows[0]["messages"][-1]["content"].startswith("FINISH(")
        assert "right answer" not in json.dumps([row["input"]["reference"] for row in rows]), "reasons are no answers"
    again = medagent("export", "every-eval-ever", results / name, tmp_path / "again")
    assert Path(again.out.split()[0]).name == log.name, "the same run has the same name"


def test_jsonl_and_parquet_hold_the_same_rows(results: Path, tmp_path: Path) -> None:
    parquet = pytest.importorskip("pyarrow.parquet")
    for form in ("jsonl", "parquet"):
        done = medagent("export", form, results / "v2_old_m", tmp_path / f"rows.{form}")
        assert done.out == f"{tmp_path / f'rows.{form}'}: 20 rows\n", done.err
    lines = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert parquet.read_table(tmp_path / "rows.parquet").to_pylist() == lines
    row = next(line for line in lines if (line["item"], line["trial"]) == ("task5_1", 2))
    assert [said["role"] for said in row["messages"]] == ["user", "assistant"] * 3
    assert row["messages"][-1]["content"].startswith("FINISH([")
    assert (row["correct"], row["model"], row["group"]) == (True, "m", "task5")
    assert {"name": "posts", "passed": True, "expected": "1 accepted", "actual": "1 accepted"} in row["checks"]
    assert row["prompt_tokens"] > 0


def test_a_row_of_a_single_question_begins_with_the_question(results: Path, tmp_path: Path) -> None:
    assert medagent("export", "jsonl", results / "simpleqa-husimpleqa_old_m", tmp_path / "rows.jsonl").code == 0
    rows = [json.loads(line) for line in (tmp_path / "rows.jsonl").read_text().splitlines()]
    assert [said["role"] for said in rows[0]["messages"]] == ["user", "assistant"]
    assert len({json.dumps(row) for row in rows}) == len(rows) == 80


@pytest.mark.parametrize("name", FOLDERS)
def test_no_two_lines_of_figures_look_alike(results: Path, tmp_path: Path, name: str) -> None:
    assert medagent("export", "csv", results / name, tmp_path / "groups.csv").code == 0
    with (tmp_path / "groups.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    names = ("benchmark", "data", "language", "model", "judges", "table", "group", "figure")
    assert len({tuple(row[column] for column in names) for row in rows}) == len(rows)
    assert {row["model"] for row in rows} == {"m"}
    if name.startswith("simpleqa"):
        assert {row["language"] for row in rows} >= {"en", "hu", "all"}
        assert {row["judges"] for row in rows} == {"j strict-j"}


def test_a_cell_that_a_spreadsheet_would_run_is_text(results: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    shutil.copytree(results / "v2_old_m", folder)
    about = json.loads((folder / "run.json").read_text())
    about["settings"]["model"] = "=HYPERLINK(1)"
    (folder / "run.json").write_text(json.dumps(about))
    (folder / "report.json").unlink()
    assert medagent("export", "csv", folder, tmp_path / "groups.csv").code == 0
    with (tmp_path / "groups.csv").open(encoding="utf-8", newline="") as file:
        assert {row["model"] for row in csv.DictReader(file)} == {"'=HYPERLINK(1)"}


def test_trajectories_have_actions_as_tool_calls_and_replies_as_observations(results: Path, tmp_path: Path) -> None:
    for name in FOLDERS:
        assert medagent("export", "atif", results / name, tmp_path / name).code == 0
    trajectory = json.loads((tmp_path / "v2_old_m" / "task5_1.2.json").read_text())
    assert trajectory["schema_version"] == "ATIF-v1.8"
    assert [step["source"] for step in trajectory["steps"]] == ["user", "agent", "agent", "agent"]
    assert [step["step_id"] for step in trajectory["steps"]] == [1, 2, 3, 4]
    calls = [step["tool_calls"][0] for step in trajectory["steps"][1:]]
    assert [call["function_name"] for call in calls] == ["GET", "POST", "FINISH"]
    assert calls[1]["arguments"]["body"]["resourceType"] == "MedicationRequest"
    result = trajectory["steps"][1]["observation"]["results"][0]
    assert result["source_call_id"] == calls[0]["tool_call_id"]
    assert '"Bundle"' in result["content"]
    assert trajectory["final_metrics"]["total_prompt_tokens"] == sum(
        step["metrics"]["prompt_tokens"] for step in trajectory["steps"][1:]
    )


def test_trajectories_are_valid_by_harbors_own_model(results: Path, tmp_path: Path) -> None:
    model = pytest.importorskip("harbor.models.trajectories", reason="harbor is not installed (it needs Python 3.12)")
    for name in FOLDERS:
        assert medagent("export", "atif", results / name, tmp_path / name).code == 0
    files = list(tmp_path.glob("*/*.json"))
    assert len(files) > 100
    for file in files:
        model.Trajectory.model_validate_json(file.read_text())


CALLS = (
    [("c0", "get_patient", '{"identifier": "S1"}'), ("c1", "get_patient", '{"family": ')],
    [("c0", "finish", '{"answers": ["S1"]}')],
)
"""The tool calls of each reply; the first two in parallel, the second of them no JSON."""


def _calling(asked: dict[str, Any]) -> dict[str, Any]:
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    calls = [
        {"id": name, "type": "function", "function": {"name": function, "arguments": arguments}}
        for name, function, arguments in CALLS[turn]
    ]
    message = {
        "role": "assistant",
        "content": None if turn else "I look.",
        "reasoning_content": "so",
        "tool_calls": calls,
    }
    choice = {"index": 0, "finish_reason": "tool_calls", "message": message}
    usage = {"prompt_tokens": 5, "completion_tokens": 3, "total_tokens": 8}
    return {"id": "1", "object": "chat.completion", "created": 1, "model": "x", "choices": [choice], "usage": usage}


@pytest.fixture(scope="module")
def called(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run by tool calls."""
    folder = tmp_path_factory.mktemp("called")
    with ModelServer(reply=_calling) as server:
        words = ("--model", "x", "--base-url", server.url, "--protocol", "tools", "--ids", "task1_2")
        assert medagent("run", *words, "--results-dir", folder).code == 0
    return folder / "v2_r1_x"


def test_tool_calls_are_exported_as_the_model_made_them(called: Path, tmp_path: Path) -> None:
    for form in ("jsonl", "atif", "otel"):
        done = medagent("export", form, called, tmp_path / form)
        assert done.code == 0, done.err
    row = json.loads((tmp_path / "jsonl").read_text())
    messages = row["messages"]
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    made = [
        [(call["id"], call["function"]["name"], call["function"]["arguments"]) for call in message["tool_calls"]]
        for message in messages
        if message["role"] == "assistant"
    ]
    assert made == list(CALLS)
    assert [message["tool_call_id"] for message in messages] == [None, None, "c0", "c1", None]
    assert (messages[1]["content"], row["reasoning"][1]) == ("I look.", "so")
    first, second = (datetime.fromisoformat(time) for time in row["times"] if time)
    assert first < second

    [file] = (tmp_path / "atif").iterdir()
    steps = json.loads(file.read_text())["steps"]
    assert [call["function_name"] for call in steps[1]["tool_calls"]] == ["get_patient", "get_patient"]
    assert steps[1]["tool_calls"][0]["arguments"] == {"identifier": "S1"}
    assert [result["source_call_id"] for result in steps[1]["observation"]["results"]] == ["c0", "c1"]
    assert (steps[1]["timestamp"], steps[1]["metrics"]["prompt_tokens"]) == (row["times"][1], 5)

    spans = json.loads((tmp_path / "otel").read_text())["resourceSpans"][0]["scopeSpans"][0]["spans"]
    tools = [span for span in spans if span["name"].startswith("execute_tool")]
    assert [_attributes(span)["gen_ai.tool.call.arguments"] for span in tools] == [
        call[2] for row in CALLS for call in row
    ]
    [event] = spans[0]["events"]
    assert event["name"] == "gen_ai.evaluation.result"
    assert _attributes(event)["gen_ai.evaluation.score.label"] == "wrong"
    assert {_attributes(span)["gen_ai.conversation.id"] for span in spans} == {"task1_2"}
    assert all(_attributes(span)["gen_ai.provider.name"] == "openai" for span in spans if span not in tools)


def _attributes(entry: dict[str, Any]) -> dict[str, Any]:
    return {attribute["key"]: next(iter(attribute["value"].values())) for attribute in entry["attributes"]}


def test_tool_calls_and_model_calls_are_events_of_inspect(called: Path, tmp_path: Path) -> None:
    log_module = pytest.importorskip("inspect_ai.log", reason="needs the extra inspect")
    assert medagent("export", "inspect", called, tmp_path / "run.json").code == 0
    [sample] = log_module.read_eval_log(str(tmp_path / "run.json")).samples
    assert [(event.id, event.function) for event in sample.events if event.event == "tool"] == [
        (name, function) for row in CALLS for name, function, _ in row
    ]
    models = [event for event in sample.events if event.event == "model"]
    assert [len(event.input) for event in models] == [1, 4]
    assert sample.target


class Collector(http.server.BaseHTTPRequestHandler):
    """Keeps what is sent to it, and answers as its server says."""

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.taken.append((self.path, json.loads(body)))
        self.send_response(self.server.status)
        self.end_headers()
        self.wfile.write(b"sk-secret0000 is no key here")

    def log_message(self, *args: object) -> None:
        pass


@pytest.fixture
def collector() -> Iterator[http.server.HTTPServer]:
    server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Collector)
    server.taken, server.status = [], 200
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield server
    server.shutdown()
    thread.join()
    server.server_close()


def test_spans_go_to_a_collector(results: Path, tmp_path: Path, collector: http.server.HTTPServer) -> None:
    url = f"http://127.0.0.1:{collector.server_port}"
    done = medagent("export", "otel", results / "v2_old_m", url)
    [(path, request)] = collector.taken
    assert path == "/v1/traces"
    spans = request["resourceSpans"][0]["scopeSpans"][0]["spans"]
    by_id = {span["spanId"]: span for span in spans}
    chats = [span for span in spans if span["name"] == "chat m"]
    journal = results / "v2_old_m" / "episodes.jsonl"
    assert len(chats) == sum(json.loads(line)["rounds"] for line in journal.read_text().splitlines())
    assert done.out == f"{20 + len(chats)} spans\n", done.err
    for chat in chats:
        parent = by_id[chat["parentSpanId"]]
        assert parent["name"] == "invoke_agent text"
        assert parent["traceId"] == chat["traceId"]
        assert int(parent["startTimeUnixNano"]) <= int(chat["startTimeUnixNano"]) <= int(chat["endTimeUnixNano"])
    assert "You work for a hospital" not in json.dumps(request)
    assert medagent("export", "otel", results / "v2_old_m", tmp_path / "spans.jsonl").code == 0
    assert json.loads((tmp_path / "spans.jsonl").read_text()) == request


def test_a_collector_that_refuses(results: Path, collector: http.server.HTTPServer) -> None:
    collector.status = 401
    done = medagent("export", "otel", results / "v2_old_m", f"http://user:hunter22@127.0.0.1:{collector.server_port}")
    assert done.code == 1
    assert "status 401" in done.err
    assert "hunter22" not in done.err
    assert "sk-secret0000" not in done.err


@pytest.mark.parametrize("form", ["jsonl", "parquet", "csv", "atif"])
def test_what_cannot_be_written_is_one_line(results: Path, tmp_path: Path, form: str) -> None:
    (tmp_path / "file").write_text("")
    done = medagent("export", form, results / "imapscore_old_m", tmp_path / "file" / "out")
    assert done.code == 1
    assert done.err.startswith("medagent: ")
    assert done.err.count("\n") == 1
    none = medagent("export", form, tmp_path, tmp_path / "out")
    assert (none.code, none.err) == (1, f"medagent: {tmp_path}: not a run's folder (run.json is missing)\n")


MLFLOW = """
from types import SimpleNamespace as Made

logged = []

class MlflowClient:
    def __init__(self, tracking_uri):
        if tracking_uri.startswith("http://nobody"):
            from mlflow.exceptions import MlflowException
            raise MlflowException("no server there")
        logged.append(("uri", tracking_uri))
    def get_experiment_by_name(self, name):
        return None
    def create_experiment(self, name):
        return f"place of {name}"
    def create_run(self, place, run_name):
        logged.append(("run", place, run_name))
        return Made(info=Made(run_id="r1"))
    def log_param(self, run, name, value):
        logged.append(("param", name, value))
    def log_metric(self, run, name, value):
        logged.append(("metric", name, value))
    def log_artifact(self, run, path):
        logged.append(("artifact", path.rpartition("/")[2]))
    def set_terminated(self, run):
        logged.append(("ended", run))
"""


def test_mlflow_gets_settings_figures_and_files(results: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MLflow weighs more than a test should: a stand-in with the five calls of its client that are used."""
    package = tmp_path / "mlflow"
    package.mkdir()
    (package / "__init__.py").write_text(MLFLOW)
    (package / "exceptions.py").write_text("class MlflowException(Exception): pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    for name in ("mlflow", "mlflow.exceptions"):
        monkeypatch.delitem(sys.modules, name, raising=False)
    assert medagent("export", "mlflow", results / "v2_old_m", "sqlite:///here.db").out == "r1\n"
    logged = sys.modules["mlflow"].logged
    assert logged[:2] == [("uri", "sqlite:///here.db"), ("run", "place of medagent", "v2_old_m")]
    assert logged[-1] == ("ended", "r1")
    told = {entry[1]: entry[2] for entry in logged if entry[0] in ("param", "metric")}
    assert (told["benchmark"], told["version"], told["model"]) == ("medagentbench", "v2", "m")
    assert (told["rate"], told["n"], told["group/task5"]) == (1.0, 20.0, 1.0)
    assert {entry[1] for entry in logged if entry[0] == "artifact"} >= {"run.json", "episodes.jsonl", "results.json"}
    failed = medagent("export", "mlflow", results / "v2_old_m", "http://nobody:1")
    assert (failed.code, failed.err) == (1, "medagent: http://nobody:1: no server there\n")
    monkeypatch.setitem(sys.modules, "mlflow", None)
    assert "medagent[mlflow]" in medagent("export", "mlflow", results / "v2_old_m", "x").err
