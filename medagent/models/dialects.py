"""The two ways to ask an OpenAI-compatible server: chat completions and responses. Bodies out, completions in.

Servers differ in what they send back, so reading is lenient where nothing is lost: content that is no text becomes
text, counts that are no counts become 0. A reply without a message is `EndpointFailure`: asking again may help.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Protocol, TypeVar

from pydantic import BaseModel, BeforeValidator, Field, ValidationError

from medagent.models.base import Completion, Message, Tool, ToolCall, Usage
from medagent.models.retry import EndpointFailure
from medagent.models.settings import ModelSettings


@dataclass(slots=True)
class Refusals:
    """What the endpoint has refused once and is not sent again."""

    max_tokens: bool = False
    """Chat completions: the limit goes by `max_completion_tokens` instead."""
    temperature: bool = False
    seed: bool = False


@dataclass(frozen=True, slots=True)
class Request:
    """What one completion is asked with."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    seed: int | None


class Dialect(Protocol):
    """One API of an endpoint."""

    path: str

    def body(self, request: Request, settings: ModelSettings, refusals: Refusals) -> dict[str, Any]:
        """The JSON body to send."""
        ...

    def read(self, reply: dict[str, Any]) -> Completion:
        """The completion in a JSON reply. Raises EndpointFailure where there is none."""
        ...


def as_text(content: Any) -> str:
    """Content as text: parts joined, null as nothing, anything else as its JSON.

    Lone surrogates, which JSON can carry and UTF-8 cannot, become U+FFFD.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(as_text(part) for part in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        content = content["text"]
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False)
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")


def _count(value: Any) -> int:
    return value if isinstance(value, int) and value > 0 else 0


def _object(value: Any) -> Any:
    return value if isinstance(value, dict) else {}


def _objects(value: Any) -> Any:
    return [item for item in value if isinstance(item, dict)] if isinstance(value, list) else []


ParsedReply = TypeVar("ParsedReply", bound=BaseModel)
Count = Annotated[int, BeforeValidator(_count)]
Text = Annotated[str, BeforeValidator(as_text)]


class _Details(BaseModel):
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0


class _ChatUsage(BaseModel):
    prompt_tokens: Count = 0
    completion_tokens: Count = 0
    prompt_tokens_details: Annotated[_Details, BeforeValidator(_object)] = _Details()
    completion_tokens_details: Annotated[_Details, BeforeValidator(_object)] = _Details()
    prompt_cache_hit_tokens: Count = 0  # DeepSeek's name for the cached ones


class _Function(BaseModel):
    name: Text = ""
    arguments: Text = ""


class _ChatToolCall(BaseModel):
    id: Text = ""
    function: Annotated[_Function, BeforeValidator(_object)] = _Function()


class _ChatMessage(BaseModel):
    content: Any = None
    refusal: Text = ""
    reasoning_content: Text = ""
    reasoning: Text = ""
    tool_calls: Annotated[list[_ChatToolCall], BeforeValidator(_objects)] = []


class _Choice(BaseModel):
    message: _ChatMessage
    finish_reason: Text = ""


class _ChatReply(BaseModel):
    choices: list[_Choice] = Field(min_length=1)
    usage: Annotated[_ChatUsage, BeforeValidator(_object)] = _ChatUsage()


class ChatDialect:
    """Chat completions, with function tools."""

    path = "/chat/completions"

    def body(self, request: Request, settings: ModelSettings, refusals: Refusals) -> dict[str, Any]:
        """The JSON body to send."""
        body: dict[str, Any] = {"model": settings.name, "messages": [_chat_message(m) for m in request.messages]}
        if settings.temperature is not None and not refusals.temperature:
            body["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            body["max_completion_tokens" if refusals.max_tokens else "max_tokens"] = settings.max_tokens
        if request.seed is not None and not refusals.seed:
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

    def read(self, reply: dict[str, Any]) -> Completion:
        """The completion in a JSON reply. Raises EndpointFailure where there is none."""
        parsed = _parse(_ChatReply, reply, "choices")
        choice, usage = parsed.choices[0], parsed.usage
        message = choice.message
        content, thoughts = _split_thinking(message.content)
        return Completion(
            text=as_text(content) or message.refusal,
            usage=Usage(
                prompt=usage.prompt_tokens,
                completion=usage.completion_tokens,
                cached=usage.prompt_tokens_details.cached_tokens or usage.prompt_cache_hit_tokens,
                reasoning=usage.completion_tokens_details.reasoning_tokens,
            ),
            reasoning=message.reasoning_content or message.reasoning or thoughts or None,
            tool_calls=tuple(
                ToolCall(call.id or f"call_{n}", call.function.name, call.function.arguments)
                for n, call in enumerate(message.tool_calls, 1)
            ),
            finish_reason=choice.finish_reason or None,
        )


def _chat_message(message: Message) -> dict[str, Any]:
    wire: dict[str, Any] = {"role": message.role, "content": message.content}
    if message.tool_calls:
        wire["content"] = message.content or None
        wire["tool_calls"] = [
            {"id": call.id, "type": "function", "function": {"name": call.name, "arguments": call.arguments}}
            for call in message.tool_calls
        ]
    if message.tool_call_id is not None:
        wire["tool_call_id"] = message.tool_call_id
    return wire


def _split_thinking(content: Any) -> tuple[Any, str]:
    """Mistral's reasoning models return their thoughts as parts of the content: `{"type": "thinking", …}`."""
    if not isinstance(content, list):
        return content, ""
    thoughts = [p for p in content if isinstance(p, dict) and p.get("type") == "thinking"]
    return [p for p in content if p not in thoughts], as_text([p.get("thinking") for p in thoughts])


class _ResponsesUsage(BaseModel):
    input_tokens: Count = 0
    output_tokens: Count = 0
    input_tokens_details: Annotated[_Details, BeforeValidator(_object)] = _Details()
    output_tokens_details: Annotated[_Details, BeforeValidator(_object)] = _Details()


class _Item(BaseModel):
    type: Text = ""
    content: Any = None
    summary: Any = None
    call_id: Text = ""
    name: Text = ""
    arguments: Text = ""


class _Incomplete(BaseModel):
    reason: Text = ""


class _ResponsesReply(BaseModel):
    output: list[_Item] = Field(min_length=1)
    usage: Annotated[_ResponsesUsage, BeforeValidator(_object)] = _ResponsesUsage()
    incomplete_details: Annotated[_Incomplete, BeforeValidator(_object)] = _Incomplete()


class ResponsesDialect:
    """The responses API. Nothing is stored at the provider: every call sends the whole conversation."""

    path = "/responses"

    def body(self, request: Request, settings: ModelSettings, refusals: Refusals) -> dict[str, Any]:
        """The JSON body to send. The API knows no seed."""
        items = [item for message in request.messages for item in _input_items(message)]
        body: dict[str, Any] = {"model": settings.name, "input": items, "store": False}
        if settings.temperature is not None and not refusals.temperature:
            body["temperature"] = settings.temperature
        if settings.max_tokens is not None:
            body["max_output_tokens"] = settings.max_tokens
        if request.tools:
            body["tools"] = [
                {
                    "type": "function",
                    "name": tool.name,
                    "description": tool.description,
                    "parameters": tool.parameters,
                    "strict": False,
                }
                for tool in request.tools
            ]
        return body | settings.extra

    def read(self, reply: dict[str, Any]) -> Completion:
        """The completion in a JSON reply. Raises EndpointFailure where there is none."""
        parsed = _parse(_ResponsesReply, reply, "output")
        usage = parsed.usage
        reasoning = [item for item in parsed.output if item.type == "reasoning"]
        calls = [item for item in parsed.output if item.type == "function_call"]
        return Completion(
            text="".join(_parts_text(item.content) for item in parsed.output if item.type == "message"),
            usage=Usage(
                prompt=usage.input_tokens,
                completion=usage.output_tokens,
                cached=usage.input_tokens_details.cached_tokens,
                reasoning=usage.output_tokens_details.reasoning_tokens,
            ),
            reasoning="\n".join(as_text(i.content) or as_text(i.summary) for i in reasoning).strip() or None,
            tool_calls=tuple(ToolCall(c.call_id or f"call_{n}", c.name, c.arguments) for n, c in enumerate(calls, 1)),
            finish_reason=parsed.incomplete_details.reason or ("tool_calls" if calls else "stop"),
        )


def _input_items(message: Message) -> list[dict[str, Any]]:
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}]
    items: list[dict[str, Any]] = []
    if message.content or not message.tool_calls:
        items.append({"role": message.role, "content": message.content})
    items += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return items


def _parts_text(content: Any) -> str:
    """The text of a message's parts; a refusal is a part of its own kind."""
    if not isinstance(content, list):
        return as_text(content)
    return "".join(
        as_text(p["refusal"] if isinstance(p, dict) and p.get("type") == "refusal" and "refusal" in p else p)
        for p in content
    )


def _parse(model: type[ParsedReply], reply: dict[str, Any], field: str) -> ParsedReply:
    if error := reply.get("error"):
        raise EndpointFailure(f"the reply is an error: {as_text(_object(error).get('message') or error)[:300]}")
    try:
        return model.model_validate(reply)
    except ValidationError as invalid:
        if not reply.get(field):
            raise EndpointFailure(f"the reply has no {field}") from None
        place = ".".join(str(part) for part in invalid.errors()[0]["loc"])
        raise EndpointFailure(f"the reply's {place}: {invalid.errors()[0]['msg']}") from None
