"""What an error of an endpoint means, wherever it is: in a status, in a body with status 200, or inside a completion.

Providers disagree about statuses: a window that is too small is a 400, a 413, a 500 or a 200. So one function,
`meaning`, reads every error by its code and words first, and by its status last. docs/provider-errors.md lists the
places.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from medagent.core.errors import (
    NOT_SHOWN,
    ContextLimitError,
    EpisodeError,
    ModelError,
    RefusedError,
    StopRunError,
)
from medagent.core.scrub import error_text, hide
from medagent.models.base import Completion, Usage
from medagent.models.retry import EndpointFailure, retry_after
from refsol.json_values import as_object, json_value

LONGEST_WORDS = 2_000
"""The most characters of a provider's message that are read."""
_PASSING = {408, 409, 425, 429}
"""Statuses below 500 of failures that may pass."""
_CONGESTED = {429, 503, 529}
"""Statuses with which an endpoint says that it gets too many requests."""
_COMPLETION = ("choices", "output", "content", "data")
"""The members of replies that are not errors."""
_QUOTA = {"insufficient_quota", "billing_not_active", "billing_error", "1008"}
_KEY = {"invalid_api_key", "authentication_error", "permission_error", "unauthenticated"}
_UNKNOWN_MODEL = {"model_not_found", "not_found_error"}
_RATE = {"rate_limit_exceeded", "rate_limit_error", "resource_exhausted", "1002"}
_OVERLOADED = {"overloaded_error", "unavailable", "engine_overloaded_error"}
_REQUEST = {"invalid_request_error", "invalid_argument", "not_supported_error", "bad_request_error", "badrequesterror"}
_REFUSED = {
    "content_filter",  # Azure
    "content_policy_violation",  # OpenAI
    "invalid_prompt",  # OpenAI
    "responsibleaipolicyviolation",  # Azure
    "data_inspection_failed",  # DashScope
    "datainspectionfailed",  # DashScope
    "1026",  # MiniMax
    "1301",  # Zhipu
}
# Messages for a conversation that is too long: OpenAI, vLLM, llama.cpp, TGI, Anthropic, Gemini, DashScope.
_TOO_LONG = re.compile(
    r"context[_ ](length|window|size|limit)|exceed_context|maximum context"
    r"|(prompt|input|request)( is)? too (long|large)|input token count|range of input length|inputs. tokens"
    r"|too many (input |prompt )?tokens|reduce the length|exceeds? the (model's )?(maximum|max) (number of )?tokens",
    re.IGNORECASE,
)
# Limits of tokens per minute also call a request too large, but it is not too long for the model.
_PER_MINUTE = re.compile(r"per (min|minute|second|day)\b|\b(TPM|RPM)\b", re.IGNORECASE)
_NO_CREDIT = re.compile(r"credit balance is too low|insufficient (balance|credits|quota)", re.IGNORECASE)
# OpenAI, Azure, Anthropic, OpenRouter, Moonshot, xAI.
_FILTERED = re.compile(
    r"content (filter|management|policy)|content_filter|flagged (by|as|for)|requires moderation|responsible ai"
    r"|data inspection|considered high risk|violates? (the |our )?(usage|content|safety)|safety (system|filter)",
    re.IGNORECASE,
)
# A request that its server can never carry out: llama.cpp without --jinja, vLLM without a tool parser, Ollama.
_NEVER = re.compile(
    r"requires? --|--[a-z-]+ (to be|must be) set|(is|are|does) not support|not supported|unsupported|not implemented"
    r"|unrecognized (request|argument|field)|unknown (parameter|field|argument)|missing (required|parameter)"
    r"|chat[ _]template|failed to (parse|render|apply)|jinja",
    re.IGNORECASE,
)
_VERSION = re.compile(r"/v\d")
"""The version of an API in a URL."""
_WINDOW = re.compile(r"(?:maximum context length (?:is|of)|context (?:size|window|length)(?: is| of)?)\D{0,12}(\d{3,})")
_PROMPT = re.compile(r"(?:requested|request|prompt|resulted in|has|contains)\D{0,40}?(\d{3,}) tokens")


@dataclass(frozen=True, slots=True)
class Problem:
    """An error of an endpoint. `codes` are its codes and types in lower case; `status` is the one that it states, else
    the response's; None if neither is known. `window` and `prompt` are tokens, if the error states them. `code` is its
    main code, for people.
    """

    words: str
    code: str = ""
    codes: frozenset[str] = frozenset()
    status: int | None = None
    window: int | None = None
    prompt: int | None = None

    @property
    def too_long(self) -> bool:
        """Whether the conversation does not fit the model's window."""
        if self.codes & _RATE or _PER_MINUTE.search(self.words):
            return False
        stated = " ".join(self.codes)
        return bool(_TOO_LONG.search(self.words) or _TOO_LONG.search(stated)) and self.status != 429


def error_in(body: Any) -> Any:
    """The error in a body: an object or a text; None if there is none. Gemini sends a list with one error."""
    if isinstance(body, list) and body:
        body = body[0]
    if not isinstance(body, dict):
        return body if isinstance(body, str) else None
    if error := body.get("error"):
        return error
    if (refused := as_object(body.get("promptFeedback") or body.get("prompt_feedback"))).get("blockReason"):
        return {"message": f"the prompt was blocked: {refused['blockReason']}", "code": "content_filter"}  # Gemini
    outcome = as_object(body.get("base_resp"))  # MiniMax
    if outcome.get("status_code"):
        return {"message": outcome.get("status_msg"), "code": outcome["status_code"]}
    if isinstance(errors := body.get("errors"), list) and errors:
        return errors[0]
    if body.get("object") == "error" or not any(body.get(name) for name in _COMPLETION):
        return body if any(isinstance(body.get(name), str) for name in ("message", "detail", "msg")) else None
    return None


def problem_of(error: Any, status: int | None = None) -> Problem:
    """An error as its endpoint sent it, and the response's status."""
    if not isinstance(error, dict):
        return Problem(_text(error), status=status)
    code = error.get("code")
    words = _text(error.get("message") or error.get("detail") or error.get("msg") or error)
    inner, metadata = as_object(error.get("innererror")), as_object(error.get("metadata"))
    if raw := metadata.get("raw"):  # OpenRouter quotes the provider's own error
        words = f"{words}: {_text(raw)}"[:LONGEST_WORDS]
    stated = [error.get("code"), error.get("type"), error.get("status"), inner.get("code")]
    codes = frozenset(str(code)[:100].lower() for code in stated if isinstance(code, str | int) and code)
    numbers = [int(code) for code in codes if code.isascii() and code.isdigit() and 400 <= int(code) < 600]
    if numbers and (status is None or status < 300 or status >= 500):
        status = numbers[0]
    return Problem(
        words,
        "" if code is None else _text(code)[:100],
        codes,
        status,
        _number(error.get("n_ctx")) or _tokens_in(_WINDOW, words),
        _number(error.get("n_prompt_tokens")) or _tokens_in(_PROMPT, words),
    )


@dataclass(frozen=True, slots=True)
class ErrorLine:
    """The line about an error for people: `start`, the provider's words, `advice`. `unquoted` has other words than the
    provider's, which may quote a chart.
    """

    start: str
    words: str
    advice: str = ""

    @property
    def text(self) -> str:
        """The whole line."""
        return error_text(f"{self.start}: {self.words}") + self.advice

    @property
    def unquoted(self) -> str:
        """The line without the provider's words."""
        return error_text(f"{self.start} ({NOT_SHOWN})") + self.advice


def meaning(
    problem: Problem,
    line: ErrorLine,
    *,
    key_advice: str = "",
    wait: float | None = None,
    paid: Usage | None = None,
) -> Exception:
    """What an error means: EndpointFailure (try again); ModelError, RefusedError, ContextLimitError (this call);
    StopRunError (the run). `wait` are the seconds that the endpoint asks to wait, `paid` the tokens that it reports.
    """
    status, codes, words = problem.status, problem.codes, problem.words
    spent = None if paid is None else Completion("", usage=paid)

    def of_call(kind: type[EpisodeError], sizes: str = "") -> EpisodeError:
        return kind(f"{line.text}{sizes}", unquoted=f"{line.unquoted}{sizes}", paid=spent)

    def of_run(advice: str = "") -> StopRunError:
        return StopRunError(f"{line.text}{advice}", unquoted=f"{line.unquoted}{advice}")

    def passing(*, throttled: bool = False, congested: bool = False) -> EndpointFailure:
        return EndpointFailure(
            line.text, retry_after=wait, throttled=throttled, congested=congested, paid=paid, unquoted=line.unquoted
        )

    if codes & _QUOTA or status == 402 or _NO_CREDIT.search(words):
        return of_run()
    if codes & _REFUSED or (status in (None, 400, 403, 422) and _FILTERED.search(words)):
        return of_call(RefusedError)
    if status in (401, 403) or codes & _KEY:
        return of_run(f" ({key_advice})" if key_advice else "")
    if status == 404 or codes & _UNKNOWN_MODEL:
        return of_run()
    if problem.too_long:
        return of_call(ContextLimitError, _sizes(problem))
    if status == 429 or codes & _RATE:
        return passing(throttled=True, congested=True)
    if codes & _REQUEST or (not codes & _OVERLOADED and _NEVER.search(words)):
        return of_call(ModelError)
    if codes & _OVERLOADED or status in _CONGESTED:
        return passing(congested=True)
    if status is None or status in _PASSING or status >= 500:
        return passing()
    return of_call(ModelError)


def response_meaning(response: Any, key_advice: str) -> Exception:
    """What a response with a status other than 2xx means; see `meaning`. `key_advice` is for a rejected key."""
    status, url = response.status_code, str(response.url)
    problem = response_problem(response)
    line = ErrorLine(f"{url} answered {status}", shown_words(problem, status))
    if status < 400:
        location = error_text(str(response.headers.get("location"))[:LONGEST_WORDS])
        line = replace(line, advice=f" (pass the base URL that it redirects to: {location})")
        return StopRunError(line.text, unquoted=line.unquoted)
    if status == 404 and not _VERSION.search(url):
        line = replace(line, advice=" (does the base URL end in /v1?)")
    return meaning(problem, line, key_advice=key_advice, wait=retry_after(response.headers))


def response_problem(response: Any) -> Problem:
    """The error of a response with a status other than 2xx. Without JSON, its words are the beginning of its body."""
    error = error_in(json_value(response.content))
    if error is None:
        error = response.text[:LONGEST_WORDS] or response.reason_phrase
    return problem_of(error, response.status_code)


def shown_words(problem: Problem, status: int | None) -> str:
    """The provider's message for people, with its code unless that repeats the status."""
    return f"{problem.words} ({problem.code})" if problem.code not in ("", str(status)) else problem.words


def _sizes(problem: Problem) -> str:
    sizes: Mapping[str, int | None] = {"window": problem.window, "prompt": problem.prompt}
    stated = [f"{name} {tokens:,} tokens" for name, tokens in sizes.items() if tokens]
    return f" ({', '.join(stated)})" if stated else ""


def _text(value: Any) -> str:
    """A text, or the JSON of another value. Keys are hidden first, so that none is cut in two."""
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return hide(text)[:LONGEST_WORDS]


def _number(value: Any) -> int | None:
    return value if isinstance(value, int) and not isinstance(value, bool) and value > 0 else None


def _tokens_in(pattern: re.Pattern[str], words: str) -> int | None:
    match = pattern.search(words)
    return int(match[1]) if match else None
