"""A folder of model replies that runs share. The key of a reply is the digest of its whole request.

A request is everything that decides a reply: the model, its settings and URL, the messages, the tools, the seed. There
is one file per reply, written atomically, so several runs can use a folder at once. A cached reply costs nothing.
"""

from __future__ import annotations

import asyncio
import hashlib
import json
import os
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any, NoReturn
from weakref import WeakValueDictionary

from medagent.core.errors import StopRunError, UserError
from medagent.core.scrub import hide
from medagent.core.wire import without_password
from medagent.core.writing import file_digest, write_whole
from medagent.models.base import ChatModel, Completion, Message, Tool, ToolCall, Usage
from medagent.models.keys import base_urls
from medagent.models.settings import ModelSettings

_DECIDES = {"name", "api", "temperature", "max_tokens", "extra"}
_SCRIPTED = "scripted:"
_STORED_FIELDS = ("text", "reasoning", "tool_calls", "finish_reason", "model", "fingerprint", "original", "usage")


class ReplyStore:
    """Replies by key, as JSON objects: one file each, written atomically and synced to disk.

    Raises UserError if the folder cannot be created.
    """

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise UserError(f"{folder}: the folder for replies cannot be created: {error.strerror}") from None

    def get(self, key: str) -> dict[str, Any] | None:
        """The reply with this key; None if there is none. Raises StopRunError."""
        path = self._path(key)
        try:
            stored = json.loads(path.read_bytes())
        except FileNotFoundError:
            return None
        except OSError as error:
            raise StopRunError(f"{path}: cannot be read: {error.strerror}") from None
        except ValueError:
            stored = None
        return stored if isinstance(stored, dict) else self.damaged(key)

    async def put(self, key: str, reply: dict[str, Any]) -> None:
        """Store a reply with keys hidden. When this returns, it is on disk. Raises StopRunError."""
        await asyncio.to_thread(self._write, self._path(key), hide(json.dumps(reply)) + "\n")

    def damaged(self, key: str) -> NoReturn:
        """Raises StopRunError for a reply that cannot be used."""
        raise StopRunError(f"{self._path(key)}: is damaged; remove it, and the model is called again")

    def _path(self, key: str) -> Path:
        return self._folder / key[:2] / f"{key}.json"

    def _write(self, path: Path, text: str) -> None:
        try:
            path.parent.mkdir(exist_ok=True)
            write_whole(path, text)
        except (OSError, UserError) as error:
            raise StopRunError(f"the reply cannot be stored: {error}") from None


class CachedModel:
    """A model whose replies are read from a folder if they exist, and stored there otherwise.

    `source` is the digest of a user class, which is a part of the request. Raises UserError if the folder cannot be
    created.
    """

    def __init__(self, model: ChatModel, settings: ModelSettings, folder: Path, source: str | None) -> None:
        self._model = model
        self.name = model.name
        self.stats = model.stats
        self.aclose = model.aclose
        self._scripted = settings.name.startswith(_SCRIPTED)
        self._identity = {**settings.model_dump(include=_DECIDES), "source": source}
        if self._scripted:
            self._identity["source"] = file_digest(Path(settings.name.removeprefix(_SCRIPTED)))
        elif source is None:
            self._identity["urls"] = sorted(without_password(url) for url in base_urls(settings, os.environ))
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()
        self._store = ReplyStore(folder)

    async def complete(
        self, messages: Sequence[Message], *, tools: Sequence[Tool] = (), seed: int | None = None, session: str = ""
    ) -> Completion:
        """See `ChatModel.complete`. Raises StopRunError if the folder cannot be read or written."""
        request = {
            **self._identity,
            "messages": [asdict(message) for message in messages],
            "tools": [asdict(tool) for tool in tools],
            "seed": seed,
            "session": session if self._scripted else "",
        }
        digest = hashlib.sha256(json.dumps(request, sort_keys=True, default=str).encode()).hexdigest()
        async with self._locks.setdefault(digest, asyncio.Lock()):
            if (stored := self._store.get(digest)) is not None:
                return self._completion(digest, stored)
            completion = await self._model.complete(messages, tools=tools, seed=seed, session=session)
            whole = asdict(completion)
            await self._store.put(digest, {name: whole[name] for name in _STORED_FIELDS})
        return completion

    def _completion(self, digest: str, stored: dict[str, Any]) -> Completion:
        try:
            calls = tuple(ToolCall(**call) for call in stored.pop("tool_calls"))
            del stored["usage"]
            return Completion(**stored, tool_calls=calls, usage=Usage(), cost=0.0, reused=True)
        except (LookupError, TypeError):
            self._store.damaged(digest)
