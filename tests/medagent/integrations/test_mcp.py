"""`medagent mcp`: the tools without MCP, and over memory where the mcp package is installed."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shlex
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

import medagent
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.fhir_data.embedded import EmbeddedEhr, bundled_file, imported_file
from medagent.integrations.mcp import _fhir as fhir
from medagent.integrations.mcp._fhir import FhirOffer
from medagent.integrations.mcp._offer import Caller, OfferedTool
from medagent.integrations.mcp._tasks import TaskOffer
from medagent.integrations.mcp.run import serving
from medagent.integrations.web import Port
from tests.command import medagent as command

JUDGING = re.compile(r"\b(correct|right|wrong|verdict|score|expected|sol)\b")
BASE = "http://localhost:8080/fhir/"
MRN = str(next(task.patient for task in medagent.tasks() if task.id == "task1_1"))


def offered(folder: Path, play: Callable[[TaskOffer], Awaitable[None]], idle: float = 60, **options: Any) -> Path:
    """What is left in the run's folder after `play`."""
    settings = MedAgentBenchSettings(results_dir=folder, round="x", **options)

    async def serve(offer: Any) -> None:
        await play(offer)

    asyncio.run(serving(MedAgentBench(), settings, serve, idle=idle, say=lambda _: None, names_tasks=True))
    return folder / "v2_x_mcp"


async def begun(offer: TaskOffer, task_id: str) -> str:
    answer = await offer.call("start_task", {"task_id": task_id})
    assert not answer.failed
    assert answer.data is not None
    return str(answer.data["episode"])


def test_an_episode_is_graded_from_the_runs_folder(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        first, second = await begun(offer, "task1_1"), await begun(offer, "task1_1")
        found = await offer.call("get_patient", {"episode": first, "identifier": MRN})
        assert f"Patient/{MRN}" in found.text
        assert not (await offer.call("finish", {"episode": first, "answers": [MRN]})).failed
        await offer.call("finish", {"episode": second, "answers": ["S1"]})
        again = await offer.call("get_patient", {"episode": first, "family": "x"})
        assert (again.failed, again.text) == (True, "This episode has ended (completed).")

    path = offered(tmp_path, play)
    report = medagent.grade(path)
    assert [(item.item, item.trial, item.correct) for item in report.items] == [
        ("task1_1", 1, True),
        ("task1_1", 2, False),
    ]
    assert (path / "grade.2.json").is_file()
    ran = command("show", path, "task1_1")
    assert ran.code == 0
    assert "verdict: right" in ran.out


def test_a_run_goes_on_with_the_next_trial(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        await offer.call("finish", {"episode": await begun(offer, "task1_1"), "answers": []})

    offered(tmp_path, play)
    path = offered(tmp_path, play)
    assert [row.unit for row in medagent.load_run(path).rows()] == ["task1_1#1", "task1_1#2"]

    async def refused(offer: TaskOffer) -> None:
        answer = await offer.call("start_task", {"task_id": "task1_1"})
        assert answer.failed
        assert "the run uses other settings" in answer.text
        printed = answer.text.partition("Continue it with its settings: ")[2].partition("; or choose another")[0]
        assert printed.startswith("medagent mcp medagentbench --version v2 --round x --max-rounds 8")
        assert command(*shlex.split(printed)[1:], "--help").code == 0, "all its options are options of the command"

    offered(tmp_path, refused, max_rounds=3)


def test_what_a_killed_server_left_is_graded_from_its_journal(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        await offer.call("finish", {"episode": await begun(offer, "task1_1"), "answers": [MRN]})
        shutil.copytree(tmp_path / "v2_x_mcp", tmp_path / "killed")

    offered(tmp_path, play)
    assert not (tmp_path / "killed" / "results.json").exists()
    assert [item.correct for item in medagent.grade(tmp_path / "killed").items] == [True]


def test_a_forgotten_episode_is_ended_by_the_clock(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        handle = await begun(offer, "task1_1")
        while not (told := await offer.call("get_patient", {"episode": handle, "family": "x"})).failed:  # noqa: ASYNC110  # nothing tells a client when the clock has struck
            await asyncio.sleep(0.05)
        assert "time_limit" in told.text

    path = offered(tmp_path, play, idle=0.01)
    [row] = medagent.load_run(path).rows()
    assert (row.status, row.error) == ("time_limit", "nothing was done for 0.01 s")
    assert [item.correct for item in medagent.grade(path).items] == [False]


def test_what_is_open_when_the_server_ends_is_owed(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        await begun(offer, "task1_1")

    path = offered(tmp_path, play)
    report = medagent.load_run(path).report
    assert report.owed == ("task1_1#1",)
    assert [item.correct for item in report.items] == [None]


def test_nothing_is_opened_before_the_first_episode(tmp_path: Path) -> None:
    heard: list[str] = []

    async def progress(seconds: float, message: str) -> None:
        heard.append(message)

    async def play(offer: TaskOffer) -> None:
        assert not (await offer.call("list_tasks", {})).failed
        assert not os.listdir(tmp_path)
        await offer.call("start_task", {"task_id": "task1_1"}, Caller(progress=progress))
        assert (tmp_path / "v2_x_mcp" / "run.json").is_file()

    offered(tmp_path, play)
    assert heard[0] == "opening the run"


def test_a_client_that_leaves_ends_its_episodes_at_once(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        handles = []
        for session in ("", "one", "other"):
            answer = await offer.call("start_task", {"task_id": "task1_1"}, Caller(session))
            assert answer.data is not None
            handles.append(answer.data["episode"])
        await offer.leave("one")
        await offer.leave("")
        told = [await offer.call("get_patient", {"episode": handle, "identifier": MRN}) for handle in handles]
        assert [reply.failed for reply in told] == [False, True, False]
        assert told[1].text == "This episode has ended (cancelled: the client left)."

    offered(tmp_path, play)


def test_a_session_ends_by_a_request_of_its_client() -> None:
    server = pytest.importorskip("medagent.integrations.mcp.server", reason="the extra mcp is not installed")
    left: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        pass

    async def leave(session: str) -> None:
        left.append(session)

    for method in ("POST", "DELETE"):
        scope = {"type": "http", "method": method, "headers": [(b"mcp-session-id", b"one")]}
        asyncio.run(server.ending_sessions(app, leave)(scope, None, None))
    assert left == ["one"]


def test_tasks_are_listed_by_pages_that_mix_the_types(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        ids, cursor = [], {}
        while True:
            page = (await offer.call("list_tasks", cursor)).data
            assert page is not None
            ids += [task["id"] for task in page["tasks"]]
            if "next_cursor" not in page:
                break
            cursor = {"cursor": page["next_cursor"]}
        assert sorted(ids) == sorted(task.id for task in medagent.tasks())
        assert len({task_id.partition("_")[0] for task_id in ids[:10]}) == 10
        assert "Unknown cursor 'x'" in (await offer.call("list_tasks", {"cursor": "x"})).text

    offered(tmp_path, play)


def test_what_clients_decide_by(tmp_path: Path) -> None:
    tools: dict[str, OfferedTool] = {}

    async def play(offer: TaskOffer) -> None:
        tools.update({tool.name: tool for tool in offer.tools})

    offered(tmp_path, play)
    tools |= {tool.name: tool for tool in (fhir.CAPABILITIES, fhir.SEARCH, fhir.READ, fhir.CREATE)}
    changing = {name for name, tool in tools.items() if not tool.reads_only}
    creating = {name for name in tools if name.startswith("post_")} | {"fhir_create", "start_task"}
    assert len(creating) == 5
    assert changing == creating | {"finish"}
    assert {name for name, tool in tools.items() if not tool.idempotent} == creating
    assert {name for name, tool in tools.items() if tool.output} == {"list_tasks", "start_task"}
    assert all(tool.title for tool in tools.values())
    schemas = json.dumps([[tool.output, fhir.SEARCH.parameters] for tool in tools.values()])
    assert '"type": [' not in schemas  # many clients read one type alone


def test_calls_that_cannot_be_carried_out_are_told_why(tmp_path: Path) -> None:
    async def play(offer: TaskOffer) -> None:
        assert "Unknown task 'task99_1'" in (await offer.call("start_task", {"task_id": "task99_1"})).text
        assert "the types are task1, task10" in (await offer.call("list_tasks", {"type": "x"})).text
        assert "Unknown episode" in (await offer.call("get_patient", {"episode": "x"})).text
        handle = await begun(offer, "task5_1")
        refused = await offer.call("get_patient", {"episode": handle, "nonsense": "x"})
        assert refused.failed
        assert "HTTP status 400" in refused.text
        last = await offer.call("get_patient", {"episode": handle, "family": "x"})
        assert last.failed
        assert "all its rounds are used" in last.text

    path = offered(tmp_path, play, max_rounds=2)
    assert [row.status for row in medagent.load_run(path).rows()] == ["round_limit"]


def test_nothing_that_a_client_reads_tells_an_answer(tmp_path: Path) -> None:
    """Every description and every reply but those of the record itself, over all 300 tasks."""
    tasks = medagent.tasks()
    said: dict[str, str] = {}

    async def play(offer: TaskOffer) -> None:
        listed = await offer.call("list_tasks", {})
        public = json.dumps([tool.description + json.dumps(tool.parameters) for tool in offer.tools])
        public += offer.instructions + listed.text + json.dumps(listed.data)
        assert listed.data is not None
        assert {key for task in listed.data["tasks"] for key in task} == {"id", "type"}
        for task in tasks:
            started = await offer.call("start_task", {"task_id": task.id})
            assert started.data is not None
            handle = str(started.data["episode"])
            ended = await offer.call("finish", {"episode": handle, "answers": task.fields.get("sol") or []})
            after = await offer.call("finish", {"episode": handle, "answers": []})
            replies = [started.text, started.data["instruction"], ended.text, json.dumps(ended.data), after.text]
            said[task.id] = "\n".join(replies).replace(task.text, "").replace(task.context, "")
            assert not task.patient or task.patient in task.text or task.patient not in public

    offered(tmp_path, play)
    assert len(said) == 300
    for task in tasks:
        text = said[task.id].lower()
        told = [str(solution).lower() for solution in task.fields.get("sol") or []]
        assert not task.patient or task.patient.lower() not in text
        assert not [solution for solution in told if solution in text]
        assert not JUDGING.search(text)


async def record(folder: Path, writes: bool, calls: list[tuple[str, dict[str, Any]]]) -> list[tuple[bool, Any]]:
    """What calls of the FHIR tools are answered over a small record."""
    lines = [json.dumps({"resourceType": "Patient", "id": f"p{n}", "gender": "male"}) for n in range(30)]
    lines.append(json.dumps({"resourceType": "Patient", "id": "big", "name": [{"text": "x" * 70_000}]}))
    file = folder / "patients.ndjson"
    file.write_text("\n".join(lines))
    embedded = EmbeddedEhr.open(imported_file(file).path, BASE)
    answers = []
    async with embedded.session("x") as session:
        offer = FhirOffer(session, BASE, writes=writes)
        for name, arguments in calls:
            answer = await offer.call(name, arguments)
            answers.append((answer.failed, answer.text if answer.failed else json.loads(answer.text)))
    embedded.close()
    return answers


def test_a_search_goes_to_the_server_as_it_is_given(tmp_path: Path) -> None:
    found = asyncio.run(
        record(
            tmp_path,
            False,
            [
                ("fhir_search", {"type": "Patient", "parameters": {"gender": "male"}}),
                ("fhir_search", {"type": "Patient", "parameters": {"_id": ["p1,p2", "p2"], "_count": 5}}),
                ("fhir_search", {"type": "Patient", "parameters": {"name:exact": "a&b=c", "active:missing": False}}),
                ("fhir_search", {"type": "Patient", "parameters": {"nonsense": "1"}}),
                ("fhir_search", {"type": "Patient", "parameters": {"_id": "big"}}),
                ("fhir_search", {"type": "Patient", "parameters": {"_id": "big", "_elements": "id"}}),
                ("fhir_search", {}),
            ],
        )
    )
    first = found[0][1]
    assert len(first["entry"]) == fhir.COUNT
    assert [len(bundle.get("entry", [])) for _, bundle in found[1:3]] == [1, 0]
    assert found[2][1]["link"][0]["url"].endswith("Patient?_count=20&active%3Amissing=false&name%3Aexact=a%26b%3Dc")
    assert found[3][0]
    assert "nonsense" in found[3][1]
    assert found[4] == (True, found[4][1])
    assert "60,000 are passed on" in found[4][1]
    assert "_elements" in found[4][1]
    assert found[5][1]["entry"][0]["resource"]["id"] == "big"
    assert found[6] == (True, "pass a type and parameters, or only `next`")


def test_the_next_page_is_asked_by_its_link(tmp_path: Path) -> None:
    lines = [json.dumps({"resourceType": "Patient", "id": f"p{n}"}) for n in range(30)]
    (tmp_path / "patients.ndjson").write_text("\n".join(lines))

    async def walk() -> None:
        embedded = EmbeddedEhr.open(imported_file(tmp_path / "patients.ndjson").path, BASE)
        async with embedded.session("x") as session:
            offer = FhirOffer(session, BASE, writes=False)
            bundle = json.loads((await offer.call("fhir_search", {"type": "Patient"})).text)
            link = next(linked["url"] for linked in bundle["link"] if linked["relation"] == "next")
            page = json.loads((await offer.call("fhir_search", {"next": link})).text)
            assert len(page["entry"]) == 10
            elsewhere = await offer.call("fhir_search", {"next": "http://example.org/fhir?_getpages=1"})
            assert "nothing else is reachable" in elsewhere.text
            assert (await offer.call("fhir_search", {"next": link, "type": "Patient"})).failed
        embedded.close()

    asyncio.run(walk())


def test_read_capabilities_and_create(tmp_path: Path) -> None:
    new = {"resource": {"resourceType": "Basic", "code": {"text": "x"}}}
    found = asyncio.run(
        record(
            tmp_path,
            True,
            [
                ("fhir_read", {"type": "Patient", "id": "p1", "elements": ["id"]}),
                ("fhir_read", {"type": "Patient", "id": "none"}),
                ("fhir_capabilities", {}),
                ("fhir_capabilities", {"type": "Observation"}),
                ("fhir_capabilities", {"type": "Nonsense"}),
                ("fhir_create", new),
                ("fhir_search", {"type": "Basic"}),
                ("fhir_create", {"resource": {"resourceType": "Nonsense"}}),
            ],
        )
    )
    assert "gender" not in found[0][1]
    assert "HTTP status 404" in found[1][1]
    assert "Observation" in found[2][1]["types"]
    assert found[3][1]["searchParameters"]["code"] == "token"
    assert "create" in found[3][1]["interactions"]
    assert found[4][0]
    assert found[5][1]["id"] == found[6][1]["entry"][0]["resource"]["id"]
    assert found[7][0]


def test_writes_are_off_by_default() -> None:
    async def names(writes: bool) -> list[str]:
        embedded = EmbeddedEhr.open(bundled_file().path, BASE)
        async with embedded.session("x") as session:
            found = [tool.name for tool in FhirOffer(session, BASE, writes=writes).tools]
        embedded.close()
        return found

    assert asyncio.run(names(False)) == ["fhir_capabilities", "fhir_search", "fhir_read"]
    assert asyncio.run(names(True)) == ["fhir_capabilities", "fhir_search", "fhir_read", "fhir_create"]


@pytest.mark.parametrize("mode", ["auto", "legacy"])
def test_a_client_in_memory_plays_an_episode(tmp_path: Path, mode: str) -> None:
    client = pytest.importorskip("mcp.client.client", reason="the extra mcp is not installed")
    from medagent.integrations.mcp.server import create_server

    async def play(offer: TaskOffer) -> None:
        async with client.Client(create_server(offer), mode=mode) as connection:
            assert "start_task" in {tool.name for tool in (await connection.list_tools()).tools}
            started = await connection.call_tool("start_task", {"task_id": "task1_1"})
            handle = started.structured_content["episode"]
            wrong = await connection.call_tool("finish", {"episode": handle, "answers": MRN})
            assert wrong.is_error
            assert "answers:" in wrong.content[0].text
            await connection.call_tool("finish", {"episode": handle, "answers": [MRN]})

    assert [item.correct for item in medagent.grade(offered(tmp_path, play)).items] == [True]


def test_a_missing_extra_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "medagent.integrations.mcp.server", raising=False)
    for name in ("mcp", "mcp_types", "jsonschema"):
        monkeypatch.setitem(sys.modules, name, None)
    ran = command("mcp")
    assert ran.code == 1
    assert "pip install 'medagent[mcp]'" in ran.err


def test_a_port_that_others_reach_wants_a_token() -> None:
    with pytest.raises(medagent.UserError, match="set --token"), Port("0.0.0.0", 0).opened():
        pass


@pytest.mark.parametrize(("header", "status"), [(b"Bearer a", 200), (b"Bearer b", 401), (b"", 401)])
def test_requests_without_the_token_are_refused(header: bytes, status: int) -> None:
    sent: list[dict[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"type": "http.response.start", "status": 200})

    async def send(message: dict[str, Any]) -> None:
        sent.append(message)

    scope = {"type": "http", "headers": [(b"authorization", header)] if header else []}
    asyncio.run(Port("127.0.0.1", 0, token="a").guarded(app)(scope, None, send))
    assert sent[0]["status"] == status
