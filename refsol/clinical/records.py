"""What a chart records of a rule: the reads on which it rests, and the comparisons that it makes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal, Self

from refsol.clinical.codes import Code, Lab
from refsol.clinical.faults import DataFault
from refsol.clinical.sources import Resource, ref
from refsol.verdict import Fact, Needed

How = Literal["last", "all", "mean", "first"]
"""How a read uses what it found."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one patient's resources: of a type, with one of some codes, with a status, since `start`."""

    kind: str
    codes: tuple[Code, ...] = ()
    status: str = ""
    start: datetime | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters, without the patient."""
        parts = {"code": ",".join(one.code for one in self.codes), "status": self.status}
        return {name: value for name, value in parts.items() if value}

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.kind}?{query}" if query else self.kind


@dataclass(frozen=True, slots=True)
class Looked:
    """One read: its search, and the resources on which the ruling rests. Without any, it rests on their absence.

    `what` names what was looked for, if not the code; `role` is what a resource is for the rule.
    """

    search: Search
    used: tuple[Resource, ...]
    how: How = "first"
    what: str = ""
    role: str = ""

    @property
    def lab(self) -> Lab | None:
        """The laboratory test, if it was a search for one."""
        code = self.search.codes[0] if self.search.codes else None
        return code if isinstance(code, Lab) else None


@dataclass(frozen=True, slots=True)
class Compared:
    """A comparison: of which resources, what (a value or a time), the operator, the limit, and the outcome.

    `words` describe a time on this side of its limit: `older than 365 days`.
    """

    used: tuple[Resource, ...]
    what: Literal["value", "time"]
    actual: Any
    op: str
    limit: Any
    outcome: bool
    words: str = ""


class Record:
    """What a rule read and compared, at a time (`now`)."""

    def __init__(self, now: datetime) -> None:
        self.now = now
        self.looked: list[Looked] = []
        self.compared: list[Compared] = []
        self.required: list[tuple[Needed, Fact]] = []
        """What an agent must have read besides, each with its fact. Only for types with evidence of their own."""
        self.touched: dict[int, Resource] = {}
        """All resources that a search found, by identity."""

    def note(self, search: Search, *used: Resource, how: How = "first", what: str = "", role: str = "") -> None:
        """Record that the ruling rests on these resources, or without any on the absence of what the search finds."""
        self.looked.append(Looked(search, used, how, what, role))


class Number(float):
    """A number read from a chart. It records each comparison with a limit; otherwise it is a float.

    Sums and differences are rounded to 9 digits, because 64.1 − 62.1 must not be below 2.
    """

    _chart: Record
    _used: tuple[Resource, ...]

    @classmethod
    def of(cls, value: float, chart: Record, used: tuple[Resource, ...]) -> Self:
        """A number that was read from these resources."""
        number = cls(value)
        number._chart, number._used = chart, used
        return number

    def _compare(self, op: str, limit: float, outcome: bool) -> bool:
        self._chart.compared.append(Compared(self._used, "value", float(self), op, float(limit), outcome))
        return outcome

    def _with(self, other: float, value: float) -> Number:
        used = other._used if isinstance(other, Number) else ()
        return Number.of(round(value, 9), self._chart, (*self._used, *used))

    def __add__(self, other: float) -> Number:
        return self._with(other, float(self) + float(other))

    def __sub__(self, other: float) -> Number:
        return self._with(other, float(self) - float(other))

    def __lt__(self, limit: float) -> bool:
        return self._compare("<", limit, float(self) < float(limit))

    def __le__(self, limit: float) -> bool:
        return self._compare("<=", limit, float(self) <= float(limit))

    def __gt__(self, limit: float) -> bool:
        return self._compare(">", limit, float(self) > float(limit))

    def __ge__(self, limit: float) -> bool:
        return self._compare(">=", limit, float(self) >= float(limit))


@dataclass(frozen=True, slots=True, eq=False)
class Event:
    """Something done or measured: its resource, its time as stored (`text`) and parsed, and the value of a reading.

    Comparing it with a number compares its value. Both this and `before` are recorded.
    """

    resource: Resource
    text: str
    time: datetime
    chart: Record = field(repr=False)
    value: Any = None

    @property
    def number(self) -> Number:
        """The value as a number that records its comparisons."""
        return Number.of(float(self.value), self.chart, (self.resource,))

    def __lt__(self, limit: float) -> bool:
        return self.number < limit

    def __le__(self, limit: float) -> bool:
        return self.number <= limit

    def __gt__(self, limit: float) -> bool:
        return self.number > limit

    def __ge__(self, limit: float) -> bool:
        return self.number >= limit

    def before(self, moment: datetime, words: str = "") -> bool:
        """Whether this was before a moment. `words` say so: `older than a year`.

        Raises DataFault for a time without a zone.
        """
        outcome = ordered(self, moment, lambda one, other: one < other)
        self.chart.compared.append(Compared((self.resource,), "time", self.time, "<", moment, outcome, words))
        return outcome

    def older_than(self, **length: float) -> bool:
        """Whether this was longer ago than a length of time (`days=365`, `hours=48`)."""
        words = " and ".join(f"{value:g} {unit}" for unit, value in length.items())
        return self.before(self.chart.now - timedelta(**length), f"older than {words}")


def ordered(one: Event, moment: datetime, test: Callable[[datetime, datetime], bool]) -> bool:
    """Compare an event's time. Raises DataFault if only one of the times has a zone."""
    try:
        return test(one.time, moment)
    except TypeError:
        raise DataFault(f"the time {one.text} has no zone and cannot be compared") from None


def drug_text(resource: Resource) -> str:
    """`medicationCodeableConcept.text` in lower case; empty if it is missing. Raises DataFault."""
    concept = resource.get("medicationCodeableConcept")
    text = concept.get("text", "") if isinstance(concept, dict) else None
    if not isinstance(text, str):
        raise DataFault(f"{ref(resource)} has no readable medicationCodeableConcept")
    return text.lower()
