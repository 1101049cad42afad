"""The interface of a chat model: messages in, one completion with its cost out.

All benchmarks call models through `ChatModel`. It hides retries, rate limits and dialects, so an agent gets either a
completion or one typed error (`medagent.core.errors`).
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
    """One tool call in a completion. `arguments` is the unparsed JSON text, which may be malformed."""

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """A tool call by a model or an agent. `id` is empty if only the name and the arguments are known.

    `reply` is the number, from 0, of the model's reply with the call: calls in one reply are parallel. `text` is the
    model's text next to its calls; the first call carries it. `too_long` says that the name or the id was cut because
    it had `characters`, which are over its limit.
    """

    name: str
    arguments: str
    id: str = ""
    reply: int | None = None
    text: str | None = None
    too_long: Literal["name", "id"] | None = None
    characters: int | None = None

    @property
    def written(self) -> str:
        """The call as the text of a message, for calls that are not an action: `name(arguments)`."""
        return f"{self.name}({self.arguments})"


@dataclass(frozen=True, slots=True)
class Message:
    """One message of a conversation. An assistant's may contain `tool_calls`; a tool's reply contains `tool_call_id`.

    `original` is an assistant's message in its provider's format. It is sent back unchanged, because thinking models
    reject a conversation without their reasoning, signatures or unknown fields.
    """

    role: Role
    content: str
    tool_calls: tuple[ToolCall, ...] = ()
    tool_call_id: str | None = None
    original: Any = None


@dataclass(frozen=True, slots=True)
class Tool:
    """A function offered to the model. `parameters` is its JSON Schema."""

    name: str
    description: str
    parameters: dict[str, Any]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens of one call. `cached` and `cache_written` (read from and written to the provider's prompt cache) are
    included in `prompt`; `reasoning` is included in `completion`. `unreported` is output that appears only in the
    provider's total. `known` is False if the provider's counts do not allow a cost to be computed.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    reasoning: int = 0
    cache_written: int = 0
    unreported: int = 0
    known: bool = True

    @property
    def output(self) -> int:
        """The generated tokens, which are billed as output."""
        return self.completion + self.unreported

    @property
    def total(self) -> int:
        """Prompt and output tokens."""
        return self.prompt + self.output

    def __add__(self, other: Usage) -> Usage:
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.reasoning + other.reasoning,
            self.cache_written + other.cache_written,
            self.unreported + other.unreported,
            self.known and other.known,
        )


@dataclass(frozen=True, slots=True)
class Completion:
    """One reply of a model. `text` is the message to act on; `reasoning` is what the endpoint returned separately.

    `finish_reason` uses the terms of chat completions for every API: `stop`, `length`, `tool_calls`, `content_filter`
    (see the table in `endings.py`). None: the provider sent none. `model` and `fingerprint` are the model's name and
    the backend's version from the provider. `cost` is in US dollars by the price table; None if price or usage is
    unknown. `started` and `ended` are the times of the successful attempt (ISO 8601), `latency` its seconds. `retries`
    counts the attempts before it, `waited` the seconds of waiting between them. `original`: see `Message`. `vectors`
    are the embeddings from an embedding endpoint, one per text. `reused`: the reply comes from a cache and cost
    nothing. `estimated_tokens` are the tokens in `usage` of requests without a complete reply, which are estimates;
    their cost is in `cost`. `refusal` is the text with which
    the model refused to answer. `left_out` are the types of the parts of the reply that are neither text nor reasoning.
    """

    text: str
    usage: Usage = field(default_factory=Usage)
    reasoning: str | None = None
    tool_calls: tuple[ToolCall, ...] = ()
    finish_reason: str | None = None
    model: str | None = None
    fingerprint: str | None = None
    cost: float | None = None
    started: str = ""
    ended: str = ""
    latency: float = 0.0
    retries: int = 0
    waited: float = 0.0
    original: Any = None
    vectors: tuple[tuple[float, ...], ...] = ()
    reused: bool = False
    estimated_tokens: int = 0
    refusal: str = ""
    left_out: tuple[str, ...] = ()

    @property
    def estimated(self) -> bool:
        """Whether the usage contains estimates."""
        return self.estimated_tokens > 0

    @property
    def message(self) -> Message:
        """The reply as the assistant's message in the conversation."""
        return Message("assistant", self.text, self.tool_calls, original=self.original)


class ChatModel(Protocol):
    """A chat endpoint. Implementations: `endpoint.py` (a server over HTTP) and `scripted.py` (a double)."""

    name: str

    @property
    def stats(self) -> EndpointStats:
        """The state of the endpoint, for the progress display."""

    async def complete(
        self,
        messages: Sequence[Message],
        *,
        tools: Sequence[Tool] = (),
        seed: int | None = None,
        session: str = "",
    ) -> Completion:
        """One completion. `session` names the episode, whose calls all go to one replica.

        Raises ModelError, RefusedError, ContextLimitError (this call) or StopRunError (the whole run).
        """

    async def aclose(self) -> None:
        """Close connections."""


class Model:
    """The base class of custom chat models (`--model package.module:Class`). Override `complete`."""

    def __init__(self, settings: ModelSettings) -> None:
        self.settings = settings
        self.name = settings.name
        self.stats = EndpointStats(limit=0)

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """The reply to a conversation. Raises ModelError if the call fails; the item is then owed."""
        raise NotImplementedError(f"{type(self).__name__} does not define `complete`")

    async def aclose(self) -> None:
        """Nothing to close."""
