"""`ChatModel` over HTTP: one or several replicas of an endpoint that uses one of the dialects.

One attempt is one HTTP request. `meaning` decides what an error means: repeat the request, end the episode, or stop the
run. Only `retry.py` repeats and counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from medagent.core.clock import wall_clock
from medagent.core.errors import ContextLimitError, ModelError, RefusedError, StopRunError
from medagent.core.scrub import error_text
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.client import NobodyListensError, NoReplyError, Replica, TooLongError, open_replicas
from medagent.models.dialects import dialect as dialect_of
from medagent.models.dialects.base import ApiRequest, Dialect, Unsupported
from medagent.models.endings import cost_of, delivered, whole
from medagent.models.estimate import CallCutOffError, Estimator
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.prices import Price
from medagent.models.retry import EndpointFailure, Outage, Retries, RetryPolicy, call_with_retries, retry_after
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object, json_value, unicode_text

MOST_REFUSALS_IN_A_ROW = 10
_COMMENTS = re.compile(rb"(?::[^\r\n]*)?(?:[\r\n]+(?::[^\r\n]*)?)*")
"""Comment lines of an event stream, and empty lines."""
_VERSION = re.compile(r"/v\d")
"""The version of an API in a URL."""
RETRIED = {408, 409, 425, 429}
STOPPING = {402, 404}
STOPPING_CODES = {"insufficient_quota", "billing_not_active", "billing_error"}
REFUSING_CODES = {"content_filter", "content_policy_violation", "invalid_prompt", "data_inspection_failed"}
"""Error codes of a 400 with which a provider's filter rejects a prompt: Azure, OpenAI, DashScope."""

# Messages for a conversation that is too long: OpenAI, vLLM, llama.cpp, TGI, Anthropic, Gemini, DashScope.
CONTEXT_LIMIT = re.compile(
    r"context[_ ](length|window|size|limit)|exceed_context|maximum context"
    r"|(prompt|input|request)( is)? too (long|large)|input token count|range of input length|inputs. tokens"
    r"|too many (input |prompt )?tokens|reduce the length",
    re.IGNORECASE,
)
# Anthropic's message, with a 400, for an empty account.
NO_CREDIT = re.compile(r"credit balance is too low", re.IGNORECASE)


class ChatEndpoint:
    """A chat model behind one or several replicas of an endpoint."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        concurrency: int = 16,
        dialect: Dialect | None = None,
        price: Price | None = None,
    ) -> None:
        """The API comes from the settings, or is `dialect`. `price` is the price of its calls; None if unknown. Raises
        UserError if neither a key nor a base URL identifies the endpoint.
        """
        self.name = settings.name
        self.settings = settings
        self._dialect = dialect or dialect_of(settings.api)
        self._replicas = open_replicas(settings, self._dialect, os.environ)
        self._limiter = AdaptiveLimiter(concurrency)
        self._policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._outage = Outage(settings.outage_time_s, settings.outage_attempts)
        self._price = price
        self._unsupported = Unsupported()
        self._estimator = Estimator()
        self._refused_in_a_row = 0
        self._reached = False
        """Whether there was a reply: then a refused connection may be a server that starts again."""
        self._stopped: StopRunError | None = None
        """The error that stops the run: calls that are still waiting for a slot are not sent."""

    @property
    def stats(self) -> EndpointStats:
        """The state of the endpoint."""
        return self._limiter.stats

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """One completion; see `ChatModel.complete`."""
        replica = self._replicas[zlib.crc32(session.encode()) % len(self._replicas)]
        request = ApiRequest(messages, tools, seed)
        retries = Retries(self._policy)
        try:
            completion = await call_with_retries(
                lambda: self._attempt(replica, request, retries), limiter=self._limiter, retries=retries
            )
        except asyncio.CancelledError:
            paid = retries.completion()
            if paid is None:
                raise
            raise CallCutOffError(replace(paid, cost=cost_of(paid.usage, self._price))) from None
        except ModelError as failure:
            if isinstance(failure.paid, Completion):
                failure.paid = replace(failure.paid, cost=cost_of(failure.paid.usage, self._price))
            raise
        usage = completion.usage + (retries.paid or Usage())
        completion = replace(
            completion, usage=usage, retries=retries.failed, waited=retries.waited, estimated=retries.estimated
        )
        return delivered(completion, replica.shown, self._price)

    async def aclose(self) -> None:
        """Close connections."""
        for replica in self._replicas:
            await replica.http.aclose()

    async def _attempt(self, replica: Replica, request: ApiRequest, retries: Retries) -> Completion:
        """One attempt. It counts for the outage check if it shows whether the endpoint is available."""
        started, began = wall_clock(), time.monotonic()
        try:
            completion = await self._outage.watch(self._ask(replica, request, retries))
        except StopRunError as error:
            self._stopped = error
            raise
        return replace(completion, started=started, ended=wall_clock(), latency=time.monotonic() - began)

    async def _ask(self, replica: Replica, request: ApiRequest, retries: Retries) -> Completion:
        while True:
            if self._stopped is not None:
                raise self._stopped
            body = self._dialect.body(request, self.settings, self._unsupported)
            content = _encoded(body)
            try:
                # The client's own time limit covers only silence, not the whole request.
                async with asyncio.timeout(self.settings.timeout_s):
                    response = await replica.post(content)
            except asyncio.CancelledError:
                retries.pay(self._estimator.usage(len(content)), estimated=True)
                raise
            except TimeoutError:
                raise EndpointFailure(
                    f"{replica.shown}: no answer in {self.settings.timeout_s:g} s",
                    paid=self._estimator.usage(len(content)),
                    estimated=True,
                ) from None
            except NoReplyError as error:
                failure = unanswered(error, replica)
                if isinstance(error, NobodyListensError) and not self._reached:
                    raise StopRunError(str(failure)) from None
                raise failure from None
            self._reached = True
            if not response.is_success:
                if response.status_code in (400, 422) and self._learn(body, provider_words(response)):
                    continue
                raise self._refused(meaning(response, replica.key_advice))
            self._refused_in_a_row = 0
            try:
                completion = self._dialect.read(_json_object(response, replica.shown))
                self._estimator.learn(len(content), completion.usage)
                return whole(completion, replica.shown)
            except RecursionError:
                raise EndpointFailure(f"{replica.shown}: the reply is nested too deeply") from None

    def _learn(self, body: dict[str, Any], words: str) -> bool:
        """Whether a rejected request can be repeated without fields that its endpoint does not support."""
        if CONTEXT_LIMIT.search(words):
            return False
        learnt, note = self._unsupported.learn(body, words, self.settings.extra)
        if note:
            self._limiter.stats.notes.append(f"{self.name} {note}")
        return learnt

    def _refused(self, failure: Exception) -> Exception:
        """The failure, or the error that stops the run if too many requests in a row were rejected."""
        if not isinstance(failure, ModelError | ContextLimitError):
            return failure
        self._refused_in_a_row += 1
        if self._refused_in_a_row < MOST_REFUSALS_IN_A_ROW:
            return failure
        return StopRunError(f"{failure} ({self._refused_in_a_row} requests in a row were refused)")


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        raise ModelError("the conversation cannot be sent: a message is nested too deeply") from None
    return unicode_text(text).encode()


def _json_object(response: Any, shown: str) -> dict[str, Any]:
    content, kind = response.content, response.headers.get("content-type", "no content type")
    if content[:1] in (b":", b"\n", b"\r"):  # OpenRouter sends comments before the reply to keep the connection open
        content = _COMMENTS.sub(b"", content, count=1)
    if content.startswith((b"data:", b"event:")):
        raise EndpointFailure(error_text(f"{shown}: the reply is an event stream, which was not requested ({kind})"))
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        size = len(response.content)
        raise EndpointFailure(error_text(f"{shown}: the reply is not JSON ({kind}; {size} bytes: {error})")) from None
    if not isinstance(body, dict):
        raise EndpointFailure(f"{shown}: the reply is JSON, but not an object")
    return body


def unanswered(error: NoReplyError, replica: Replica) -> Exception:
    """What a request without a reply means: ModelError (this call) if it is too long, else EndpointFailure."""
    return (ModelError if isinstance(error, TooLongError) else EndpointFailure)(error_text(f"{replica.shown}: {error}"))


def meaning(response: Any, key_advice: str) -> Exception:
    """What a response with a status other than 2xx means: EndpointFailure (try again); ModelError, RefusedError,
    ContextLimitError (this call); StopRunError (the run). `key_advice` is added if the key was rejected.
    """
    status, words = response.status_code, provider_words(response)
    code = as_object(_error(response)).get("code")
    text = error_text(f"{response.url} answered {status}: {words}")
    if status in (401, 403):
        return StopRunError(f"{text} ({key_advice})")
    if status == 404 and not _VERSION.search(str(response.url)):
        return StopRunError(f"{text} (does the base URL end in /v1?)")
    if status in STOPPING or code in STOPPING_CODES or NO_CREDIT.search(words):
        return StopRunError(text)
    if status < 400:
        location = error_text(str(response.headers.get("location")))
        return StopRunError(f"{text} (pass the base URL that it redirects to: {location})")
    if status in RETRIED or status >= 500:
        return EndpointFailure(text, retry_after=retry_after(response.headers), throttled=status == 429)
    if code in REFUSING_CODES:
        return RefusedError(text)
    return ContextLimitError(text) if CONTEXT_LIMIT.search(words) else ModelError(text)


def provider_words(response: Any) -> str:
    """The provider's message: the body's message if there is one, otherwise the body, with the error code."""
    error = _error(response)
    if isinstance(error, dict) and error:
        text = error.get("message") or error.get("detail") or error
        text = text if isinstance(text, str) else json.dumps(text, ensure_ascii=False)
        code = error.get("code")
        return f"{text} ({code})" if code and str(code) != str(response.status_code) else text
    return str(error or response.text or response.reason_phrase)[:2000]


def _error(response: Any) -> Any:
    """The error in a body: an object, or a text. Gemini's OpenAI endpoint sends a list with one error."""
    body = json_value(response.content)
    if isinstance(body, list) and body:
        body = body[0]
    return body.get("error") or body if isinstance(body, dict) else body
