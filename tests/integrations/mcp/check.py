"""Clients of both protocols, in memory, over stdio and over HTTP, each play two episodes; one of them is right.

Beside it the server is started as a desktop does, from / with HOME alone, by the documented command.
"""

import asyncio
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client

import medagent
from medagent.benchmarks.medagentbench.benchmark import MedAgentBench
from medagent.benchmarks.medagentbench.settings import MedAgentBenchSettings
from medagent.integrations.mcp.run import serving
from medagent.integrations.mcp.server import create_server

MEDAGENT = str(Path(sys.executable).with_name("medagent"))
MRN = next(task.patient for task in medagent.tasks() if task.id == "task1_3")
ROOT = Path(__file__).parents[3]
played: list[str] = []


async def play(client: Client, name: str) -> None:
    """One question, answered by one search, and then wrongly."""
    async with client:
        listed = (await client.call_tool("list_tasks", {"type": "task1"})).structured_content["tasks"]
        assert "task1_3" in [task["id"] for task in listed]
        for right in (True, False):
            episode = await begun(client)
            reply = await client.call_tool("get_patient", {"episode": episode, "identifier": MRN})
            assert not reply.is_error, reply
            refused = await client.call_tool("get_patient", {"episode": episode, "nonsense": "x"})
            assert refused.is_error, refused
            text = reply.content[0].text
            found = json.loads(text[text.index("{") :])["entry"][0]["resource"]["id"]
            answers = [found] if right else ["S0"]
            ended = await client.call_tool("finish", {"episode": episode, "answers": answers})
            assert not ended.is_error, ended
        played.append(f"{name} {client.protocol_version}")


async def begun(client: Client, **options: object) -> str:
    """The handle of a new episode."""
    started = await client.call_tool("start_task", {"task_id": "task1_3"}, **options)
    assert not started.is_error, started
    return started.structured_content["episode"]


def graded(folder: Path | str) -> None:
    """Of each client's two episodes the first is right, the second wrong."""
    report = medagent.grade(folder)
    assert [item.correct for item in report.items] == [True, False] * 2, report.items


async def memory() -> None:
    async def serve(offer) -> None:
        for mode in ("auto", "legacy"):
            await play(Client(create_server(offer), mode=mode), "memory")

    settings = MedAgentBenchSettings(round="memory")
    await serving(MedAgentBench(), settings, serve, idle=60, say=lambda _: None, names_tasks=True)
    graded("results/v2_memory_mcp")


def described(tools: list) -> None:
    """Every tool has what hosts show and decide by."""
    for tool in tools:
        hints = tool.annotations
        values = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert tool.title, tool
        assert all(isinstance(value, bool) for value in values), tool
        assert (tool.output_schema is not None) == (tool.name in ("list_tasks", "start_task")), tool
    assert {tool.name for tool in tools if not tool.annotations.read_only_hint} >= {"start_task", "finish"}


async def stdio() -> None:
    for mode in ("auto", "legacy"):
        parameters = StdioServerParameters(
            command=MEDAGENT, args=["mcp", "--round", "stdio", "--results-dir", "results"]
        )
        await play(Client(stdio_client(parameters), mode=mode), "stdio")
    graded("results/v2_stdio_mcp")


async def clients(url: str) -> None:
    for mode in ("auto", "legacy"):
        await play(Client(url, mode=mode), "http")
    async with Client(url, mode="legacy") as gone:
        left = await begun(gone)
    async with Client(url) as later:
        told = await later.call_tool("get_patient", {"episode": left, "identifier": MRN})
        assert "the client left" in told.content[0].text, told


def http() -> None:
    command = [MEDAGENT, "mcp", "--round", "http", "--http", "0", "--results-dir", "results"]
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
    report = medagent.grade("results/v2_http_mcp")
    assert [item.correct for item in report.items] == [True, False, True, False, None], report.items


def wheel_of(folder: Path) -> Path:
    """This tree as a wheel, as the package index would give it."""
    pip = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(folder), str(ROOT)]
    subprocess.run(pip, check=True)
    [wheel] = folder.glob("*.whl")
    return wheel


def hospitals(home: Path) -> list[Path]:
    """The hospitals in a home's cache."""
    return list(home.glob(".cache/medagent/*.sqlite"))


def trusting(home: Path) -> None:
    """Have uv trust the machine's certificates: some networks have their own."""
    (home / ".config/uv").mkdir(parents=True)
    (home / ".config/uv/uv.toml").write_text("system-certs = true\n")


async def desktop(home: Path, wheel: Path) -> int:
    """The documented command, from / with HOME alone; the number of notifications while the hospital was built."""
    heard: list[str | None] = []

    async def progress(seconds: float, total: float | None, message: str | None) -> None:
        heard.append(message)

    parameters = StdioServerParameters(
        command=str(Path(sys.executable).with_name("uvx")),
        args=["--from", f"medagent[mcp] @ {wheel.as_uri()}", "medagent", "mcp", "--round", "desktop"],
        env={"HOME": str(home), "PATH": os.environ["PATH"]},
        cwd="/",
    )
    async with Client(stdio_client(parameters)) as client:
        described((await client.list_tools()).tools)
        assert not hospitals(home), "the hospital was built before an episode"
        episode = await begun(client, progress_callback=progress)
        assert hospitals(home)
        await client.call_tool("finish", {"episode": episode, "answers": [MRN]})
    folder = home / ".local/share/medagent/results/v2_desktop_mcp"
    assert [item.correct for item in medagent.grade(folder).items] == [True]
    assert any("building the hospital" in (message or "") for message in heard), heard
    return len(heard)


asyncio.run(memory())
asyncio.run(stdio())
http()
with tempfile.TemporaryDirectory() as home:
    trusting(Path(home))
    heard = asyncio.run(desktop(Path(home), wheel_of(Path(home, "dist"))))
print(f"two episodes each, one right: {', '.join(played)}; uvx from / with HOME alone: right, {heard} notifications")
