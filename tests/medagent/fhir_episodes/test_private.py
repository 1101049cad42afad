"""A run with `--writes private` over a hospital's own server: what it writes, and where its patients' data may go."""

from __future__ import annotations

import base64
import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from fhir_server import Server
from fhir_server.app import create_app
from medagent.fhir_episodes.fhir_base import API_BASE
from tests.command import medagent as command
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.runs import rows
from tests.medagent.reports.test_report import unpacked
from tests.serving import serving

MARKERS = ("Zyxomark", "1911-09-17", "idmark77", "61.7531")
PATIENT = {"resourceType": "Patient", "id": "idmark77", "name": [{"family": "Zyxomark"}], "birthDate": "1911-09-17"}
WEIGHT = {
    "resourceType": "Observation",
    "id": "o1",
    "status": "final",
    "code": {"text": "weight"},
    "subject": {"reference": "Patient/idmark77"},
    "valueQuantity": {"value": 61.7531, "unit": "kg"},
}
STOP = json.dumps([{"op": "replace", "path": "/status", "value": "amended"}])
ACTIONS = [
    f"GET {API_BASE}Patient?family=Zyxomark",
    f"PATCH {API_BASE}Observation/o1\n{STOP}",
    f"GET {API_BASE}Observation?subject=Patient/idmark77&status=amended",
]


@pytest.fixture
def hospital(monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, Server]]:
    server = Server.open(None)
    server.load([json.dumps(resource) for resource in (PATIENT, WEIGHT)])
    with serving(create_app(server)) as url:
        yield f"{url}/fhir", server
    server.close()


def agent(folder: Path, base: str = API_BASE) -> str:
    """An agent that acts, and answers with what it read."""
    actions = [action.replace(API_BASE, base) for action in ACTIONS]
    (folder / "mine.py").write_text(
        "import medagent\nclass Mine(medagent.Agent):\n    async def play(self, task, prompt):\n"
        f"        for message in {actions!r}:\n            reply = yield message\n"
        '        yield \'FINISH(["Zyxomark", "1911-09-17"])\'\n'
    )
    return f"{folder / 'mine.py'}:Mine"


def run(folder: Path, url: str, *words: Any) -> Any:
    options = ("--results-dir", folder, "--limit", 1, "--version", "v1", "--fhir", url, "--writes", "private")
    return command("run", *options, *words)


def marked(text: str) -> list[str]:
    return [marker for marker in MARKERS if marker in text]


def test_a_private_run_writes_nothing_to_the_server_and_its_texts_stay_in_its_folder(
    tmp_path: Path, hospital: tuple[str, Server]
) -> None:
    url, server = hospital
    ran = run(tmp_path, url, "--agent", agent(tmp_path), "--send-patient-data", "nowhere")
    assert ran.code == 0, ran.err
    folder = next(tmp_path.glob("v1_*"))
    (row,) = rows(folder)
    assert row["status"] == "completed"
    assert [change["kind"] for change in row["changes"]] == ["changed"]
    assert '"status": "amended"' in row["transcript"][-2]["content"]
    assert '"final"' in next(server.export("Observation"))
    assert marked(json.dumps(row)) == list(MARKERS)
    assert folder.stat().st_mode & 0o077 == 0
    assert all(path.stat().st_mode & 0o077 == 0 for path in folder.iterdir())
    shown = command("show", folder, row["task_id"]).out
    assert "Observation o1: status final → amended" in shown

    page, lines, table = tmp_path / "page.html", tmp_path / "rows.jsonl", tmp_path / "groups.csv"
    written = [
        command("report", folder, "-o", page),
        command("export", "jsonl", folder, lines),
        command("export", "csv", folder, table),
        command("grade", folder, "--json"),
        command("grade", next(folder.glob("results*.json")), "--json"),
        command("report", next(folder.glob("results*.json")), "-o", tmp_path / "file.html"),
        run(tmp_path, url, "--agent", agent(tmp_path), "--send-patient-data", "nowhere", "--json", "--round", "r2"),
    ]
    for ended in written:
        assert ended.code == 0, ended.err
        assert marked(ended.out + ended.err) == []
    assert marked(json.dumps(unpacked(tmp_path / "file.html"))) == []
    assert marked(json.dumps(unpacked(page)) + lines.read_text() + table.read_text()) == []
    (line,) = map(json.loads, lines.read_text().splitlines())
    assert (line["correct"], line["messages"], line["reason"]) == (False, [], "")

    assert command("report", folder, "-o", page, "--with-patient-data").code == 0
    assert "Zyxomark" in json.dumps(unpacked(page))
    assert command("export", "jsonl", folder, lines, "--with-patient-data").code == 0
    assert marked(lines.read_text()) == list(MARKERS)


def test_the_shown_base_may_have_another_path(tmp_path: Path, hospital: tuple[str, Server]) -> None:
    base = "https://ehr.example/api/FHIR/R4/"
    mine = agent(tmp_path, base)
    ran = run(tmp_path, hospital[0], "--agent", mine, "--send-patient-data", "nowhere", "--shown-base", base)
    assert ran.code == 0, ran.err
    (row,) = rows(next(tmp_path.glob("v1_*")))
    assert [change["kind"] for change in row["changes"]] == ["changed"]
    assert f'"fullUrl": "{base}Observation/o1"' in row["transcript"][-2]["content"]


@pytest.mark.parametrize(
    "words",
    [
        ("export", "official", "RUN", "OUT"),
        ("export", "atif", "RUN", "OUT"),
        ("export", "inspect", "RUN", "OUT.json"),
        ("export", "otel", "RUN", "OUT"),
        ("export", "mlflow", "RUN", "sqlite:///OUT.db"),
        ("submit", "pack", "RUN", "--out", "OUT.zip"),
    ],
)
def test_forms_with_conversations_need_the_users_word(
    tmp_path: Path, hospital: tuple[str, Server], words: tuple[str, ...]
) -> None:
    ran = run(tmp_path, hospital[0], "--agent", agent(tmp_path), "--send-patient-data", "nowhere")
    assert ran.code == 0, ran.err
    folder = next(tmp_path.glob("v1_*"))
    named = [word.replace("RUN", str(folder)).replace("OUT", str(tmp_path / "out")) for word in words]
    refused = command(*named)
    assert refused.code != 0
    assert "--with-patient-data" in refused.err
    assert marked(refused.err) == []
    assert not list(tmp_path.glob("out*"))


def test_a_tool_on_another_host_must_be_named(tmp_path: Path, hospital: tuple[str, Server]) -> None:
    ran = run(tmp_path, hospital[0], "--agent", agent(tmp_path), "--send-patient-data", "nowhere")
    assert ran.code == 0, ran.err
    folder = next(tmp_path.glob("v1_*"))
    for form in ("otel", "mlflow"):
        refused = command("export", form, folder, "http://collector.example:4318", "--with-patient-data")
        assert refused.code != 0
        assert "--send-patient-data collector.example" in refused.err


@pytest.mark.parametrize(
    ("words", "problem"),
    [
        (("--model", "m", "--base-url", "http://llm.example/v1"), "--base-url is at http://llm.example/v1"),
        (("--model", "m"), "m, a model, is at https://api.openai.com/v1"),
        (("--agent", "AGENT"), "Mine, code of your own, may send patient data anywhere"),
        (
            ("--model", "m", "--base-url", "URL", "--cluster", "tcp://head.example:8786"),
            "--cluster is at tcp://head.example:8786",
        ),
        (("--model", "m", "--base-url", "URL", "--allow-host", "a2a.example"), "--allow-host is at a2a.example"),
    ],
)
def test_patient_data_go_to_no_address_that_the_user_has_not_named(
    tmp_path: Path, hospital: tuple[str, Server], words: tuple[str, ...], problem: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-not-sent")
    with ModelServer(reply=lambda _: "FINISH([])") as model:
        given = [word.replace("URL", model.url).replace("AGENT", agent(tmp_path)) for word in words]
        ran = run(tmp_path, hospital[0], *given)
    assert ran.code != 0
    assert problem in ran.err
    assert "--send-patient-data" in ran.err
    assert not list(tmp_path.glob("v1_*"))


def test_a_judge_elsewhere_must_be_named(
    tmp_path: Path, hospital: tuple[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", "a-key-that-is-not-sent")
    words = ("--fhir", hospital[0], "--writes", "private", "--judge", "gpt-4o", "--results-dir", tmp_path / "runs")
    ran = command("run", "fhir-agentbench", "--agent", "reference", *words)
    assert ran.code != 0
    assert "gpt-4o, a model, is at https://api.openai.com/v1" in ran.err
    assert not (tmp_path / "runs").exists()


def test_a_model_on_this_machine_needs_no_option(tmp_path: Path, hospital: tuple[str, Server]) -> None:
    messages = iter([*ACTIONS, "FINISH([])"])
    with ModelServer(reply=lambda _: next(messages)) as model:
        ran = run(tmp_path, hospital[0], "--model", "m", "--base-url", model.url)
    assert ran.code == 0, ran.err
    assert rows(next(tmp_path.glob("v1_*")))[0]["status"] == "completed"


def test_a_token_that_may_write_gets_a_warning(
    tmp_path: Path, hospital: tuple[str, Server], monkeypatch: pytest.MonkeyPatch
) -> None:
    claims = base64.urlsafe_b64encode(b'{"scope": "user/*.read user/*.write"}').decode()
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN", f"e30.{claims}.x")
    with ModelServer(reply=lambda _: "FINISH([])") as model:
        ran = run(tmp_path, hospital[0], "--model", "m", "--base-url", model.url)
    assert ran.code == 0, ran.err
    assert "the token's scope allows writes (user/*.write)" in ran.err


def test_a_token_that_expires_in_the_middle_loses_no_finished_item(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    token = tmp_path / "token"
    token.write_text("first-token")
    monkeypatch.setenv("MEDAGENT_FHIR_TOKEN_FILE", str(token))
    server = Server.open(None)
    server.load([json.dumps(resource) for resource in (PATIENT, WEIGHT)])
    app, valid, answered = create_app(server), ["first-token"], []

    async def guarded(scope: Any, receive: Any, send: Any) -> None:
        sent = dict(scope["headers"]).get(b"authorization", b"").decode().removeprefix("Bearer ")
        answered.append(sent)
        if len(answered) == 8:
            valid[:] = ["second-token"]
        if sent in valid:
            await app(scope, receive, send)
            return
        await send({"type": "http.response.start", "status": 401, "headers": []})
        await send({"type": "http.response.body", "body": b"{}"})

    with serving(guarded) as url:
        words = ("--agent", agent(tmp_path), "--send-patient-data", "nowhere", "--limit", 3, "--concurrency", 1)
        stopped = run(tmp_path, f"{url}/fhir", *words)
        assert stopped.code != 0
        assert "answers 401: the token is not accepted" in stopped.err
        assert "Traceback" not in stopped.err
        finished = [row for row in rows(next(tmp_path.glob("v1_*"))) if row["status"] == "completed"]
        assert 1 <= len(finished) < 3
        token.write_text("second-token")
        continued = run(tmp_path, f"{url}/fhir", *words)
        assert continued.code == 0, continued.err
    server.close()
    again = [row for row in rows(next(tmp_path.glob("v1_*"))) if row["status"] == "completed"]
    assert len(again) == 3
    assert again[: len(finished)] == finished


def test_private_writes_need_a_server(tmp_path: Path) -> None:
    ran = command("run", "--agent", "nop", "--writes", "private", "--results-dir", tmp_path)
    assert ran.code != 0
    assert "--writes private needs --fhir URL" in ran.err


def test_private_data_options_need_private_writes(tmp_path: Path, hospital: tuple[str, Server]) -> None:
    ran = command("run", "--agent", "nop", "--fhir", hospital[0], "--send-patient-data", "x", "--results-dir", tmp_path)
    assert ran.code != 0
    assert "--writes private" in ran.err


def test_an_mcp_client_needs_the_option(hospital: tuple[str, Server]) -> None:
    pytest.importorskip("mcp_types")
    ran = command("mcp", "--fhir", hospital[0], "--writes", "private")
    assert ran.code != 0
    assert "an MCP client may send patient data anywhere" in ran.err
