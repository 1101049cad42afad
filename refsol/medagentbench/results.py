"""The results file: its schema and its reader.

The published form is `{"version", "round", "timestamp", "total_tasks", "results": [...]}`. `answer` may be any JSON
value, so that a reader can report the invalid item instead of rejecting the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt

from refsol.files import read_json
from refsol.schema import validator

MAX_BYTES = 100_000_000
"""A results file has a few hundred kB. A larger file is something else."""


class StoredMessage(BaseModel):
    """One message of a post history."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: str
    content: str


class ResultItem(BaseModel):
    """One item. `answer` is a JSON text, or None if the episode did not complete. Anything else cannot be graded."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task_id: str
    answer: Any
    expected_sol: Any
    eval_MRN: Any
    timestamp: str
    post_history: list[StoredMessage]
    post_count: StrictInt


class ResultsFile(BaseModel):
    """A whole results file. Its labels may be missing: some runners do not write them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: str | None = None
    round: str | None = None
    timestamp: str | None = None
    total_tasks: StrictInt | None = None
    results: list[ResultItem]


def read_results(path: Path) -> ResultsFile:
    """Read a results file. Raises InputError with all problems, with file, line and place."""
    return read_json(path, validator(ResultsFile), max_bytes=MAX_BYTES)
