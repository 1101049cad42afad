"""The usual form of an answer by task type, and whether the grader accepts another form. `medagent validate` uses it.

The grader compares JSON values: `[60.0]` equals `[60]`, but `60` and `["60"]` do not. The usual form of a task type is
the form of its right answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from datetime import datetime
from typing import Any, NamedTuple

_MRN = re.compile(r"S\d{7}")
_FREE = ("task3", "task8")
"""Task types whose answer is not graded."""


class Form(NamedTuple):
    """The usual form of an answer as text, a test for forms that a grader can accept, and one for the usual form."""

    words: str
    gradable: Callable[[Any], bool]
    usual: Callable[[Any], bool]


def answer_problem(task_type: str, answer: str) -> str | None:
    """The problem with the form of an answer's JSON text, or None."""
    form = FORMS[task_type]
    loss = "; the answer of this task is not graded" if task_type in _FREE else "; a grader rejects this form"
    try:
        value = json.loads(answer)
    except (ValueError, RecursionError):
        return f"the answer is not JSON{loss}"
    if not form.gradable(value):
        return f"the answer is not {form.words}{loss}"
    return None if form.usual(value) else f"the answer is not {form.words}; a grader accepts this form"


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
