"""The common parts of the APIs: the definition of a dialect, and functions that read the parts of a reply.

Servers differ in what they send, so reading is lenient if nothing is lost: content that is not text becomes text. A
reply without a message is an `EndpointFailure`, because a repetition may succeed.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, TypeVar

from pydantic import AliasChoices, BaseModel, BeforeValidator, Field, ValidationError

from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.content import as_text, joined, reasoning_of
from medagent.models.failures import ErrorLine, error_in, meaning, problem_of
from medagent.models.retry import EndpointFailure
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object
from refsol.schema import fault_text

MOST_TOKENS = 10**9
"""A higher count cannot be the tokens of one call."""

ENCRYPTED_REASONING = "reasoning.encrypted_content"
"""The `include` value of the responses API for encrypted reasoning. It is sent back because it is not stored there."""

_SAYS_SO = re.compile(
    r"support|deprecat|instead|may only|only .*(default|allowed)|unknown|unrecognized|not (allowed|permitted)|remove"
    r"|empty array",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ApiRequest:
    """The input of one completion."""

    messages: Sequence[Message]
    tools: Sequence[Tool]
    seed: int | None


@dataclass(slots=True)
class Unsupported:
    """Request fields that an endpoint does not support. They are learnt from its 400s and no longer sent."""

    max_tokens: bool = False
    """Chat completions: send the limit as `max_completion_tokens`."""
    temperature: bool = False
    seed: bool = False
    encrypted_reasoning: bool = False
    """Responses: the model does not offer encrypted reasoning to include."""
    members: set[str] = field(default_factory=set)
    """Chat completions: members of the assistant's messages that the endpoint rejects when they are sent back."""

    def learn(self, body: dict[str, Any], words: str, fixed: dict[str, Any]) -> tuple[bool, str | None]:
        """Whether `words` reject a field of `body` that can be left out next time, and a note if this is new.

        `fixed` are the fields that the user set. They are never left out.
        """
        if not _SAYS_SO.search(words):
            return False, None
        if "max_tokens" in body and "max_completion_tokens" in words:
            return True, self._note("max_tokens", "takes max_completion_tokens")
        if "temperature" in words and "temperature" in body and "temperature" not in fixed:
            return True, self._note("temperature", "rejects temperature; its default is used")
        if "seed" in words and "seed" in body and "seed" not in fixed:
            return True, self._note("seed", "rejects seed; none is sent")
        if re.search("encrypted.content", words, re.IGNORECASE) and "include" in body and "include" not in fixed:
            return True, self._note(
                "encrypted_reasoning", "does not offer encrypted reasoning; it is not requested anymore"
            )
        stated = set(re.findall(r"\w+", words))  # one search of the words for all members, which may be many
        if named := [name for name in _own_members(body) if name in stated]:
            news = not self.members.issuperset(named)
            self.members.update(named)
            return True, f"rejects {', '.join(named)} in its own messages; no longer sent back" if news else None
        return False, None

    def _note(self, name: str, text: str) -> str | None:
        news = not getattr(self, name)
        setattr(self, name, True)
        return text if news else None


def _own_members(body: dict[str, Any]) -> list[str]:
    """The members of the assistant's messages in `body` that not every provider accepts."""
    members: dict[str, None] = {}
    for message in body.get("messages") or ():
        if isinstance(message, dict) and message.get("role") == "assistant":
            members |= {name: None for name, value in message.items() if name != "tool_calls" or not value}
    return [name for name in members if name not in ("role", "content")]


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


def as_count(value: Any) -> int | None:
    """A number of tokens. None for an impossible one: a text, a negative number, an absurdly high one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    return int(value) if 0 <= value <= MOST_TOKENS and value == int(value) else None


def read_reasoning(value: Any) -> str:
    """Reasoning that an endpoint returned separately: a text, or a list of parts of any type."""
    return joined(map(reasoning_of, value)) if isinstance(value, list) else as_text(value)


Count = Annotated[int | None, BeforeValidator(as_count)]
Text = Annotated[str, BeforeValidator(as_text)]
Reasoning = Annotated[str, BeforeValidator(read_reasoning)]


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
    """The counts from the first of these objects that contains any."""
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
    unknown. No prompt is empty, so a count of 0 is unknown.
    """
    if not prompt or (completion is None and total is None):
        return Usage(unreported=total or 0, known=False)
    completion = completion or 0
    unreported = max(0, (total or 0) - prompt - completion)
    return Usage(prompt, completion, cached or 0, reasoning or 0, cache_written or 0, unreported)


def refuse_error(error: Any, usage: Usage) -> None:
    """Raises what an error inside a reply means, if there is one; see `failures.py`."""
    if error:
        problem = problem_of(error)
        failure = meaning(problem, ErrorLine("the reply is an error", problem.words), paid=_billed(usage))
        if isinstance(failure, EndpointFailure):
            failure.states_error = True
        raise failure


def _billed(usage: Usage) -> Usage | None:
    """What an unusable reply cost; None if it does not say, as an error then costs nothing."""
    return usage if usage.known else None


ParsedReply = TypeVar("ParsedReply", bound=BaseModel)


def parsed(model: type[ParsedReply], reply: dict[str, Any], field: str) -> ParsedReply:
    """Parse the reply as `model`. Raises EndpointFailure if it lacks `field`, and what an error in it means."""
    usage = counted(reply.get("usage"))
    refuse_error(error_in(reply), usage)
    try:
        return model.model_validate(reply)
    except ValidationError as invalid:
        if not reply.get(field):
            raise EndpointFailure(f"the reply contains no {field}", paid=_billed(usage)) from None
        place = ".".join(str(part) for part in invalid.errors()[0]["loc"])
        problem = fault_text(invalid.errors()[0])
        raise EndpointFailure(f"the reply's {place}: {problem}", paid=_billed(usage)) from None
