"""vf-eval, and an environment server with verifiers' own client (which prime-rl's `uv run eval` and its trainer use),
ask a loopback endpoint. Their rewards are the verdicts of `medagent run` for the same replies, by text and by tool
calls, and neither what they store nor what they send tells an answer.
"""

import asyncio
import json
import multiprocessing
import os
import subprocess
from pathlib import Path
from typing import Any

import verifiers.v1 as vf
from medagent_verifiers.taskset import MedAgentBenchConfig, MedAgentBenchTaskset
from mini import chat_endpoint
from verifiers.v1.configs.client import EvalClientConfig
from verifiers.v1.serve import EnvClient, env_config_data, serve_env
from verifiers.v1.types import SamplingConfig
from verifiers.v1.utils.loaders import load_taskset, resolve_env_config

import medagent
from medagent.fhir_episodes.protocol import load_protocol
from medagent.fhir_episodes.tools import Toolbox

BASE = "http://localhost:8080/fhir"
TOOLBOX = Toolbox.of(load_protocol("tools"), BASE)
requests: list[dict[str, Any]] = []
"""What arrived at the endpoint."""
tasks = {task.id: task for task in medagent.tasks()}
chosen = [f"task{kind}_{number}" for kind in range(1, 11) for number in (1, 2)]
UNREAD = ("task3_2", "task8_2")
"""Tasks with a wrong answer that are right all the same: only their order is graded."""
moves: dict[str, list[str]] = {}
"""The replies by task."""


def right_moves() -> dict[str, list[str]]:
    """What the reference agent says in each task; in every second one the answer is another."""
    report = medagent.run_sync("medagentbench", agent="reference", ids=tuple(chosen), round="moves")
    replies = {}
    for row in medagent.load_run(report.folder).rows():
        said = [turn.content for turn in row.transcript if turn.role == "agent"]
        replies[row.task_id] = said if row.task_id.endswith("_1") else [*said[:-1], 'FINISH(["nobody"])']
    return replies


def reply(asked: dict[str, Any]) -> str | dict[str, Any]:
    """The next move of the task that is asked; with tools, a call that is not JSON first."""
    requests.append(asked)
    question = asked["messages"][0]["content"]
    task = next(task for task in chosen if question.rstrip().endswith(tasks[task].text.rstrip()))
    turn = sum(message["role"] == "assistant" for message in asked["messages"])
    if not asked.get("tools"):
        return moves[task][turn]
    if turn == 0:
        return {"tool_calls": [call("get_patient", '{"family": ', "0")]}
    name, arguments = TOOLBOX.call(moves[task][turn - 1])
    calls = [call(name, json.dumps(arguments), str(turn))]
    if name == "finish":  # what comes after the end is not carried out
        calls.append(call("get_patient", "{}", "after"))
    return {"tool_calls": calls}


def call(name: str, arguments: str, number: str) -> dict[str, Any]:
    """A tool call of a message."""
    return {"id": f"call_{number}", "type": "function", "function": {"name": name, "arguments": arguments}}


def evaluate(url: str, protocol: str) -> list[dict[str, Any]]:
    """The traces of `vf-eval`."""
    command = [
        *("vf-eval", "medagent-verifiers", "--no-push", "--no-rich", "-m", "x", "-r", "2", "-c", "4"),
        *("--client.base-url", url, "--client.api-key-var", "OPENAI_API_KEY"),
        *("--env.agent.runtime.type", "subprocess", "--env.taskset.task.protocol", protocol),
        *("--select.include.ids", json.dumps(chosen), "-o", "outputs", "--run.name", protocol),
    ]
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL)
    lines = Path("outputs", protocol, "traces.jsonl").read_text(encoding="utf-8").splitlines()
    return [trace for line in lines for trace in json.loads(line).get("traces", [json.loads(line)])]


def sent() -> set[str]:
    """The conversations and tools that arrived since the last time, in one form."""
    kept = ("role", "content", "tool_calls", "tool_call_id")
    conversations = [
        [{name: message[name] for name in kept if message.get(name)} for message in r["messages"]] for r in requests
    ]
    found = {json.dumps([c, r.get("tools")], sort_keys=True) for c, r in zip(conversations, requests, strict=True)}
    requests.clear()
    return found


def evaluate_served(url: str, protocol: str) -> list[dict[str, Any]]:
    """The traces of an environment server of two processes; the tasks are sent to it, as prime-rl does."""
    settings = {
        "taskset": {"id": "medagent-verifiers", "task": {"protocol": protocol}},
        "agent": {"runtime": {"type": "subprocess"}},
    }
    config = resolve_env_config(settings)
    context = multiprocessing.get_context("spawn")
    addresses = context.Queue()
    options = {"max_workers": 2, "elastic": False, "address": "tcp://127.0.0.1:0", "address_queue": addresses}
    server = context.Process(target=serve_env, kwargs={**options, "config_data": env_config_data(config)})
    server.start()

    async def ask() -> list[dict[str, Any]]:
        environment = EnvClient(addresses.get(timeout=120))
        client = EvalClientConfig(base_url=url, api_key_var="OPENAI_API_KEY")
        try:
            await environment.wait_for_server_startup()
            selected = load_taskset(config.taskset).include(ids=chosen)
            data = [task.data.model_dump(mode="json") for task in selected for _ in range(2)]
            episodes = await asyncio.gather(
                *(environment.run(client, "x", SamplingConfig(), task_data) for task_data in data)
            )
        finally:
            await environment.close()
        return [json.loads(trace.model_dump_json()) for episode in episodes for trace in episode.traces]

    try:
        return asyncio.run(ask())
    finally:
        server.terminate()
        server.join()


def compare(url: str, protocol: str) -> int:
    """One protocol, by both evaluators and by `medagent run`. Returns how many rollouts of each were right."""
    theirs = []
    traces = []
    for evaluator in (evaluate, evaluate_served):
        traces.append(evaluator(url, protocol))
        theirs.append(sent())
    options = {"model": "x", "base_url": [url], "protocol": protocol}
    report = medagent.run_sync("medagentbench", ids=tuple(chosen), round=protocol, **options)
    assert [sent()] * 2 == theirs, "other conversations than those of `medagent run`"
    expected = {item.item: float(item.correct) for item in report.items}
    right = [task for task in chosen if task.endswith("_1") or task in UNREAD]
    assert expected == {task: float(task in right) for task in chosen}, expected
    return min(same_rewards(trace, expected, protocol) for trace in traces)


def same_rewards(traces: list[dict[str, Any]], expected: dict[str, float], protocol: str) -> int:
    """Check the traces of an evaluator. Returns how many are right."""
    assert len(traces) == 2 * len(chosen)
    for trace in traces:
        assert trace["ok"], trace["errors"]
        data = trace["task"]["data"]
        assert trace["rewards"]["correct"]["score"] == expected[data["id"]], data["id"]
        with medagent.episode(data["id"], protocol=protocol) as episode:
            public = {"id": data["id"], "name": tasks[data["id"]].type, "prompt": episode.reset()}
        assert vf.TaskData(**data) == vf.TaskData(idx=data["idx"], **public), "more than the public item is stored"
        assert data.keys() <= vf.TaskData.model_fields.keys(), data.keys()
        assert set(trace["info"]) == {"status", "harmed", "checks"}, trace["info"]
    return sum(trace["rewards"]["correct"]["score"] == 1 for trace in traces)


def fair_part() -> None:
    """The first six tasks are of six types: `-n 6` takes these."""
    taskset = MedAgentBenchTaskset(MedAgentBenchConfig())
    first = [task.data.name for task, _ in zip(taskset.load(), range(6), strict=False)]
    assert len(set(first)) == 6, first


def main() -> None:
    """Compare both protocols; print the line for the table."""
    os.environ["OPENAI_API_KEY"] = "k"
    fair_part()
    moves.update(right_moves())
    validate = ["vf-validate", "medagent-verifiers", "--only-setup", "--runtime.type", "subprocess", "-n", "10"]
    subprocess.run([*validate, "--no-rich"], check=True, stdout=subprocess.DEVNULL)
    with chat_endpoint(reply) as url:
        right = {protocol: compare(url, protocol) for protocol in ("text", "tools")}
    counts = ", ".join(f"{protocol} {count} of {2 * len(chosen)} right" for protocol, count in right.items())
    print(f"vf-eval and env server: rewards and conversations of `medagent run`; only public items stored: {counts}")


if __name__ == "__main__":  # the server's processes import this file
    main()
