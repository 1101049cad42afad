"""Trial runs of rules: a rule must give the same ruling for the same chart, so it may not read the clock or random
numbers.
"""

from __future__ import annotations

import _random
import linecache
import string
import sys
from collections.abc import Callable, Iterator
from datetime import date
from inspect import cleandoc
from types import CodeType, FrameType, ModuleType
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.rulings import Ruling
from refsol.clinical.task_type import RuleError, TaskType

_CLOCK = {"now", "today", "utcnow"}
_MODULES = {
    "time": ({"time", "time_ns", "monotonic", "perf_counter", "localtime", "gmtime", "strftime"}, "the clock"),
    "posix": ({"urandom", "getrandom"}, "random numbers"),
}
"""Functions of modules that a rule may not call."""


def tried(kind: TaskType, chart: Chart) -> Ruling:
    """The ruling on a chart. Raises RuleError if the rule reads the clock or random numbers, and as `ruled` does."""
    code, impure = type(kind).rule.__code__, list[str]()

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "c_call" and (what := _read(called)) and (line := _line_in_rule(frame, code)):
            impure.append(
                f"{code.co_filename}:{line}: the rule of {_name(kind)} reads {what} ({called.__name__}); it may use "
                "only the chart, whose time is chart.now"
            )

    before = sys.getprofile()
    sys.setprofile(watch)
    try:
        ruling = kind.ruled(chart)
    finally:
        sys.setprofile(before)
    if impure:
        raise RuleError(impure[0])
    return ruling


def _read(called: Any) -> str:
    """What a function of C reads, if a rule may not read it; otherwise empty."""
    owner, name = getattr(called, "__self__", None), called.__name__
    if isinstance(owner, type) and issubclass(owner, date) and name in _CLOCK:
        return "the clock"
    if isinstance(owner, _random.Random):
        return "random numbers"
    names, what = _MODULES.get(owner.__name__ if isinstance(owner, ModuleType) else "", (set[str](), ""))
    return what if name in names else ""


def _line_in_rule(frame: FrameType | None, code: CodeType) -> int:
    """The line of the rule's file that led to a call. 0 if the chart made the call."""
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith("refsol."):
        if frame.f_code.co_filename == code.co_filename:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def types_of(module: ModuleType, path: str) -> list[type[TaskType]]:
    """The task types that a file defines, each with a valid name and text. Raises RuleError."""
    own = [
        one
        for one in vars(module).values()
        if isinstance(one, type) and issubclass(one, TaskType) and one.__module__ == module.__name__ and one.text
    ]
    if not own:
        raise RuleError(f"{path}: contains no task types; write a subclass of medagent.clinical.TaskType with a text")
    names: dict[str, type[TaskType]] = {}
    for one in own:
        check_type(one)
        if one.name in names:
            raise RuleError(f"{_place(one, 'name')}: {names[one.name].__name__} uses the name {one.name!r} too")
        names[one.name] = one
    return own


def check_type(kind: type[TaskType]) -> None:
    """Raises RuleError if a task type's name is invalid, its rule is missing, or a text contains an unknown
    placeholder.
    """
    if not kind.name.isidentifier():
        raise RuleError(f"{_place(kind, 'class')}: {kind.__name__} needs a name of letters, digits and _")
    if kind.rule is TaskType.rule:
        raise RuleError(f"{_place(kind, 'class')}: {kind.__name__} needs a function rule(self, chart)")
    try:
        known = [name for text in (kind.text, kind.context) for name in _placeholders(text)]
    except ValueError as error:
        raise RuleError(f"{_place(kind, 'text')}: the text of {kind.name}: {error}; write {{{{ for a brace") from None
    for name in known:
        if name != "mrn":
            place = _place(kind, f"{{{name}")
            raise RuleError(
                f"{place}: the text of {kind.name} contains the unknown placeholder {{{name}}}; use {{mrn}}"
            )
    if "mrn" not in known:
        raise RuleError(f"{_place(kind, 'text')}: the text of {kind.name} must name the patient: {{mrn}}")


def instruction(kind: TaskType, patient: str) -> str:
    """The text of a task for a patient."""
    return cleandoc(kind.text).format(mrn=patient)


def _placeholders(text: str) -> Iterator[str]:
    return (name for _, name, _, _ in string.Formatter().parse(text) if name is not None)


def _name(kind: TaskType) -> str:
    return kind.name or type(kind).__name__


def _place(kind: type[TaskType], words: str) -> str:
    """File and line of a class's part: the first line from the class on that contains some words."""
    file = str(sys.modules[kind.__module__].__file__)
    lines = linecache.getlines(file)
    first = _first(lines, 0, lambda line: line.startswith(f"class {kind.__name__}"))
    return f"{file}:{1 + _first(lines, first, lambda line: words in line)}"


def _first(lines: list[str], start: int, test: Callable[[str], bool]) -> int:
    return next((place for place, line in enumerate(lines) if place >= start and test(line)), start)
