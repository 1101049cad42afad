"""What a run left: its results file in the published format, and `episodes.jsonl` next to it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt

from refsol.errors import FactsError
from refsol.files import Fault, FaultsError, InputFile, read_json
from refsol.history import HistoryMessage, Post
from refsol.schema import validator
from refsol.verdict import show

MAX_BYTES = 100_000_000
"""A results file is a few hundred kB. A larger file is something else."""
NOT_THE_AGENT = ("model_error", "fhir_error", "grader_error", "benchmark_error", "refused", "cancelled")
"""Statuses of episodes that failed for a reason outside the agent."""
OFFICIAL_STATUSES = {
    "completed": "completed",
    "agent invalid action": "invalid_action",
    "agent validation failed": "invalid_action",
    "agent context limit": "context_limit",
    "task limit reached": "round_limit",
    "task error": "fhir_error",
    "cancelled": "cancelled",
}
"""The official runner's names for how an episode ended, and this project's names."""
_TRIAL = re.compile(r"results\.(\d+)\.json")


class StoredMessage(BaseModel):
    """One message of a post history."""

    model_config = ConfigDict(frozen=True, extra="allow")

    role: str
    content: str


class ResultItem(BaseModel):
    """One item. `answer` is a JSON text, or None if the episode did not complete. It may be any JSON value, so that a
    reader can report the invalid item instead of rejecting the file.
    """

    model_config = ConfigDict(frozen=True, extra="allow")

    task_id: str
    answer: Any
    expected_sol: Any
    eval_MRN: Any
    timestamp: str
    post_history: list[StoredMessage]
    post_count: StrictInt

    def contradiction(self, task: Mapping[str, Any]) -> str:
        """Why the item is not about the task of its id; empty if it may be. A missing field is not a contradiction."""
        mrn, sol = task.get("eval_MRN") or None, task.get("sol")
        if (self.eval_MRN and self.eval_MRN != mrn) or (sol and self.expected_sol and self.expected_sol != sol):
            return f"the item is about {show(self.eval_MRN)} and expects {show(self.expected_sol)}: not this task"
        return ""


class ResultsFile(BaseModel):
    """A whole results file. Its labels may be missing: some runners do not write them."""

    model_config = ConfigDict(frozen=True, extra="allow")

    version: str | None = None
    round: str | None = None
    timestamp: str | None = None
    total_tasks: StrictInt | None = None
    results: list[ResultItem]


@dataclass(frozen=True, slots=True)
class Created:
    """A POST and its result: the stored resource, or None if the server rejected it or did not get it."""

    url: str
    resource: Any


@dataclass(frozen=True, slots=True)
class RecordedEpisode:
    """How an episode went. `created` is None if it is unknown what the server stored.

    If the runner interpreted a message differently from its text, the transcript contains the interpretation.
    """

    task_id: str
    trial: int
    status: str
    created: tuple[Created, ...] | None
    transcript: tuple[HistoryMessage, ...] = ()

    @property
    def failed_elsewhere(self) -> bool:
        """Whether the episode failed for a reason outside the agent."""
        return self.status in NOT_THE_AGENT

    @property
    def stored_posts(self) -> tuple[Post, ...]:
        """The resources that the server stored, in the order of the posts."""
        return tuple(
            Post(creation.url, creation.resource) for creation in self.created or () if creation.resource is not None
        )


def read_results(path: Path) -> ResultsFile:
    """Read a results file. Raises InputError with all problems, with file, line and place."""
    return read_json(path, validator(ResultsFile), max_bytes=MAX_BYTES)


def read_episodes(path: Path, trial: int = 1) -> dict[str, RecordedEpisode]:
    """One trial's episodes in an `episodes.jsonl`, by task id. A later row of a task replaces an earlier one; an
    incomplete last line is a row whose writing was interrupted.

    Raises FactsError with file and line.
    """
    with InputFile(path, error=FactsError, expected="each line must be an episode") as file:
        episodes = [episode for _, episode in file.json_lines(_episode, torn_tail=True)]
    return {episode.task_id: episode for episode in episodes if episode.trial == trial}


def episodes_beside(results: Path) -> dict[str, RecordedEpisode]:
    """The episodes in the `episodes.jsonl` next to a results file, of the first trial, or of trial N for
    `results.N.json`. Raises FactsError.
    """
    trial, path = _TRIAL.fullmatch(results.name), results.with_name("episodes.jsonl")
    if not path.exists():
        return {}
    return read_episodes(path, int(trial[1]) if trial else 1)


def _episode(row: Any) -> RecordedEpisode:
    if not isinstance(row, dict) or not isinstance(row.get("task_id"), str):
        raise FaultsError([Fault("is not an object with a task_id")])
    trial, status, created = row.get("trial", 1), row.get("status"), row.get("created")
    if not isinstance(trial, int):
        raise FaultsError([Fault("is not a whole number", ("trial",))])
    if not isinstance(status, str):
        raise FaultsError([Fault("is not a text", ("status",))])
    if created is not None:
        if not isinstance(created, list) or not all(isinstance(entry, dict) for entry in created):
            raise FaultsError([Fault("is not a list of objects", ("created",))])
        created = tuple(
            Created(str(entry.get("url")), None if entry.get("stored") is False else entry.get("resource"))
            for entry in created
        )
    return RecordedEpisode(row["task_id"], trial, status, created, tuple(_messages(row.get("transcript"))))


def _messages(transcript: Any) -> Iterator[HistoryMessage]:
    for turn in transcript if isinstance(transcript, list) else ():
        if isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str):
            dispatched = turn.get("dispatched")
            yield HistoryMessage(turn["role"], dispatched if isinstance(dispatched, str) else turn["content"])
