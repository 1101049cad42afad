"""Agents for models that act in code: a model writes fenced blocks or calls one tool."""

from __future__ import annotations

from medagent.agents.base import Agent
from medagent.agents.chat import ChatAgent
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.protocol import Protocol
from medagent.fhir_episodes.tools import ToolError, ToolsAgent
from medagent.models.base import ChatModel, Tool, ToolCall
from refsol.json_values import as_object, json_value

PYTHON = Tool(
    "python",
    "Runs a Python program and returns what it prints and the value of a last expression. Variables stay.",
    {
        "type": "object",
        "properties": {"code": {"type": "string", "description": "The program."}},
        "required": ["code"],
    },
)


def code_agent(agent: Agent, protocol: Protocol, api_base: str, *, tool: bool) -> Agent:
    """A chat agent with the protocol's system prompt, and the tool if `tool`; other agents are returned unchanged."""
    if not isinstance(agent, ChatAgent) or agent.context.model is None:
        return agent
    if tool:
        return CodeToolAgent(agent.context.model, protocol, api_base)
    return ChatAgent(agent.context.model, protocol.system)


class CodeToolAgent(ToolsAgent):
    """Offers the tool `python` to a chat model; see `ToolsAgent`."""

    def __init__(self, model: ChatModel, protocol: Protocol, api_base: str) -> None:
        super().__init__(model, protocol, api_base)
        self._toolbox = PythonCalls()


class PythonCalls:
    """See `Calls`: offers the tool, and turns a call of it into a message with a program."""

    def tools(self) -> list[Tool]:
        """The tools that the model gets."""
        return [PYTHON]

    def action(self, call: ToolCall) -> str:
        """The message. Raises ToolError for another tool, or arguments without a program."""
        code = as_object(json_value(call.arguments)).get("code") if call.name == PYTHON.name else None
        if not isinstance(code, str):
            raise ToolError("call python with one argument, code, a text")
        return fenced(code)
