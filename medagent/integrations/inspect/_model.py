"""Inspect's model instead of an endpoint: a unit's requests go to the model of the evaluation.

So Inspect counts, retries, caches and logs the calls. medagent's own transport is not used.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import ClassVar

from inspect_ai.model import (
    ChatMessage,
    ChatMessageAssistant,
    ChatMessageSystem,
    ChatMessageTool,
    ChatMessageUser,
    ContentReasoning,
    GenerateConfig,
    ModelOutput,
    get_model,
)
from inspect_ai.tool import ToolInfo

from medagent.core.errors import ContextLimitError, RefusedError
from medagent.models.base import Completion, Message, Model, Tool, ToolCall, Usage

FINISH_REASONS = {"max_tokens": "length"}
"""Inspect's stop reasons whose names differ from the finish reasons of chat completions."""


class InspectModel(Model):
    """The evaluated model."""

    role: ClassVar[str | None] = None

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`. Raises RefusedError, ContextLimitError. Inspect handles all other failures."""
        model = get_model(role=self.role) if self.role else get_model()
        offered: list[ToolInfo] = []
        if tools:
            from medagent.integrations.inspect.tools import parameters

            offered = [
                ToolInfo(name=tool.name, description=tool.description, parameters=parameters(tool)) for tool in tools
            ]
        output = await model.generate(list(map(_sent, messages)), tools=offered, config=GenerateConfig(seed=seed))
        return completion(output)


class InspectGrader(InspectModel):
    """The model with the role `grader` (`--model-role grader=NAME`), otherwise the evaluated one."""

    role = "grader"


def completion(output: ModelOutput) -> Completion:
    """Inspect's output as a Completion. Raises RefusedError and ContextLimitError if the reply is missing."""
    if output.stop_reason == "content_filter":
        raise RefusedError(output.error or "the provider's content filter withheld the reply")
    if output.stop_reason == "model_length":
        raise ContextLimitError(output.error or "the conversation no longer fits the model")
    message, usage = output.message, output.usage
    return Completion(
        output.completion,
        Usage(
            (usage.input_tokens + (usage.input_tokens_cache_read or 0) + (usage.input_tokens_cache_write or 0)),
            usage.output_tokens,
            usage.input_tokens_cache_read or 0,
            usage.reasoning_tokens or 0,
            usage.input_tokens_cache_write or 0,
        )
        if usage
        else Usage(known=False),
        reasoning=thought(message),
        tool_calls=tuple(
            ToolCall(call.id, call.function, json.dumps(call.arguments)) for call in message.tool_calls or ()
        ),
        finish_reason=FINISH_REASONS.get(output.stop_reason, output.stop_reason),
        model=output.model,
        cost=usage.total_cost if usage else None,
        original=message,
    )


def thought(message: ChatMessageAssistant) -> str | None:
    """The message's reasoning; None if there is none."""
    if isinstance(message.content, str):
        return None
    parts = [part.reasoning for part in message.content if isinstance(part, ContentReasoning)]
    return "\n".join(parts) or None


def _sent(message: Message) -> ChatMessage:
    """A message for Inspect. The model's own messages are sent back unchanged, with all their content."""
    if isinstance(message.original, ChatMessageAssistant):
        return message.original
    match message.role:
        case "system":
            return ChatMessageSystem(content=message.content)
        case "assistant":
            return ChatMessageAssistant(content=message.content)
        case "tool":
            return ChatMessageTool(content=message.content, tool_call_id=message.tool_call_id)
        case _:
            return ChatMessageUser(content=message.content)
