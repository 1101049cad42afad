"""A chat model that knows how to solve the tasks: the reference agent behind an OpenAI-compatible endpoint.

It has no state: what it says next follows from the conversation it is sent.
"""

from __future__ import annotations

import json
from typing import Any
from urllib.parse import parse_qsl

from medagent.agents.base import AgentContext
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from medagent.benchmarks.medagentbench.tasks.dataset import Task, load_dataset
from medagent.fhir_episodes.task import FhirTask
from refsol.medagentbench.constants import PUBLISHED

TASKS = {task.text: task for task in load_dataset("synthetic", "v2").tasks}
TASKS_BY_ID = {task.id: task for task in TASKS.values()}


def asked(request: dict[str, Any]) -> Task:
    """The task that a request's first message asks."""
    first = str(request["messages"][0]["content"])
    return TASKS[first.rpartition("Question: ")[2]]


def next_action(task: Task, replies: list[str]) -> str:
    """The action after these replies."""
    shown = FhirTask(task.id, task.type, task.text, task.context, task.stated_patient)
    solver = ReferenceAgent(AgentContext(base=PUBLISHED.base.rstrip("/"))).solver(shown)
    try:
        action = next(solver)
        for reply in replies:
            action = solver.send(reply)
    except StopIteration as done:
        return f"FINISH({json.dumps(done.value)})"
    return action


def text_reply(request: dict[str, Any]) -> str:
    """The reply of a model that acts by text."""
    replies = [message["content"] for message in request["messages"][1:] if message["role"] == "user"]
    return next_action(asked(request), replies)


def tool_reply(request: dict[str, Any]) -> dict[str, Any]:
    """The reply of a model that acts by tool calls, as chat completions JSON."""
    replies = [message["content"] for message in request["messages"] if message["role"] == "tool"]
    name, arguments = _as_call(next_action(asked(request), replies))
    call = {
        "id": f"call_{len(replies)}",
        "type": "function",
        "function": {"name": name, "arguments": json.dumps(arguments)},
    }
    message = {"role": "assistant", "content": None, "tool_calls": [call]}
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 0,
        "model": "oracle",
        "choices": [{"index": 0, "message": message, "finish_reason": "tool_calls"}],
        "usage": {"prompt_tokens": 10, "completion_tokens": 5, "total_tokens": 15},
    }


def _as_call(action: str) -> tuple[str, Any]:
    if action.startswith("FINISH("):
        return "finish", {"answers": json.loads(action[7:-1])}
    method, _, rest = action.partition(" ")
    url, _, body = rest.partition("\n")
    resource_type = url.rpartition("/")[2].partition("?")[0].lower()
    if method == "POST":
        return f"post_{resource_type}", json.loads(body)
    return f"get_{resource_type}", dict(parse_qsl(url.partition("?")[2]))
