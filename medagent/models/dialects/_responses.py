"""The responses API. Nothing is stored at the provider: every call sends the whole conversation, and the model's
reasoning arrives encrypted so that it can be sent back.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BaseModel, BeforeValidator, Field

from medagent.models.base import Completion, Message, ToolCall
from medagent.models.calls import returned_arguments, within_limits
from medagent.models.content import joined, read_content, reasoning_of
from medagent.models.dialects.base import (
    ENCRYPTED_REASONING,
    OPENAI,
    ApiRequest,
    Dialect,
    Text,
    Unsupported,
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
    arguments: Text = ""


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
        {
            "type": "function_call",
            "call_id": call.id,
            "name": call.name,
            "arguments": returned_arguments(call.arguments),
        }
        for call in map(within_limits, message.tool_calls)
    ]
    return items


def _read(reply: dict[str, Any]) -> Completion:
    whole = parsed(_Reply, reply, "output")
    contents = [read_content(item.content) for item in whole.output if item.type == "message"]
    reasoning = [reasoning_of(item.model_dump()) for item in whole.output if item.type == "reasoning"]
    calls = tuple(
        ToolCall(item.call_id or f"call_{number}", item.name, item.arguments)
        for number, item in enumerate((item for item in whole.output if item.type == "function_call"), 1)
    )
    ended = whole.incomplete_details.reason or whole.status
    return Completion(
        text="".join(content.text for content in contents),
        usage=counted(whole.usage),
        reasoning=joined([*reasoning, *(content.reasoning for content in contents)]) or None,
        tool_calls=calls,
        finish_reason="tool_calls" if calls and ended in ("", "completed") else ended or "stop",
        model=whole.model or None,
        original=_original(objects(reply["output"]), calls),
        refusal=joined(content.refusal for content in contents),
        left_out=tuple(kind for content in contents for kind in content.left_out),
    )


def _original(output: list[dict[str, Any]], calls: tuple[ToolCall, ...]) -> list[dict[str, Any]]:
    """The items as received. Only invalid calls are changed: a missing id, a long name, arguments that are not JSON."""
    following = iter(calls)
    return [_returned(item, next(following)) if item.get("type") == "function_call" else item for item in output]


def _returned(item: dict[str, Any], call: ToolCall) -> dict[str, Any]:
    cut = within_limits(call)
    return item | {"call_id": cut.id, "name": cut.name, "arguments": returned_arguments(call.arguments)}


DIALECT = Dialect(vendor=OPENAI, path=lambda base: f"{base}/responses", body=_body, read=_read)
