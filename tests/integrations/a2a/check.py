"""A green and a purple agent as processes: clients of both protocols have the verdicts of `medagent run`.

The agent of the private FHIR base is one of our own; its model is a class that asks the base as a program would.
"""

import asyncio
import json
import shlex
import subprocess
import sys
import tomllib
import venv
from contextlib import contextmanager
from pathlib import Path

import httpx
from a2a.client.client import ClientConfig
from a2a.client.client_factory import ClientFactory
from a2a.helpers import get_stream_response_text, new_text_message
from a2a.types.a2a_pb2 import Role, SendMessageRequest, TaskState

import medagent

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
IDS = ["task1_1", "task1_2", "task2_1", "task9_1"]
MODEL = '''
import httpx
import medagent

TASK = next(task for task in medagent.tasks() if task.id == "task1_2")


class Knows(medagent.Model):
    """Looks one patient up, by text or over HTTP."""

    async def complete(self, messages, **_):
        prompt = messages[0].content
        if TASK.instruction not in prompt:
            return medagent.Completion("FINISH([])")
        if "Its base is " in prompt:
            base = prompt.partition("Its base is ")[2].partition(" ")[0]
            token = prompt.partition("Bearer ")[2].partition("`")[0]
            async with httpx.AsyncClient(headers={"Authorization": f"Bearer {token}"}) as client:
                found = (await client.get(f"{base}/Patient?identifier={TASK.eval_MRN}")).json()
            return medagent.Completion(f'FINISH(["{found["entry"][0]["resource"]["id"]}"])')
        if len(messages) == 1:
            return medagent.Completion(f"GET http://localhost:8080/fhir/Patient?identifier={TASK.eval_MRN}")
        return medagent.Completion(f'FINISH(["{TASK.eval_MRN}"])')
'''
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


def scenario():
    """The example's agents, started by its commands and asked as AgentBeats' runner asks; the number of tasks."""
    file = Path(__file__).parents[3] / "examples" / "agentbeats" / "scenario.toml"
    stated = tomllib.loads(file.read_text().replace("gpt-4o-mini", "knows.py:Knows"))
    parties = [stated["green_agent"], *stated["participants"]]
    started = [subprocess.Popen(shlex.split(one["cmd"]), stderr=subprocess.PIPE, text=True) for one in parties]
    try:
        assert all("http://" in process.stderr.readline() for process in started)
        card = httpx.get(f"{stated['green_agent']['endpoint']}/.well-known/agent-card.json").json()
        assert card["defaultOutputModes"] == ["text/plain", "application/json"], card
        asked = {one["role"]: one["endpoint"] for one in stated["participants"]}
        request = json.dumps({"participants": asked, "config": stated["config"]})
        return len(asyncio.run(assessed(stated["green_agent"]["endpoint"], request)))
    finally:
        for process in started:
            process.terminate()
            process.communicate(timeout=60)


Path("knows.py").write_text(MODEL)
plain = medagent.run_sync("medagentbench", model="knows.py:Knows", ids=tuple(IDS), round="plain")
expected = {item.item: item.correct for item in plain.items}
assert set(expected.values()) == {True, False}, expected
with agent("a2a", "purple", "--model", "knows.py:Knows") as purple, agent("a2a", "green") as green:
    asked = {
        mode: json.dumps({"participants": {"agent": purple}, "config": {"mode": mode, "ids": IDS}})
        for mode in ("text", "fhir")
    }
    for mode, request in asked.items():
        found = asyncio.run(assessed(green, request))
        assert found == expected, (mode, found, expected)
    assert assessed_0_3(green, asked["text"]) == expected
    assert asyncio.run(assessed(green, "http://127.0.0.1:9")) is None
assert scenario() == 10
print("clients 1.x and 0.3; text and private FHIR base: the verdicts of medagent run; scenario.toml; unreachable fails")
