"""The folder passes `openenv validate FOLDER`, and a server `openenv validate --url`; eight clients at once play
episodes whose replies and rewards are those of
`medagent.rl.Environment` in one process, and whose verdicts are those of `medagent run`.
"""

import asyncio
import json
import re
import shutil
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any
from urllib.request import urlopen

from mini import chat_endpoint
from openenv import GenericEnvClient
from openenv.core.mcp_client import MCPToolClient

import medagent
from medagent.benchmarks.clinical.training import training_task
from medagent.benchmarks.medagentbench.generator.write import MabGenerator
from medagent.fhir_episodes.benchmark import Training
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox
from medagent.rl import Environment

ROOT = Path(__file__).parents[3]
FOLDER = ROOT / "integrations" / "openenv"
SEED, INJECTED, CLIENTS, ROUNDS = "check", "20%", 8, 5
NUMBERS = range(CLIENTS * ROUNDS)
TOOLBOX = Toolbox.of(load_protocol("tools"), "http://localhost:8080/fhir")
Call = tuple[str, dict[str, Any]]
stream = Training("train", SEED, "bundled", 0.2)


def right_calls() -> dict[int, list[Call]]:
    """The reference agent's calls in each task, by the task's number; `medagent run` finds them right."""
    ids = {training_task(MabGenerator(), stream, number)[1].id: number for number in NUMBERS}
    folder = str(training_task(MabGenerator(), stream, 0)[0])
    report = medagent.run_sync("medagentbench", agent="reference", dataset=folder, ids=tuple(ids))
    assert all(item.correct for item in report.items), "the reference agent erred"
    return {
        ids[row.task_id]: [TOOLBOX.call(turn.content) for turn in row.transcript if turn.role == "agent"]
        for row in medagent.load_run(report.folder).rows()
    }


def played_here(calls: list[Call], number: int, reward: str) -> list[Any]:
    """First message, replies, reward and harm of an episode in this process."""
    environment = Environment(seed=SEED, reward=reward, injected=INJECTED)
    seen: list[Any] = [environment.reset(task=number)]
    seen += [environment.episode.call(*call) or "The episode has ended." for call in calls]
    return [*seen, *((environment.get_reward(), environment.harmed) if environment.done else (None, None))]


async def played_there(client: GenericEnvClient, calls: list[Call], number: int, start: asyncio.Barrier) -> list[Any]:
    """The same through the server; all clients have an episode open before the first of them acts."""
    result = await client.reset(index=number)
    assert (result.done, result.reward) == (False, None)
    assert set(result.observation) == {"message", "tools", "metadata"}, result.observation.keys()
    seen: list[Any] = [result.observation["message"]]
    await start.wait()
    for name, arguments in calls:
        assert result.reward is None, "a reward before the end"
        result = await client.step({"type": "call_tool", "tool_name": name, "arguments": arguments})
        seen.append(result.observation["result"])
    assert set(await client.state()) == {"episode_id", "step_count"}
    assert result.done == (calls[-1][0] == "finish")
    return [*seen, result.reward, result.observation["metadata"].get("harmed")]


async def client(url: str, which: int, wanted: dict[int, list[Call]], start: asyncio.Barrier) -> dict[int, list[Any]]:
    """One client's episodes, in one session."""
    async with GenericEnvClient(base_url=url) as session:
        numbers = [which * ROUNDS + turn for turn in range(ROUNDS)]
        return {number: await played_there(session, wanted[number], number, start) for number in numbers}


async def clients(url: str, wanted: dict[int, list[Call]]) -> dict[int, list[Any]]:
    """All clients at once."""
    start = asyncio.Barrier(CLIENTS)
    found = await asyncio.gather(*(client(url, which, wanted, start) for which in range(CLIENTS)))
    return {number: seen for part in found for number, seen in part.items()}


async def tools(url: str) -> None:
    """OpenEnv's client for tools lists and calls them."""
    async with MCPToolClient(base_url=url) as session:
        await session.reset(index=0)
        listed = {tool.name: tool.input_schema for tool in await session.list_tools()}
        assert listed == {tool.name: tool.parameters for tool in Environment.tools}
        reply = await session.call_tool("get_patient", **{"address-city": "Nowhere"})
        assert '"total": 0' in reply["result"], reply


def documented_program(url: str) -> None:
    """The client of the docs: its answer is wrong."""
    text = (ROOT / "docs" / "integrations" / "openenv.md").read_text(encoding="utf-8")
    [program] = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    Path("client.py").write_text(program.replace("http://127.0.0.1:8000", url))
    printed = subprocess.check_output([sys.executable, "client.py"], text=True)
    done, reward = printed.split()[-2:]
    assert (done, float(reward) < 1) == ("True", True), printed


def serve(reward: str) -> tuple[subprocess.Popen[bytes], str]:
    """A server and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    words = ["--seed", SEED, "--reward", reward, "--injected", INJECTED, "--port", str(port)]
    process = subprocess.Popen(["medagent-openenv", *words])
    url = f"http://127.0.0.1:{port}"
    for _ in range(240):
        assert process.poll() is None, "the server has ended"
        try:
            urlopen(f"{url}/health").close()
            return process, url
        except OSError:
            time.sleep(0.5)
    raise TimeoutError("the server does not answer")


def answered(calls: list[Call], number: int) -> list[Call]:
    """Every third task is answered wrongly, and every fifth one is left before its end."""
    if number % 3 == 1:
        return [("nothing", {}), *calls[:-1], ("finish", {"answers": ["nobody"]})]
    return calls[:-1] if number % 5 == 2 and len(calls) > 1 else calls


def validated() -> None:
    """Our folder passes `openenv validate`; one without a manifest fails, and so does the URL of another server."""
    static = validate(str(FOLDER), "--level", "static")
    assert (static.returncode, static.stdout.splitlines()[-1]) == (0, "Verdict: PASS"), static.stdout
    checked = validate(str(FOLDER)).stdout
    assert "PASS  static.manifest" in checked, checked
    assert "FAIL" not in checked, checked
    shutil.copytree(FOLDER, "broken", ignore=shutil.ignore_patterns("openenv.yaml"))
    broken = validate("broken", "--level", "static")
    assert broken.returncode, broken.stdout
    with chat_endpoint(lambda _: "hello") as url:
        assert validate("--url", url).returncode, "any server passes"


def validate(*words: str) -> subprocess.CompletedProcess[str]:
    """Run `openenv validate`."""
    return subprocess.run(["openenv", "validate", *words], capture_output=True, text=True, check=False)


validated()
wanted = {number: answered(calls, number) for number, calls in right_calls().items()}
rewards: list[float | None] = []
harms: set[bool | None] = set()
for kind in ("official", "checks"):
    server, url = serve(kind)
    try:
        report = json.loads(subprocess.check_output(["openenv", "validate", "--url", url, "--json"]))
        assert report["passed"], report
        documented_program(url)
        asyncio.run(tools(url))
        found = asyncio.run(clients(url, wanted))
    finally:
        server.terminate()
        server.wait()
    for number, seen in found.items():
        assert seen == played_here(wanted[number], number, kind), number
    rewards += [seen[-2] for seen in found.values()]
    harms |= {seen[-1] for seen in found.values()}
assert {None, 0.0, 1.0} < set(rewards), rewards
assert harms >= {None, False}, harms
criteria = report["summary"]["passed_count"]
print(f"validate: {criteria} criteria; {CLIENTS} clients at once, {len(rewards)} episodes: replies and rewards equal")
