"""The published loop's own episodes, recorded over a real HAPI: status, result, the kind of each reply, HAPI's text."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Iterator
from typing import Any

import pytest

from fhir_server import Server
from medagent.benchmarks.medagentbench.prompts.protocol import Protocol, load_protocol
from medagent.benchmarks.medagentbench.session import Outcome, Session, SessionRules
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.fhir_data.embedded import EmbeddedEhr
from tests.shared_data import DATA, read_xz

EPISODES = [json.loads(line) for line in read_xz(DATA / "medagentbench" / "transcripts.jsonl.xz").splitlines()]
RECORDED = "Here is the response from the GET request:\n"
# What no two servers share.
BLANKS = (
    (re.compile(r"[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}"), "<uuid>"),
    (re.compile(r'("lastUpdated": ?)"[^"]*"'), r'\1"<now>"'),
    (re.compile(r'("source": ?"[^"#]*)#[A-Za-z0-9]+"'), r'\1#<request>"'),
)


@pytest.fixture(scope="module")
def ehr() -> Iterator[EmbeddedEhr]:
    server = Server.open(None, base="http://localhost:8080/fhir")
    server.load(read_xz(DATA / "hapi" / "data.ndjson.xz").splitlines())
    yield EmbeddedEhr(server)
    server.close()


@pytest.fixture(scope="module")
def protocol() -> Protocol:
    words = {
        "format_parameter": "append",
        "get_reply": RECORDED + "{body}",
        "get_error": "Error in sending the GET request: {error}",
        "http_error": "{status} {kind} Error: {reason} for url: {url}",
    }
    return load_protocol("text").model_copy(update=words)


async def play(ehr: EmbeddedEhr, protocol: Protocol, episode: dict[str, Any]) -> Outcome:
    async with ehr.session(episode["name"]) as fhir:
        session = Session(Task(id=episode["task_id"], instruction=""), fhir, protocol, SessionRules())
        session.reset()
        for action in episode["actions"]:
            if not session.done:
                await session.act(action)
        return session.outcome()


def kind(reply: str) -> str:
    """What a reply is: a body, an HTTP error (with its text), an accepted or a refused POST."""
    if reply.startswith(RECORDED):
        return "body"
    if reply.startswith("Error in sending"):
        return reply
    return reply[: len("POST request accepted")]


def body(reply: str) -> Any:
    text = reply[len(RECORDED) :]
    text = text[: text.rindex("}") + 1]
    for pattern, to in BLANKS:
        text = pattern.sub(to, text)
    return text


@pytest.mark.parametrize("episode", EPISODES, ids=[e["name"].replace(" ", "-") for e in EPISODES])
def test_an_episode_goes_as_it_was_recorded(ehr: EmbeddedEhr, protocol: Protocol, episode: dict[str, Any]) -> None:
    outcome = asyncio.run(play(ehr, protocol, episode))
    assert outcome.status == episode["status"]
    assert outcome.answer == episode["result"]
    got, wanted = outcome.transcript[1:], episode["messages"]
    assert [turn.role for turn in got] == [message["role"] for message in wanted]
    for turn, message in zip(got, wanted, strict=True):
        if turn.role == "agent":
            assert turn.content == message["content"]
            continue
        if message["content"].startswith("Invalid POST request"):
            assert turn.content.startswith("Invalid POST request")
        elif message["content"].startswith("POST"):
            assert turn.content.startswith(
                "POST request accepted and executed successfully. Resource created with id: "
            )
        else:
            assert kind(turn.content) == kind(message["content"])
        if kind(turn.content) == "body":
            assert body(turn.content) == body(message["content"])
