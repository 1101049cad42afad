"""MLflow 3 takes a run into sqlite and into its server, and the run's spans by its OTLP endpoint; it refuses the old
folder store, which the export passes on in one line.
"""

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

import mlflow
from mini import chat_endpoint

import medagent

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
MRN = next(task.patient for task in medagent.tasks() if task.id == "task1_3")
CALLS = [("get_patient", {"identifier": MRN}), ("finish", {"answers": [MRN]})]


def reply(asked: dict[str, Any]) -> dict[str, Any]:
    """A search, then the answer to task1_3, which is wrong for any other task."""
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    name, arguments = CALLS[turn]
    function = {"name": name, "arguments": json.dumps(arguments)}
    return {"tool_calls": [{"id": f"c{turn}", "type": "function", "function": function}]}


def export(*words: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run `medagent export`."""
    command = [MEDAGENT, "export", *words]
    return subprocess.run(command, capture_output=True, text=True, check=False, env=os.environ | environment)


def logged(uri: str, run_id: str, folder: Path) -> None:
    """The run as MLflow has it."""
    client = mlflow.MlflowClient(tracking_uri=uri)
    run = client.get_run(run_id)
    assert (run.data.metrics["rate"], run.data.metrics["n"]) == (0.5, 2.0), run.data.metrics
    assert run.data.params["benchmark"] == "medagentbench", run.data.params
    kept = {file.path for file in client.list_artifacts(run_id)}
    assert "episodes.jsonl" in kept, kept
    assert (folder / "episodes.jsonl").is_file()


def spans(uri: str, folder: Path) -> int:
    """Send the spans; how many MLflow has of them."""
    mlflow.set_tracking_uri(uri)
    experiment = mlflow.create_experiment("spans")
    sent = export("otel", str(folder), uri, OTEL_EXPORTER_OTLP_HEADERS=f"x-mlflow-experiment-id={experiment}")
    assert sent.returncode == 0, sent.stderr
    traces = mlflow.search_traces(locations=[experiment], return_type="list")
    assert len(traces) == 2, traces
    names = sorted(span.name for trace in traces for span in trace.data.spans)
    assert names == sorted(
        [*["invoke_agent tools", "chat x", "chat x"] * 2, *["execute_tool get_patient"] * 2]
        + ["execute_tool finish"] * 2
    ), names
    tool = next(span for trace in traces for span in trace.data.spans if span.name == "execute_tool get_patient")
    assert tool.attributes["gen_ai.tool.call.arguments"] == CALLS[0][1], tool.attributes
    verdicts = {
        event.attributes["gen_ai.evaluation.score.label"]
        for trace in traces
        for span in trace.data.spans
        for event in span.events
        if event.name == "gen_ai.evaluation.result"
    }
    assert verdicts == {"right", "wrong"}, verdicts
    return len(names)


def main() -> None:
    """All of it."""
    with chat_endpoint(reply) as url:
        report = medagent.run_sync(
            model="x", base_url=[url], protocol="tools", ids=("task1_3", "task1_4"), results_dir=Path("results")
        )
    folder = Path(report.folder).resolve()
    assert [item.correct for item in report.items] == [True, False], report.items
    old = export("mlflow", str(folder), "mlruns")
    assert old.returncode == 1, old
    assert old.stderr.count("\n") == 1, old.stderr
    assert "sqlite:///" in old.stderr, old.stderr
    done = export("mlflow", str(folder), "sqlite:///mlflow.db")
    assert done.returncode == 0, done.stderr
    logged("sqlite:///mlflow.db", done.stdout.split()[-1], folder)
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        uri = f"http://127.0.0.1:{free.getsockname()[1]}"
    command = [sys.executable, "-m", "mlflow", "server", "--backend-store-uri", "sqlite:///server.db", "--workers", "1"]
    server = subprocess.Popen(
        [*command, "--port", uri.rpartition(":")[2]], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        for _ in range(240):
            try:
                urlopen(f"{uri}/health")
                break
            except OSError:
                time.sleep(0.5)
        done = export("mlflow", str(folder), uri)
        assert done.returncode == 0, done.stderr
        logged(uri, done.stdout.split()[-1], folder)
        count = spans(uri, folder)
    finally:
        server.terminate()
        server.wait()
    print(f"a run in sqlite and on a server; {count} spans by OTLP with tool calls and verdicts; no folder store")


main()
