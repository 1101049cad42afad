"""Chat completions with function tools: the API that every OpenAI-compatible server offers."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from medagent.models.base import Completion, Message, ToolCall
from medagent.models.calls import returned_arguments, within_limits
from medagent.models.content import read_content
from medagent.models.dialects.base import (
    OPENAI,
    ApiRequest,
    Dialect,
    Reasoning,
    Text,
    Unsupported,
    counted,
    named,
    parsed,
    refuse_error,
)
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object, objects


class _Function(BaseModel):
    name: Text = ""
    arguments: Text = ""


class _ToolCall(BaseModel):
    id: Text = ""
    function: Annotated[_Function, BeforeValidator(as_object)] = _Function()


def _as_calls(value: Any) -> Any:
    """The tool calls of a list; some servers send a single one as an object."""
    return [value] if isinstance(value, dict) else objects(value)


def _as_function(value: Any) -> Any:
    return value if isinstance(value, dict) and value.get("name") else None


class _Message(BaseModel):
    content: Any = None
    refusal: Text = ""
    reasoning_content: Reasoning = ""
    reasoning: Reasoning = ""
    tool_calls: Annotated[list[_ToolCall], BeforeValidator(_as_calls)] = []
    function_call: Annotated[_Function | None, BeforeValidator(_as_function)] = None  # the format before tools existed


class _Choice(BaseModel):
    message: _Message
    finish_reason: Text = ""
    error: Any = None  # OpenRouter's field for errors of its providers
    usage: Any = None


class _Reply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Any = None
    usage_metadata: Any = named("usageMetadata", "usage_metadata")  # Gemini
    x_groq: Annotated[dict[str, Any], BeforeValidator(as_object)] = {}
    timings: Any = None  # llama.cpp
    model: Text = ""
    system_fingerprint: Text = ""


def _body(request: ApiRequest, settings: ModelSettings, unsupported: Unsupported) -> dict[str, Any]:
    body: dict[str, Any] = {
        "model": settings.name,
        "messages": [_wire_message(message, unsupported) for message in request.messages],
    }
    if settings.temperature is not None and not unsupported.temperature:
        body["temperature"] = settings.temperature
    if settings.max_tokens is not None:
        body["max_completion_tokens" if unsupported.max_tokens else "max_tokens"] = settings.max_tokens
    if request.seed is not None and not unsupported.seed:
        body["seed"] = request.seed
    if request.tools:
        body["tools"] = [
            {
                "type": "function",
                "function": {"name": tool.name, "description": tool.description, "parameters": tool.parameters},
            }
            for tool in request.tools
        ]
    return body | settings.extra


def _wire_message(message: Message, unsupported: Unsupported) -> dict[str, Any]:
    if message.original is not None:
        return {name: value for name, value in message.original.items() if name not in unsupported.members}
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {
                "id": call.id,
                "type": "function",
                "function": {"name": call.name, "arguments": returned_arguments(call.arguments)},
            }
            for call in map(within_limits, message.tool_calls)
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _read(reply: dict[str, Any]) -> Completion:
    whole = parsed(_Reply, reply, "choices")
    choice = whole.choices[0]
    message = choice.message
    usage = counted(whole.usage, choice.usage, whole.x_groq.get("usage"), whole.usage_metadata, whole.timings, reply)
    refuse_error(choice.error, usage)
    content = read_content(message.content)
    calls = tuple(
        ToolCall(call.id or f"call_{n}", call.function.name, call.function.arguments)
        for n, call in enumerate(message.tool_calls, 1)
    )
    if message.function_call is not None and not calls:
        calls = (ToolCall("call_1", message.function_call.name, message.function_call.arguments),)
    return Completion(
        text=content.text,
        usage=usage,
        reasoning=message.reasoning_content or message.reasoning or content.reasoning or None,
        tool_calls=calls,
        finish_reason=choice.finish_reason or None,
        model=whole.model or None,
        fingerprint=whole.system_fingerprint or None,
        original=_original(reply["choices"][0]["message"], calls),
        refusal=message.refusal or content.refusal,
        left_out=content.left_out,
    )


def _original(message: dict[str, Any], calls: tuple[ToolCall, ...]) -> dict[str, Any]:
    """The message as received. Only what would be rejected when sent back is changed: its role, the format of its list
    of calls, and invalid calls.
    """
    original = message if message.get("role") == "assistant" else message | {"role": "assistant"}
    if message.get("function_call") and not message.get("tool_calls"):
        entries = [{"type": "function", "function": message["function_call"]}]
        original = {name: value for name, value in original.items() if name != "function_call"}
    else:
        entries = _as_calls(message.get("tool_calls"))
    if not calls:
        return original
    return original | {"tool_calls": [_returned(entry, call) for entry, call in zip(entries, calls, strict=True)]}


def _returned(entry: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    """A call as received, or with what is invalid replaced: a missing id, a long name, arguments that are not JSON."""
    function, cut = as_object(entry.get("function")), within_limits(call)
    arguments = returned_arguments(call.arguments)
    if isinstance(function.get("arguments"), dict) and arguments == call.arguments:
        arguments = function["arguments"]
    if (entry.get("id"), function.get("name"), function.get("arguments")) == (cut.id, cut.name, arguments):
        return entry
    return entry | {"id": cut.id, "function": function | {"name": cut.name, "arguments": arguments}}


DIALECT = Dialect(vendor=OPENAI, path=lambda base: f"{base}/chat/completions", body=_body, read=_read)
