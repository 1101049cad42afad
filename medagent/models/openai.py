"""`ChatModel` over the `openai` package: any OpenAI-compatible endpoint, hosted or local.

One attempt is one HTTP request; what its answer means is decided in `_refused`: repeat it (`EndpointFailure`), end the
episode (`ModelError`, `ContextLimitError`) or stop the run (`StopRunError`). The package's own retries are off, so
that `retry.py` is the only place that repeats and counts. The one HTTP client is an injected `httpx` client, whichever
library the installed `openai` prefers: there is one connection pool for all replicas, and tests can mock it.
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

from medagent.errors import ContextLimitError, ModelError, StopRunError, UserError
from medagent.models.base import Completion, Message, Tool
from medagent.models.dialects import ChatDialect, Refusals, Request, ResponsesDialect
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.prices import find_price
from medagent.models.retry import EndpointFailure, RetryPolicy, call_with_retries, retry_after
from medagent.models.settings import ModelSettings
from medagent.models.transport import http_client
from medagent.wire import without_password

OPENAI_URL = "https://api.openai.com/v1"
MOST_REFUSALS_IN_A_ROW = 10
RETRIED = {408, 409, 425, 429}
STOPPING = {401, 402, 403, 404}

# What providers say when a conversation is too long: OpenAI, vLLM, llama.cpp, TGI, Anthropic, Gemini, DashScope.
CONTEXT_LIMIT = re.compile(
    r"context[_ ](length|window|size)|exceed_context|maximum context|(prompt|input|request)( is)? too (long|large)"
    r"|input token count|range of input length|inputs. tokens|too many (input |prompt )?tokens|reduce the length",
    re.IGNORECASE,
)
UNSUPPORTED = re.compile(
    r"support|deprecat|instead|may only|only .*default|unknown|unrecognized|not (allowed|permitted)", re.IGNORECASE
)
KEY_LIKE = re.compile(r"\b(sk-|Bearer\s+)[\w\-.*]+", re.IGNORECASE)


def openai_client(base_url: str, api_key: str, http: httpx.AsyncClient) -> openai.AsyncOpenAI:
    """The package's client for one replica, over the HTTP client given and without retries of its own."""
    injected: Any = http  # accepted at run time by every version; its annotation names one library only
    return openai.AsyncOpenAI(base_url=base_url, api_key=api_key, http_client=injected, max_retries=0)


class OpenAIModel:
    """A chat model behind one or several replicas of an OpenAI-compatible endpoint."""

    def __init__(self, settings: ModelSettings, *, concurrency: int = 16) -> None:
        """Raises UserError where neither a key nor a base URL says which endpoint is meant."""
        self.name = settings.name
        self.settings = settings
        key = os.environ.get("OPENAI_API_KEY", "").strip()
        urls = settings.base_urls or [os.environ.get("OPENAI_BASE_URL", "").rstrip("/")]
        if not key and not urls[0]:
            raise UserError(
                f"model {settings.name}: set OPENAI_API_KEY, or OPENAI_BASE_URL for an endpoint of your own"
            )
        self._key = key
        self._limiter = AdaptiveLimiter(concurrency)
        urls = [url or OPENAI_URL for url in urls]
        self._http = http_client(urls, settings.timeout_s)
        self._replicas = [openai_client(url, key or "none", self._http) for url in urls]
        self._dialect = ResponsesDialect() if settings.api == "responses" else ChatDialect()
        self._policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._price = find_price(settings.name)
        self._refusals = Refusals()
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
        request = Request(messages, tools, seed)
        done = await call_with_retries(
            lambda: self._attempt(replica, request), limiter=self._limiter, policy=self._policy
        )
        return replace(
            done.value,
            cost=None if self._price is None else self._price.cost(done.value.usage),
            latency=done.latency,
            retries=done.retries,
            waited=done.waited,
        )

    async def aclose(self) -> None:
        """Close connections."""
        await self._http.aclose()

    async def _attempt(self, replica: openai.AsyncOpenAI, request: Request) -> Completion:
        url = str(replica.base_url).rstrip("/") + self._dialect.path  # a relative one is merged, which costs more
        shown = without_password(str(replica.base_url))
        while True:
            if self._stopped is not None:
                raise self._stopped
            body = self._dialect.body(request, self.settings, self._refusals)
            try:
                # As bytes, since the package copies a body deeply; httpx's own limit is one of silence only.
                async with asyncio.timeout(self.settings.timeout_s):
                    response = await replica.post(url, content=_encoded(body), cast_to=httpx.Response)
            except TimeoutError:
                raise EndpointFailure(f"{shown}: no answer in {self.settings.timeout_s:g} s") from None
            except openai.APIConnectionError as error:  # a time-out of the connection included
                raise EndpointFailure(self._clean(f"{shown}: {error.__cause__ or error!r}")) from None
            except openai.APIStatusError as error:
                if error.status_code == 400 and self._learn(body, _words(error)):
                    continue
                failure = self._refused(error)
                if isinstance(failure, StopRunError):
                    self._stopped = failure
                raise failure from None
            self._refused_in_a_row = 0
            return self._dialect.read(_json_object(response))

    def _learn(self, body: dict[str, Any], words: str) -> bool:
        """Whether a 400 refuses a field of `body` that the next body can do without; it is not sent again then."""
        refusals = self._refusals
        if CONTEXT_LIMIT.search(words) or not UNSUPPORTED.search(words):
            return False
        if "max_tokens" in body and "max_completion_tokens" in words:
            learnt, refusals.max_tokens = not refusals.max_tokens, True
            note = "takes max_completion_tokens"
        elif "temperature" in words and "temperature" in body and "temperature" not in self.settings.extra:
            learnt, refusals.temperature = not refusals.temperature, True
            note = "refuses temperature: its default is used"
        elif "seed" in words and "seed" in body and "seed" not in self.settings.extra:
            learnt, refusals.seed = not refusals.seed, True
            note = "refuses seed: none is sent"
        else:
            return False
        if learnt:
            self._limiter.stats.notes.append(f"{self.name} {note}")
        return True

    def _refused(self, error: openai.APIStatusError) -> Exception:
        """What an answer with a status other than 2xx means."""
        status = error.status_code
        words = _words(error)
        text = self._clean(f"{error.request.url} answered {status}: {words}")
        if status in STOPPING or error.code == "insufficient_quota":
            return StopRunError(text)
        if status < 400:
            return StopRunError(f"{text} (give the base URL it redirects to: {error.response.headers.get('location')})")
        if status in RETRIED or status >= 500:
            return EndpointFailure(text, retry_after=retry_after(error.response.headers), throttled=status == 429)
        self._refused_in_a_row += 1
        if self._refused_in_a_row >= MOST_REFUSALS_IN_A_ROW:
            return StopRunError(f"{text} ({self._refused_in_a_row} requests in a row were refused)")
        return ContextLimitError(text) if CONTEXT_LIMIT.search(words) else ModelError(text)

    def _clean(self, text: str) -> str:
        """One line of at most 500 characters without anything that looks like a key."""
        if self._key:
            text = text.replace(self._key, "***")
        text = KEY_LIKE.sub("***", without_password(text))
        return " ".join(text.split())[:500]


def _words(error: openai.APIStatusError) -> str:
    """What the provider said: the body's message where it has one, else the body, with the error's code."""
    body: Any = error.body
    if isinstance(body, dict):
        said = body.get("message") or body.get("detail") or body
        said = said if isinstance(said, str) else json.dumps(said, ensure_ascii=False)
        return f"{said} ({error.code})" if error.code and error.code != str(error.status_code) else said
    return str(body or error.response.text or error.response.reason_phrase)[:2000]


def _encoded(body: dict[str, Any]) -> bytes:
    return json.dumps(body, separators=(",", ":")).encode()


def _json_object(response: httpx.Response) -> dict[str, Any]:
    url = without_password(str(response.url))
    try:
        body = json.loads(response.content)
    except (ValueError, RecursionError) as error:
        kind = response.headers.get("content-type", "no content type")
        size = len(response.content)
        raise EndpointFailure(f"{url}: the reply is not JSON ({kind}; {size} bytes: {error})") from None
    if not isinstance(body, dict):
        raise EndpointFailure(f"{url}: the reply is JSON, but no object")
    return body
