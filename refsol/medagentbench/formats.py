"""The files of other runners: which format a file has, and the answers in it.

A file is recognised by its shape, whatever its name is:

* the results file: `{"version", "round", "timestamp", "total_tasks", "results": [...]}`, also without some labels;
* `agent_results.json` of medagent-copilot: a results file whose time is called `run_timestamp`;
* `runs.jsonl` and `overall.json` of the official runner. They number the tasks by their place in the task file and
  contain complete conversations, the transcripts of failures;
* answers without a conversation: lines, or one list, of `{"task_id", "status", "result"}`. What their agents posted is
  unknown.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from pydantic import BaseModel

from refsol.errors import InputError
from refsol.files import Fault, FaultsError, InputFile, read_json
from refsol.history import HistoryMessage
from refsol.medagentbench.recorded import (
    MAX_BYTES,
    OFFICIAL_STATUSES,
    RecordedEpisode,
    ResultItem,
    ResultsFile,
    StoredMessage,
)
from refsol.schema import validator

RESULTS_FILE = "results file"
"""The format of a complete results file."""
_RUNS = "runs.jsonl of the official runner"
_OVERALL = "overall.json of the official runner"
_ANSWERS = "answers without their messages"
_LABELS = ("version", "round", "timestamp", "total_tasks")
_TASKS_OF_V1 = 100
_ITEMS_OF_V1 = 10
"""The tasks of each type in v1. In v2, `task1_11` exists too."""
_LINE_KEYS = ("index", "task_id", "output", "error", "result")
_FAILED = "task error"
_FAILURES = ("error", "failed", "exception")
"""Statuses of a line without a result: something failed."""


@dataclass(frozen=True, slots=True)
class RecordedRun:
    """A run's answers. `form` is the format of the file. `episodes` contains statuses and transcripts by task id."""

    form: str
    version: str | None
    items: tuple[ResultItem, ...]
    warnings: tuple[str, ...] = ()
    episodes: Mapping[str, RecordedEpisode] = field(default_factory=dict)
    verdicts: Mapping[str, bool] = field(default_factory=dict)
    """The verdicts that the file contains, by task id."""
    without_posts: frozenset[str] = frozenset()
    """The tasks whose POSTs are unknown."""


class _Output(BaseModel):
    """An episode: the `output` of a line of the official runner, or a line that is only an answer."""

    index: int | str | None = None
    task_id: str | None = None
    status: str | None = None
    result: Any = None
    history: list[StoredMessage] | None = None
    correct: bool | None = None
    error: Any = None

    @property
    def ending(self) -> str:
        """How the episode ended, in the official runner's words."""
        return (self.status or "completed").removesuffix("Incorrect").removesuffix("Correct")

    @property
    def verdict(self) -> bool | None:
        """The recorded verdict, if there is one."""
        if self.correct is not None or self.status is None or not self.status.endswith(("Correct", "Incorrect")):
            return self.correct
        return not self.status.endswith("Incorrect")


class _Line(BaseModel):
    """A line of `runs.jsonl`."""

    index: int | str
    error: Any = None
    output: _Output | None = None


class _Custom(BaseModel):
    raw_results: list[_Output | None]


class _Overall(BaseModel):
    custom: _Custom


@dataclass(frozen=True, slots=True)
class _Episodes:
    """The content of a file that is not a results file."""

    form: str
    outputs: Sequence[_Output]


def read_recorded(path: Path, tasks: Sequence[Mapping[str, Any]]) -> RecordedRun:
    """The answers in a file of any format. `tasks` must be in file order.

    Raises InputError with all faults, and for a file of another task set: task sets share their ids, but then most
    items contradict the task of their id.
    """
    document = _read(path)
    if isinstance(document, _Episodes):
        return _recorded(document, path, tasks)
    known = {str(task["id"]): task for task in tasks}
    shared = [item for item in document.results if item.task_id in known]
    foreign = [item.task_id for item in shared if item.contradiction(known[item.task_id])]
    if 2 * len(foreign) > len(shared):
        raise InputError(
            f"{path}: belongs to another task set ({len(foreign)} of {len(shared)} items name another patient or "
            f"answer, first {foreign[0]}); name its task file with --tasks and its patient data with --ehr"
        )
    verdicts = {item.task_id: verdict for item in document.results if (verdict := _stated(item)) is not None}
    return RecordedRun(
        _form(document), document.version, tuple(document.results), tuple(_warnings(document)), verdicts=verdicts
    )


def stated_version(path: Path) -> str | None:
    """The benchmark version that the file states, or that follows from the numbers or ids of its tasks.

    None if neither is possible. Raises InputError.
    """
    document = _read(path)
    if isinstance(document, ResultsFile):
        return document.version
    outputs = document.outputs
    numbers = [output.index for output in outputs if isinstance(output.index, int)]
    places = [int(last) for output in outputs if (last := (output.task_id or "").rpartition("_")[2]).isdecimal()]
    if max(numbers, default=0) >= _TASKS_OF_V1 or max(places, default=0) > _ITEMS_OF_V1:
        return "v2"
    distinct = {output.index if output.task_id is None else output.task_id for output in outputs}
    if len(distinct) == _TASKS_OF_V1:
        return "v1"
    # The two versions share the ids that v1 has, and most of their tasks.
    return "v2" if outputs and all(output.task_id for output in outputs) else None


def is_results_file(path: Path) -> bool:
    """Whether a file has, or should have, the published format: it is neither of the official runner nor a list of
    answers. Raises InputError if it cannot be read.
    """
    return _lines_reader(_first(path)) is None and not _is_other_document(path)


def _read(path: Path) -> ResultsFile | _Episodes:
    if (reader := _lines_reader(_first(path))) is not None:
        form, validate = reader
        with InputFile(path) as file:
            return _Episodes(form, [output for _, output in file.json_lines(validate)])
    return read_json(path, _document, max_bytes=MAX_BYTES)


def _first(path: Path) -> Any:
    return InputFile(path).first_value()


def _is_other_document(path: Path) -> bool:
    value = read_json(path, lambda value: value, max_bytes=MAX_BYTES)
    return (isinstance(value, list) and bool(value)) or (isinstance(value, dict) and _is_overall(value))


def _is_overall(value: Mapping[str, Any]) -> bool:
    return "custom" in value and "results" not in value


def _is_line(value: Any) -> bool:
    """Whether a value is an episode of the official runner."""
    return isinstance(value, dict) and ("output" in value or ("error" in value and "result" not in value))


def _is_answer(value: Any) -> bool:
    """Whether a value is an answer without a conversation."""
    return isinstance(value, dict) and "result" in value and not value.keys().isdisjoint(("task_id", "index"))


def _lines_reader(first: Any) -> tuple[str, Callable[[Any], _Output]] | None:
    """The format of JSON lines and the reader of a line, by the first line; None for a whole document."""
    if not isinstance(first, dict) or "results" in first or "custom" in first or first.keys().isdisjoint(_LINE_KEYS):
        return None
    return (_ANSWERS, _answer) if _is_answer(first) and not _is_line(first) else (_RUNS, _line)


def _line(value: Any) -> _Output:
    """A line of the official runner."""
    if not _is_line(value):
        raise FaultsError([_neither()])
    line = validator(_Line)(value)
    if line.output is None:
        return _Output(index=line.index, status=_FAILED)
    failed = {"status": _FAILED} if line.error is not None else {}
    return line.output.model_copy(update={"index": line.index, **failed})


def _answer(value: Any) -> _Output:
    """An answer without a conversation."""
    if not _is_answer(value) or "output" in value:
        raise FaultsError([_neither()])
    answer = validator(_Output)(value)
    failed = answer.error is not None or answer.status in _FAILURES
    return answer.model_copy(update={"status": _FAILED}) if failed and answer.result is None else answer


def _neither() -> Fault:
    return Fault(
        "is neither an episode of the official runner (index and output, or error) nor an answer (task_id or index, "
        "and result)"
    )


def _document(value: Any) -> ResultsFile | _Episodes:
    if isinstance(value, list) and value:
        form, read = _lines_reader(value[0]) or (_ANSWERS, _answer)
        return _Episodes(form, [_at(number, read, entry) for number, entry in enumerate(value)])
    if isinstance(value, dict) and _is_overall(value):
        overall = validator(_Overall)(value)
        return _Episodes(_OVERALL, [output for output in overall.custom.raw_results if output is not None])
    return validator(ResultsFile)(value)


def _at(number: int, read: Callable[[Any], _Output], entry: Any) -> _Output:
    """An entry of a list. Its faults get its place."""
    try:
        return read(entry)
    except FaultsError as error:
        raise FaultsError([Fault(fault.text, (number, *fault.steps)) for fault in error.faults]) from None


def _stated(item: ResultItem) -> bool | None:
    """The verdict in an item of a results file, which the format does not have."""
    verdict = (item.model_extra or {}).get("correct")
    return verdict if isinstance(verdict, bool) else None


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


def _recorded(document: _Episodes, path: Path, tasks: Sequence[Mapping[str, Any]]) -> RecordedRun:
    by_id = {str(task["id"]): task for task in tasks}
    items, without_posts, foreign = [], set(), 0
    episodes: dict[str, RecordedEpisode] = {}
    verdicts: dict[str, bool] = {}
    for output in document.outputs:
        task_id = output.task_id or _task_at(output.index, path, tasks)
        item = _item(task_id, output)
        items.append(item)
        transcript = tuple(HistoryMessage(message.role, message.content) for message in item.post_history)
        instruction = str(by_id.get(task_id, {}).get("instruction", ""))
        foreign += bool(transcript) and instruction not in transcript[0].content
        status = OFFICIAL_STATUSES.get(output.ending, output.ending)
        episodes[task_id] = RecordedEpisode(task_id, 1, status, None, transcript)
        if document.form == _ANSWERS and not transcript:
            without_posts.add(task_id)
        if output.verdict is not None:
            verdicts.setdefault(task_id, output.verdict)
    if 2 * foreign > len(items):
        raise InputError(
            f"{path}: belongs to another task set (the prompts of {foreign} of {len(items)} episodes contain another "
            "question); name its task file with --tasks and its patient data with --ehr"
        )
    return RecordedRun(document.form, None, tuple(items), (), episodes, verdicts, frozenset(without_posts))


def _task_at(place: int | str | None, path: Path, tasks: Sequence[Mapping[str, Any]]) -> str:
    """The id of the task with this place in the task file, or with this id. Raises InputError if there is none."""
    if isinstance(place, int) and 0 <= place < len(tasks):
        return str(tasks[place]["id"])
    if str(place) in {str(task["id"]) for task in tasks}:
        return str(place)
    raise InputError(
        f"{path}: contains an episode of task {place}, but the task file contains {len(tasks)} tasks; "
        "name the right task file with --tasks"
    )


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
