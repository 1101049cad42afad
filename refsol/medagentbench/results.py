"""The results file: its schema, and the one way to read it.

The published form, `{"version", "round", "timestamp", "total_tasks", "results": [...]}`. Whatever an agent can put into
a text survives (lone surrogates, NaN, deeply nested or giant JSON inside a text); `answer` may be any JSON value, so
that a reader can say which item is wrong instead of refusing the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, InstanceOf, StrictInt, ValidationError

from refsol.errors import InputError

MAX_BYTES = 100_000_000
"""A results file is a few hundred kB; what is larger than this is something else."""

# pydantic's own `str` refuses lone surrogates, which models do produce.
Text = InstanceOf[str]


class Message(BaseModel):
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
    post_history: list[Message]
    post_count: StrictInt


class ResultsFile(BaseModel):
    """A whole results file."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: Text
    round: Text
    timestamp: Text
    total_tasks: StrictInt
    results: list[ResultItem]


_WORDS = {
    "model_type": "is not a JSON object",
    "list_type": "is not a list",
    "tuple_type": "is not a list",
    "string_type": "is not a text",
    "int_type": "is not a whole number",
    "missing": "is missing",
}
"""pydantic's kinds of error, in words of the file's format."""


def read_results(path: Path) -> ResultsFile:
    """Read a results file. Raises InputError naming the file and the place of the first thing that is wrong."""
    data = load_json(path)
    try:
        return ResultsFile.model_validate(data)
    except ValidationError as error:
        where, text = problems(error)[0]
        raise InputError(f"{path}: at {where}: {text}") from None


def load_json(path: Path) -> Any:
    """The JSON of a file of at most `MAX_BYTES`. Raises InputError where it cannot be read."""
    try:
        if (size := path.stat().st_size) > MAX_BYTES:
            raise InputError(f"{path}: has {size} bytes, more than the {MAX_BYTES} a results file may have")
        return json.loads(path.read_bytes().decode("utf-8"))
    except OSError as error:
        raise InputError(f"{path}: cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        raise InputError(f"{path}: is not UTF-8 at byte {error.start}") from None
    except RecursionError:
        raise InputError(f"{path}: is nested too deeply to be read") from None
    except ValueError as error:
        raise InputError(f"{path}: is not JSON: {error}") from None


def problems(error: ValidationError) -> list[tuple[str, str]]:
    """Every place (`results[3].post_history[0].content`) that breaks the schema, and how."""
    return [
        (_place(one["loc"]), _WORDS.get(one["type"], one["msg"]))
        for one in error.errors(include_url=False, include_input=False)
    ]


def _place(steps: tuple[int | str, ...]) -> str:
    text = "".join(f"[{step}]" if isinstance(step, int) else f".{step}" for step in steps)
    return text.lstrip(".") or "the top"
