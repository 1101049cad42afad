"""What a run left: its results file in any published format, and `episodes.jsonl` next to it.

The format of a results file is detected from the content and named.

* the results file: `{"version", "round", "timestamp", "total_tasks", "results": [...]}`, also without some labels;
* `agent_results.json` of medagent-copilot: a results file whose time is called `run_timestamp`;
* `runs.jsonl` and `overall.json` of the official runner. They number the tasks by their place in the task file and
  contain complete conversations, the transcripts of failures.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel, ConfigDict, StrictInt

from refsol.errors import FactsError, InputError
from refsol.files import Fault, FaultsError, InputFile, read_json
from refsol.history import HistoryMessage, Post
from refsol.schema import validator
from refsol.verdict import show

MAX_BYTES = 100_000_000
"""A results file is a few hundred kB. A larger file is something else."""
RESULTS_FILE = "results file"
"""The format of a complete results file."""
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
_TASKS_OF_V1 = 100
_LABELS = ("version", "round", "timestamp", "total_tasks")
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
        return tuple(Post(one.url, one.resource) for one in self.created or () if one.resource is not None)


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's answers. `form` is the format of the file. `episodes` contains statuses and transcripts by task id."""

    form: str
    version: str | None
    items: tuple[ResultItem, ...]
    warnings: tuple[str, ...] = ()
    episodes: Mapping[str, RecordedEpisode] = field(default_factory=dict)


class _Output(BaseModel):
    index: int | str | None = None
    status: str = ""
    result: Any = None
    history: list[StoredMessage] | None = None


class _Run(BaseModel):
    """A line of `runs.jsonl`."""

    index: int | str
    error: Any = None
    output: _Output | None = None


class _Custom(BaseModel):
    raw_results: list[_Output | None]


class _Overall(BaseModel):
    custom: _Custom


def read_recorded(path: Path, tasks: Sequence[Mapping[str, Any]]) -> RecordedRun:
    """The answers in a file of any format. `tasks` must be in file order.

    Raises InputError with all faults, and for a file of another task set: task sets share their ids, but then most
    items contradict the task of their id.
    """
    if path.suffix == ".jsonl":
        return _official("runs.jsonl of the official runner", path, _runs(path), tasks)
    document = read_json(path, _document, max_bytes=MAX_BYTES)
    if isinstance(document, _Overall):
        outputs = [one for one in document.custom.raw_results if one is not None]
        return _official("overall.json of the official runner", path, outputs, tasks)
    known = {str(task["id"]): task for task in tasks}
    shared = [item for item in document.results if item.task_id in known]
    foreign = [item.task_id for item in shared if item.contradiction(known[item.task_id])]
    if 2 * len(foreign) > len(shared):
        raise InputError(
            f"{path}: belongs to another task set ({len(foreign)} of {len(shared)} items name another patient or "
            f"answer, first {foreign[0]}); name its task file with --tasks and its patient data with --ehr"
        )
    return RecordedRun(_form(document), document.version, tuple(document.results), tuple(_warnings(document)))


def read_results(path: Path) -> ResultsFile:
    """Read a results file. Raises InputError with all problems, with file, line and place."""
    return read_json(path, validator(ResultsFile), max_bytes=MAX_BYTES)


def stated_version(path: Path) -> str | None:
    """The benchmark version that the file states, or that follows from the numbers of its tasks.

    None if neither is possible. Raises InputError.
    """
    if path.suffix == ".jsonl":
        numbers = [run.index for run in _runs(path)]
    else:
        document = read_json(path, _document, max_bytes=MAX_BYTES)
        if isinstance(document, ResultsFile):
            return document.version
        numbers = [one.index for one in document.custom.raw_results if one is not None]
    largest = max((number for number in numbers if isinstance(number, int)), default=0)
    return "v2" if largest >= _TASKS_OF_V1 else "v1" if len(set(numbers)) == _TASKS_OF_V1 else None


def is_official(path: Path, value: Any = None) -> bool:
    """Whether a file is from the official runner: `runs.jsonl` by its name, `overall.json` by its `value`."""
    return path.suffix == ".jsonl" or (isinstance(value, dict) and "custom" in value and "results" not in value)


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
    return read_episodes(path, int(trial[1]) if trial else 1) if path.exists() else {}


def _document(value: Any) -> ResultsFile | _Overall:
    kind: type[ResultsFile | _Overall] = _Overall if is_official(Path(), value) else ResultsFile
    return validator(kind)(value)


def _form(document: ResultsFile) -> str:
    if "run_timestamp" in (document.model_extra or {}):
        return "agent_results of medagent-copilot"
    missing = [name for name in _LABELS if getattr(document, name) is None]
    return f"{RESULTS_FILE} without {', '.join(missing)}" if missing else RESULTS_FILE


def _warnings(document: ResultsFile) -> Iterator[str]:
    for name in _LABELS:
        if getattr(document, name) is None:
            yield f"{name} is missing"
    if document.total_tasks not in (None, len(document.results)):
        yield f"total_tasks is {document.total_tasks}, but there are {len(document.results)} results"


def _runs(path: Path) -> list[_Output]:
    outputs = []
    with InputFile(path, expected="each line must be an episode of the official runner") as file:
        for _, run in file.json_lines(validator(_Run)):
            failed = run.output is None or run.error is not None
            output = _Output(status="task error") if run.output is None else run.output
            outputs.append(
                output.model_copy(update={"index": run.index, **({"status": "task error"} if failed else {})})
            )
    return outputs


def _official(form: str, path: Path, outputs: Sequence[_Output], tasks: Sequence[Mapping[str, Any]]) -> RecordedRun:
    by_id = {str(task["id"]): task for task in tasks}
    items, episodes, foreign = [], {}, 0
    for output in outputs:
        place = output.index
        task = by_id.get(str(place))
        if isinstance(place, int) and 0 <= place < len(tasks):
            task = tasks[place]
        if task is None:
            raise InputError(
                f"{path}: contains an episode of task {place}, but the task file contains {len(tasks)} tasks; "
                "name the right task file with --tasks"
            )
        item = _item(str(task["id"]), output)
        items.append(item)
        transcript = tuple(HistoryMessage(one.role, one.content) for one in item.post_history)
        foreign += bool(transcript) and str(task.get("instruction", "")) not in transcript[0].content
        published = output.status.removesuffix("Incorrect").removesuffix("Correct")
        status = OFFICIAL_STATUSES.get(published, published)
        episodes[item.task_id] = RecordedEpisode(item.task_id, 1, status, None, transcript)
    if 2 * foreign > len(items):
        raise InputError(
            f"{path}: belongs to another task set (the prompts of {foreign} of {len(items)} episodes contain another "
            "question); name its task file with --tasks and its patient data with --ehr"
        )
    return RecordedRun(form, None, tuple(items), (), episodes)


def _item(task_id: str, output: _Output) -> ResultItem:
    """The item with the whole conversation as its history. The official grader looks for posts in all of it."""
    history = output.history or []
    return ResultItem(
        task_id=task_id,
        answer=output.result,
        expected_sol=None,
        eval_MRN=None,
        timestamp="",
        post_history=history,
        post_count=sum(message.role == "agent" and "POST" in message.content for message in history),
    )


def _episode(row: Any) -> RecordedEpisode:
    if not isinstance(row, dict) or not isinstance(row.get("task_id"), str):
        raise FaultsError([Fault("is not an object with a task_id")])
    trial, status, created = row.get("trial", 1), row.get("status"), row.get("created")
    if not isinstance(trial, int):
        raise FaultsError([Fault("is not a whole number", ("trial",))])
    if not isinstance(status, str):
        raise FaultsError([Fault("is not a text", ("status",))])
    if created is not None:
        if not isinstance(created, list) or not all(isinstance(one, dict) for one in created):
            raise FaultsError([Fault("is not a list of objects", ("created",))])
        created = tuple(
            Created(str(one.get("url")), None if one.get("stored") is False else one.get("resource")) for one in created
        )
    return RecordedEpisode(row["task_id"], trial, status, created, tuple(_messages(row.get("transcript"))))


def _messages(transcript: Any) -> Iterator[HistoryMessage]:
    for turn in transcript if isinstance(transcript, list) else ():
        if isinstance(turn, dict) and isinstance(turn.get("role"), str) and isinstance(turn.get("content"), str):
            dispatched = turn.get("dispatched")
            yield HistoryMessage(turn["role"], dispatched if isinstance(dispatched, str) else turn["content"])
