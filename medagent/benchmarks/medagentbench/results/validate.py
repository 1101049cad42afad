"""The offline validator: finds every problem of a results file, with its place. It grades nothing.

A part that breaks the schema or contradicts the rest of the file is an error. An answer in an unusual format, or in one
that a grader rejects, is a warning, because the file can still be graded.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from pathlib import Path
from typing import Any, Literal, NamedTuple

from pydantic import ValidationError

from medagent.benchmarks.medagentbench.results.suspicions import foreign_base, numbers_outside_json, patients_of
from medagent.benchmarks.medagentbench.tasks.dataset import BUNDLED, VERSIONS, load_dataset, load_tasks_file
from refsol.files import anything, read_json
from refsol.json_values import as_object, json_value
from refsol.medagentbench.constants import PUBLISHED
from refsol.medagentbench.formats import is_results_file, read_recorded, stated_version
from refsol.medagentbench.recorded import MAX_BYTES, ResultItem, ResultsFile, StoredMessage
from refsol.schema import faults
from refsol.verdict import MISSING

_SHOWN = 3
"""The number of places that are named for equal problems."""


@dataclass(frozen=True, slots=True)
class FormatProblem:
    """One problem and its place, such as `results[3].answer`.

    `item` is the task id and `value` the value, as they are shown. Equal problems differ only in these two and in the
    number of the place.
    """

    level: Literal["error", "warning"]
    place: str
    text: str
    item: str = ""
    value: str = ""

    @property
    def words(self) -> str:
        """The text of the problem with its item and value."""
        return ": ".join(filter(None, (self.item, self.text, self.value)))

    @property
    def group(self) -> tuple[str, str, str]:
        """A key that equal problems share."""
        place = f"item.{self.place.partition('.')[2]}" if self.item else self.place
        return self.level, re.sub(r"\[\d+\]", "[]", place), self.text


def lines(problems: Sequence[FormatProblem], *, every: bool = False) -> Iterator[str]:
    """The problems as lines. Equal problems share a line with their number and the first places, unless `every`."""
    groups: dict[object, list[FormatProblem]] = {}
    for number, problem in enumerate(problems):
        groups.setdefault(number if every else problem.group, []).append(problem)
    for same in groups.values():
        first = same[0]
        if len(same) == 1:
            yield f"{first.level}: {first.place}: {first.words}"
            continue
        places = [
            " ".join(filter(None, (finding.place, finding.item, finding.value and f"({finding.value})")))
            for finding in same[:_SHOWN]
        ]
        more = ", …" if len(same) > _SHOWN else ""
        yield f"{first.level}: {len(same)} times: {first.text}: {', '.join(places)}{more}"


def validate(path: Path, tasks_file: Path | None = None) -> list[FormatProblem]:
    """All problems of a results file. Its ids must be in the task file, or in the version that the results file names.

    Raises InputError if it is not a JSON file, UserError if the task file cannot be used.
    """
    if not is_results_file(path):
        return list(_other_format(path, tasks_file))
    data = read_json(path, anything, max_bytes=MAX_BYTES)
    known = _types(tasks_file, as_object(data).get("version"))
    try:
        file: ResultsFile | None = ResultsFile.model_validate(data)
        problems = []
    except ValidationError as error:
        file = None
        problems = [FormatProblem("error", fault.place or "the top", fault.text) for fault in faults(error, data)]
    problems += _contradictions(data)
    if file is not None:
        problems += _whole_file(file)
    items = dict(_items(data))
    named = None if tasks_file is None else [task.patient for task in load_tasks_file(tasks_file).tasks]
    patients, base = patients_of(items.values(), named), _base(path)
    for number, item in items.items():
        problems += [
            replace(problem, place=f"results[{number}]{problem.place}", item=f"{item.task_id!a}")
            for problem in (*_item(item, known), *_suspicions(item, base, patients))
        ]
    return problems


def _other_format(path: Path, tasks_file: Path | None) -> Iterator[FormatProblem]:
    """The problems of a file of the official runner, or of a list of answers. Only the answers are checked."""
    types = _types(tasks_file, stated_version(path))
    run = read_recorded(path, [{"id": task_id} for task_id in types])
    yield FormatProblem("warning", "the file", f"is {run.form}; only its answers are checked")
    for item in run.items:
        for problem in (*_answer(item, types.get(item.task_id, "")), *_suspicions(item, _base(path), ())):
            yield replace(problem, place=f"{item.task_id}{problem.place}")


def _base(path: Path) -> str:
    """The base that POSTs must have: that of the run next to the file, otherwise the benchmark's."""
    beside = path.with_name("run.json")
    run = as_object(json_value(beside.read_bytes())) if beside.is_file() else {}
    return str(as_object(run.get("settings")).get("api-base") or PUBLISHED.base)


def _suspicions(item: ResultItem, base: str, patients: Collection[str]) -> Iterator[FormatProblem]:
    for place, url in foreign_base(item, base):
        text = f"is a POST to another server than {base}; it counts only with medagent grade --base"
        yield FormatProblem("warning", place, text, value=url)
    for place, name in numbers_outside_json(item):
        yield FormatProblem("warning", place, "is not JSON: it contains a number that is none", value=name)
    if patients and isinstance(item.eval_MRN, str) and item.eval_MRN not in patients:
        text = "is not a patient of the tasks; if they are another set's, pass --tasks"
        yield FormatProblem("warning", ".eval_MRN", text, value=f"{item.eval_MRN[:40]!a}")


def _types(tasks_file: Path | None, version: Any) -> dict[str, str]:
    """The type of each task id, in file order. The ids are the same in all data sets, so the bundled one is used."""
    known = version if version in VERSIONS else "v2"
    dataset = load_tasks_file(tasks_file) if tasks_file else load_dataset(BUNDLED, known)
    return {task.id: task.type for task in dataset.tasks}


def _entries(data: Any) -> list[Any]:
    entries = as_object(data).get("results")
    return entries if isinstance(entries, list) else []


def _items(data: Any) -> Iterator[tuple[int, ResultItem]]:
    """The items that match the schema, even if other items or the file do not."""
    for number, entry in enumerate(_entries(data)):
        try:
            yield number, ResultItem.model_validate(entry)
        except ValidationError:
            continue


def _contradictions(data: Any) -> Iterator[FormatProblem]:
    """Contradictions within the file. Parts of it may break the schema."""
    entries = _entries(data)
    total = as_object(data).get("total_tasks")
    if isinstance(total, int) and total != len(entries):
        yield FormatProblem("error", "total_tasks", f"is {total}, but there are {len(entries)} results")
    ids = [entry.get("task_id") for entry in entries if isinstance(entry, dict)]
    for task_id, count in Counter(task_id for task_id in ids if isinstance(task_id, str)).items():
        if count > 1:
            yield FormatProblem("error", "results", f"contains {task_id!a} {count} times; only the first is graded")


def _whole_file(file: ResultsFile) -> Iterator[FormatProblem]:
    for name in ("version", "round", "timestamp", "total_tasks"):
        if getattr(file, name) is None:
            yield FormatProblem("warning", name, "is missing")
    if file.version is not None and file.version not in VERSIONS:
        yield FormatProblem(
            "warning",
            "version",
            f"is {file.version!a}, which is not a version of the benchmark; to grade the file, pass --tasks",
        )
    yield from _extras("", file.model_extra)
    if file.timestamp is not None:
        yield from _timestamp("timestamp", file.timestamp)


def _item(item: ResultItem, known: Mapping[str, str]) -> Iterator[FormatProblem]:
    if item.task_id not in known:
        yield FormatProblem("error", ".task_id", "is not in the task set")
    yield from _answer(item, known.get(item.task_id, ""))
    accepted = sum(
        message.role == "user" and PUBLISHED.acknowledgement in message.content for message in item.post_history
    )
    if item.post_count != accepted:
        yield FormatProblem(
            "error", ".post_count", "is not the number of accepted posts", value=f"{item.post_count}, not {accepted}"
        )
    yield from _history(item.post_history)
    if not isinstance(item.eval_MRN, str | None):
        yield FormatProblem("error", ".eval_MRN", "is neither text nor null")
    yield from _extras(".", item.model_extra)
    yield from _timestamp(".timestamp", item.timestamp)


def _answer(item: ResultItem, kind: str) -> Iterator[FormatProblem]:
    if item.answer is None:
        yield FormatProblem("warning", ".answer", "is null: the episode did not complete and is graded as wrong")
        return
    if not isinstance(item.answer, str):
        yield FormatProblem("error", ".answer", "is not a JSON text (a string) or null; it is not graded")
    elif kind in FORMS and (problem := answer_problem(kind, item.answer)):
        yield FormatProblem("warning", ".answer", problem, value=f"{item.answer[:60]!a}")


def _history(messages: list[StoredMessage]) -> Iterator[FormatProblem]:
    """The problems of a POST history, which should alternate an agent's POST with the reply to it."""
    for number, message in enumerate(messages):
        place = f".post_history[{number}]"
        answers = number > 0 and messages[number - 1].role == "agent"
        if message.role not in ("agent", "user"):
            yield FormatProblem("warning", f"{place}.role", f"is {message.role!a}, neither agent nor user")
        elif answers != (message.role == "user"):
            yield FormatProblem(
                "warning", f"{place}.role", f"is {message.role} out of turn: agent and user should alternate"
            )
        if message.role != "agent":
            continue
        if "POST" not in message.content:
            yield FormatProblem("warning", place, "is an agent's message without POST")
        elif number + 1 == len(messages):
            yield FormatProblem("warning", place, "is a POST without the reply to it; a grader rejects that")
        elif PUBLISHED.acknowledgement in messages[number + 1].content and MISSING is json_value(
            message.content.partition("\n")[2], MISSING
        ):
            yield FormatProblem(
                "warning", place, "was accepted but contains no JSON after its first line; it does not count"
            )


def _extras(prefix: str, extra: dict[str, Any] | None) -> Iterator[FormatProblem]:
    for name in extra or ():
        yield FormatProblem("warning", f"{prefix}{ascii(name)[1:-1]}", "is a field that the format does not have")


def _timestamp(place: str, text: str) -> Iterator[FormatProblem]:
    try:
        datetime.fromisoformat(text)
    except ValueError:
        yield FormatProblem("warning", place, "is not an ISO time", value=f"{text[:40]!a}")


_MRN = re.compile(r"S\d{7}")
_FREE = ("task3", "task8")
"""Task types whose answer is not graded."""


class Form(NamedTuple):
    """The usual format of an answer as text, a test for formats that a grader can accept, and one for the usual one."""

    words: str
    gradable: Callable[[Any], bool]
    usual: Callable[[Any], bool]


def answer_problem(task_type: str, answer: str) -> str | None:
    """The problem with the format of an answer's JSON text, or None."""
    form = FORMS[task_type]
    loss = "; the answer of this task is not graded" if task_type in _FREE else "; a grader rejects this format"
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return f"the answer is not JSON{loss}"
    if not form.gradable(value):
        return f"the answer is not {form.words}{loss}"
    return None if form.usual(value) else f"the answer is not {form.words}; a grader accepts this format"


def _one(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and len(value) == 1 and test(value[0])


def _empty(value: Any) -> bool:
    return isinstance(value, list) and not value


def _number(value: Any) -> bool:
    return isinstance(value, int | float)


def _plain_number(value: Any) -> bool:
    return _number(value) and not isinstance(value, bool)


def _identifier(value: Any) -> bool:
    return isinstance(value, str) and (value == "Patient not found" or bool(_MRN.fullmatch(value)))


def _dated(value: Any) -> bool:
    return isinstance(value, list) and len(value) == 2 and _number(value[0]) and _time(value[1])


def _time(value: Any) -> bool:
    try:
        return isinstance(value, str) and bool(datetime.fromisoformat(value))
    except ValueError:
        return False


def _or_empty(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: _empty(value) or test(value)


_ANY_TEXT = _one(lambda value: isinstance(value, str))
_NUMBER = Form("a list of one number", _one(_number), _one(_plain_number))
_NONE = Form("the empty list", _empty, _empty)
_NUMBER_OR_NONE = Form("a list of one number, or empty", _or_empty(_one(_number)), _or_empty(_one(_plain_number)))

FORMS: dict[str, Form] = {
    "task1": Form('a list of one MRN (S and 7 digits) or of "Patient not found"', _ANY_TEXT, _one(_identifier)),
    "task2": Form("a list of one whole number", _one(_number), _one(lambda value: type(value) is int)),
    "task3": _NONE,
    "task4": _NUMBER,
    "task5": _NUMBER_OR_NONE,
    "task6": _NUMBER,
    "task7": _NUMBER,
    "task8": _NONE,
    "task9": _NUMBER_OR_NONE,
    "task10": Form(
        "a number and its time in a list, [-1], or empty",
        lambda value: _empty(value) or _one(_number)(value) or _dated(value),
        lambda value: _empty(value) or value == [-1] or _dated(value),
    ),
}
