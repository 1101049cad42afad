"""The results file: its schema, and the one way to read it.

The published form, `{"version", "round", "timestamp", "total_tasks", "results": [...]}`. Whatever an agent can put into
a text survives (lone surrogates, NaN, deeply nested or giant JSON inside a text); `answer` may be any JSON value, so
that a reader can say which item is wrong instead of refusing the file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, InstanceOf, StrictInt

from refsol.files import read_json
from refsol.schema import validator

MAX_BYTES = 100_000_000
"""A results file is a few hundred kB; what is larger than this is something else."""

# pydantic's own `str` refuses lone surrogates, which models do produce.
Text = InstanceOf[str]


class StoredMessage(BaseModel):
    """One message of a post history."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: Text
    content: Text


class ResultItem(BaseModel):
    """One item. `answer` is a JSON text, None where the episode did not complete; anything else cannot be graded."""

    model_config = ConfigDict(frozen=True, extra="allow")

    task_id: Text
    answer: Any
    expected_sol: Any
    eval_MRN: Any
    timestamp: Text
    post_history: list[StoredMessage]
    post_count: StrictInt


class ResultsFile(BaseModel):
    """A whole results file. Its labels may be missing: some runners write none."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: Text | None = None
    round: Text | None = None
    timestamp: Text | None = None
    total_tasks: StrictInt | None = None
    results: list[ResultItem]


def read_results(path: Path) -> ResultsFile:
    """Read a results file. Raises InputError naming everything that is wrong, with file, line and place."""
    return read_json(path, validator(ResultsFile), max_bytes=MAX_BYTES)
