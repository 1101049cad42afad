"""`ChatModel` over HTTP: one or several replicas of an endpoint that speaks one of the dialects.

One attempt is one HTTP request; what its answer means is decided in `failures.py`: repeat it, end the episode, or stop
the run. The `openai` package is the client of all dialects; its own retries are off, so that `retry.py` is the only
place that repeats and counts. The one HTTP client is an injected `httpx` client, whichever library the installed
`openai` prefers: there is one connection pool for all replicas, and tests can mock it.
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
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.dialects import dialect as dialect_of
from medagent.models.dialects.base import ApiRequest, Dialect
from medagent.models.estimate import CallCutOffError, Estimator
from medagent.models.failures import CONTEXT_LIMIT, meaning, provider_words
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.outage import Outage
from medagent.models.prices import Price
from medagent.models.replica import Replica, open_replicas
from medagent.models.replies import cost_of, delivered, whole
from medagent.models.retry import EndpointFailure, RetryPolicy, call_with_retries
from medagent.models.settings import ModelSettings
from medagent.models.transport import TooLongError
from medagent.models.unsupported import Unsupported

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
        """The API is that of the settings, or `dialect`; `price` is what its calls cost, None: unknown. Raises
        UserError where neither a key nor a base URL says which endpoint is meant.
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
        """What stops the run: calls that waited for a place are not sent any more."""

    @property
    def stats(self) -> EndpointStats:
        """What goes on at the endpoint."""
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
        """One attempt, counted where it tells whether the endpoint is there."""
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
            content = _encoded(body)  # as bytes, since the package copies a body deeply
            try:
                # httpx's own limit is one of silence only.
                async with asyncio.timeout(self.settings.timeout_s):
                    response = await replica.post(content)
            except asyncio.CancelledError:
                usage = self._estimator.usage(len(content))
                paid = Completion("", usage=usage, cost=cost_of(usage, self._price), estimated=True)
                raise CallCutOffError(paid) from None
            except TimeoutError:
                raise EndpointFailure(f"{replica.shown}: no answer in {self.settings.timeout_s:g} s") from None
            except openai.APIConnectionError as error:  # a time-out of the connection included
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
        """Whether a refused request can be sent again without what its endpoint does not support."""
        if CONTEXT_LIMIT.search(words):
            return False
        learnt, note = self._unsupported.learn(body, words, self.settings.extra)
        if note:
            self._limiter.stats.notes.append(f"{self.name} {note}")
        return learnt

    def _refused(self, failure: Exception) -> Exception:
        """The failure, or what stops the run where requests have been refused too often in a row."""
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
    try:
        return text.encode()
    except UnicodeEncodeError:  # half of a surrogate pair, which models produce and UTF-8 cannot carry
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace").encode()


def _json_object(response: httpx.Response, shown: str) -> dict[str, Any]:
    content, kind = response.content, response.headers.get("content-type", "no content type")
    if content[:1] in (b":", b"\n", b"\r"):  # OpenRouter keeps a connection open by comments before the reply
        content = _COMMENTS.sub(b"", content, count=1)
    if content.startswith((b"data:", b"event:")):
        raise EndpointFailure(error_text(f"{shown}: the reply is a stream of events, which was not asked for ({kind})"))
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        size = len(response.content)
        raise EndpointFailure(error_text(f"{shown}: the reply is not JSON ({kind}; {size} bytes: {error})")) from None
    if not isinstance(body, dict):
        raise EndpointFailure(f"{shown}: the reply is JSON, but no object")
    return body
