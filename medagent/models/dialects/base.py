"""The common parts of the APIs: the definition of a dialect, and functions that read the parts of a reply.

Servers differ in what they send, so reading is lenient if nothing is lost: content that is not text becomes text. A
reply without a message is an `EndpointFailure`, because a repetition may succeed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from medagent.core.scrub import error_text
from medagent.models._unsupported import Unsupported
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.retry import EndpointFailure
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object, unicode_text
from refsol.schema import fault_text

MOST_TOKENS = 10**9
"""A higher count cannot be the tokens of one call."""


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The input of one completion."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    seed: int | None


@dataclass(frozen=True, slots=True)
class Vendor:
    """The provider that defines an API: its base URL, and its usual environment variables."""

    base_url: str
    base_url_variable: str
    key_variable: str


OPENAI = Vendor("https://api.openai.com/v1", "OPENAI_BASE_URL", "OPENAI_API_KEY")
ANTHROPIC = Vendor("https://api.anthropic.com/v1", "ANTHROPIC_BASE_URL", "ANTHROPIC_API_KEY")


def bearer(key: str) -> dict[str, str]:
    """The header with a key in OpenAI's APIs."""
    return {"Authorization": f"Bearer {key}"}


@dataclass(frozen=True, slots=True)
class Dialect:
    """One API of chat endpoints."""

    vendor: Vendor
    path: Callable[[str], str]
    """The path of a request, relative to the base URL."""
    body: Callable[[ApiRequest, ModelSettings, Unsupported], dict[str, Any]]
    """The JSON body to send."""
    read: Callable[[dict[str, Any]], Completion]
    """Reads the completion in a JSON reply. Raises EndpointFailure if there is none."""
    key_header: Callable[[str], dict[str, str]] = bearer
    """The header with a key."""
    headers: tuple[tuple[str, str], ...] = ()
    """Other headers of every request."""


def as_text(content: Any) -> str:
    """Content as text: parts are joined, null is empty, anything else becomes its JSON.

    The text is valid Unicode.
    """
    if content is None:
        return ""
    if isinstance(content, list):
        return "".join(as_text(part) for part in content)
    if isinstance(content, dict) and isinstance(content.get("text"), str):
        content = content["text"]
    return as_json(content)


def as_json(value: Any) -> str:
    """A text unchanged, anything else as its JSON, in valid Unicode."""
    return unicode_text(value if isinstance(value, str) else json.dumps(value, ensure_ascii=False))


def as_arguments(value: Any) -> str:
    """The arguments of a tool call as JSON text; empty if there are none."""
    return "" if value is None else as_json(value)


def as_count(value: Any) -> int | None:
    """A number of tokens. None for an impossible one: a text, a negative number, an absurdly high one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


Count = Annotated[int | None, BeforeValidator(as_count)]
Text = Annotated[str, BeforeValidator(as_text)]
Arguments = Annotated[str, BeforeValidator(as_arguments)]


class Details(BaseModel):
    """The token details of OpenAI's APIs for prompt or completion."""

    cached_tokens: Count = None
    reasoning_tokens: Count = None


TokenDetails = Annotated[Details, BeforeValidator(as_object)]


def named(*names: str, empty: Any = None) -> Any:
    """A field with several possible names."""
    return Field(default=empty, validation_alias=AliasChoices(*names))


class Counts(BaseModel):
    """Tokens of one call, under every name that providers of OpenAI's APIs use: chat completions, responses, Gemini,
    Ollama and llama.cpp.
    """

    prompt: Count = named("prompt_tokens", "input_tokens", "promptTokenCount", "prompt_eval_count", "prompt_n")
    completion: Count = named("completion_tokens", "output_tokens", "candidatesTokenCount", "eval_count", "predicted_n")
    total: Count = named("total_tokens", "totalTokenCount")
    prompt_details: TokenDetails = named("prompt_tokens_details", "input_tokens_details", empty=Details())
    completion_details: TokenDetails = named("completion_tokens_details", "output_tokens_details", empty=Details())
    cached: Count = named("prompt_cache_hit_tokens", "cachedContentTokenCount")  # DeepSeek's name, Gemini's

    def usage(self) -> Usage:
        """The counts as `Usage`."""
        return usage_of(
            self.prompt,
            self.completion,
            total=self.total,
            cached=self.prompt_details.cached_tokens or self.cached,
            reasoning=self.completion_details.reasoning_tokens,
        )


def counted(*places: Any) -> Usage:
    """The counts from the first of these objects that has any."""
    for place in places:
        usage = Counts.model_validate(as_object(place)).usage()
        if usage.total:
            return usage
    return Counts.model_validate(as_object(places[0])).usage()


def usage_of(
    prompt: int | None,
    completion: int | None,
    *,
    total: int | None = None,
    cached: int | None = None,
    reasoning: int | None = None,
    cache_written: int | None = None,
) -> Usage:
    """The counts of one call. Some providers count reasoning only in the total (completion 5, total 5,105 after a
    prompt of 100), so the total minus the prompt is output. With only a total, the tokens are counted, but the cost is
    unknown.
    """
    if prompt is None or (completion is None and total is None):
        return Usage(unreported=total or 0, known=False)
    completion = completion or 0
    unreported = max(0, (total or 0) - prompt - completion)
    return Usage(prompt, completion, cached or 0, reasoning or 0, cache_written or 0, unreported)


def refuse_error(error: Any) -> None:
    """Raises EndpointFailure with the text of the reply's `error` member, if it has one."""
    if error:
        words = error_text(as_text(as_object(error).get("message") or error), longest=300)
        raise EndpointFailure(f"the reply is an error: {words}")


ParsedReply = TypeVar("ParsedReply", bound=BaseModel)


def parsed(model: type[ParsedReply], reply: dict[str, Any], field: str) -> ParsedReply:
    """Parse the reply as `model`. Raises EndpointFailure if the reply contains an error or lacks `field`."""
    refuse_error(reply.get("error"))
    try:
        return model.model_validate(reply)
    except ValidationError as invalid:
        if not reply.get(field):
            raise EndpointFailure(f"the reply has no {field}") from None
        place = ".".join(str(part) for part in invalid.errors()[0]["loc"])
        raise EndpointFailure(f"the reply's {place}: {fault_text(invalid.errors()[0])}") from None
