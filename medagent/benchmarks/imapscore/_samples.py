"""Samples of a model's replies to one prompt. Each call is made once and stored.

The key of a reply is the digest of model, settings, prompt, sample number and attempt number. Runs share the cache, so
a question asked for one model's answers is not asked again for the next model's. A reply that cannot be read is stored
too, so that a resumed run does not pay for it again; the sample then gets another attempt. If too few samples of a
stage are usable, the item fails.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
from collections.abc import Callable, Coroutine, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Generic, Literal, TypeVar
from weakref import WeakValueDictionary

from medagent.agents.base import Agent, begin, next_move
from medagent.agents.reply_cache import ReplyStore
from medagent.core.errors import EpisodeError, MedagentError, StopRunError
from medagent.engine.boundary import blame
from medagent.engine.rows import Spent
from medagent.models.base import Message
from medagent.models.wording import strip_thinking

SAMPLES = 3
ATTEMPTS = 3

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Asked:
    """A prompt, and the solved examples before it as conversation turns."""

    prompt: str
    before: tuple[Message, ...] = ()

    @property
    def turns(self) -> list[list[tuple[str, str]]]:
        """The examples as part of the replies' keys; empty without examples."""
        return [[(turn.role, turn.content) for turn in self.before]] if self.before else []


class Sampler:
    """Requests samples. Callers that need the same sample at the same time share one call. `identity` contains the
    model settings that decide its replies.
    """

    def __init__(self, agent: Agent, identity: Mapping[str, Any], store: ReplyStore, concurrency: int) -> None:
        self._agent = agent
        self._identity = dict(identity)
        self._store = store
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The calls in progress, by key."""
        self._places = asyncio.Semaphore(concurrency)
        """Limits the replies that are requested or not yet stored, which are lost if the process dies."""

    async def samples(self, prompt: Asked, read: Callable[[str], T | None], spent: Spent, trial: int = 1) -> list[T]:
        """The values that `read` returns for SAMPLES replies. An unreadable reply is requested again, then left out.
        Each trial uses its own samples.

        `spent` counts the calls made here. Raises the errors of `Policy.next`.
        """
        request = json.dumps([self._identity, prompt.prompt, *prompt.turns], sort_keys=True)
        first = (trial - 1) * SAMPLES * ATTEMPTS + 1  # no two calls for one prompt use the same seed
        numbers = range(first, first + SAMPLES)
        read_samples = await together(*(self._sample(request, number, prompt, read, spent) for number in numbers))
        return [sample for sample in read_samples if sample is not None]

    async def _sample(
        self, request: str, number: int, prompt: Asked, read: Callable[[str], T | None], spent: Spent
    ) -> T | None:
        for attempt in range(ATTEMPTS):
            seed = number + attempt * SAMPLES
            key = hashlib.sha256(f"{request}:{seed}".encode()).hexdigest()
            sample = read(await self._reply(key, seed, prompt, spent))
            if sample is not None:
                return sample
        return None

    async def _reply(self, key: str, seed: int, prompt: Asked, spent: Spent) -> str:
        async with self._locks.setdefault(key, asyncio.Lock()):
            stored = self._store.get(key)
            if stored is None:
                async with self._places:
                    return await self._asked(key, seed, prompt, spent)
            text = stored.get("text")
            return text if isinstance(text, str) else self._store.damaged(key)

    async def _asked(self, key: str, seed: int, prompt: Asked, spent: Spent) -> str:
        with blame("agent"):
            policy = begin(self._agent, prompt.prompt, key=key, seed=seed, before=prompt.before)
            try:
                move = await next_move(policy, prompt.prompt)
            except EpisodeError as failure:  # several calls can fail together: one error is raised, all are paid
                policy.spent.add_failure(failure)
                failure.paid, failure.retries, failure.waited = None, 0, 0.0
                raise
            finally:
                spent.take(policy.spent)
        text = "" if move.finish_reason == "length" else strip_thinking(move.text)  # a cut-off reply does not count
        await self._store.put(key, {"text": text})
        return text


async def together(*work: Coroutine[None, None, T]) -> list[T]:
    """All results in order. If some fail, wait for the others, because they are paid for, then raise the first failure
    in order. If the run must stop, do not wait.
    """
    tasks = [asyncio.ensure_future(sample) for sample in work]
    try:
        await asyncio.gather(*tasks)
    except StopRunError:
        for task in tasks:
            task.cancel()
        raise
    except MedagentError:
        pass  # raised again below
    finally:
        await asyncio.wait(tasks)
    return [task.result() for task in tasks]


class UnusableError(MedagentError):
    """A stage did not produce a usable result. `failure` becomes the item's status."""

    def __init__(self, failure: Literal["no_agreement", "extraction_failed"], reason: str) -> None:
        super().__init__(reason)
        self.failure = failure


@dataclass(frozen=True, slots=True)
class ParsedReply(Generic[T]):
    """The value read from one reply, None if unusable, and warnings about guesses and losses."""

    value: T | None
    warnings: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class SampleVotes:
    """The stages of one item: their samples, warnings and calls."""

    sampler: Sampler
    min_votes: int
    spent: Spent
    trial: int = 1
    _warnings: set[str] = field(default_factory=set)

    async def votes(self, stage: str, prompt: Asked, read: Callable[[str], ParsedReply[T]]) -> list[T]:
        """The readable samples. Raises UnusableError if there is none, or too few to agree. The warnings of `read` are
        stored for unreadable replies too.
        """

        def value(reply: str) -> T | None:
            reading = read(reply)
            self._warnings.update(f"{stage}: {warning}" for warning in reading.warnings)
            return reading.value

        samples = await self.sampler.samples(prompt, value, self.spent, self.trial)
        if len(samples) < self.min_votes:
            failure: Literal["no_agreement", "extraction_failed"] = "no_agreement" if samples else "extraction_failed"
            raise UnusableError(failure, f"{stage}: {len(samples)} of {SAMPLES} samples could be read")
        return samples

    def warn(self, warning: str) -> None:
        """Add a warning with the name of its stage."""
        self._warnings.add(warning)

    @property
    def warnings(self) -> tuple[str, ...]:
        """The warnings of all stages without duplicates, in an order that does not depend on the order of replies."""
        return tuple(sorted(self._warnings))
