"""`ChatModel` over a provider's batch API: half the price, replies within a day.

Requests are collected: if none arrives for QUIET_S, the waiting ones are submitted as one batch, which is polled every
POLL_S until it is done. Submissions are recorded first (`intents.py`), so that an interrupted run finds its batches
again. A batch is never created twice: if the reply to its creation is lost, the provider's list shows whether it
exists. Results are downloaded to disk and read line by line. A request without a usable reply is a failed call; the
next attempt puts it into a new batch.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
import tempfile
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, BinaryIO

from medagent.core.errors import EpisodeError, MedagentError, ModelError, StopRunError, UserError
from medagent.core.scrub import error_text
from medagent.models.base import Completion, Message, Tool, Usage
from medagent.models.batches._apis import (
    AnthropicBatches,
    BatchLostError,
    NotThereError,
    OpenAIBatches,
    Sender,
)
from medagent.models.batches._intents import Intent, Intents
from medagent.models.client import open_replicas
from medagent.models.dialects import dialect
from medagent.models.dialects.base import ApiRequest, Unsupported
from medagent.models.endings import cost_of, delivered, whole
from medagent.models.limiter import AdaptiveLimiter, EndpointStats
from medagent.models.prices import Price
from medagent.models.retry import EndpointFailure, Retries, RetryPolicy
from medagent.models.settings import ModelSettings
from refsol.json_values import as_object

QUIET_S = 1.0
POLL_S = 30.0
SETTLE_S = 5.0
"""The time after which a provider's list is expected to show a new batch, in seconds."""
DISCOUNT = 0.5
MOST_BYTES = 90_000_000
"""The maximum size of a batch in bytes. Providers accept 200 MB (OpenAI) and 256 MB (Anthropic)."""
BYTES_PER_TOKEN = 4
"""Used to estimate the prompt tokens of a batch that no longer exists."""
_FAILURES = (MedagentError, EndpointFailure, NotThereError)


@dataclass(slots=True)
class _Waiting:
    """A request with a waiting caller."""

    body: dict[str, Any]
    answer: asyncio.Future[Completion] = field(default_factory=lambda: asyncio.get_running_loop().create_future())


class BatchModel:
    """A model behind a batch API. `path` is the file of its batches, read at the first request. `price` is the price of
    its calls; None if unknown.
    """

    def __init__(
        self, settings: ModelSettings, path: Path, *, concurrency: int = 16, price: Price | None = None
    ) -> None:
        """Raises UserError if no endpoint is named or its API does not support batches."""
        if settings.api == "responses":
            raise UserError("--batch: works only with --api chat or anthropic")
        self.name = settings.name
        self._settings = settings
        self._path = path
        self._dialect = dialect(settings.api)
        self._replica, *_ = open_replicas(settings, self._dialect, os.environ)
        self._limiter = AdaptiveLimiter(min(concurrency, 16))
        policy = RetryPolicy(settings.max_retries, settings.retry_time_s)
        self._send = Sender(self._replica, self._limiter, policy)
        api = AnthropicBatches if settings.api == "anthropic" else OpenAIBatches
        self._api: OpenAIBatches | AnthropicBatches = api(self._send, self._replica.url)
        self._price = price
        self._waiting: dict[str, _Waiting] = {}
        self._settling = asyncio.Lock()
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._timer: asyncio.TimerHandle | None = None

    @cached_property
    def _intents(self) -> Intents:
        return Intents(self._path, self.name)

    @property
    def stats(self) -> EndpointStats:
        return self._limiter.stats

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`. Takes as long as the batch."""
        body = self._dialect.body(ApiRequest(messages, tools, seed), self._settings, Unsupported())
        text = json.dumps([session, body], sort_keys=True)
        name = hashlib.sha256(text.encode()).hexdigest()
        if name not in self._waiting or self._waiting[name].answer.done():
            self._waiting[name] = _Waiting(body)
        intent = self._intents.of(name)
        if intent is not None and intent.batch is not None:
            self._watch(intent)
        else:
            if self._timer is not None:
                self._timer.cancel()
            self._timer = asyncio.get_running_loop().call_later(QUIET_S, self._start)
        return await self._waiting[name].answer

    async def aclose(self) -> None:
        """Close connections. Batches continue at the provider."""
        if self._timer is not None:
            self._timer.cancel()
        for task in self._tasks.values():
            task.cancel()
        await asyncio.gather(*self._tasks.values(), return_exceptions=True)
        await self._replica.http.aclose()

    def _start(self) -> None:
        self._tasks[f"submit {len(self._tasks)}"] = asyncio.ensure_future(self._submit())

    async def _submit(self) -> None:
        """Submit the requests that are in no batch, after it is known which batches exist."""
        async with self._settling:
            new = {name: intent.body for name, intent in self._waiting.items() if not intent.answer.done()}
            try:
                for intent in self._intents.open:
                    await self._settle(intent)
            except _FAILURES as error:
                self._fail(new, error)
                return
            places = {name: self._intents.of(name) for name in new}
            for intent in {id(place): place for place in places.values() if place is not None}.values():
                self._watch(intent)
            for part in _parts({name: body for name, body in new.items() if places[name] is None}):
                try:
                    await self._create(part)
                except _FAILURES as error:
                    self._fail(part, error)

    async def _settle(self, intent: Intent) -> None:
        """Find out whether the batch of an intent exists. Searches twice, because the list may be delayed."""
        batch = await self._search(intent)
        if batch is None:
            self._intents.dropped(intent)
        else:
            self._intents.created(intent, batch)
            self.stats.notes.append(f"{self.name}: batch {batch} with {len(intent.requests)} requests was found again")

    async def _search(self, intent: Intent) -> str | None:
        for pause in (0.0, SETTLE_S):
            await asyncio.sleep(pause)
            batch = await self._api.search(intent.mark, len(intent.requests), self._intents.batches)
            if batch is not None:
                return batch
        return None

    async def _create(self, bodies: Mapping[str, dict[str, Any]]) -> None:
        """Create a batch, but never twice: if it may already exist, search for it first."""
        try:
            mark = await self._api.prepare(bodies)
            intent = self._intents.begin(mark, list(bodies), sum(len(json.dumps(body)) for body in bodies.values()))
            retries = Retries(self._send.policy)
            batch: str | None = None
            while batch is None:
                try:
                    batch = await self._api.create(mark, bodies)
                except EndpointFailure as doubt:
                    await asyncio.sleep(retries.after(doubt, 0))
                    batch = await self._search(intent)
        except NotThereError as error:
            raise StopRunError(f"{error} (it does not offer a batch API; remove --batch)") from None
        self._intents.created(intent, batch)
        self.stats.notes.append(f"{self.name}: batch {batch} with {len(bodies)} requests was submitted")
        self._watch(intent)

    def _watch(self, intent: Intent) -> None:
        assert intent.batch is not None
        if intent.batch not in self._tasks or self._tasks[intent.batch].done():
            self._tasks[intent.batch] = asyncio.ensure_future(self._poll(intent, intent.batch))

    async def _poll(self, intent: Intent, batch: str) -> None:
        """Wait for a batch and deliver its results. Requests without a usable reply go into another batch."""
        here = [name for name in intent.requests if self._intents.of(name) is intent]
        owed: dict[str, EpisodeError | None] = dict.fromkeys(here)
        try:
            while (addresses := await self._api.ended(batch)) is None:  # noqa: ASYNC110  # no provider notifies
                await asyncio.sleep(POLL_S)
            for address in addresses:
                await self._hand_out(address, batch, owed)
        except BatchLostError as error:
            self._lose(batch, {name: ModelError(f"batch {batch}: {error}") for name in owed})
        except NotThereError:
            self._lose(batch, dict.fromkeys(owed, self._gone(intent, batch)))
        except OSError as error:
            self._fail(owed, UserError(f"{self._path.parent}: the results of batch {batch}: {error.strerror}"))
        except _FAILURES as error:
            self._fail(owed, error)
        else:
            missing = ModelError(f"batch {batch}: no reply to this request")
            self._lose(batch, {name: error or missing for name, error in owed.items()})

    async def _hand_out(self, address: str, batch: str, owed: dict[str, EpisodeError | None]) -> None:
        """Download results and deliver each to its caller.

        Afterwards, `owed` contains the unusable ones with reasons.
        """
        with tempfile.TemporaryFile(dir=self._path.parent) as file:  # an unnamed file: a crash does not leave it behind
            await self._send.download(address, file)
            for line in _lines(file, self._settings.max_reply_bytes):
                name, outcome = self._read(line, batch)
                if name not in owed:
                    continue
                if isinstance(outcome, Completion):
                    del owed[name]
                    self._answer(name, outcome)
                else:
                    owed[name] = outcome
                await asyncio.sleep(0)

    def _read(self, line: bytes, batch: str) -> tuple[str, Completion | EpisodeError]:
        """Parse a line of results: the request's name, and its reply or the error.

        The name of an unreadable line is empty.
        """
        shown = f"{self._replica.shown}: batch {batch}"
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            return "", ModelError("")
        name, reply = self._api.result(as_object(row))
        if isinstance(reply, str):
            return name, ModelError(error_text(f"{shown}: {reply}"))
        try:
            return name, delivered(whole(self._dialect.read(reply), shown), shown, self._price, DISCOUNT)
        except EndpointFailure as failure:
            cost = None if failure.paid is None else cost_of(failure.paid, self._price, DISCOUNT)
            paid = None if failure.paid is None else Completion("", usage=failure.paid, cost=cost)
            return name, ModelError(error_text(f"{shown}: {failure}"), paid=paid)
        except RecursionError:
            return name, ModelError(f"{shown}: the reply is nested too deeply")
        except EpisodeError as error:
            return name, error
        except StopRunError as error:  # other requests of the batch may have replies
            return name, ModelError(str(error))

    def _gone(self, intent: Intent, batch: str) -> ModelError:
        """Record that a batch no longer exists. Each of its requests gets a share of the estimated prompt cost."""
        usage = Usage(prompt=intent.size // BYTES_PER_TOKEN // len(intent.requests))
        cost = cost_of(usage, self._price, DISCOUNT)
        words = f"batch {batch} of {len(intent.requests)} requests no longer exists at the provider"
        lost = "unknown" if cost is None else f"about ${cost * len(intent.requests):.4f} for the prompts"
        self.stats.notes.append(f"{self.name}: {words}; what it cost ({lost}) was paid and is counted as an estimate")
        return ModelError(words, paid=Completion("", usage=usage, cost=cost, estimated_tokens=usage.total))

    def _lose(self, batch: str, errors: Mapping[str, EpisodeError]) -> None:
        """Record that requests did not get a usable reply in their batch; the next attempt submits them again."""
        if not errors:
            return
        try:
            self._intents.lose(batch, list(errors))
        except UserError as unwritable:
            self._fail(errors, unwritable)
        for name, error in errors.items():
            self._answer(name, error)

    def _fail(self, names: Iterable[str], error: Exception) -> None:
        for name in names:
            self._answer(name, error if isinstance(error, MedagentError) else ModelError(str(error)))

    def _answer(self, name: str, outcome: Completion | MedagentError) -> None:
        """Deliver the outcome of a request to its callers, if they still wait."""
        waiting = self._waiting.get(name)
        if waiting is None or waiting.answer.done():
            return
        if isinstance(outcome, Completion):
            waiting.answer.set_result(outcome)
        else:
            waiting.answer.set_exception(outcome)


def _lines(file: BinaryIO, longest: int) -> Iterator[bytes]:
    """The lines of a file. Lines longer than `longest` are skipped."""
    file.seek(0)
    while line := file.readline(longest + 1):
        if len(line) <= longest:
            yield line
            continue
        while line and not line.endswith(b"\n"):
            line = file.readline(longest + 1)


def _parts(bodies: Mapping[str, dict[str, Any]]) -> Iterator[dict[str, dict[str, Any]]]:
    """Split the requests into parts that a provider accepts."""
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
