"""Anthropic's Messages API: system texts apart, tool results in a user's message, content in blocks.

Two places of a request are marked for the provider's prompt cache: the end of what all episodes share (tools and system
texts) and the end of the conversation so far, which the next call of the episode repeats.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator

from medagent.models.base import Completion, Message, ToolCall
from medagent.models.calls import returned_arguments, within_limits
from medagent.models.content import read_content
from medagent.models.dialects.base import (
    ANTHROPIC,
    ApiRequest,
    Count,
    Dialect,
    Text,
    Unsupported,
    parsed,
    usage_of,
)
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object, json_value, objects

MAX_TOKENS = 16_384
"""The API requires a limit. This one leaves room for thinking; every model since Claude 3.7 allows it."""

_CACHED = {"cache_control": {"type": "ephemeral"}}


class _Usage(BaseModel):
    input_tokens: Count = None
    output_tokens: Count = None
    cache_read_input_tokens: Count = None
    cache_creation_input_tokens: Count = None


class _Block(BaseModel):
    type: Text = ""
    id: Text = ""
    name: Text = ""
    input: Text = "{}"


def _as_blocks(value: Any) -> Any:
    """The blocks of a list; some gateways include nulls."""
    return objects(value) if isinstance(value, list) else value


class _Reply(BaseModel):
    content: Annotated[list[_Block], BeforeValidator(_as_blocks)]
    usage: Annotated[_Usage, BeforeValidator(as_object)] = _Usage()
    stop_reason: Text = ""
    model: Text = ""


def _body(request: ApiRequest, settings: ModelSettings, unsupported: Unsupported) -> dict[str, Any]:
    """The API does not support a seed."""
    body: dict[str, Any] = {
        "model": settings.name,
        "max_tokens": settings.max_tokens or MAX_TOKENS,
        "messages": _turns(request.messages),
    }
    if settings.temperature is not None and not unsupported.temperature:
        body["temperature"] = settings.temperature
    system = [_text(message.content) for message in request.messages if message.role == "system" and message.content]
    tools: list[dict[str, Any]] = [
        {"name": tool.name, "description": tool.description, "input_schema": tool.parameters} for tool in request.tools
    ]
    if shared := system or tools:  # the cache covers tools, system and messages in this order
        shared[-1] |= _CACHED
    if system:
        body["system"] = system
    if tools:
        body["tools"] = tools
    return body | settings.extra


def _turns(messages: Sequence[Message]) -> list[dict[str, Any]]:
    """User's and assistant's messages in turn: what follows each other on one side is one message."""
    turns: list[dict[str, Any]] = []
    for message in messages:
        if message.role == "system":
            continue
        role = "assistant" if message.role == "assistant" else "user"
        blocks = _blocks(message)
        if turns and turns[-1]["role"] == role:
            turns[-1]["content"] += blocks
        elif blocks:  # the API rejects a message without content
            turns.append({"role": role, "content": [*blocks]})
    if turns and turns[-1]["role"] == "user":
        turns[-1]["content"][-1] |= _CACHED
    return turns


def _blocks(message: Message) -> list[dict[str, Any]]:
    if message.original:
        blocks: list[dict[str, Any]] = message.original
        return blocks
    if message.role == "tool":
        return [{"type": "tool_result", "tool_use_id": message.tool_call_id, "content": message.content}]
    blocks = [_text(message.content)] if message.content else []  # the API rejects empty texts
    return blocks + [
        {"type": "tool_use", "id": call.id, "name": call.name, "input": _input(call)}
        for call in map(within_limits, message.tool_calls)
    ]


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _read(reply: dict[str, Any]) -> Completion:
    whole = parsed(_Reply, reply, "content")
    usage, blocks = whole.usage, objects(reply["content"])
    read, written = usage.cache_read_input_tokens or 0, usage.cache_creation_input_tokens or 0
    content = read_content([block for block in blocks if block.get("type") != "tool_use"])
    calls = tuple(
        ToolCall(block.id or f"call_{number}", block.name, block.input)
        for number, block in enumerate((block for block in whole.content if block.type == "tool_use"), 1)
    )
    return Completion(
        text=content.text,
        usage=usage_of(
            None if usage.input_tokens is None else usage.input_tokens + read + written,
            usage.output_tokens,
            cached=read,
            cache_written=written,
        ),
        reasoning=content.reasoning or None,
        tool_calls=calls,
        finish_reason=whole.stop_reason or None,
        model=whole.model or None,
        original=_original(blocks, calls),
        refusal=content.refusal,
        left_out=content.left_out,
    )


def _original(blocks: list[dict[str, Any]], calls: tuple[ToolCall, ...]) -> list[dict[str, Any]]:
    """The blocks as received. Only invalid calls are changed: a missing id, a long name, an input that is no object."""
    following = iter(calls)
    return [_returned(block, next(following)) if block.get("type") == "tool_use" else block for block in blocks]


def _returned(block: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    cut = within_limits(call)
    return block | {"id": cut.id, "name": cut.name, "input": _input(call)}


def _input(call: ToolCall) -> Any:
    """The arguments as the API's object."""
    return json_value(returned_arguments(call.arguments))


def _path(base: str) -> str:
    """Users give base URLs of this API with and without the version."""
    return f"{base}/messages" if base.endswith("/v1") else f"{base}/v1/messages"


DIALECT = Dialect(
    vendor=ANTHROPIC,
    path=_path,
    body=_body,
    read=_read,
    key_header=lambda key: {"x-api-key": key},
    headers=(("anthropic-version", "2023-06-01"),),
)
