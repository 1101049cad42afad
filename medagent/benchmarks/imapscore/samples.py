"""Samples of a model's replies to one prompt, each call made once and kept.

A reply is known by the digest of model, settings and prompt, and by the number of the sample and the attempt. Runs
share the cache, so a question that was asked for one model's answers is not asked again for the next model's. A reply
that cannot be read is kept too, so that a resumed run does not pay for it twice; the sample is then asked again.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import sqlite3
from collections.abc import Callable, Coroutine, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, TypeVar
from weakref import WeakValueDictionary

from medagent.agents.base import Agent, next_move
from medagent.core.errors import EpisodeError, MedagentError, StopRunError, UserError
from medagent.engine.boundary import blame
from medagent.engine.rows import Spent
from medagent.models.wording import strip_thinking

SAMPLES = 3
ATTEMPTS = 3

T = TypeVar("T")


class ReplyCache:
    """Replies by key, in an SQLite file; several runs may use it at once. It is read and written in a thread of its
    own, so that waiting for another run's write holds nothing else up.

    Raises UserError where the file cannot be read or written.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            self._database = sqlite3.connect(path, isolation_level=None, timeout=30, check_same_thread=False)
        except (OSError, sqlite3.Error) as error:
            raise self._unusable(error) from None
        self._thread = ThreadPoolExecutor(1, "imapscore-replies")
        try:
            self._execute("PRAGMA journal_mode = WAL")
            self._execute("CREATE TABLE IF NOT EXISTS reply (key TEXT PRIMARY KEY, text TEXT NOT NULL)")
        except UserError:
            self.close()
            raise

    async def get(self, key: str) -> str | None:
        """The reply kept under `key`."""
        rows = await self._in_thread("SELECT text FROM reply WHERE key = ?", key)
        return str(rows[0][0]) if rows else None

    async def put(self, key: str, text: str) -> None:
        """Keep a reply; it survives the death of the process from here on."""
        await self._in_thread("INSERT OR REPLACE INTO reply VALUES (?, ?)", key, text)

    def close(self) -> None:
        """Close the file."""
        self._thread.shutdown()
        self._database.close()

    async def _in_thread(self, statement: str, *values: str) -> list[tuple[object, ...]]:
        loop = asyncio.get_running_loop()
        return await loop.run_in_executor(self._thread, lambda: self._execute(statement, *values))

    def _execute(self, statement: str, *values: str) -> list[tuple[object, ...]]:
        try:
            return self._database.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._unusable(error) from None

    def _unusable(self, error: Exception) -> UserError:
        return UserError(f"{self._path}: the model's replies cannot be kept there: {error}")


class Sampler:
    """Asks for samples. Callers that need the same sample at the same time share one call. `identity` is what of the
    model's settings decides its replies.
    """

    def __init__(self, agent: Agent, identity: Mapping[str, Any], cache: ReplyCache, concurrency: int) -> None:
        self._agent = agent
        self._identity = dict(identity)
        self._cache = cache
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        """The replies that somebody is asking for just now."""
        self._places = asyncio.Semaphore(concurrency)
        """So many replies may be on their way or not kept yet: what is lost when the process dies."""

    async def samples(self, prompt: str, read: Callable[[str], T | None], spent: Spent, trial: int = 1) -> list[T]:
        """What `read` makes of SAMPLES replies to `prompt`; one that it cannot read is asked again, then left out.
        Each trial has samples of its own.

        `spent` counts the calls made here. Raises what `Policy.next` raises.
        """
        digest = hashlib.sha256(json.dumps([self._identity, prompt], sort_keys=True).encode()).hexdigest()
        first = (trial - 1) * SAMPLES * ATTEMPTS + 1  # no two calls for one prompt have the same seed
        numbers = range(first, first + SAMPLES)
        read_samples = await together(*(self._sample(digest, number, prompt, read, spent) for number in numbers))
        return [sample for sample in read_samples if sample is not None]

    async def _sample(
        self, digest: str, number: int, prompt: str, read: Callable[[str], T | None], spent: Spent
    ) -> T | None:
        for attempt in range(ATTEMPTS):
            seed = number + attempt * SAMPLES
            sample = read(await self._reply(f"{digest}:{seed}", seed, prompt, spent))
            if sample is not None:
                return sample
        return None

    async def _reply(self, key: str, seed: int, prompt: str, spent: Spent) -> str:
        lock = self._locks.get(key)
        if lock is None:
            lock = self._locks[key] = asyncio.Lock()
        async with lock:
            kept = await self._cache.get(key)
            if kept is None:
                async with self._places:
                    kept = await self._asked(key, seed, prompt, spent)
            return kept

    async def _asked(self, key: str, seed: int, prompt: str, spent: Spent) -> str:
        with blame("agent"):
            policy = self._agent.start(prompt, key=key, seed=seed)
            try:
                move = await next_move(policy, prompt)
            except EpisodeError as failure:  # of several that fail together one is raised, and all are paid
                policy.spent.add_failure(failure)
                failure.paid, failure.retries, failure.waited = None, 0, 0.0
                raise
            finally:
                spent.take(policy.spent)
        # A reply that was cut off is no reply, and half of a surrogate pair no character.
        whole = "" if move.finish_reason == "length" else strip_thinking(move.text)
        kept = whole.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
        await self._cache.put(key, kept)
        return kept


async def together(*work: Coroutine[None, None, T]) -> list[T]:
    """All results, in order. Where some fail, the others are finished first, as they are paid for, and the first
    failure in order is raised. Where the run must stop, nothing is waited for.
    """
    tasks = [asyncio.ensure_future(one) for one in work]
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
