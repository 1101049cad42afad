"""Providers as strict as the real ones: what they want back of their own messages must come back as it was.

A provider is given to `ModelServer`. It turns a request of its API into one of chat completions for the reply function,
dresses the function's reply with what the real one sends (reasoning, signatures, encrypted content), remembers that,
and names what is wrong with a later request, in the real one's words; the server answers 400 then.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Protocol

Json = dict[str, Any]


class Provider(Protocol):
    """One provider's API."""

    api: str
    """As in `--api`."""

    def problem(self, path: str, headers: dict[str, str], body: Json) -> str | None:
        """What is wrong with a request."""
        ...

    def refusal(self, words: str) -> Any:
        """The body of a 400."""
        ...

    def chat(self, body: Json) -> Json:
        """A request as one of chat completions."""
        ...

    def reply(self, completion: Json, body: Json) -> Json:
        """A chat completion as this provider's reply to the request `body`."""
        ...


@dataclass
class ChatProvider:
    """Chat completions; `kept` holds the assistant's messages as they were sent, by the id of their first call."""

    api: str = "chat"
    kept: dict[str, Json] = field(default_factory=dict)

    def problem(self, path: str, headers: dict[str, str], body: Json) -> str | None:
        if not path.endswith("/chat/completions"):
            return f"unknown path {path}"
        messages = body["messages"]
        for number, message in enumerate(messages):
            if message["role"] != "assistant" or not message.get("tool_calls"):
                continue
            calls = [call["id"] for call in message["tool_calls"]]
            results = [m.get("tool_call_id") for m in messages[number + 1 : number + 1 + len(calls)]]
            if results != calls:
                return f"tool_calls of messages[{number}] must be followed by tool messages for {calls}, got {results}"
            if message != self.kept[calls[0]]:
                return self.words(number, message)
        return None

    def words(self, number: int, message: Json) -> str:
        return f"messages[{number}] is not as it was sent"

    def refusal(self, words: str) -> Any:
        return {"error": {"message": words, "type": "invalid_request_error", "param": None, "code": None}}

    def chat(self, body: Json) -> Json:
        return body

    def reply(self, completion: Json, body: Json) -> Json:
        message = self.dress(completion["choices"][0]["message"], len(self.kept))
        if message.get("tool_calls"):
            first = message["tool_calls"][0]
            for call in message["tool_calls"]:
                call["id"] = f"{call['id']}_{len(self.kept)}"
            self.kept[first["id"]] = json.loads(json.dumps(message))
        return completion

    def dress(self, message: Json, number: int) -> Json:
        return message


class DeepSeek(ChatProvider):
    """The thinking mode of V3.2 and later."""

    def dress(self, message: Json, number: int) -> Json:
        message["reasoning_content"] = f"The chart must be read. ({number})"
        return message

    def words(self, number: int, message: Json) -> str:
        return "The `reasoning_content` in the thinking mode must be passed back to the API."


class Kimi(ChatProvider):
    """K2 Thinking and later; it sends nulls and members that no other provider knows."""

    def dress(self, message: Json, number: int) -> Json:
        message.update(
            reasoning_content=f"Look first. ({number})", refusal=None, annotations=[], kimi_trace={"n": number}
        )
        return message

    def words(self, number: int, message: Json) -> str:
        return f"thinking is enabled but reasoning_content is missing in assistant tool call message at index {number}"


class Gemini(ChatProvider):
    """Gemini 3 over its OpenAI endpoint: the first call of a step is signed."""

    def dress(self, message: Json, number: int) -> Json:
        for call in message.get("tool_calls", [])[:1]:
            call["extra_content"] = {"google": {"thought_signature": f"CvcQ+signed/{number}=="}}
        return message

    def words(self, number: int, message: Json) -> str:
        return (
            "Function call is missing a thought_signature in functionCall parts. This is required for tools to work "
            f"correctly, and missing thought_signature may lead to degraded model performance. (position {number})"
        )

    def refusal(self, words: str) -> Any:
        return [{"error": {"code": 400, "message": words, "status": "INVALID_ARGUMENT"}}]


@dataclass
class Responses:
    """OpenAI's responses API with a reasoning model and nothing stored."""

    api: str = "responses"
    reasoning: dict[str, Json] = field(default_factory=dict)
    """The reasoning item before each function call, by the call's id."""

    def problem(self, path: str, headers: dict[str, str], body: Json) -> str | None:
        if not path.endswith("/responses"):
            return f"unknown path {path}"
        if body.get("store") is not False or "seed" in body:
            return "this double stores nothing and knows no seed"
        items = body["input"]
        for before, item in zip([{}, *items], items, strict=False):
            if item.get("type") == "reasoning" and "encrypted_content" not in item:
                return f"Item with id '{item['id']}' not found. Items are not persisted when `store` is set to false."
            if item.get("type") == "function_call" and before.get("type") != "function_call":
                wanted = self.reasoning[item["call_id"]]
                if before != wanted:
                    return (
                        f"Item '{item.get('id')}' of type 'function_call' was provided without its required "
                        f"'reasoning' item: '{wanted['id']}'."
                    )
        return None

    def refusal(self, words: str) -> Any:
        return {"error": {"message": words, "type": "invalid_request_error", "param": "input", "code": None}}

    def chat(self, body: Json) -> Json:
        messages: list[Json] = []
        for item in body["input"]:
            if item.get("type") == "function_call_output":
                messages.append({"role": "tool", "tool_call_id": item["call_id"], "content": item["output"]})
            elif item.get("type") in (None, "message"):
                messages.append({"role": item["role"], "content": item["content"]})
            elif item["type"] == "function_call":
                call = {"id": item["call_id"], "function": {"name": item["name"], "arguments": item["arguments"]}}
                messages.append({"role": "assistant", "content": None, "tool_calls": [call]})
        return {"model": body["model"], "messages": messages}

    def reply(self, completion: Json, body: Json) -> Json:
        message, number = completion["choices"][0]["message"], len(self.reasoning)
        thought: Json = {"id": f"rs_{number}", "type": "reasoning", "summary": []}
        if "reasoning.encrypted_content" in body.get("include", []):
            thought["encrypted_content"] = f"gAAAA{number}"
        output: list[Json] = [thought]
        for place, call in enumerate(message.get("tool_calls") or []):
            name = f"call_{number}_{place}"
            output.append(
                {"id": f"fc_{number}_{place}", "type": "function_call", "status": "completed", "call_id": name}
                | call["function"]
            )
            self.reasoning[name] = thought
        if message.get("content"):
            content = [{"type": "output_text", "text": message["content"], "annotations": []}]
            output.append(
                {
                    "id": f"msg_{number}",
                    "type": "message",
                    "role": "assistant",
                    "status": "completed",
                    "content": content,
                }
            )
        return {
            "object": "response",
            "status": "completed",
            "model": "oracle",
            "output": output,
            "error": None,
            "usage": {"input_tokens": 10, "output_tokens": 5, "output_tokens_details": {"reasoning_tokens": 2}},
        }


@dataclass
class Anthropic:
    """The Messages API with thinking: the request must fit the SDK's types, the reply is made of them."""

    api: str = "anthropic"
    kept: dict[str, list[Json]] = field(default_factory=dict)
    """The assistant's blocks as they were sent, by the id of their first tool use."""

    def problem(self, path: str, headers: dict[str, str], body: Json) -> str | None:
        from anthropic.types.message_create_params import MessageCreateParamsNonStreaming
        from pydantic import TypeAdapter, ValidationError

        if not path.endswith("/v1/messages"):
            return f"unknown path {path}"
        if "anthropic-version" not in headers or "authorization" in headers:
            return "anthropic-version: header is required, and x-api-key instead of authorization"
        if unknown := body.keys() - MessageCreateParamsNonStreaming.__annotations__.keys() - _inherited():
            return f"{min(unknown)}: Extra inputs are not permitted"
        try:
            TypeAdapter(MessageCreateParamsNonStreaming).validate_python(body)
        except ValidationError as error:
            first = error.errors()[0]
            return f"{'.'.join(map(str, first['loc']))}: {first['msg']}"
        roles = [message["role"] for message in body["messages"]]
        if roles != ["user", "assistant"] * (len(roles) // 2) + ["user"] * (len(roles) % 2):
            return "messages: roles must alternate between `user` and `assistant`"
        return next(
            filter(None, map(self._turn_problem, range(len(roles)), body["messages"], body["messages"][1:])), None
        )

    def _turn_problem(self, number: int, turn: Json, following: Json) -> str | None:
        blocks = turn["content"] if isinstance(turn["content"], list) else []
        uses = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not uses:
            return None
        results = [b["tool_use_id"] for b in following["content"][: len(uses)] if b["type"] == "tool_result"]
        if results != uses:
            return (
                f"messages.{number}: `tool_use` ids were found without `tool_result` blocks immediately after: {uses}"
            )
        if blocks != self.kept[uses[0]]:
            return (
                f"messages.{number}.content.0.type: Expected `thinking` or `redacted_thinking`, but found `tool_use`. "
                "When `thinking` is enabled, a final `assistant` message must start with a thinking block"
            )
        return None

    def refusal(self, words: str) -> Any:
        return {"type": "error", "error": {"type": "invalid_request_error", "message": words}, "request_id": "req_1"}

    def chat(self, body: Json) -> Json:
        messages: list[Json] = []
        for turn in body["messages"]:
            for block in turn["content"]:
                if block["type"] == "tool_result":
                    result = {"role": "tool", "tool_call_id": block["tool_use_id"], "content": block["content"]}
                    messages.append(result)
                elif block["type"] == "text":
                    messages.append({"role": turn["role"], "content": block["text"]})
        return {"model": body["model"], "messages": messages}

    def reply(self, completion: Json, body: Json) -> Json:
        from anthropic.types import Message, TextBlock, ThinkingBlock, ToolUseBlock, Usage

        sent, number = completion["choices"][0]["message"], len(self.kept)
        thought = ThinkingBlock(type="thinking", thinking=f"Look first. ({number})", signature=f"EqQB/{number}==")
        uses = [
            ToolUseBlock(
                type="tool_use",
                id=f"toolu_{number}_{place}",
                name=call["function"]["name"],
                input=json.loads(call["function"]["arguments"]),
            )
            for place, call in enumerate(sent.get("tool_calls") or [])
        ]
        text = [TextBlock(type="text", text=sent["content"])] if sent.get("content") else []
        usage = Usage(input_tokens=3, output_tokens=5, cache_read_input_tokens=4, cache_creation_input_tokens=3)
        message = Message(
            id=f"msg_{number}",
            type="message",
            role="assistant",
            model=body["model"],
            content=[thought, *text, *uses],
            stop_reason="tool_use" if uses else "end_turn",
            stop_sequence=None,
            usage=usage,
        )
        reply: Json = json.loads(message.to_json(exclude_none=False))
        if uses:
            self.kept[uses[0].id] = reply["content"]
        return reply


def _inherited() -> set[str]:
    from anthropic.types.message_create_params import MessageCreateParamsBase

    return set(MessageCreateParamsBase.__annotations__)


PROVIDERS = {
    "DeepSeek": DeepSeek,
    "Kimi": Kimi,
    "Gemini": Gemini,
    "Responses": Responses,
    "Anthropic": Anthropic,
}
