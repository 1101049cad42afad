"""A task type: a text and a rule, and what follows from them: the ruling, the verdict and the right reply."""

from __future__ import annotations

import json
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from inspect import unwrap
from types import CodeType
from typing import Any, ClassVar, NamedTuple, TypeVar

from refsol.changes import Change
from refsol.clinical.chart import Age, Chart
from refsol.clinical.evidence import because
from refsol.clinical.harm import NO_HARM, Harm, harm_of
from refsol.clinical.meanings import Meaning, RuleSet, plain
from refsol.clinical.rulings import Edit, Reply, Ruling
from refsol.clinical.searches import Search
from refsol.errors import DataFault, FactsError, InputError, RefsolError, ReplyFault
from refsol.history import HistoryError, Post
from refsol.verdict import Because, Branch, Check, RequiredRead, Verdict

T = TypeVar("T")


class RuleError(InputError):
    """A rule of an own task type is at fault: it raised an error, or returned something that is not a ruling.

    `place` is the line of its file and its name, if it raised an error.
    """

    def __init__(self, text: str, place: str = "") -> None:
        super().__init__(text)
        self.place = place


class Pending(BaseException):
    """A session has not answered a GET of a rule yet. The text is the URL. Not an error: rules must not catch it."""


class TaskType:
    """The base of task types. `text` is the instruction, with `{mrn}` for the patient; `context` comes before it."""

    name: ClassVar[str] = ""
    """The id of the type."""
    title: ClassVar[str] = ""
    """The name in words, for tables."""
    text: ClassVar[str] = ""
    context: ClassVar[str] = ""
    searches: ClassVar[Sequence[Search]] = ()
    """All searches that the rule may make, if they do not depend on what it finds."""

    def rule(self, chart: Chart) -> Ruling:
        """What is right for a patient. It reads only the chart, and gives the same ruling for the same chart."""
        raise NotImplementedError

    @property
    def words(self) -> str:
        """The name in words."""
        return self.title or self.name.replace("_", " ")

    def ruled(self, chart: Chart) -> Ruling:
        """Run the rule. Raises DataFault, FactsError, and RuleError with the rule's file and line."""
        code = rule_code(self)
        chart.is_read = False
        try:
            ruling: object = self.rule(chart)
        except (DataFault, RefsolError):
            raise
        except (Exception, SystemExit) as error:
            frames = reversed(traceback.extract_tb(error.__traceback__))
            line = next((frame.lineno for frame in frames if frame.filename == code.co_filename), None)
            raise fault(self, line or code.co_firstlineno, f"failed: {error!r}") from error
        finally:
            chart.is_read = True
        if isinstance(ruling, Ruling):
            check_ages(ruling.answers)
            return ruling
        what = f"returned {type(ruling).__name__}; return nothing(…), answer(…) or order(…)"
        raise fault(self, code.co_firstlineno, what)

    def judge(self, chart: Chart, reply: Reply) -> Verdict:
        """Grade a reply. A ReplyFault is a failed check, unless an earlier one failed. Raises FactsError."""
        checks: list[Check] = []
        try:
            ruling = self.ruled(chart)
            checks.extend(ruling.checks(reply, chart))
        except DataFault as error:
            return self.faulty(reply, str(error))
        except ReplyFault as error:
            if all(check.passed for check in checks):
                checks.append(Check(error.check, False, "a reply that can be read", str(error)))
        is_right = all(check.passed for check in checks)

        def harmful() -> Harm:
            return NO_HARM if is_right else harm_of(ruling, reply, chart)

        return Verdict(
            correct=is_right,
            checks=tuple(checks),
            basis=Ruled(ruling, chart),
            judge_over=lambda source: self.judge(chart.over(source), reply),
            harmful=harmful if chart.rules.by_meaning else None,
        )

    def faulty(self, reply: Reply, fault: str) -> Verdict:
        """The verdict if the chart is at fault: the item is ungraded."""
        return Verdict(None, fault=f"the data, not the agent: {fault}")

    def solve(self, chart: Chart) -> Solution:
        """The right reply. Raises DataFault, FactsError."""
        return Solution.of(self.ruled(chart), chart)


def check_ages(answer: Any) -> None:
    """Raises DataFault if an accepted answer contains an age that the birth date leaves open."""
    if isinstance(answer, Age):
        answer.check_exact()
    elif isinstance(answer, Meaning):
        check_ages(answer.value)
    elif isinstance(answer, list | tuple):
        for part in answer:
            check_ages(part)


def rule_code(kind: TaskType) -> CodeType:
    """The code of a type's rule, without decorators."""
    code: CodeType = unwrap(type(kind).rule).__code__
    return code


def fault(kind: TaskType, line: int, words: str) -> RuleError:
    """The error of a type's rule at a line of its file."""
    place = f"{rule_code(kind).co_filename}:{line}: the rule of {kind.name or type(kind).__name__}"
    return RuleError(f"{place} {words}", place)


class Ruled(NamedTuple):
    """A ruling on a chart. See `Basis`."""

    ruling: Ruling
    chart: Chart

    @property
    def branch(self) -> Branch:
        return self.ruling.branch

    @property
    def because(self) -> Because:
        return because(self.chart, self.ruling)

    @property
    def accepted(self) -> tuple[Any, ...]:
        return tuple(map(plain, self.ruling.answers or ()))

    @property
    def needed(self) -> Sequence[RequiredRead]:
        return self.chart.needed


class Solution(NamedTuple):
    """A right reply: the answer, the posts, and the due changes of the chart."""

    answer: Any
    posts: tuple[Post, ...]
    edits: tuple[Edit, ...] = ()
    requests: tuple[tuple[str, str, Any], ...] = ()
    """The requests that make the changes: method, URL and JSON (None: no body)."""

    @classmethod
    def of(cls, ruling: Ruling, chart: Chart) -> Solution:
        """The right reply to a ruling: its first accepted answer, its orders, and its edits."""
        first = ruling.answers[0] if ruling.answers else []
        posts = tuple(Post(chart.base + order.kind, order.json(chart)) for order in ruling.due)
        return cls(plain(first), posts, ruling.edits, tuple(edit.request(chart.base) for edit in ruling.edits))

    @property
    def changes(self) -> tuple[Change, ...]:
        """How the chart changes."""
        created = (Change("created", after=dict(body)) for _, body in self.posts)
        return (*created, *(edit.change for edit in self.edits))

    @property
    def reply(self) -> Reply:
        """The reply of an agent that does this."""
        return Reply(json.dumps(self.answer), self.posts, bool(self.posts), changes=self.changes)


class UngradableError(ValueError):
    """The item itself cannot be graded. The text gives the reason."""


def task_type(task: Mapping[str, Any]) -> str:
    """The type of a benchmark's task: its field `type`, otherwise the part of its id before `_`."""
    return str(task.get("type") or str(task.get("id")).partition("_")[0])


def known_type(task: Mapping[str, Any], types: Mapping[str, T]) -> T:
    """The type of a benchmark's task. Raises UngradableError."""
    kind = task_type(task)
    if kind not in types:
        raise UngradableError(f"unknown task type {kind!r}; known: {', '.join(types)}")
    return types[kind]


def graded(grade: Callable[[], Verdict]) -> Verdict:
    """A verdict, or the reason why there is none."""
    try:
        return grade()
    except (UngradableError, HistoryError) as error:
        return Verdict(None, fault=str(error))
    except FactsError as error:
        return Verdict(None, fault=f"the facts could not be read: {str(error).partition(chr(10))[0]}")


def graded_by(judge: Callable[[RuleSet], Verdict], rules: RuleSet, by_meaning: RuleSet) -> Verdict:
    """As `graded`, by a rule set. If it compares the form of an order, the verdict knows the one by the rule set that
    reads an order by its meaning.
    """

    def grade() -> Verdict:
        verdict = judge(rules)
        return verdict if rules.by_meaning else replace(verdict, by_meaning=lambda: graded(lambda: judge(by_meaning)))

    return graded(grade)
