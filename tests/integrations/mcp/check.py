"""Clients of both protocols, in memory, over stdio and over HTTP, each play an episode; its grade is right."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import medagent
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.integrations.mcp.run import serving
from medagent.integrations.mcp.server import create_server

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
MRN = next(task.eval_MRN for task in medagent.tasks() if task.id == "task1_2")
played: list[str] = []


async def play(client: Client, name: str) -> None:
    """One question, answered by one search."""
    async with client:
        listed = json.loads((await client.call_tool("list_tasks", {"type": "task1"})).content[0].text)
        started = await client.call_tool("start_task", {"task_id": listed[1]["id"]})
        episode = started.structured_content["episode"]
        reply = (await client.call_tool("get_patient", {"episode": episode, "identifier": MRN})).content[0].text
        found = json.loads(reply[reply.index("{") :])["entry"][0]["resource"]["id"]
        ended = await client.call_tool("finish", {"episode": episode, "answers": [found]})
        assert not ended.is_error, ended
        played.append(f"{name} {client.protocol_version}")


def graded(folder: str) -> None:
    """Every episode of a run is right."""
    report = medagent.grade(folder)
    assert [item.correct for item in report.items] == [True, True], report.items


async def memory() -> None:
    async def serve(offer) -> None:
        for mode in ("auto", "legacy"):
            await play(Client(create_server(offer), mode=mode), "memory")

    await serving(
        MedAgentBench(), MedAgentBenchSettings(round="memory"), serve, idle=60, say=lambda _: None, names_tasks=True
    )
    graded("results/v2_memory_mcp")


async def stdio() -> None:
    for mode in ("auto", "legacy"):
        parameters = StdioServerParameters(command=MEDAGENT, args=["mcp", "--round", "stdio"])
        await play(Client(stdio_client(parameters), mode=mode), "stdio")
    graded("results/v2_stdio_mcp")


async def clients(url: str) -> None:
    for mode in ("auto", "legacy"):
        await play(Client(url, mode=mode), "http")


def http() -> None:
    command = [MEDAGENT, "mcp", "--round", "http", "--http", "0"]
    process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
    try:
        url = ""
        while not url.startswith("http"):
            line = process.stderr.readline()
            assert line, "the server has ended"
            url = line.removeprefix("medagent: ").strip()
        asyncio.run(clients(url))
    finally:
        process.terminate()
        process.communicate(timeout=60)
    graded("results/v2_http_mcp")


asyncio.run(memory())
asyncio.run(stdio())
http()
print(f"an episode each, graded right: {', '.join(played)}")
