"""What a chat model is to the rest of medagent: messages in, one completion out, with what it cost.

Every benchmark talks to models through `ChatModel`; retries, rate limits and dialects are behind it, so an agent sees
either a completion or one typed error (`medagent.errors`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Literal, Protocol

from medagent.models.limiter import EndpointStats

if TYPE_CHECKING:
    from medagent.models.settings import ModelSettings

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One tool call of a completion; `arguments` is the raw JSON text, which may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. `tool_calls` on an assistant's, `tool_call_id` on a tool's reply."""

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function offered to the model; `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call or a sum of calls. `cached` is a part of `prompt`, `reasoning` a part of `completion`."""

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
        )

    @property
    def total(self) -> int:
        """Prompt and completion tokens."""
        return self.prompt + self.completion


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply of a model. `text` is what may be dispatched; `reasoning` is what the endpoint returned apart.

    `cost` is in US dollars by the price table, None where the price is unknown. `retries` counts the attempts before
    the one that succeeded, `waited` the seconds spent waiting between them, `latency` the seconds of the good one.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    cost: float | None = None
    latency: float = 0.0
    retries: int = 0
    waited: float = 0.0


class ChatModel(Protocol):
    """A chat endpoint. Implementations: `openai.py` (any OpenAI-compatible server) and `scripted.py` (a double)."""

    name: str

    @property
    def stats(self) -> EndpointStats:
        """What goes on at the endpoint, for the progress display."""
        ...

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        seed: int | None = None,
        session: str = "",
    ) -> Completion:
        """One completion. `session` names the episode: its calls stay with one replica.

        Raises ModelError, ContextLimitError (this call) or StopRunError (the whole run).
        """
        ...

    async def aclose(self) -> None:
        """Close connections."""
        ...


class Model:
    """The base of chat models of one's own (`--model package.module:Class`): override `complete`."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.stats = EndpointStats(limit=0)

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`."""
        raise NotImplementedError(f"{type(self).__name__} has no `complete`")

    async def aclose(self) -> None:
        """Nothing to close."""
