"""Why a reply ended, from every provider's finish reason: who ended it decides what happens to it.

| who | what happens |
|---|---|
| model | the reply is the model's answer and is graded |
| limit | the partial reply is the answer: `cut` |
| filter | `refused`, even if a part of the text was sent |
| provider | the call is repeated; after the last attempt the unit is owed |

A reply with an unknown finish reason is never graded: the unit is owed, and the message gives the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Literal

from medagent.core.errors import ModelError, RefusedError
from medagent.core.scrub import error_text, hide
from medagent.models.base import Completion, ToolCall, Usage
from medagent.models.retry import EndpointFailure

if TYPE_CHECKING:
    from medagent.models.prices import Price

Owner = Literal["model", "limit", "filter", "provider"]
CUT = "length"
"""The finish reason of a reply that a token limit cut off."""
USUAL = frozenset({"stop", "tool_calls"})
"""The finish reasons of replies that the model ended."""


LONGEST_WORD = 200
"""The most characters that are stored of a finish reason, a model's name or a fingerprint."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Who ended a reply, and medagent's finish reason: the one of chat completions if it exists there."""

    word: str
    owner: Owner


# In lower case, with the source. "Gemini" and "Cohere" also through gateways that forward the finish reason.
_TABLE: dict[tuple[str, Owner], tuple[str, ...]] = {
    ("stop", "model"): (
        "stop",  # chat completions
        "completed",  # responses
        "end_turn",  # Anthropic
        "stop_sequence",  # Anthropic, TGI, Cohere
        "eos",  # Together
        "eos_token",  # TGI
        "complete",  # Cohere
    ),
    ("tool_calls", "model"): (
        "tool_calls",  # chat completions
        "function_call",  # chat completions before 2024
        "tool_use",  # Anthropic
        "tool_call",  # Cohere
    ),
    ("malformed_function_call", "model"): ("malformed_function_call", "unexpected_tool_call"),  # Gemini
    (CUT, "limit"): (
        "length",  # chat completions
        "max_output_tokens",  # responses
        "max_tokens",  # Anthropic, Gemini, Cohere
        "model_context_window_exceeded",  # Anthropic
        "model_length",  # Mistral
    ),
    ("content_filter", "filter"): (
        "content_filter",  # chat completions, responses, Azure
        "refusal",  # Anthropic
        "guardrail_intervened",  # Bedrock
        "sensitive",  # Zhipu
        "safety",  # Gemini, like the five below
        "recitation",
        "blocklist",
        "prohibited_content",
        "spii",
        "language",
    ),
    ("error", "provider"): (
        "error",  # OpenRouter, Cohere
        "failed",  # responses, like the four below
        "cancelled",
        "in_progress",
        "queued",
        "incomplete",
        "abort",  # vLLM, SGLang
        "network_error",  # Zhipu
        "insufficient_system_resource",  # DeepSeek
        "pause_turn",  # Anthropic: a tool of the provider's own takes long
        "other",  # Gemini, like the one below
        "finish_reason_unspecified",
    ),
}
_ENDINGS = {spelling: Ending(word, owner) for (word, owner), words in _TABLE.items() for spelling in words}
_EMPTY = Ending("nothing", "provider")


def ending_of(completion: Completion) -> Ending | None:
    """Who ended a reply with the provider's own `finish_reason`; None if the reason is unknown.

    Without a reason the model ended it, because many local servers send none, unless the reply is completely empty.
    """
    if completion.finish_reason:
        return _ENDINGS.get(completion.finish_reason.lower())
    holds = completion.text.strip() or completion.tool_calls or completion.reasoning or completion.vectors
    return _ENDINGS["stop"] if holds else _EMPTY


def whole(completion: Completion, shown: str) -> Completion:
    """The completion, if its provider finished it normally. Raises EndpointFailure; see `endings.py`."""
    ending = ending_of(completion)
    if ending is not None and ending.owner == "provider":
        finish = completion.finish_reason
        reason = f"the reply ended with {finish!r}" if finish else "the reply is empty and contains no finish reason"
        raise EndpointFailure(error_text(f"{shown}: {reason}"), paid=completion.usage)
    return completion


def cost_of(usage: Usage, price: Price | None, discount: float = 1.0) -> float | None:
    """US dollars for the tokens of a call at `discount` times the price; None if price or counts are unknown."""
    return discount * price.cost(usage) if price is not None and usage.known else None


def delivered(completion: Completion, shown: str, price: Price | None, discount: float = 1.0) -> Completion:
    """A complete reply with its cost at `discount` times the price, medagent's finish reason, and keys hidden.
    `original` is unchanged, because it is only sent back to the provider.

    Raises RefusedError if a filter withheld or cut off the reply, or if the model refused, and ModelError if its finish
    reason is unknown. Both contain the paid usage.
    """
    ending = ending_of(completion)
    reason = _word(completion.finish_reason)
    clean = replace(
        completion,
        text=hide(completion.text),
        reasoning=hide(completion.reasoning or "") or None,
        tool_calls=tuple(ToolCall(hide(c.id), hide(c.name), hide(c.arguments)) for c in completion.tool_calls),
        finish_reason=ending.word if ending is not None and reason else reason,
        model=_word(completion.model),
        fingerprint=_word(completion.fingerprint),
        cost=cost_of(completion.usage, price, discount),
    )
    if clean.refusal:
        raise RefusedError(error_text(f"{shown}: the model refused: {clean.refusal}"), paid=clean)
    if ending is None:
        raise ModelError(
            error_text(f"{shown}: unknown finish reason {reason!r}: the reply cannot be graded"), paid=clean
        )
    if ending.owner == "filter":
        raise RefusedError(error_text(f"{shown}: the provider's filter withheld the reply ({reason})"), paid=clean)
    return clean


def _word(text: str | None) -> str | None:
    """A word of the provider's, with keys hidden and limited in length; None for an empty one."""
    return hide(text or "")[:LONGEST_WORD] or None
