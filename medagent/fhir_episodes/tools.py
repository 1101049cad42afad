"""The agent for chat models that act by tool calls: one tool per FHIR function (or the protocol's tools), and `finish`.

Each call becomes the equivalent action of the text protocol, so that sessions, POST histories and graders treat both
alike. Parallel calls are carried out in order, one round each.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any
from typing import Protocol as Typed
from urllib.parse import parse_qs, urlencode

from medagent.agents.base import LONGEST_MESSAGE, Agent, AgentContext, Move, counted, model_move
from medagent.agents.skills import skill_files
from medagent.engine.rows import Spent
from medagent.fhir_episodes.protocol import Protocol, ProtocolTool
from medagent.fhir_episodes.session import SKILL, Session
from medagent.fhir_episodes.terminology import (
    TerminologyArgumentsError,
    action_of_call,
    call_of_url,
    terminology_tool,
)
from medagent.fhir_episodes.writes import (
    WriteArgumentsError,
    call_of_write,
    stated_write,
    write_of_call,
    write_tools,
)
from medagent.models.base import ChatModel, Message, RecordedCall, Tool, ToolCall
from medagent.models.calls import (
    MOST_ARGUMENTS,
    ArgumentsError,
    excess,
    parse_arguments,
    recorded_call,
    shortened,
    within_limits,
)
from refsol.json_values import json_value

FINISH_TEXT = "Ends the work with the answers."


def finish_tool(argument: str) -> Tool:
    """The tool that ends an episode; `argument` is the name of its parameter, a list of answers."""
    answers = {"type": "array", "items": {}, "description": "The answers; empty if none."}
    return Tool("finish", FINISH_TEXT, {"type": "object", "properties": {argument: answers}, "required": [argument]})


FINISH = finish_tool("answers")


READ_SKILL_FILE = "read_skill_file"


def _skill_tool(paths: Sequence[str]) -> Tool:
    """The tool that shows the further files of the run's skills."""
    path = {"type": "string", "enum": list(paths), "description": "The skill's name and the file's path in it."}
    words = "Shows a further file of a skill."
    return Tool(READ_SKILL_FILE, words, {"type": "object", "properties": {"path": path}, "required": ["path"]})


class ToolError(ValueError):
    """A tool call that cannot be read as an action; the text is the reply to the model."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools of a protocol (its own, or one per function). Converts between calls and the text of actions."""

    api_base: str
    functions: dict[str, ProtocolTool]
    finish: Tool = FINISH
    writes: Mapping[str, Tool] = field(default_factory=dict)
    """The tools for all writes, if the episode carries them out."""
    terminology: Tool | None = None
    """The tool for value sets and code systems, if the benchmark asks for it."""
    skill_file: Tool | None = None
    """The tool for the further files of skills, if there are any."""

    @classmethod
    def of(cls, protocol: Protocol, api_base: str) -> Toolbox:
        """The tools of a protocol for the FHIR base shown to agents."""
        stated = {tool.name: tool for tool in protocol.tools}
        writes = write_tools() if protocol.write_done else {}
        terminology = terminology_tool() if protocol.terminology else None
        paths = list(skill_files(protocol.skills))
        return cls(
            api_base.rstrip("/"),
            stated or _generated_tools(protocol),
            finish_tool(protocol.finish),
            writes,
            terminology,
            _skill_tool(paths) if paths else None,
        )

    def tools(self) -> list[Tool]:
        """The tools that the model gets."""
        functions = [Tool(name, function.description, function.parameters) for name, function in self.functions.items()]
        further = [tool for tool in (self.terminology, *self.writes.values(), self.skill_file) if tool is not None]
        return [*functions, *further, self.finish]

    def action(self, call: ToolCall) -> str:
        """The action of a call. Raises ToolError for an unknown tool, or arguments that are not a JSON object."""
        try:
            arguments = parse_arguments(call.arguments)
        except ArgumentsError as error:
            raise ToolError(str(error)) from None
        if call.name == self.finish.name:
            name = self._answers
            if not isinstance(arguments.get(name), list):
                raise ToolError(f"finish takes `{name}`, a list")
            return f"FINISH({json.dumps(arguments[name], ensure_ascii=False)})"
        try:
            if call.name in self.writes:
                return write_of_call(call.name, arguments, self.api_base).action
            if self.terminology and call.name == self.terminology.name:
                return action_of_call(arguments, self.api_base)
        except (WriteArgumentsError, TerminologyArgumentsError) as error:
            raise ToolError(str(error)) from None
        if self.skill_file and call.name == self.skill_file.name:
            return skill_action(arguments.get("path"))
        tool = self.functions.get(call.name)
        if tool is None:
            names = ", ".join(tool.name for tool in self.tools())
            raise ToolError(f"unknown tool {call.name!r}; the tools are {names}")
        if tool.method == "CALCULATE":
            expression = arguments.get("expression")
            if not isinstance(expression, str):
                raise ToolError(f"{call.name} takes `expression`, a text")
            return f"CALCULATE {expression}"
        url = f"{self.api_base}/{tool.resource_type}"
        if tool.method == "GET":
            query = urlencode(_parameters({**tool.fixed, **arguments}), doseq=True)
            return f"GET {url}?{query}"
        return f"POST {url}\n{json.dumps({**tool.fixed, **arguments}, ensure_ascii=False)}"

    def call(self, action: str) -> tuple[str, dict[str, Any]]:
        """The tool and arguments of an action's text: the inverse of `action`. If no tool matches, the name is `GET`,
        `POST` or `message`, and the argument is the text.
        """
        method, _, rest = action.strip().partition(" ")
        url, _, body = rest.partition("\n")
        if action.startswith("FINISH("):
            answer = action.strip()[len("FINISH(") : -1]
            return self.finish.name, {self._answers: json_value(answer, answer)}
        if method == SKILL and self.skill_file:
            return self.skill_file.name, {"path": rest}
        if method == "CALCULATE" and (calculators := self._named(method, "")):
            return calculators[0], {"expression": rest}
        if method != "GET" and (written := self._write_call(action)) is not None:
            return written
        if method not in ("GET", "POST"):
            return "message", {"text": action}
        if method == "GET" and self.terminology and (lookup_call := call_of_url(url, self.api_base)) is not None:
            return lookup_call
        resource_type, _, query = url.strip().removeprefix(f"{self.api_base}/").partition("?")
        if method == "POST":
            resource = json_value(body, body)
            if not isinstance(resource, dict):
                return method, {"url": url, "body": body}
            return self._fitting(method, resource_type, resource) or (method, {"url": url, "body": body})
        stated = {name: values[0] if len(values) == 1 else values for name, values in parse_qs(query).items()}
        return self._fitting(method, resource_type, stated) or (method, {"url": url})

    def _write_call(self, action: str) -> tuple[str, dict[str, Any]] | None:
        """The call of one of the tools for all writes; None if another tool creates resources of the type."""
        stated = stated_write(action) if self.writes else None
        if stated is None:
            return None
        kind = stated.url.removeprefix(f"{self.api_base}/")
        known = stated.method == "POST" and not stated.conditions and self._named("POST", kind)
        return None if known else call_of_write(stated, self.api_base)

    @property
    def _answers(self) -> str:
        """The parameter of `finish`."""
        return str(next(iter(self.finish.parameters["properties"])))

    def _named(self, method: str, resource_type: str) -> list[str]:
        return [
            n
            for n, function in self.functions.items()
            if (function.method, function.resource_type) == (method, resource_type)
        ]

    def _fitting(self, method: str, resource_type: str, stated: dict[str, Any]) -> tuple[str, dict[str, Any]] | None:
        """The tool that fits a search or a creation best, with the arguments that its call needs."""
        names = self._named(method, resource_type)
        holding = [name for name in names if self.functions[name].fixed.items() <= stated.items()] or names
        if not holding:
            return None
        known = [
            n
            for n in holding
            if set(stated) <= {*self.functions[n].parameters.get("properties", {}), *self.functions[n].fixed}
        ]
        name = [*known, *holding][0] if method == "GET" else holding[0]
        fixed = self.functions[name].fixed
        return name, {key: value for key, value in stated.items() if fixed.get(key) != value}


def skill_action(path: object) -> str:
    """The action that reads a skill's file. Raises ToolError if the path is not a text."""
    if not isinstance(path, str):
        raise ToolError(f"{READ_SKILL_FILE} takes `path`, a text")
    return f"{SKILL} {path}"


async def call(session: Session, toolbox: Toolbox, tool: str, arguments: Mapping[str, Any] | str) -> str:
    """Take one tool call, for programs that make calls themselves; returns the reply. If the call cannot be read as an
    action, the reply is the reason.
    """
    called = ToolCall("", tool, arguments if isinstance(arguments, str) else json.dumps(arguments))
    call_record = recorded_call(replace(called, arguments=shortened(called.arguments, MOST_ARGUMENTS)))
    try:
        action = _action(toolbox, called, call_record)
    except ToolError as error:
        return session.refuse(call_record.written, str(error), call=call_record)
    return await session.act(action, call=call_record)


def _action(tools: Calls, call: ToolCall, call_record: RecordedCall) -> str:
    """The action of a call within all limits; `made` is how the call is stored. Raises ToolError."""
    if too_long := excess(call_record):
        raise ToolError(too_long)
    action = tools.action(call)
    if len(action) > LONGEST_MESSAGE:  # a URL may be longer than the arguments that it is made from
        raise ToolError(f"the arguments make a request of {len(action):,} characters; the limit is {LONGEST_MESSAGE:,}")
    return action


def _generated_tools(protocol: Protocol) -> dict[str, ProtocolTool]:
    """One tool per function, named by method and type. The second with the same name is also named by a parameter that
    only it accepts: `get_observation` takes a code, `get_observation_by_category` returns vital signs.
    """
    tools: dict[str, ProtocolTool] = {}
    for number, function in enumerate(protocol.functions):
        base = f"{function.method}_{function.resource_type}".lower()
        before = [namesake for namesake in protocol.functions[:number] if namesake.name == function.name]
        taken = {parameter for namesake in before for parameter in namesake.parameters.get("properties", {})}
        distinct = [parameter for parameter in function.parameters.get("properties", {}) if parameter not in taken]
        names = [base, *(f"{base}_by_{parameter}" for parameter in distinct), f"{base}_{len(before) + 1}"]
        name = next(name for name in names if name not in tools)
        tools[name] = ProtocolTool(
            name=name,
            description=function.description,
            parameters=function.parameters,
            method="GET" if function.method == "GET" else "POST",
            resource_type=function.resource_type,
        )
    return tools


def _parameters(arguments: dict[str, Any]) -> dict[str, str | list[str]]:
    return {
        name: [str(v) for v in value] if isinstance(value, list) else str(value)
        for name, value in arguments.items()
        if value is not None
    }


class Calls(Typed):
    """The tools that a model gets, and the conversion of its calls to messages."""

    def tools(self) -> list[Tool]:
        """The tools."""

    def action(self, call: ToolCall) -> str:
        """The message for a call. Raises ToolError."""


class ToolsAgent(Agent):
    """An agent whose chat model gets these tools."""

    def __init__(self, model: ChatModel, system: str, toolbox: Calls) -> None:
        super().__init__(AgentContext(model))
        self._model = model
        self._system = system
        self._toolbox = toolbox

    def start(self, task: Any, *, key: str, seed: int | None) -> _ToolsPolicy:
        return _ToolsPolicy(self._model, self._toolbox, self._system, key, seed)


class _ToolsPolicy:
    def __init__(self, model: ChatModel, toolbox: Calls, system: str, key: str, seed: int | None) -> None:
        self._model = model
        self._toolbox = toolbox
        self._key = key
        self._seed = seed
        self._messages = [Message("system", system)] if system else []
        self._waiting: deque[ToolCall] = deque()
        self._open: ToolCall | None = None
        self._beside: str | None = None
        """The model's text next to the waiting calls, until the first call is made."""
        self._ended: str | None = None
        """The finish reason of the reply with the waiting calls."""
        self.spent = Spent()

    async def next(self, observation: str) -> Move:
        if self._open is None:
            self._messages.append(Message("user", observation))
        else:
            self._messages.append(Message("tool", observation, tool_call_id=self._open.id))
        reasoning = None
        if not self._waiting:
            completion = await counted(
                self._model,
                self.spent,
                self._messages,
                tools=self._toolbox.tools(),
                seed=self._seed,
                session=self._key,
            )
            self._messages.append(completion.message)
            move = model_move(completion)
            if move.characters is not None or not completion.tool_calls:
                self._open = None
                return move
            self._waiting.extend(completion.tool_calls)
            self._ended = completion.finish_reason
            reasoning = completion.reasoning
            self._beside = completion.text or None
        called = self._waiting.popleft()
        self._open = within_limits(called)
        call_record = recorded_call(called, len(self.spent.each) - 1, self._beside)
        self._beside = None
        ended = None if self._waiting else self._ended  # if a reply with several calls is cut off, it is the last call
        try:
            return Move(_action(self._toolbox, called, call_record), reasoning, finish_reason=ended, call=call_record)
        except ToolError as error:
            return Move(call_record.written, reasoning, str(error), ended, call_record)
