"""Agents that act in code: a model that writes fenced blocks or calls one tool, and the reference agent."""

from __future__ import annotations

import json
from collections import deque

from medagent.agents.base import Agent, AgentContext, Move
from medagent.agents.chat import ChatAgent
from medagent.benchmarks.medagentbench.agents.code_reference import CodeReferenceAgent
from medagent.benchmarks.medagentbench.agents.reference import ReferenceAgent
from medagent.benchmarks.medagentbench.code_session import fenced
from medagent.benchmarks.medagentbench.tasks.dataset import Task
from medagent.engine.boundary import blame
from medagent.engine.rows import Spent
from medagent.models.base import ChatModel, Message, Tool, ToolCall

PYTHON = Tool(
    "python",
    "Runs a Python program and returns what it prints and the value of a last expression. Variables stay.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
    },
)


def code_agent(agent: Agent, system: str, *, tool: bool) -> Agent:
    """A model with the protocol's system prompt, and with the tool where it is to be used; the reference agent as
    programs; every other agent as it is.
    """
    if isinstance(agent, ReferenceAgent):
        return CodeReferenceAgent(agent.context)
    if not isinstance(agent, ChatAgent) or agent.context.model is None:
        return agent
    return CodeToolAgent(agent.context.model, system) if tool else ChatAgent(agent.context.model, system)


class CodeToolAgent(Agent):
    """Offers the tool `python` to a chat model."""

    def __init__(self, model: ChatModel, system: str) -> None:
        super().__init__(AgentContext(model))
        self._model, self._system = model, system

    def start(self, task: Task, *, key: str, seed: int | None) -> _CodeToolPolicy:
        """See `Agent.start`."""
        return _CodeToolPolicy(self._model, self._system, key, seed)


class _CodeToolPolicy:
    def __init__(self, model: ChatModel, system: str, key: str, seed: int | None) -> None:
        self._model, self._key, self._seed = model, key, seed
        self._messages = [Message("system", system)] if system else []
        self._waiting: deque[ToolCall] = deque()
        self._open: ToolCall | None = None
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        if self._open is None:
            self._messages.append(Message("user", observation))
        else:
            self._messages.append(Message("tool", observation, tool_call_id=self._open.id))
        reasoning = None
        if not self._waiting:
            with blame("model"):
                completion = await self._model.complete(
                    self._messages, tools=[PYTHON], seed=self._seed, session=self._key
                )
            self.spent.add(completion)
            self._messages.append(completion.message)
            if not completion.tool_calls:
                self._open = None
                return Move(completion.text, completion.reasoning, finish_reason=completion.finish_reason)
            self._waiting.extend(completion.tool_calls)
            reasoning = completion.reasoning
        self._open = call = self._waiting.popleft()
        code = _code(call)
        if code is None:
            return Move(f"{call.name}({call.arguments})", reasoning, "call python with one argument, code, a text")
        return Move(fenced(code), reasoning)


def _code(call: ToolCall) -> str | None:
    """The program of a call; None where it is no call of the tool."""
    try:
        arguments = json.loads(call.arguments)
    except (ValueError, RecursionError):
        return None
    code = arguments.get("code") if call.name == PYTHON.name and isinstance(arguments, dict) else None
    return code if isinstance(code, str) else None
