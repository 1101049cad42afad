"""The file of submitted batches, `batches.jsonl`: one JSON object per line, synced to disk before the next step.

| line | written |
|---|---|
| `intent`, `mark`, `requests`, `bytes` | before a batch is created; `mark` its name in the provider's list |
| `intent`, `batch` | when its id is known |
| `intent`, `none` | when the provider's list shows that it was never created |
| `batch`, `lost` | when requests did not get a reply there; they go into a new batch |

So a run that was killed at any time finds its batches again and creates none twice.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from medagent.core.errors import UserError
from medagent.core.writing import APPENDED, opened, plain, writing


@dataclass(slots=True)
class Intent:
    """A batch to create. `batch` is its id once known; `size` is the number of bytes of its requests."""

    number: int
    mark: str
    requests: list[str]
    size: int
    batch: str | None = None


class Intents:
    """The batches that one model has submitted, from their file. The models of a run share the file."""

    def __init__(self, path: Path, model: str) -> None:
        """Raises UserError for a damaged line. An incomplete last line, left by a crash, is cut off."""
        self._path = path
        self._model = model
        self._intents: dict[int, Intent] = {}
        self._places: dict[str, Intent] = {}
        """For each request, the batch that may contain its reply."""
        self._last = 0
        for row in self._rows():
            self._last = max(self._last, row.get("intent", 0))
            if row["model"] == model:
                self._take(row)

    def of(self, request: str) -> Intent | None:
        """The batch that may contain a request's reply, even if it is not known whether the batch was created."""
        return self._places.get(request)

    @property
    def open(self) -> list[Intent]:
        """The intents for which it is not known whether the batch exists."""
        return [intent for intent in self._intents.values() if intent.batch is None]

    @property
    def batches(self) -> set[str]:
        """The ids of all known batches."""
        return {intent.batch for intent in self._intents.values() if intent.batch is not None}

    def begin(self, mark: str, requests: Sequence[str], size: int) -> Intent:
        """Add an intent; it is on disk when this returns. Raises UserError."""
        row = {"intent": self._last + 1, "mark": mark, "requests": list(requests), "bytes": size}
        self._append(row)
        return self._intents[self._last]

    def created(self, intent: Intent, batch: str) -> None:
        """Record the id of its batch. Raises UserError."""
        self._append({"intent": intent.number, "batch": batch})

    def dropped(self, intent: Intent) -> None:
        """Record that its batch does not exist. Raises UserError."""
        self._append({"intent": intent.number, "none": True})

    def lose(self, batch: str, requests: Sequence[str]) -> None:
        """Record that requests did not get a reply in their batch. Raises UserError."""
        self._append({"batch": batch, "lost": list(requests)})

    def _take(self, row: dict[str, Any]) -> None:
        number, batch = row.get("intent", 0), row.get("batch")
        if "mark" in row:
            intent = self._intents[number] = Intent(number, row["mark"], row["requests"], row["bytes"])
            self._places |= dict.fromkeys(intent.requests, intent)
        elif "none" in row:
            self._lose(self._intents.pop(number).requests, None)
        elif "lost" in row:
            self._lose(row["lost"], batch)
        else:
            self._intents[number].batch = batch

    def _lose(self, requests: Sequence[str], batch: str | None) -> None:
        for request in requests:
            if request in self._places and self._places[request].batch == batch:
                del self._places[request]

    def _append(self, row: dict[str, Any]) -> None:
        self._last = max(self._last, row.get("intent", 0))
        with writing(self._path), open(opened(self._path, APPENDED), "ab") as file:
            file.write(json.dumps({"model": self._model, **row}).encode() + b"\n")
            file.flush()
            os.fsync(file.fileno())
        self._take(row)

    def _rows(self) -> Iterator[dict[str, Any]]:
        try:
            content = plain(self._path).read_bytes()
            whole = content.rfind(b"\n") + 1
            if whole < len(content):
                os.truncate(self._path, whole)
        except FileNotFoundError:
            return
        except OSError as error:
            raise UserError(f"{self._path}: cannot be read: {error.strerror}") from None
        for number, line in enumerate(content[:whole].splitlines(), 1):
            try:
                row = json.loads(line)
                assert isinstance(row["model"], str)
                assert {"batch", "none"} & row.keys() or (row["mark"], row["requests"], row["bytes"])
                assert "intent" in row or "lost" in row
            except (ValueError, LookupError, TypeError, AssertionError):
                raise UserError(
                    f"{self._path}:{number}: is damaged; restore the line, or choose another --round. Without it, "
                    "paid requests would be submitted again"
                ) from None
            yield row
