"""`ChatModel` over HTTP: one or several replicas of an endpoint that uses one of the dialects.

One attempt is one HTTP request. `failures.py` decides what an error means: repeat the request, end the episode, or stop
the run. Only `retry.py` repeats and counts.
"""

from __future__ import annotations

import asyncio
import json
import os
import re
import time
import zlib
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from medagent.core.clock import wall_clock
from medagent.core.errors import ContextLimitError, EpisodeError, ModelError, StopRunError
from medagent.core.scrub import error_text
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.client import (
    CutOffError,
    NobodyListensError,
    NoReplyError,
    NotSentError,
    Replica,
    TooLongError,
    open_replicas,
)
from medagent.models.dialects import dialect as dialect_of
from medagent.models.dialects.base import ApiRequest, Dialect, Unsupported
from medagent.models.endings import cost_of, delivered, whole
from medagent.models.estimate import CallCutOffError, Estimator
from medagent.models.failures import Problem, response_meaning, response_problem, shown_words
from medagent.models.keys import origin
from medagent.models.limiter import LARGER_WINDOW, EndpointStats, shared_limiter
from medagent.models.markup import leaked
from medagent.models.prices import Price
from medagent.models.retry import EndpointFailure, Outage, Retries, RetryPolicy, call_with_retries
from medagent.models.settings import ModelSettings
from medagent.models.stated import Stated, stated_by
from refsol.json_values import unicode_text

MOST_REFUSALS_IN_A_ROW = 10
LARGE_REPLY = 1_000_000
"""The bytes above which a reply is read in a thread, so that other calls go on meanwhile."""
_COMMENTS = re.compile(rb"(?::[^\r\n]*)?(?:[\r\n]+(?::[^\r\n]*)?)*")
"""Comment lines of an event stream, and empty lines."""


class ChatEndpoint:
    """A chat model behind one or several replicas of an endpoint."""

    def __init__(
        self,
        settings: ModelSettings,
        *,
        concurrency: int = 16,
        start: int | None = None,
        dialect: Dialect | None = None,
        price: Price | None = None,
        asks_server: bool = False,
    ) -> None:
        """The API comes from the settings, or is `dialect`. `price` is the price of its calls; None if unknown.
        `concurrency` is the upper limit of requests at once, `start` their number at the start (None: the limit).
        `asks_server`: before the first request, ask a server of the user's own what it states of itself.

        Raises UserError if neither a key nor a base URL identifies the endpoint.
        """
        self.name = settings.name
        self.settings = settings
        self._dialect = dialect or dialect_of(settings.api)
        self._replicas = open_replicas(settings, self._dialect, os.environ)
        place = " ".join(sorted(replica.shown for replica in self._replicas))
        self._limiter = shared_limiter(place, concurrency, start, settings.timeout_s)
        self._policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._outage = Outage(settings.outage_time_s, settings.outage_attempts)
        self._price = price
        self._unsupported = Unsupported()
        self._estimator = Estimator()
        self._refused_in_a_row = 0
        self._asks_server = asks_server
        self._introduced: asyncio.Future[Stated] | None = None
        """What the server states of itself, once it was asked."""
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
        except EpisodeError as failure:
            if isinstance(failure.paid, Completion):
                failure.paid = replace(failure.paid, cost=cost_of(failure.paid.usage, self._price))
            raise
        usage = completion.usage + (retries.paid or Usage())
        completion = replace(
            completion,
            usage=usage,
            retries=retries.failed,
            waited=retries.waited,
            estimated_tokens=retries.estimated_tokens,
        )
        size = len(completion.text) + len(completion.reasoning or "")
        return await beside_if_large(size, partial(delivered, completion, replica.shown, self._price))

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
            await self._introduce(replica, len(content))
            response = await self._sent(replica, content, retries)
            self._reached = True
            if not response.is_success:
                failure = self._failure(response, body, replica)
                if failure is None:
                    continue
                raise self._refused(failure)
            try:
                completion = await beside_if_large(
                    len(response.content), partial(self._completion, response, replica.shown, len(content))
                )
            except (ModelError, ContextLimitError) as failure:
                raise self._refused(failure) from None
            self._refused_in_a_row = 0
            self._count(request, completion)
            return whole(completion, replica.shown)

    async def _introduce(self, replica: Replica, size: int) -> None:
        """Before the first request, of `size` bytes, ask what the server states of itself, and use it."""
        if not self._asks_server:
            return
        if self._introduced is not None:
            await asyncio.shield(self._introduced)
            return
        self._introduced = asyncio.get_running_loop().create_future()
        try:
            stated = await stated_by(replica, self.name) if self._is_own_server(replica) else Stated()
        except asyncio.CancelledError:
            self._introduced.set_result(Stated())
            raise
        self._introduced.set_result(stated)
        self._limiter.stats.stated = stated.document
        if stated.slots and self.settings.start is None:
            self._limiter.begin_with(stated.slots)
        prompt = self._estimator.usage(size).prompt
        if stated.window and prompt + (self.settings.max_tokens or 0) > stated.window:
            reply = f", and --max-tokens {self.settings.max_tokens:,}" if self.settings.max_tokens else ""
            sizes = f"the model's window has {stated.window:,} tokens, and the first prompt about {prompt:,}{reply}"
            self._limiter.stats.warn(f"{replica.shown}: {sizes}; {LARGER_WINDOW}")

    def _is_own_server(self, replica: Replica) -> bool:
        """Whether an endpoint is not the provider whose API it uses, so that it may be a server of the user's own."""
        return self.settings.api == "chat" and origin(replica.url) != origin(self._dialect.vendor.base_url)

    def _count(self, request: ApiRequest, completion: Completion) -> None:
        """Count what the end of a run says about replies."""
        stats = self._limiter.stats
        stats.left_out.update(completion.left_out)
        stats.replies += 1
        if request.tools:
            stats.offered += 1
            stats.called += bool(completion.tool_calls)
        if kind := leaked(completion):
            stats.leaks[kind] += 1

    async def _sent(self, replica: Replica, content: bytes, retries: Retries) -> Any:
        """The response to a request, whatever its status. Raises EndpointFailure, ModelError, StopRunError."""
        try:
            # The client's own time limit covers only silence, not the whole request.
            async with asyncio.timeout(self.settings.timeout_s):
                return await replica.post(content)
        except asyncio.CancelledError:
            retries.pay(self._estimator.usage(len(content)), estimated=True)
            raise
        except TimeoutError:
            raise EndpointFailure(
                f"{replica.shown}: no answer in {self.settings.timeout_s:g} s",
                congested=True,
                paid=self._estimator.usage(len(content)),
                estimated=True,
            ) from None
        except NoReplyError as error:
            failure = unanswered(error, replica, self._paid(error, len(content)))
            if isinstance(error, NobodyListensError) and not self._reached:
                raise StopRunError(str(failure)) from None
            raise failure from None

    def _paid(self, error: NoReplyError, size: int) -> Usage | None:
        """The estimated tokens of a request of `size` bytes without a complete reply; None if it did not leave."""
        if isinstance(error, CutOffError):
            return self._estimator.partial(size, error.received, self.settings.max_tokens)
        return None if isinstance(error, NotSentError) else self._estimator.usage(size)

    def _completion(self, response: Any, shown: str, size: int) -> Completion:
        """Read the reply to a request of `size` bytes. It may run in another thread. Raises EndpointFailure, with the
        tokens that it reports or else an estimate, and the errors that `meaning` finds in it.
        """
        kind = response.headers.get("content-type", "no content type")
        try:
            reply = _json_object(response.content, kind, shown)
            try:
                completion = self._dialect.read(reply)
            except RecursionError:
                raise EndpointFailure(f"{shown}: the reply is nested too deeply") from None
        except EndpointFailure as failure:
            if failure.paid is None and not failure.states_error:
                failure.paid = self._estimator.partial(size, len(response.content), self.settings.max_tokens)
                failure.estimated = True
            raise
        self._estimator.learn(size, completion.usage)
        return completion

    def _failure(self, response: Any, body: dict[str, Any], replica: Replica) -> Exception | None:
        """What a response with an error means; None if the request can be repeated without a field."""
        problem = response_problem(response)
        if response.status_code in (400, 422) and not problem.too_long and self._learn(body, problem):
            return None
        return response_meaning(response, replica.key_advice)

    def _learn(self, body: dict[str, Any], problem: Problem) -> bool:
        """Whether a rejected request can be repeated without fields that its endpoint does not support."""
        words = shown_words(problem, None)
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
        count = f"({self._refused_in_a_row} requests in a row were refused)"
        return StopRunError(f"{failure} {count}", unquoted=f"{failure.unquoted} {count}")


T = TypeVar("T")


async def beside_if_large(size: int, function: Callable[[], T]) -> T:
    """Call a function that reads a text of `size` bytes: in a thread if that takes long, so that a signal can end the
    run meanwhile.
    """
    return function() if size <= LARGE_REPLY else await asyncio.to_thread(function)


def _encoded(body: dict[str, Any]) -> bytes:
    try:
        text = json.dumps(body, separators=(",", ":"), ensure_ascii=False)
    except RecursionError:
        raise ModelError("the conversation cannot be sent: a message is nested too deeply") from None
    return unicode_text(text).encode()


def _json_object(content: bytes, kind: str, shown: str) -> dict[str, Any]:
    """The JSON object in a reply; `kind` is its content type. Raises EndpointFailure."""
    size = len(content)
    if content[:1] in (b":", b"\n", b"\r"):  # OpenRouter sends comments before the reply to keep the connection open
        content = _COMMENTS.sub(b"", content, count=1)
    if content.startswith((b"data:", b"event:")):
        raise EndpointFailure(error_text(f"{shown}: the reply is an event stream, which was not requested ({kind})"))
    try:
        body = json.loads(content)
    except (ValueError, RecursionError) as error:
        raise EndpointFailure(error_text(f"{shown}: the reply is not JSON ({kind}; {size} bytes: {error})")) from None
    if not isinstance(body, dict):
        raise EndpointFailure(f"{shown}: the reply is JSON, but not an object")
    return body


def unanswered(error: NoReplyError, replica: Replica, paid: Usage | None = None) -> Exception:
    """What a request without a reply means: ModelError (this call) if it is too long, else EndpointFailure. `paid` is
    an estimate of its tokens.
    """
    text = error_text(f"{replica.shown}: {error}")
    if isinstance(error, TooLongError):
        return ModelError(text, paid=paid and Completion("", usage=paid, estimated_tokens=paid.total))
    return EndpointFailure(text, paid=paid, estimated=paid is not None)
