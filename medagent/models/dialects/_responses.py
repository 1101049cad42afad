"""The responses API. Nothing is stored at the provider: every call sends the whole conversation, and the model's
reasoning arrives encrypted so that it can be sent back.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from medagent.models.base import Completion, Message, ToolCall
from medagent.models.dialects.base import (
    ENCRYPTED_REASONING,
    OPENAI,
    ApiRequest,
    Arguments,
    Dialect,
    Text,
    Unsupported,
    as_text,
    counted,
    parsed,
)
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object, objects


class _Item(BaseModel):
    type: Text = ""
    content: Any = None
    summary: Any = None
    call_id: Text = ""
    name: Text = ""
    arguments: Arguments = ""


class _Incomplete(BaseModel):
    reason: Text = ""


class _Reply(BaseModel):
    output: Annotated[list[_Item], BeforeValidator(objects)] = Field(min_length=1)
    status: Text = ""
    usage: Any = None
    incomplete_details: Annotated[_Incomplete, BeforeValidator(as_object)] = _Incomplete()
    model: Text = ""


def _body(request: ApiRequest, settings: ModelSettings, unsupported: Unsupported) -> dict[str, Any]:
    """The API does not support a seed."""
    items = [item for message in request.messages for item in _input_items(message)]
    body: dict[str, Any] = {"model": settings.name, "input": items, "store": False}
    if not unsupported.encrypted_reasoning:
        body["include"] = [ENCRYPTED_REASONING]
    if settings.temperature is not None and not unsupported.temperature:
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


def _input_items(message: Message) -> list[dict[str, Any]]:
    if message.original is not None:
        items: list[dict[str, Any]] = message.original
        return items
    if message.role == "tool":
        return [{"type": "function_call_output", "call_id": message.tool_call_id, "output": message.content}]
    items = []
    if message.content or not message.tool_calls:
        items.append({"role": message.role, "content": message.content})
    items += [
        {"type": "function_call", "call_id": call.id, "name": call.name, "arguments": call.arguments}
        for call in message.tool_calls
    ]
    return items


def _read(reply: dict[str, Any]) -> Completion:
    whole = parsed(_Reply, reply, "output")
    reasoning = [item for item in whole.output if item.type == "reasoning"]
    calls = [item for item in whole.output if item.type == "function_call"]
    ended = whole.incomplete_details.reason or whole.status
    return Completion(
        text="".join(_parts_text(item.content) for item in whole.output if item.type == "message"),
        usage=counted(whole.usage),
        reasoning="\n".join(as_text(i.content) or as_text(i.summary) for i in reasoning).strip() or None,
        tool_calls=tuple(ToolCall(c.call_id or f"call_{n}", c.name, c.arguments) for n, c in enumerate(calls, 1)),
        finish_reason="tool_calls" if calls and ended in ("", "completed") else ended or "stop",
        model=whole.model or None,
        original=_original(objects(reply["output"])),
    )


def _original(output: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The items as received. Only a call's missing id is added, because its result needs one."""
    number, items = 0, []
    for item in output:
        if item.get("type") == "function_call":
            number += 1
            if not as_text(item.get("call_id")):
                item = item | {"call_id": f"call_{number}"}
        items.append(item)
    return items


def _parts_text(content: Any) -> str:
    """The text of a message's parts. A refusal is a separate kind of part."""
    if not isinstance(content, list):
        return as_text(content)
    return "".join(
        as_text(p["refusal"] if isinstance(p, dict) and p.get("type") == "refusal" and "refusal" in p else p)
        for p in content
    )


DIALECT = Dialect(vendor=OPENAI, path=lambda base: f"{base}/responses", body=_body, read=_read)
