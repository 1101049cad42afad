"""`ChatModel` over a provider's batch API: half the price, an answer within a day.

Requests that come together go out together: when none has come for QUIET_S, those that wait are submitted as one batch,
which is asked for every `poll_s` until it is done. Which request lies in which batch is kept in a file, so that a run
that was stopped finds its batches again: it submits nothing twice. What the provider could not answer in time, or
refused, is a failed call, and is submitted anew by the next try.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import httpx

from medagent.core.errors import MedagentError, ModelError, StopRunError, UserError
from medagent.core.scrub import error_text, hide
from medagent.models.base import Completion, Message, Tool
from medagent.models.dialects import dialect
from medagent.models.dialects.base import ApiRequest
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.prices import Price
from medagent.models.replica import open_replicas
from medagent.models.retry import EndpointFailure, RetryPolicy, call_with_retries
from medagent.models.settings import ModelSettings
from medagent.models.unsupported import Unsupported

QUIET_S = 1.0
POLL_S = 30.0
DISCOUNT = 0.5
MOST_BYTES = 90_000_000
"""A batch's greatest size; providers take 200 MB (OpenAI) and 256 MB (Anthropic)."""
_BOUNDARY = "medagent-batch"
_FAILURES = (MedagentError, EndpointFailure, KeyError, TypeError, AttributeError)
"""What ends a batch for those that wait for it: errors, and replies of another form."""


@dataclass(slots=True)
class _Waiting:
    """A request that somebody waits for."""

    body: dict[str, Any]
    answer: asyncio.Future[dict[str, Any]] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class BatchModel:
    """A model behind a batch API. `path` is the file of its batches, read when the first request comes; `price` is what
    its calls cost, None: unknown.
    """

    def __init__(
        self, settings: ModelSettings, path: Path, *, concurrency: int = 16, price: Price | None = None
    ) -> None:
        """Raises UserError where the endpoint is not named, or its API has no batches."""
        if settings.api == "responses":
            raise UserError("--batch: goes with --api chat and anthropic")
        self.name = settings.name
        self._settings, self._path = settings, path
        self._dialect = dialect(settings.api)
        self._http, (self._replica, *_) = open_replicas(settings, self._dialect, os.environ)
        self._api = (_Anthropic if settings.api == "anthropic" else _OpenAI)(self._send, self._replica.url)
        self._limiter = AdaptiveLimiter(min(concurrency, 16))
        self._policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._price = price
        self._waiting: dict[str, _Waiting] = {}
        self._known: dict[str, str] | None = None
        self._watched: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @property
    def stats(self) -> EndpointStats:
        """See `ChatModel.stats`."""
        return self._limiter.stats

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`; it takes as long as its batch."""
        body = self._dialect.body(ApiRequest(messages, tools, seed), self._settings, Unsupported())
        text = json.dumps([session, body], sort_keys=True)
        name = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
        waiting = self._waiting.setdefault(name, _Waiting(body))
        if self._known is None:
            self._known = dict(_read(self._path, self.name))
        if (batch := self._known.get(name)) is not None:
            self._watch(batch)
        else:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(QUIET_S, self._start)
        reply = await waiting.answer
        try:
            completion = self._dialect.read(reply)
        except EndpointFailure as failure:
            raise ModelError(f"{self._replica.shown}: {failure}") from None
        usage = completion.usage
        full = self._price.cost(usage) if self._price is not None and usage.known else None
        return replace(
            completion,
            text=hide(completion.text),
            reasoning=hide(completion.reasoning or "") or None,
            cost=None if full is None else DISCOUNT * full,
        )

    async def aclose(self) -> None:
        """Close connections; batches go on at the provider."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._watched.values():
            task.cancel()
        await asyncio.gather(*self._watched.values(), return_exceptions=True)
        await self._http.aclose()

    def _start(self) -> None:
        """Submit what waits in no batch."""
        known = self._known or {}
        new = {name: one.body for name, one in self._waiting.items() if name not in known and not one.answer.done()}
        for number, part in enumerate(_parts(new)):
            task = asyncio.ensure_future(self._submit(part))
            self._watched[f"submit {id(part)} {number}"] = task

    async def _submit(self, bodies: Mapping[str, dict[str, Any]]) -> None:
        try:
            batch = await self._api.submit(bodies)
            _append(self._path, {"model": self.name, "batch": batch, "requests": list(bodies)})
        except _FAILURES as error:
            self._fail(bodies, error)
            return
        assert self._known is not None
        self._known |= dict.fromkeys(bodies, batch)
        self.stats.notes.append(f"{self.name}: batch {batch} with {len(bodies)} requests was submitted")
        self._watch(batch)

    def _watch(self, batch: str) -> None:
        if batch not in self._watched:
            self._watched[batch] = asyncio.ensure_future(self._poll(batch))

    async def _poll(self, batch: str) -> None:
        names = [name for name, where in (self._known or {}).items() if where == batch]
        try:
            # Nothing but asking tells that a provider is done.
            while (done := await self._api.ended(batch)) is None:  # noqa: ASYNC110
                await asyncio.sleep(POLL_S)
            replies = dict([pair async for pair in self._api.results(done)])
        except _FAILURES as error:
            self._fail(names, error)
            return
        lost = [name for name in names if not isinstance(replies.get(name), dict)]
        if lost:  # the next try submits them anew
            _append(self._path, {"model": self.name, "batch": batch, "lost": lost})
        for name in names:
            reply = replies.get(name, "the batch has no answer to it")
            if name in self._waiting and not self._waiting[name].answer.done():
                if isinstance(reply, dict):
                    self._waiting[name].answer.set_result(reply)
                else:
                    self._fail([name], ModelError(error_text(f"batch {batch}: {reply}")))

    def _fail(self, names: Sequence[str] | Mapping[str, Any], error: Exception) -> None:
        shown = error if isinstance(error, MedagentError) else ModelError(f"the batch API's reply: {error!r}")
        for name in names:
            if name in self._waiting and not self._waiting[name].answer.done():
                self._waiting[name].answer.set_exception(shown)

    async def _send(
        self, method: str, url: str, content: bytes = b"", kind: str = "application/json"
    ) -> httpx.Response:
        """One request of the batch API, repeated as every request is. Raises ModelError, StopRunError."""

        async def attempt() -> httpx.Response:
            own = {
                name: value for name, value in self._replica.client.default_headers.items() if isinstance(value, str)
            }
            headers = {**own, "Content-Type": kind}
            timeout = httpx.Timeout(self._settings.timeout_s).as_dict()
            request = httpx.Request(method, url, headers=headers, content=content, extensions={"timeout": timeout})
            try:
                response = await self._http.send(request)
            except httpx.TransportError as error:
                raise EndpointFailure(error_text(f"{self._replica.shown}: {error!r}")) from None
            words = error_text(f"{self._replica.shown} answered {response.status_code} to {method} of a batch")
            if response.status_code in (408, 409, 429) or response.status_code >= 500:
                raise EndpointFailure(f"{words}: {error_text(response.text, longest=300)}")
            if response.status_code == 404:
                raise StopRunError(f"{words}: it has no batches; leave --batch out")
            if response.status_code >= 400:
                raise StopRunError(f"{words}: {error_text(response.text, longest=300)}")
            return response

        return (await call_with_retries(attempt, limiter=self._limiter, policy=self._policy)).value


class _OpenAI:
    """OpenAI's: a file of JSON lines is uploaded, the answers are another file."""

    def __init__(self, send: Any, url: str) -> None:
        self._send = send
        self._base = url.removesuffix("/chat/completions")

    async def submit(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Submit requests; the id of their batch."""
        lines = "".join(
            json.dumps({"custom_id": name, "method": "POST", "url": "/v1/chat/completions", "body": body}) + "\n"
            for name, body in bodies.items()
        )
        parts = (
            f'--{_BOUNDARY}\r\nContent-Disposition: form-data; name="purpose"\r\n\r\nbatch\r\n--{_BOUNDARY}\r\n'
            'Content-Disposition: form-data; name="file"; filename="requests.jsonl"\r\n'
            f"Content-Type: application/jsonl\r\n\r\n{lines}\r\n--{_BOUNDARY}--\r\n"
        )
        kind = f"multipart/form-data; boundary={_BOUNDARY}"
        file = _json(await self._send("POST", f"{self._base}/files", parts.encode(), kind))
        order = {"input_file_id": file["id"], "endpoint": "/v1/chat/completions", "completion_window": "24h"}
        made = _json(await self._send("POST", f"{self._base}/batches", json.dumps(order).encode()))
        return str(made["id"])

    async def ended(self, batch: str) -> dict[str, Any] | None:
        """The batch once it is over. Raises ModelError where it failed as a whole."""
        state = _json(await self._send("GET", f"{self._base}/batches/{batch}"))
        if state.get("status") == "failed":
            raise ModelError(error_text(f"batch {batch} failed: {json.dumps(state.get('errors'))}"))
        return state if state.get("status") in ("completed", "expired", "cancelled") else None

    async def results(self, state: Mapping[str, Any]) -> Any:
        """Each request's reply, or in words why it has none."""
        for name in ("output_file_id", "error_file_id"):
            if state.get(name):
                content = await self._send("GET", f"{self._base}/files/{state[name]}/content")
                for row in _rows(content):
                    response = row.get("response") or {}
                    good = response.get("status_code") == 200
                    yield (
                        str(row.get("custom_id")),
                        response["body"] if good else json.dumps(row.get("error") or response),
                    )


class _Anthropic:
    """Anthropic's: requests and answers are bodies of the API itself."""

    def __init__(self, send: Any, url: str) -> None:
        self._send = send
        self._url = f"{url}/batches"

    async def submit(self, bodies: Mapping[str, dict[str, Any]]) -> str:
        """Submit requests; the id of their batch."""
        requests = [{"custom_id": name, "params": body} for name, body in bodies.items()]
        return str(_json(await self._send("POST", self._url, json.dumps({"requests": requests}).encode()))["id"])

    async def ended(self, batch: str) -> dict[str, Any] | None:
        """The batch once it is over."""
        state = _json(await self._send("GET", f"{self._url}/{batch}"))
        return state if state.get("processing_status") == "ended" else None

    async def results(self, state: Mapping[str, Any]) -> Any:
        """Each request's reply, or in words why it has none."""
        for row in _rows(await self._send("GET", f"{self._url}/{state['id']}/results")):
            result = row.get("result") or {}
            good = result.get("type") == "succeeded"
            yield str(row.get("custom_id")), result["message"] if good else json.dumps(result)


def _json(response: httpx.Response) -> dict[str, Any]:
    try:
        value = json.loads(response.content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict) or "id" not in value:
        raise EndpointFailure("the reply of the batch API is no object with an id")
    return value


def _rows(response: httpx.Response) -> Iterator[dict[str, Any]]:
    for line in response.content.splitlines():
        if line.strip():
            try:
                row = json.loads(line)
            except (ValueError, RecursionError):
                raise EndpointFailure("the results of the batch are no JSON lines") from None
            if isinstance(row, dict):
                yield row


def _parts(bodies: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, dict[str, Any]]]:
    """The requests in parts that a provider takes."""
    part: dict[str, dict[str, Any]] = {}
    size = 0
    for name, body in bodies.items():
        length = len(json.dumps(body))
        if part and size + length > MOST_BYTES:
            yield part
            part, size = {}, 0
        part[name] = body
        size += length
    if part:
        yield part


def _read(path: Path, model: str) -> Iterator[tuple[str, str]]:
    """The batch of each request of a model, by the file; an empty one where it is to be submitted anew."""
    found: dict[str, str] = {}
    if path.exists():
        for line in path.read_text(encoding="utf-8").splitlines():
            row = json.loads(line)
            if row["model"] == model:
                found |= dict.fromkeys(row.get("requests", ()), row["batch"])
                for name in row.get("lost", ()):
                    found.pop(name, None)
    return iter(found.items())


def _append(path: Path, row: Mapping[str, Any]) -> None:
    """Add a line; it is on disk when this returns."""
    try:
        with path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(row) + "\n")
            file.flush()
            os.fsync(file.fileno())
    except OSError as error:
        raise UserError(f"{path}: cannot be written: {error.strerror}") from None
