"""A2A: assessments and private FHIR bases without the peer; a whole tournament where the a2a package is installed."""

from __future__ import annotations

import asyncio
import contextlib
import json
import shlex
import tomllib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import httpx
import pytest

import medagent
from medagent import Completion, FhirTask, Message, Model, Task, UserError
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.core.errors import StopRunError
from medagent.fhir import HttpEpisodes
from medagent.integrations.a2a._assess import Assessment, Assessor, outcome, summary
from medagent.models.settings import ModelSettings
from tests.command import medagent as command
from tests.conftest import NetworkRefusedError
from tests.medagent.fhir_episodes.http_agent import play
from tests.serving import serving
from tests.shared_data import ROOT
from tests.test_doc_commands import parsed

IDS = ("task1_1", "task2_1", "task3_1", "task5_2", "task9_1")
TASKS: dict[str, Task] = {}


class OverHttp(Model):
    """Reads base and token in the prompt, acts there as the reference agent does, and tells its answers."""

    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        prompt = messages[-1].content
        task = next(task for task in TASKS.values() if task.text in prompt)
        base = prompt.partition("Its base is ")[2].partition(" ")[0]
        token = prompt.partition("Bearer ")[2].partition("`")[0]
        if task.id == "task2_1":
            return Completion("I give up")
        shown = FhirTask(task.id, task.type, task.text, task.context, task.stated_patient)
        answers = await asyncio.to_thread(play, shown, base, {"Authorization": f"Bearer {token}"})
        return Completion(f"```\nFINISH({answers})\n```")


class ByText(Model):
    """Knows one answer, and repeats itself until an episode is over."""

    async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
        known = TASKS["task1_1"]
        if known.text not in messages[0].content:
            return Completion("FINISH([])")
        if len(messages) == 1:
            return Completion(f"GET http://localhost:8080/fhir/Patient?identifier={known.patient}")
        return Completion(f'FINISH(["{known.patient}"])')


@pytest.fixture(autouse=True)
def _tasks() -> None:
    TASKS.update({task.id: task for task in medagent.tasks() if task.id in IDS})


def test_an_agent_with_a_base_of_its_own_is_graded_by_what_it_wrote(tmp_path: Path) -> None:
    with medagent.serve_episodes() as episodes:
        assessor = Assessor(MedAgentBench(), {"results_dir": tmp_path, "concurrency": 3}, episodes)
        wanted = Assessment.read(request("http://x"))
        report = asyncio.run(assessor.run(wanted, "x", OverHttp))
    verdicts = {item.item: item.correct for item in report.items}
    assert verdicts == {name: name != "task2_1" for name in IDS}
    rows = {row.task_id: row for row in medagent.load_run(report.folder).rows()}
    assert rows["task2_1"].status == "invalid_action"
    assert [write.refused for write in rows["task3_1"].created] == [None]
    assert all("HTTP status" not in turn.content for turn in rows["task5_2"].transcript)
    assert "/episodes/" not in "".join(turn.content for row in rows.values() for turn in row.transcript)
    assert [item.correct for item in medagent.grade(report.folder).items] == [item.correct for item in report.items]


def request(address: str) -> str:
    """An assessment by a private FHIR base."""
    return json.dumps({"participants": {"agent": address}, "config": {"mode": "fhir", "ids": IDS}})


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("hello", "the message: invalid JSON"),
        ("{}", "participants: is missing"),
        ('{"participants": {}}', "participants: dictionary should have at least 1 item"),
        ('{"participants": {"agent": "localhost:1"}}', "not an address; use one that begins with http://"),
        (
            '{"participants": {"a": "http://x"}, "config": {"results_dir": "/etc"}}',
            "results_dir: is a field that",
        ),
        ('{"participants": {"a": "http://x"}, "config": {"mode": "x"}}', "config.mode: is not 'text' or"),
        ('{"participants": {"a": "http://x"}, "config": {"limit": 0}}', "config.limit: is below 1"),
    ],
)
def test_what_is_no_request_is_told_why(text: str, problem: str) -> None:
    with pytest.raises(UserError, match="send a request such as") as error:
        Assessment.read(text)
    assert problem in str(error.value)


def test_an_address_alone_is_a_request() -> None:
    assert Assessment.read(" http://localhost:9010 ").address == "http://localhost:9010"


@contextlib.contextmanager
def tournament(folder: Path, model: Model, **options: Any) -> Any:
    """The addresses of a green and a purple agent."""
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    from medagent.integrations.a2a.run import Green, Purple, create_app, with_records

    with (
        serving(_later := _Later()) as green,
        serving(purple_app := _Later()) as purple,
        HttpEpisodes(MedAgentBench(), green, {}) as episodes,
    ):
        purple_app.app = create_app(Purple(model), purple, "purple", "answers")
        assessor = Assessor(MedAgentBench(), {"results_dir": folder, **options}, episodes)
        _later.app = with_records(create_app(Green(assessor), green, "green", "assesses"), episodes)
        yield green, purple


class _Later:
    """An application whose address has to be known before it is made."""

    app: Any

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        await self.app(scope, receive, send)


async def assessed(green: str, text: str) -> tuple[str, str]:
    """How an assessment ended, and all that was said."""
    from a2a.client.client import ClientConfig
    from a2a.client.client_factory import ClientFactory
    from a2a.helpers import get_stream_response_text, new_text_message
    from a2a.types.a2a_pb2 import Role, SendMessageRequest, TaskState

    said, state = [], ""
    async with httpx.AsyncClient(timeout=120) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(green)
        async for event in client.send_message(SendMessageRequest(message=new_text_message(text, role=Role.ROLE_USER))):
            said.append(get_stream_response_text(event))
            if event.HasField("status_update"):
                state = TaskState.Name(event.status_update.status.state)
    return state, "\n".join(said)


def test_a_purple_agent_has_the_verdicts_of_a_run(tmp_path: Path) -> None:
    with tournament(tmp_path / "a2a", ByText(ModelSettings(name="x")), ids=IDS) as (green, purple):
        state, said = asyncio.run(assessed(green, purple))
        assert asyncio.run(assessed(green, "nonsense"))[0] == "TASK_STATE_REJECTED"
        failed, why = asyncio.run(assessed(green, '{"participants": {"a": "http://x"}, "config": {"ids": ["x"]}}'))
    assert state == "TASK_STATE_COMPLETED"
    assert "unknown" in why.lower(), why
    assert failed == "TASK_STATE_FAILED"
    [folder] = (tmp_path / "a2a").iterdir()
    plain = medagent.run_sync("medagentbench", model=ByText, ids=IDS, results_dir=tmp_path / "plain")
    found = medagent.load_run(folder).report
    assert [(item.item, item.correct, item.reason) for item in found.items] == [
        (item.item, item.correct, item.reason) for item in plain.items
    ]
    assert summary(outcome(found)) in said
    assert said.splitlines()[-1].startswith("{") or f"{found.overall.counts['right']} of 5 right" in said


def test_a_purple_agent_with_a_base_of_its_own(tmp_path: Path) -> None:
    with tournament(tmp_path, OverHttp(ModelSettings(name="x"))) as (green, purple):
        state, said = asyncio.run(assessed(green, request(purple)))
    assert state == "TASK_STATE_COMPLETED"
    assert "4 of 5 right" in said


def test_an_agent_that_is_away_is_owed(tmp_path: Path) -> None:
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    from medagent.integrations.a2a.model import A2AModel

    report = medagent.run_sync(
        "medagentbench", model=A2AModel, base_url=["http://127.0.0.1:9"], ids=IDS[:1], results_dir=tmp_path
    )
    assert report.owed == ("task1_1#1",)
    assert [item.correct for item in report.items] == [None]
    with pytest.raises(UserError, match="needs its address"):
        A2AModel(ModelSettings(name="x"))


def test_an_assessment_without_a_participant_fails(tmp_path: Path) -> None:
    class Away(Model):
        async def complete(self, messages: Sequence[Message], **_: Any) -> Completion:
            raise medagent.ModelError("nobody answers")

    told: list[str] = []
    with medagent.serve_episodes() as episodes:
        assessor = Assessor(MedAgentBench(), {"results_dir": tmp_path, "ids": IDS[:2]}, episodes)
        wanted = Assessment.read("http://localhost:9010")
        with pytest.raises(medagent.ModelError, match=r"localhost:9010: the participant could not be reached .*nobody"):
            asyncio.run(assessor.run(wanted, "away", Away, told.append))
        assert sorted(told) == ["task1_1: model_error", "task2_1: model_error"]
        told.clear()
        asyncio.run(assessor.run(wanted, "text", ByText, told.append))
    assert sorted(told) == ["task1_1: right", "task2_1: wrong"]


def test_the_scenario_names_commands_that_there_are() -> None:
    scenario = tomllib.loads((ROOT / "examples/agentbeats/scenario.toml").read_text())
    asked = {participant["role"]: participant["endpoint"] for participant in scenario["participants"]}
    request = Assessment.read(json.dumps({"participants": asked, "config": scenario["config"]}))
    assert (request.address, request.config.limit) == ("http://127.0.0.1:9010", 10)
    for party in (scenario["green_agent"], *scenario["participants"]):
        words = shlex.split(party["cmd"])
        parsed(words[1:])
        assert party["endpoint"] == f"http://{words[words.index('--host') + 1]}:{words[words.index('--port') + 1]}"


def test_what_the_commands_cannot_do_is_said() -> None:
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    assert "no model is given" in command("a2a", "purple").err
    assert "set --token" in command("a2a", "green", "--host", "0.0.0.0").err
    assert "unknown version" in command("a2a", "green", "--version", "v9", "--port", "0").err.lower()


async def endless(scope: Any, receive: Any, send: Any) -> None:
    """A reply without an end, to everything."""
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"application/json")]})
    with contextlib.suppress(Exception):
        while True:
            await send({"type": "http.response.body", "body": b" " * 100_000, "more_body": True})


def _asked(url: str, **settings: Any) -> None:
    """One message to the agent at an address."""
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    from medagent.integrations.a2a.model import A2AModel

    async def ask() -> None:
        model = A2AModel(ModelSettings(name="a2a", base_urls=[url], max_reply_bytes=1_000_000, **settings))
        try:
            await model.complete([Message("user", "hello")], session="x")
        finally:
            await model.aclose()

    asyncio.run(ask())


def test_an_endless_reply_is_read_to_a_bound() -> None:
    with serving(endless) as url, pytest.raises(medagent.ModelError, match="longer than 1,000,000 bytes"):
        _asked(url)


def test_a_card_that_names_another_host_gets_no_message_unless_it_is_allowed() -> None:
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    from medagent.integrations.a2a.run import Purple, create_app

    with serving(later := _Later()) as url:
        later.app = create_app(Purple(ByText(ModelSettings(name="x"))), "http://agent.invalid", "purple", "answers")
        with pytest.raises(StopRunError, match=r"another host: a request to agent\.invalid.*--allow-host agent"):
            _asked(url)
        with pytest.raises(NetworkRefusedError, match=r"look up agent\.invalid"):  # it would be sent
            _asked(url, allow_hosts=["agent.invalid"])


def test_a_card_with_another_name_of_this_machine_is_the_same_host() -> None:
    pytest.importorskip("a2a", reason="the extra a2a is not installed")
    from medagent.integrations.a2a.run import Purple, create_app

    with serving(later := _Later()) as url:
        elsewhere = url.replace("127.0.0.1", "localhost")
        later.app = create_app(Purple(ByText(ModelSettings(name="x"))), elsewhere, "purple", "answers")
        _asked(url)
