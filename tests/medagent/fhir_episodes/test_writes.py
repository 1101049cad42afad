"""`--writes execute`: every write of FHIR in every protocol, the state difference, and who may write where."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

import medagent
from fhir_server import Server
from fhir_server.app import create_app
from medagent.fhir_episodes.episode import EpisodeRow
from medagent.fhir_episodes.fhir_base import API_BASE
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox
from medagent.fhir_episodes.writes import stated_write
from tests.command import medagent as command
from tests.loopback import ModelServer
from tests.medagent.benchmarks.medagentbench.runs import rows
from tests.medagent.reports.test_report import unpacked
from tests.medagent.sandbox.trying import working
from tests.serving import serving

PATIENT = {"resourceType": "Patient", "id": "p1", "name": [{"family": "Kis"}]}
ORDER = {
    "resourceType": "MedicationRequest",
    "id": "123",
    "status": "active",
    "intent": "order",
    "medicationCodeableConcept": {"text": "Magnesium"},
    "subject": {"reference": "Patient/p1"},
}
NOTE = {"resourceType": "Basic", "code": {"text": "note"}, "identifier": [{"system": "http://x", "value": "1"}]}
STOP = [{"op": "replace", "path": "/status", "value": "stopped"}]
HOLD = {
    "resourceType": "Parameters",
    "parameter": [
        {
            "name": "operation",
            "part": [
                {"name": "type", "valueCode": "replace"},
                {"name": "path", "valueString": "MedicationRequest.status"},
                {"name": "value", "valueCode": "on-hold"},
            ],
        }
    ],
}
BUNDLE = {
    "resourceType": "Bundle",
    "type": "transaction",
    "entry": [
        {"request": {"method": "DELETE", "url": "Basic?identifier=http://x|1"}},
        {"resource": {"resourceType": "Basic", "code": {"text": "two"}}, "request": {"method": "POST", "url": "Basic"}},
    ],
}


def action(method: str, place: str, body: Any = None, *conditions: str) -> str:
    """A message of the text protocol."""
    return "\n".join([f"{method} {API_BASE}{place}", *conditions, *([] if body is None else [json.dumps(body)])])


ALL = [
    action("PATCH", "MedicationRequest/123", STOP),
    action("PATCH", "MedicationRequest/123", HOLD, 'If-Match: W/"2"'),
    action("PUT", "Patient/p1", {**PATIENT, "birthDate": "1950-01-01"}),
    action("POST", "Basic", NOTE, "If-None-Exist: identifier=http://x|9"),
    action("POST", "", BUNDLE),
    action("DELETE", "MedicationRequest/123"),
]
"""Each kind of write; the fourth is refused by the server, as what it creates does not match its search."""


@pytest.fixture(scope="module")
def ward(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("ward") / "ward.ndjson"
    path.write_text("".join(json.dumps(resource) + "\n" for resource in (PATIENT, ORDER, {**NOTE, "id": "b1"})))
    return path


def agent(folder: Path, *messages: str) -> str:
    """An agent in a file, which sends these messages and then finishes."""
    (folder / "mine.py").write_text(
        "import medagent\nclass Mine(medagent.Agent):\n    async def play(self, task, prompt):\n"
        f"        for message in {list(messages)!r}:\n            yield message\n        yield 'FINISH([])'\n"
    )
    return f"{folder / 'mine.py'}:Mine"


def run(folder: Path, *words: Any) -> Any:
    return command("run", "--results-dir", folder, "--limit", 1, "--version", "v1", *words)


def only_row(folder: Path) -> dict[str, Any]:
    """The last row of a run with one item."""
    return rows(next(folder.glob("v1_*")))[-1]


def differences(row: dict[str, Any]) -> list[tuple[str, str | None, str | None]]:
    """The kinds of the changes, with the status before and after."""
    return [
        (change["kind"], *(change.get(side) and change[side].get("status") for side in ("before", "after")))
        for change in row["changes"]
    ]


@pytest.mark.parametrize("writes", ["ack", "execute"])
def test_the_shown_base_may_have_another_path(tmp_path: Path, writes: str) -> None:
    base = "https://ehr.example/api/FHIR/R4"
    ran = run(tmp_path, "--agent", "reference", "--types", "task5", "--writes", writes, "--shown-base", base)
    assert ran.code == 0, ran.err
    assert "Score 100.0% (1 of 1)" in ran.out


def test_every_write_is_carried_out_and_the_row_has_the_state_difference(tmp_path: Path, ward: Path) -> None:
    ran = run(tmp_path, "--agent", agent(tmp_path, *ALL[:5]), "--ehr", ward, "--writes", "execute")
    assert ran.code == 0, ran.err
    row = only_row(tmp_path)
    replies = [turn["content"] for turn in row["transcript"][2::2]]
    assert [reply.partition("\n")[0] for reply in replies] == [
        "PATCH request accepted and executed successfully. HTTP status 200:",
        "PATCH request accepted and executed successfully. HTTP status 200:",
        "PUT request accepted and executed successfully. HTTP status 200:",
        replies[3],
        "POST request accepted and executed successfully. HTTP status 200:",
    ]
    assert replies[3].startswith("Invalid POST request: HTTP status 400. HAPI-0929")
    assert differences(row) == [
        ("changed", "active", "on-hold"),
        ("changed", None, None),
        ("deleted", None, None),
        ("created", None, None),
    ]
    folder = next(tmp_path.glob("v1_*"))
    shown = command("show", folder, row["task_id"]).out
    assert "MedicationRequest 123: status active → on-hold" in shown
    assert "Patient p1: birthDate 1950-01-01 added" in shown
    page = tmp_path / "report.html"
    assert command("report", folder, "-o", page).code == 0
    assert "status active \u2192 on-hold" in json.dumps(unpacked(page), ensure_ascii=False)
    assert command("grade", folder).code == 0


def test_a_stale_version_is_refused_and_an_existing_match_is_not_created_again(tmp_path: Path, ward: Path) -> None:
    stale = action("PATCH", "MedicationRequest/123", STOP, 'If-Match: W/"7"')
    again = action("POST", "Basic", NOTE, "If-None-Exist: identifier=http://x|1")
    undone = action("PATCH", "MedicationRequest/123", [{"op": "replace", "path": "/status", "value": "active"}])
    by_hand = agent(tmp_path, stale, again, action("PATCH", "MedicationRequest/123", STOP), undone)
    ran = run(tmp_path, "--agent", by_hand, "--ehr", ward, "--writes", "execute")
    assert ran.code == 0, ran.err
    row = only_row(tmp_path)
    assert row["transcript"][2]["content"].startswith("Invalid PATCH request: HTTP status 409.")
    assert '"id": "b1"' in row["transcript"][4]["content"]
    assert row["changes"] == []
    assert row["created"] == []


def test_acknowledged_episodes_know_only_post(tmp_path: Path, ward: Path) -> None:
    assert run(tmp_path, "--agent", agent(tmp_path, ALL[0]), "--ehr", ward).code == 0
    row = only_row(tmp_path)
    assert row["status"] == "invalid_action"
    assert "changes" not in row
    assert row["transcript"][0]["content"] == load_protocol("text").first_message(API_BASE, *(row_task(row["task_id"])))
    settings = json.loads(next(tmp_path.glob("v1_*/run.json")).read_text())["settings"]
    assert "all-writes" not in settings


def row_task(name: str) -> tuple[str, str]:
    task = next(task for task in medagent.tasks(version="v1") if task.id == name)
    return task.context, task.text


@pytest.mark.parametrize("benchmark", ["medagentbench", "psb-300", "fhir-agentbench"])
def test_the_tools_for_all_writes_are_in_every_fhir_benchmark(benchmark: str) -> None:
    options: dict[str, Any] = {"benchmark": benchmark, "protocol": "tools", "max_rounds": 20}
    with medagent.episode(first(benchmark), **options, writes="execute") as e:
        prompt = e.reset()
        names = {tool.name for tool in e.tools}
        assert {"fhir_create", "fhir_update", "fhir_patch", "fhir_delete"} <= names
        assert "fhir_patch" in prompt
        created = e.call(
            "fhir_create", {"resource": PATIENT | {"id": "mine"}, "if_none_exist": "identifier=http://x|9"}
        )
        assert "HAPI-0929" in created
        replaced = e.call("fhir_update", {"resource": PATIENT | {"id": "mine"}})
        assert "HTTP status 201" in replaced
        stale = {"type": "Patient", "id": "mine", "patch": STOP[:0], "if_match": 'W/"4"'}
        assert "409" in e.call("fhir_patch", stale)
        assert "HTTP status 200" in e.call("fhir_delete", {"type": "Patient", "search": "_id=mine"})
        for wrong in ({"type": "Patient"}, {"id": "1"}, {"type": "Patient", "id": "1", "search": "_id=1"}):
            assert "fhir_delete takes" in e.call("fhir_delete", wrong)
        assert "fhir_update takes" in e.call("fhir_update", {"resource": "text"})
        assert "fhir_patch takes" in e.call("fhir_patch", {"type": "Patient", "id": "1", "patch": "x"})
        assert e.outcome.changes == []
    with medagent.episode(first(benchmark), **options) as e:
        assert not {"fhir_update", "fhir_patch", "fhir_delete"} & {tool.name for tool in e.tools}


def first(benchmark: str) -> str:
    from medagent.benchmarks.base import find_fhir

    found = find_fhir(benchmark)
    return found.items(found.Settings())[0].id


@pytest.mark.parametrize("message", ALL)
def test_a_call_and_its_action_are_each_others_inverse(message: str) -> None:
    toolbox = Toolbox.of(load_protocol("tools").with_writes(), API_BASE)
    name, arguments = toolbox.call(message)
    stated = stated_write(message)
    assert stated is not None
    if stated.url == API_BASE:
        assert name == "POST"
        return
    from medagent.models.base import ToolCall

    again = stated_write(toolbox.action(ToolCall("", name, json.dumps(arguments))))
    assert again is not None
    assert (again.method, again.url, again.conditions) == (stated.method, stated.url, stated.conditions)
    assert (again.body and json.loads(again.body)) == (stated.body and json.loads(stated.body))


def test_programs_have_functions_for_all_writes(tmp_path: Path, ward: Path) -> None:
    working("bwrap")
    program = f"""```python
print(patch("MedicationRequest/123", {STOP!r}, if_match='W/"1"')["status"])
print(put("Patient/p1", {PATIENT | {"birthDate": "1950-01-01"}!r})["birthDate"])
print(post("Basic", {NOTE!r}, if_none_exist="identifier=http://x|1")["id"])
print(transaction({BUNDLE!r})["type"])
print(delete("MedicationRequest/123")["resourceType"])
try:
    delete("MedicationRequest/124x", if_match='W/"1"', more=1)
except RuntimeError as error:
    print(error)
finish([])
```"""
    with ModelServer(reply=lambda request: program) as server:
        words = ("--model", "m", "--base-url", server.url, "--protocol", "code", "--sandbox", "bwrap")
        ran = run(tmp_path, *words, "--ehr", ward, "--writes", "execute")
    assert ran.code == 0, ran.err
    row = only_row(tmp_path)
    assert row["programs"][0]["output"].splitlines() == [
        "stopped",
        "1950-01-01",
        "b1",
        "transaction-response",
        "OperationOutcome",
        "delete(url, if_match): the arguments do not fit",
    ]
    assert "transaction(bundle)" in row["transcript"][0]["content"]
    assert [kind for kind, *_ in differences(row)] == ["deleted", "changed", "deleted", "created"]


def test_an_http_episode_carries_out_all_writes_if_told_so(ward: Path) -> None:
    with medagent.serve_episodes(ehr=ward, writes="execute") as server, server.open("task1_1") as e:
        assert "you may update (PUT)" in e.prompt
        headers = {**e.headers, "Content-Type": "application/json-patch+json"}
        url = f"{e.base}/MedicationRequest/123"
        assert httpx.patch(url, json=STOP, headers=headers).status_code == 200
        stale = {**e.headers, "If-Match": 'W/"1"'}
        assert httpx.put(url, json=ORDER, headers=stale).status_code == 409
        assert httpx.post(f"{e.base}/$expunge", json={}, headers=e.headers).status_code == 405
        e.finish([])
    outcome = e.outcome()
    assert outcome.changes is not None
    assert [change.words for change in outcome.changes if not isinstance(change, str)] == ["status active → stopped"]
    patched, _, refused = [turn.content for turn in outcome.transcript[1:4]]
    assert patched == f"PATCH {API_BASE}MedicationRequest/123\n{json.dumps(STOP, separators=(',', ':'))}"
    assert refused.startswith(f'PUT {API_BASE}MedicationRequest/123\nIf-Match: W/"1"\n')
    with medagent.serve_episodes(ehr=ward) as server, server.open("task1_1") as e:
        assert httpx.patch(f"{e.base}/MedicationRequest/123", json=STOP, headers=e.headers).status_code == 405


class OverHttp(medagent.Agent):
    """An agent that owns its loop and writes over HTTP."""

    async def solve(self, task: Any, prompt: str, env: medagent.Env) -> list[Any]:
        async with httpx.AsyncClient(trust_env=False) as client:
            url = f"{env.http}/MedicationRequest/123"
            reply = await client.patch(url, json=STOP, headers={"If-Match": 'W/"1"'})
            assert reply.json()["status"] == "stopped"
            assert (await client.post(env.http, json=BUNDLE)).json()["type"] == "transaction-response"
            assert (await client.delete(url)).status_code == 200
            assert (await client.get(url)).status_code == 410
        return []


def test_an_agent_that_owns_its_loop_may_write_everything(tmp_path: Path, ward: Path) -> None:
    report = medagent.run_sync(agent=OverHttp, limit=1, ehr=ward, writes="execute", results_dir=tmp_path)
    (row,) = medagent.load_run(report.folder).rows()
    assert isinstance(row, EpisodeRow)
    assert row.status == "completed", row.error
    assert isinstance(row.changes, list)
    assert [change.kind for change in row.changes] == ["deleted", "deleted", "created"]


@pytest.fixture
def elsewhere() -> Iterator[tuple[str, Server]]:
    server = Server.open(None)
    server.load([json.dumps(resource) for resource in (PATIENT, ORDER)])
    with serving(create_app(server)) as url:
        yield f"{url}/fhir", server
    server.close()


def test_a_server_of_others_gets_creates_only_unless_its_host_is_named(
    tmp_path: Path, elsewhere: tuple[str, Server]
) -> None:
    url, server = elsewhere
    mine = agent(tmp_path, action("POST", "Basic", NOTE), ALL[0])
    words = ("--agent", mine, "--fhir", url, "--writes", "execute")
    assert run(tmp_path / "a", *words).code == 0
    row = only_row(tmp_path / "a")
    assert row["status"] == "invalid_action"
    assert row["changes"] == "not available"
    assert server.stats()["Basic"] == 1
    shown = command("show", next((tmp_path / "a").glob("v1_*")), row["task_id"])
    assert "state difference: not available" in shown.out, shown.err
    wrong = run(tmp_path / "b", *words, "--allow-writes", "example.org")
    assert wrong.code != 0
    assert "--allow-writes example.org: --fhir is on 127.0.0.1" in wrong.err
    ran = run(tmp_path / "c", *words, "--allow-writes", "127.0.0.1")
    assert ran.code == 0, ran.err
    assert only_row(tmp_path / "c")["status"] == "completed"
    assert next(server.export("MedicationRequest")).count('"stopped"') == 1


def test_a_pack_of_a_run_with_all_writes_is_checked(tmp_path: Path) -> None:
    words = ("--agent", "reference", "--writes", "execute", "--version", "v1")
    ran = command("run", "--results-dir", tmp_path, *words)
    assert ran.code == 0, ran.err
    folder = next(tmp_path.glob("v1_*"))
    pack = tmp_path / "pack.zip"
    packed = command("submit", "pack", folder, "--out", pack)
    assert packed.code == 0, packed.err
    checked = command("submit", "check", pack)
    assert checked.code == 0, checked.out + checked.err
