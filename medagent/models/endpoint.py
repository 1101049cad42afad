"""`ChatModel` over HTTP: one or several replicas of an endpoint that uses one of the dialects.

One attempt is one HTTP request. `failures.py` decides what its response means: repeat the request, end the episode, or
stop the run. The client of all dialects is the `openai` package with its retries turned off, so that only `retry.py`
repeats and counts. It gets an `httpx` client, whichever library the installed `openai` prefers. So all replicas share
one connection pool, and tests can mock it.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import zlib
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import httpx
import openai

from medagent.core.errors import ContextLimitError, ModelError, StopRunError
from medagent.core.scrub import error_text
from medagent.models._failures import CONTEXT_LIMIT, meaning, provider_words
from medagent.models._replica import Replica, open_replicas
from medagent.models._replies import cost_of, delivered, whole
from medagent.models._unsupported import Unsupported
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.dialects import dialect as dialect_of
from medagent.models.dialects.base import ApiRequest, Dialect
from medagent.models.estimate import CallCutOffError, Estimator
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.outage import Outage
from medagent.models.prices import Price
from medagent.models.retry import EndpointFailure, RetryPolicy, call_with_retries
from medagent.models.settings import ModelSettings
from medagent.models.transport import TooLongError
from refsol.json_values import unicode_text

MOST_REFUSALS_IN_A_ROW = 10
_COMMENTS = re.compile(rb"(?::[^\r\n]*)?(?:[\r\n]+(?::[^\r\n]*)?)*")
"""Comment lines of an event stream, and empty lines."""


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
        """The API is that of the settings, or `dialect`. `price` is the price of its calls; None if unknown. Raises
        UserError if neither a key nor a base URL identifies the endpoint.
        """
        self.name = settings.name
        self.settings = settings
        self._dialect = dialect or dialect_of(settings.api)
        self._http, self._replicas = open_replicas(settings, self._dialect, os.environ)
        self._limiter = AdaptiveLimiter(concurrency)
        self._policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._outage = Outage(settings.outage_time_s, settings.outage_attempts)
        self._price = price
        self._unsupported = Unsupported()
        self._estimator = Estimator()
        self._refused_in_a_row = 0
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
        try:
            done = await call_with_retries(
                lambda: self._attempt(replica, request), limiter=self._limiter, policy=self._policy
            )
        except ModelError as failure:
            if isinstance(failure.paid, Completion):
                failure.paid = replace(failure.paid, cost=cost_of(failure.paid.usage, self._price))
            raise
        completion = replace(
            done.value,
            usage=done.value.usage + (done.paid or Usage()),
            started=done.started,
            ended=done.ended,
            latency=done.latency,
            retries=done.retries,
            waited=done.waited,
        )
        return delivered(completion, replica.shown, self._price)

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def _attempt(self, replica: Replica, request: ApiRequest) -> Completion:
        """One attempt. It counts for the outage check if it shows whether the endpoint is available."""
        try:
            completion = await self._ask(replica, request)
        except EndpointFailure as failure:
            told_when = failure.throttled and failure.retry_after is not None
            if not told_when and (outage := self._outage.failed()):
                self._stopped = StopRunError(f"{failure} ({outage})")
                raise self._stopped from None
            raise
        except StopRunError as error:
            self._stopped = error
            raise
        self._outage.succeeded()
        return completion

    async def _ask(self, replica: Replica, request: ApiRequest) -> Completion:
        while True:
            if self._stopped is not None:
                raise self._stopped
            body = self._dialect.body(request, self.settings, self._unsupported)
            content = _encoded(body)  # bytes, because the package makes a deep copy of any other body
            try:
                # httpx's own time limit covers only silence, not the whole request.
                async with asyncio.timeout(self.settings.timeout_s):
                    response = await replica.post(content)
            except asyncio.CancelledError:
                usage = self._estimator.usage(len(content))
                paid = Completion("", usage=usage, cost=cost_of(usage, self._price), estimated=True)
                raise CallCutOffError(paid) from None
            except TimeoutError:
                raise EndpointFailure(f"{replica.shown}: no answer in {self.settings.timeout_s:g} s") from None
            except openai.APIConnectionError as error:  # includes a timeout of the connection
                cause = error.__cause__ or error
                reason = error_text(f"{replica.shown}: {str(cause) or type(cause).__name__}")
                if isinstance(error.__cause__, TooLongError):
                    raise ModelError(f"{reason} (max_reply_bytes)") from None
                raise EndpointFailure(reason) from None
            except openai.APIStatusError as error:
                if error.status_code in (400, 422) and self._learn(body, provider_words(error)):
                    continue
                raise self._refused(meaning(error, replica.key_advice)) from None
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


def _json_object(response: httpx.Response, shown: str) -> dict[str, Any]:
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
