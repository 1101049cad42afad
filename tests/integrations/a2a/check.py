"""A green and a purple agent as processes: clients of both protocols have the verdicts of `medagent run`.

The agent of the private FHIR base is one of our own; its model is a class that asks the base as a program would.
"""

import asyncio
import json
import subprocess
import sys
import venv
from contextlib import contextmanager
from pathlib import Path

import httpx
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest, TaskState
from scenario import MODEL, started

import medagent

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
IDS = ["task1_1", "task1_2", "task2_1", "task9_1"]
CLIENT_0_3 = """
import asyncio
import sys

import httpx
from a2a.client import A2ACardResolver, ClientConfig, ClientFactory
from a2a.client.helpers import create_text_message_object


async def main():
    async with httpx.AsyncClient(timeout=240) as http:
        card = await A2ACardResolver(http, sys.argv[1]).get_agent_card()
        client = ClientFactory(ClientConfig(httpx_client=http, streaming=False)).create(card)
        async for task, _ in client.send_message(create_text_message_object(content=sys.argv[2])):
            print(task.artifacts[0].parts[0].root.text)


asyncio.run(main())
"""


@contextmanager
def agent(*words):
    """The address of one of our agents."""
    process = subprocess.Popen([MEDAGENT, *words, "--port", "0"], stderr=subprocess.PIPE, text=True)
    try:
        line = process.stderr.readline()
        assert "http://" in line, line + process.stderr.read()
        yield line.removeprefix("medagent: ").strip()
    finally:
        process.terminate()
        process.communicate(timeout=60)


async def assessed(green, request):
    """The outcome that a 1.x client is answered, None of an assessment that failed; an update came for each task."""
    said, state = "", None
    async with httpx.AsyncClient(timeout=240) as http:
        client = await ClientFactory(ClientConfig(httpx_client=http)).create_from_url(green)
        message = new_text_message(request, role=Role.ROLE_USER)
        async for event in client.send_message(SendMessageRequest(message=message)):
            said += get_stream_response_text(event) + "\n"
            state = event.status_update.status.state if event.HasField("status_update") else state
    if state == TaskState.TASK_STATE_FAILED:
        assert "could not be reached" in said, said
        return None
    found = outcome(said)
    assert all(f"{item}: {'right' if correct else 'wrong'}" in said for item, correct in found.items()), said
    return found


def assessed_0_3(green, request):
    """The outcome that a client of a2a-sdk 0.3, from an environment of its own, is answered."""
    venv.create("client", with_pip=True)
    python = Path("client/bin/python").absolute()
    quiet = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([python, *quiet, "a2a-sdk>=0.3,<0.4", "httpx"], check=True)
    Path("client.py").write_text(CLIENT_0_3)
    done = subprocess.run([python, "client.py", green, request], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return outcome(done.stdout)


def outcome(said):
    """The verdicts in an answer."""
    found = json.loads(said[said.index("{") : said.rindex("}") + 1])
    return {item["item"]: item["correct"] for item in found["items"]}


def verdicts(**selection):
    """Those of `medagent run`; some are right and some wrong."""
    report = medagent.run_sync("medagentbench", model=MODEL, **selection)
    found = {item.item: item.correct for item in report.items}
    assert set(found.values()) == {True, False}, found
    return found


expected = verdicts(ids=tuple(IDS), round="plain")
with agent("a2a", "purple", "--model", MODEL) as purple, agent("a2a", "green") as green:
    asked = {
        mode: json.dumps({"participants": {"agent": purple}, "config": {"mode": mode, "ids": IDS}})
        for mode in ("text", "fhir")
    }
    for mode, request in asked.items():
        found = asyncio.run(assessed(green, request))
        assert found == expected, (mode, found, expected)
    assert assessed_0_3(green, asked["text"]) == expected
    assert asyncio.run(assessed(green, "http://127.0.0.1:9")) is None
with started() as (green, request):
    card = httpx.get(f"{green}/.well-known/agent-card.json").json()
    assert card["defaultOutputModes"] == ["text/plain", "application/json"], card
    assert asyncio.run(assessed(green, json.dumps(request))) == verdicts(limit=10, round="scenario")
print("clients 1.x and 0.3; text and private FHIR base: the verdicts of medagent run; scenario.toml; unreachable fails")
