"""Read a run's answers from any published form. The form is detected from the content and named.

* the results file, also without some of its labels;
* `agent_results.json` of medagent-copilot: a results file whose time is called `run_timestamp`;
* `runs.jsonl` and `overall.json` of the official runner. They number the tasks by their place in the task file and have
  complete conversations, so that failures have transcripts.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refsol.errors import InputError
from refsol.files import InputFile, read_json
from refsol.history import HistoryMessage
from refsol.medagentbench.episodes import RecordedEpisode
from refsol.medagentbench.results import MAX_BYTES, ResultItem, ResultsFile, StoredMessage
from refsol.schema import validator

RESULTS_FILE = "results file"
"""The form of a complete results file."""
_TASKS_OF_V1 = 100
_LABELS = ("version", "round", "timestamp", "total_tasks")
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


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's answers. `form` names the form of the file. `episodes` has statuses and transcripts by task id."""

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
    """The answers in a file of any form. `tasks` must be in file order. Raises InputError with all faults."""
    if path.suffix == ".jsonl":
        return _official("runs.jsonl of the official runner", path, _runs(path), tasks)
    document = read_json(path, _document, max_bytes=MAX_BYTES)
    if isinstance(document, _Overall):
        outputs = [one for one in document.custom.raw_results if one is not None]
        return _official("overall.json of the official runner", path, outputs, tasks)
    return RecordedRun(_form(document), document.version, tuple(document.results), tuple(_warnings(document)))


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
                f"{path}: has an episode of task {place}, but the task file has {len(tasks)} tasks; "
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
            f"{path}: belongs to another task set (the prompts of {foreign} of {len(items)} episodes have another "
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
