"""Trial runs of rules: a rule must give the same ruling for the same chart, so it may not read the clock or random
numbers.
"""

from __future__ import annotations

import _random
import json
import linecache
import re
import string
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from datetime import date
from inspect import cleandoc, iscoroutinefunction, unwrap
from types import CodeType, FrameType, FunctionType, ModuleType
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.meanings import plain
from refsol.clinical.orders import Order
from refsol.clinical.rulings import Edit, Ruling
from refsol.clinical.task_type import Ruled, RuleError, TaskType, fault, rule_code

_NAME = re.compile(r"[^\s#,]+")
"""The name of a type, with which the ids of its tasks begin."""
_CLOCK = {"now", "today", "utcnow"}
_TIMERS = ("time", "monotonic", "perf_counter", "process_time", "thread_time", "clock_gettime")
_MODULES = {
    "time": (
        {*_TIMERS, *(f"{name}_ns" for name in _TIMERS), "localtime", "gmtime", "ctime", "asctime", "strftime"},
        "the clock",
    ),
    "_uuid": ({"generate_time_safe"}, "the clock"),
    "posix": ({"urandom", "getrandom"}, "random numbers"),
}
"""Functions of modules that a rule may not call."""
_OTHERS = ("refsol.", "_strptime")
"""Modules whose calls are not the rule's. `strptime` formats a fixed time to learn the names of months."""


def tried(kind: TaskType, make: Callable[[], Chart]) -> Ruled:
    """The ruling on a chart, after two runs of the rule on new charts.

    Raises RuleError if the rule reads the clock or random numbers, if its rulings differ, or if no reply can follow
    them, and as `ruled` does.
    """
    code, impure = rule_code(kind), list[RuleError]()
    lines = [code.co_firstlineno]

    def watch(frame: FrameType, event: str, called: Any) -> None:
        if event == "return" and frame.f_code is code:
            lines.append(frame.f_lineno)
        if event == "c_call" and (what := _read(called)) and (line := _line_in_rule(frame, code)):
            words = f"reads {what} ({called.__name__}); it may use only the chart, whose time is chart.now"
            impure.append(fault(kind, line, words))

    chart, before = make(), sys.getprofile()
    sys.setprofile(watch)
    try:
        ruling = kind.ruled(chart)
    finally:
        sys.setprofile(before)
    if impure:
        raise impure[0]
    if words := _misfit(ruling) or _unwritable(ruling, chart):
        raise fault(kind, lines[-1], words)
    again = make()
    if written(kind.ruled(again), again) != written(ruling, chart):
        words = "gives two rulings on the same chart; it may use only the chart, whose time is chart.now"
        raise fault(kind, code.co_firstlineno, words)
    return Ruled(ruling, chart)


def written(ruling: Ruling, chart: Chart) -> str:
    """A ruling as text, to compare two of them."""
    answers = None if ruling.answers is None else [plain(answer) for answer in ruling.answers]
    orders, edits = [order.json(chart) for order in ruling.due], [edit.words for edit in ruling.edits]
    return json.dumps([ruling.branch, answers, orders, edits, ruling.only])


def _misfit(ruling: Ruling) -> str:
    """What is wrong with the parts of a ruling, and what to write; empty if nothing is."""
    if ruling.answers == ():
        return "accepts no answer; write answer([4.1]), or nothing() if any answer is right"
    if ruling.branch == "order" and not (ruling.due or ruling.edits):
        return "returned order() without an order; write order(lab_test(…)), or nothing()"
    answers = [plain(answer) for answer in ruling.answers or ()]
    for parts, right, words in (
        (answers, list, "accepts an answer of type {}; write each one as a list: [4.1]"),
        (ruling.due, Order, "orders something of type {}; write order(lab_test(…), medication(…))"),
        (ruling.edits, Edit, "changes something of type {}; write order(edits=[update(resource, …)])"),
    ):
        for value in parts:
            if not isinstance(value, right):
                return words.format(type(value).__name__)
    return ""


def _unwritable(ruling: Ruling, chart: Chart) -> str:
    """Why no JSON is the reply that a ruling asks for; empty if some is."""
    try:
        text = written(ruling, chart)
    except (TypeError, ValueError) as error:
        return f"returned what is not JSON ({error}); of a measurement, use its value or text"
    answers = [plain(answer) for answer in ruling.answers or ()]
    if (json.loads(text)[1] or []) == answers:
        return ""
    return "accepts what no JSON equals, such as a tuple in a list; write lists, texts and numbers"


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
    """The line of the rule's file that led to a call. 0 if another module made the call."""
    while frame is not None and not str(frame.f_globals.get("__name__")).startswith(_OTHERS):
        if frame.f_code.co_filename == code.co_filename:
            return frame.f_lineno
        frame = frame.f_back
    return 0


def types_of(module: ModuleType, path: str) -> tuple[TaskType, ...]:
    """The task types that a file defines. Raises RuleError."""
    classes = _defined(module)
    if not classes:
        raise RuleError(f"{path}: contains no task types; write a subclass of medagent.clinical.TaskType with a text")
    types = tuple(created(task_class) for task_class in classes)
    _check_distinct(types)
    return types


def check_types(types: Sequence[object], place: str, *, with_patient: bool = True) -> None:
    """Raises RuleError for the types of an installed benchmark, a class at `place`, with which no task can be made.

    `with_patient`: their texts must name the patient.
    """
    if not types:
        raise RuleError(f"{place}: contains no task types; list them in `types`")
    instances = list[TaskType]()
    for kind in types:
        if not isinstance(kind, TaskType):
            name = kind.__name__ if isinstance(kind, type) else repr(kind)
            raise RuleError(f"{place}: `types` lists {name}, which is not a task type; create each one: {name}()")
        task_class = type(kind)
        if not (isinstance(kind.name, str) and _NAME.fullmatch(kind.name)):
            words = f"{task_class.__name__} needs a name without spaces, commas and #"
            raise RuleError(f"{_place(task_class, 'class')}: {words}")
        _check_rule(task_class)
        _check_placeholders(task_class, with_patient=with_patient)
        instances.append(kind)
    _check_distinct(instances)


def _check_distinct(types: Sequence[TaskType]) -> None:
    """Raises RuleError for two types of the same name."""
    users: dict[str, str] = {}
    for kind in types:
        task_class = type(kind)
        if kind.name in users:
            raise RuleError(f"{_place(task_class, 'name')}: {users[kind.name]} uses the name {kind.name!r} too")
        users[kind.name] = task_class.__name__


def other_names(types: Collection[TaskType]) -> set[str]:
    """The names of the other task types in the files of some types."""
    files = {sys.modules[type(task_type).__module__] for task_type in types}
    return {task_class.name for file in files for task_class in _defined(file)} - {
        task_type.name for task_type in types
    }


def _defined(module: ModuleType) -> dict[type[TaskType], None]:
    classes = (
        value
        for value in vars(module).values()
        if isinstance(value, type) and issubclass(value, TaskType) and value.text
    )
    return dict.fromkeys(task_class for task_class in classes if task_class.__module__ == module.__name__)


def created(kind: type[TaskType]) -> TaskType:
    """A task type. Raises RuleError if its name is invalid, its rule is missing, a text contains an unknown
    placeholder, or it cannot be created without arguments.
    """
    if not (isinstance(kind.name, str) and kind.name.isidentifier()):
        raise RuleError(f"{_place(kind, 'class')}: {kind.__name__} needs a name of letters, digits and _")
    _check_rule(kind)
    _check_placeholders(kind)
    try:
        return kind()
    except Exception as error:
        words = f"{kind.__name__}() failed: {error!r}; a task type is created without arguments"
        raise RuleError(f"{_place(kind, '__init__')}: {words}") from None


def _check_rule(kind: type[TaskType]) -> None:
    """Raises RuleError if the rule is missing, or a text is something else."""
    rule: object = unwrap(kind.rule)
    if rule is TaskType.rule or not isinstance(rule, FunctionType) or iscoroutinefunction(rule):
        raise RuleError(f"{_place(kind, 'class')}: {kind.__name__} needs a function rule(self, chart)")
    for part in ("text", "context", "title"):
        if not isinstance(getattr(kind, part), str):
            raise RuleError(f"{_place(kind, part)}: the {part} of {kind.name} must be a text in quotes")


def _check_placeholders(kind: type[TaskType], *, with_patient: bool = True) -> None:
    """Raises RuleError for an unknown placeholder, and with `with_patient` for texts that do not name the patient."""
    try:
        known = [placeholder for text in (kind.text, kind.context) for placeholder in _placeholders(text)]
    except ValueError as error:
        raise RuleError(f"{_place(kind, 'text')}: the text of {kind.name}: {error}; write {{{{ for a brace") from None
    for placeholder in known:
        if placeholder != "{mrn}":
            raise RuleError(
                f"{_place(kind, placeholder)}: the text of {kind.name} contains the unknown placeholder {placeholder}; "
                "use {mrn}"
            )
    if with_patient and not known:
        raise RuleError(f"{_place(kind, 'text')}: the text of {kind.name} must name the patient: {{mrn}}")


def instruction(kind: TaskType, patient: str) -> str:
    """The text of a task for a patient."""
    return cleandoc(kind.text).format(mrn=patient)


def _placeholders(text: str) -> Iterator[str]:
    """The placeholders of a text as they are written: `{mrn}`, `{mrn:>8}`."""
    for _, name, form, conversion in string.Formatter().parse(text):
        if name is not None:
            parts = (name, conversion and f"!{conversion}", form and f":{form}")
            yield f"{{{''.join(filter(None, parts))}}}"


def _place(kind: type[TaskType], words: str) -> str:
    """File and line of a class's part: the first line from the class on that contains some words."""
    file = str(sys.modules[kind.__module__].__file__)
    lines = linecache.getlines(file)
    first = _first(lines, 0, lambda line: line.startswith(f"class {kind.__name__}"))
    return f"{file}:{1 + _first(lines, first, lambda line: words in line)}"


def _first(lines: list[str], start: int, test: Callable[[str], bool]) -> int:
    return next((place for place, line in enumerate(lines) if place >= start and test(line)), start)
