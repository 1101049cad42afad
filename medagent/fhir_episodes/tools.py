"""A chat model that acts by tool calls: one tool a FHIR function, and `finish`.

Each call becomes the action of the text protocol that means the same, so a session, a post history and a grader see no
difference. Calls made in parallel are carried out in their order, one round each.
"""

from __future__ import annotations

import json
from collections import deque
from dataclasses import dataclass
from typing import Any
from typing import Protocol as Typed
from urllib.parse import parse_qs, urlencode

from medagent.agents.base import Agent, AgentContext, Move, counted
from medagent.engine.rows import Spent
from medagent.fhir_episodes.protocol import FhirFunction, Protocol
from medagent.fhir_episodes.session import MAX_BODY
from medagent.models.base import ChatModel, Message, Tool, ToolCall

FINISH = Tool(
    "finish",
    "Ends the work with the answers.",
    {
        "type": "object",
        "properties": {"answers": {"type": "array", "items": {}, "description": "The answers; empty if none."}},
        "required": ["answers"],
    },
)


class ToolError(ValueError):
    """A tool call that cannot be read as an action; the text tells the model why."""


@dataclass(frozen=True, slots=True)
class Toolbox:
    """The tools made from a protocol's function list, and the way back from a call to an action's text."""

    api_base: str
    functions: dict[str, FhirFunction]

    @classmethod
    def of(cls, protocol: Protocol, api_base: str) -> Toolbox:
        """One tool a function, named by method and type; the second of a name also by a parameter that only it has:
        `get_observation` takes a code, `get_observation_by_category` finds vital signs.
        """
        functions: dict[str, FhirFunction] = {}
        for function in protocol.functions:
            base = f"{function.method}_{function.resource_type}".lower()
            before = [one for one in functions.values() if one.name == function.name]
            taken = {parameter for one in before for parameter in one.parameters.get("properties", {})}
            own = [parameter for parameter in function.parameters.get("properties", {}) if parameter not in taken]
            names = [base, *(f"{base}_by_{parameter}" for parameter in own), f"{base}_{len(before) + 1}"]
            functions[next(name for name in names if name not in functions)] = function
        return cls(api_base.rstrip("/"), functions)

    def tools(self) -> list[Tool]:
        """What is offered to the model."""
        return [Tool(name, f.description, f.parameters) for name, f in self.functions.items()] + [FINISH]

    def action(self, call: ToolCall) -> str:
        """The action a call means. Raises ToolError for an unknown tool or arguments that are no JSON object."""
        if len(call.arguments) > MAX_BODY:
            raise ToolError(f"the arguments are over {MAX_BODY:,} characters")
        try:
            arguments = json.loads(call.arguments or "{}")
        except (ValueError, RecursionError) as error:
            raise ToolError(f"the arguments are not JSON: {error}") from None
        if not isinstance(arguments, dict):
            raise ToolError("the arguments must be a JSON object")
        if call.name == FINISH.name:
            if not isinstance(arguments.get("answers"), list):
                raise ToolError("finish takes `answers`, a list")
            return f"FINISH({json.dumps(arguments['answers'], ensure_ascii=False)})"
        function = self.functions.get(call.name)
        if function is None:
            raise ToolError(f"there is no tool {call.name!r}; there are {', '.join([*self.functions, FINISH.name])}")
        url = f"{self.api_base}/{function.resource_type}"
        if function.method == "GET":
            return f"GET {url}?{urlencode(_parameters(arguments), doseq=True, errors='replace')}"
        return f"POST {url}\n{json.dumps(arguments, ensure_ascii=False)}"

    def call(self, action: str) -> tuple[str, dict[str, Any]]:
        """The tool that an action's text means, and its arguments: the way back from `action`. What no tool means is
        `GET`, `POST` or `message`, with what it says.
        """
        method, _, rest = action.strip().partition(" ")
        url, _, body = rest.partition("\n")
        if action.startswith("FINISH("):
            return FINISH.name, {"answers": _json(action.strip()[len("FINISH(") : -1])}
        if method not in ("GET", "POST"):
            return "message", {"text": action}
        resource_type, _, query = url.strip().removeprefix(f"{self.api_base}/").partition("?")
        found = [
            name for name, one in self.functions.items() if (one.method, one.resource_type) == (method, resource_type)
        ]
        if method == "POST":
            return (
                (found[0], _json(body))
                if found and isinstance(_json(body), dict)
                else (method, {"url": url, "body": body})
            )
        given = {name: values[0] if len(values) == 1 else values for name, values in parse_qs(query).items()}
        known = [name for name in found if set(given) <= set(self.functions[name].parameters.get("properties", {}))]
        return ([*known, *found][0], {**given}) if found else (method, {"url": url})


def _json(text: str) -> Any:
    """A JSON value; the text itself where it is none."""
    try:
        return json.loads(text)
    except (ValueError, RecursionError):
        return text


def _parameters(arguments: dict[str, Any]) -> dict[str, str | list[str]]:
    return {
        name: [str(v) for v in value] if isinstance(value, list) else str(value)
        for name, value in arguments.items()
        if value is not None
    }


class Calls(Typed):
    """What a model is offered, and what its calls mean."""

    def tools(self) -> list[Tool]:
        """What is offered."""
        ...

    def action(self, call: ToolCall) -> str:
        """The message that a call means. Raises ToolError."""
        ...


class ToolsAgent(Agent):
    """Offers the toolbox to a chat model."""

    def __init__(self, model: ChatModel, protocol: Protocol, api_base: str) -> None:
        super().__init__(AgentContext(model, api_base))
        self._model, self._system = model, protocol.system
        self._toolbox: Calls = Toolbox.of(protocol, api_base)

    def start(self, task: Any, *, key: str, seed: int | None) -> _ToolsPolicy:
        """See `Agent.start`."""
        return _ToolsPolicy(self._model, self._toolbox, self._system, key, seed)


class _ToolsPolicy:
    def __init__(self, model: ChatModel, toolbox: Calls, system: str, key: str, seed: int | None) -> None:
        self._model, self._toolbox, self._key, self._seed = model, toolbox, key, seed
        self._messages = [Message("system", system)] if system else []
        self._waiting: deque[ToolCall] = deque()
        self._open: ToolCall | None = None
        self._ended: str | None = None
        """The finish reason of the reply that holds the calls."""
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
            if not completion.tool_calls:
                self._open = None
                return Move(completion.text, completion.reasoning, finish_reason=completion.finish_reason)
            self._waiting.extend(completion.tool_calls)
            self._ended = completion.finish_reason
            reasoning = completion.reasoning
        self._open = call = self._waiting.popleft()
        ended = None if self._waiting else self._ended  # of several calls the last one is cut off
        try:
            return Move(self._toolbox.action(call), reasoning, finish_reason=ended)
        except ToolError as error:
            return Move(f"{call.name}({call.arguments})", reasoning, str(error), ended)
