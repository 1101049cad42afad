"""The published loop's own episodes, recorded over a real HAPI: every message, on the embedded server and over HTTP."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from fhir_server import Server
from medagent.benchmarks.medagentbench.tasks.dataset import load_tasks_file
from medagent.fhir_data.embedded import EmbeddedEhr
from medagent.fhir_data.http import HttpEhr
from medagent.fhir_data.record import Ehr
from medagent.fhir_episodes.protocol import Protocol, load_protocol
from medagent.fhir_episodes.session import Outcome, Session, SessionRules
from medagent.fhir_episodes.task import FhirTask
from refsol.json_values import unicode_text
from tests.medagent.test_serve import served
from tests.shared_data import DATA, SHARED, need, read_xz

BASE = "http://localhost:8080/fhir"
EPISODES = [
    json.loads(line)
    for name in ("transcripts", "transcripts_odd")
    for line in read_xz(DATA / "medagentbench" / f"{name}.jsonl.xz").splitlines()
]
# What no two servers share.
BLANKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'("lastUpdated": ?)"[^"]*"'), r'\1"<now>"'),
    (re.compile(r'("source": ?"[^"#]*)#[A-Za-z0-9]+"'), r'\1#<request>"'),
    (re.compile("0x[0-9a-f]+"), "<address>"),
)
Play = Callable[[dict[str, Any]], Outcome]


def protocol() -> Protocol:
    """The words around bodies and errors, as they stand in the recordings."""
    said = [message["content"] for episode in EPISODES for message in episode["messages"] if message["role"] == "user"]
    found = next(text for text in said if "searchset" in text)
    words = {
        "get_reply": found[: found.index("{")] + "{body}" + found[found.rindex("}") + 1 :],
        "get_error": next(text for text in said if text.startswith("Error")).partition(": ")[0] + ": {error}",
        "post_accepted": next(text for text in said if text.startswith("POST")),
        "post_invalid": next(text for text in said if text.startswith("Invalid")),
    }
    return load_protocol("text").model_copy(update=words)


async def play(ehr: Ehr, episode: dict[str, Any]) -> Outcome:
    async with ehr.session(episode["name"]) as fhir:
        session = Session(FhirTask(episode["task_id"], "", ""), fhir, protocol(), SessionRules())
        session.reset()
        for action in episode["actions"]:
            if not session.done:
                await session.act(action)
        return session.outcome()


@pytest.fixture(scope="module", params=["embedded", "http"])
def player(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Play]:
    folder = tmp_path_factory.mktemp("served")
    with Server.open(folder / "data.sqlite", base=BASE) as server:
        server.load(read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines())
        if request.param == "embedded":
            ehr = EmbeddedEhr(server)
            yield lambda episode: asyncio.run(play(ehr, episode))
            return

    async def over_http(url: str, episode: dict[str, Any]) -> Outcome:
        async with HttpEhr(url, BASE) as http:
            return await play(http, episode)

    with served(folder, "--data", folder / "data.sqlite") as running:
        yield lambda episode: asyncio.run(over_http(running.url, episode))


def blanked(text: str) -> str:
    for pattern, to in BLANKS:
        text = pattern.sub(to, text)
    return text


@pytest.mark.parametrize("episode", EPISODES, ids=[e["name"].replace(" ", "-") for e in EPISODES])
def test_an_episode_goes_as_it_was_recorded(player: Play, episode: dict[str, Any]) -> None:
    outcome = player(episode)
    result = episode["result"] and unicode_text(episode["result"])  # the published loop keeps half of a surrogate pair
    assert (outcome.status, outcome.answer) == (episode["status"], result)
    said = [(turn.role, blanked(turn.content)) for turn in outcome.transcript[1:]]
    assert said == [(message["role"], blanked(unicode_text(message["content"]))) for message in episode["messages"]]


def test_the_prompt_is_the_published_one_task_by_task() -> None:
    """The first message of every recording, which may not be packed: one template, filled in by the session."""
    folder = SHARED / "medagentbench"
    recorded = [
        json.loads(line)
        for name in ("transcripts", "transcripts_odd")
        for line in need(folder / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    tasks = {task.id: task for task in load_tasks_file(need(folder / "official" / "test_data_v2.json")).tasks}
    functions = need(folder / "official" / "funcs_v1.json")
    listed = load_protocol("text", functions=functions)
    first = next(episode for episode in recorded if tasks[episode["task_id"]].context)
    template: str = first["messages"][0]["content"]
    for field, value in (
        ("{functions}", listed.functions_text),
        ("{context}", tasks[first["task_id"]].context),
        ("{question}", tasks[first["task_id"]].text),
        ("{api_base}", SessionRules().api_base),
    ):
        assert template.count(value) == 1
        template = template.replace(value, field)
    published = listed.model_copy(update={"prompt": template})

    async def begin(episode: dict[str, Any]) -> str:
        stored = tasks[episode["task_id"]]
        task = FhirTask(stored.id, stored.type, stored.text, stored.context)
        async with EmbeddedEhr(server).session(episode["name"]) as fhir:
            return Session(task, fhir, published, SessionRules()).reset()

    with Server.open(None, base=BASE) as server:
        for episode in recorded:
            assert asyncio.run(begin(episode)) == episode["messages"][0]["content"]
    assert len(recorded) == 66
