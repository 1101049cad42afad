"""One patient's record at a time, as a rule reads it. Every read and every comparison is recorded.

A benchmark whose published grader reads a chart in its own way has a subclass.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from refsol.clinical.codes import Code, Lab
from refsol.clinical.meanings import RuleSet
from refsol.clinical.searches import (
    How,
    Looked,
    Search,
    drug_names,
    drug_text,
    is_at,
    is_valid,
    performed,
    ref,
    time_text,
)
from refsol.clinical.sources import Resource, Source
from refsol.errors import DataFault
from refsol.json_values import as_object
from refsol.stats import sequential_mean
from refsol.verdict import Needed


class Compared(NamedTuple):
    """A comparison: of which resources, what (a value or a time), the operator, the limit, and the outcome.

    `words` describe a time on this side of its limit (`older than 365 days`), or a value other than a reading (`age`).
    """

    used: tuple[Resource, ...]
    what: Literal["value", "time"]
    actual: Any
    op: str
    limit: Any
    outcome: bool
    words: str = ""


def _recorded(op: str, test: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    def compare(one: Any, limit: Any) -> bool:
        number: Number = one.number
        if isinstance(limit, _Comparable):  # of their difference, the limit is the same for all patients
            number, limit = (number - limit.number).named("difference"), 0
        outcome, chart = test(float(number), limit), number.chart
        if not chart.is_read:
            chart.compared.append(Compared(number.used, "value", float(number), op, float(limit), outcome, number.name))
        return outcome

    return compare


_equal = _recorded("==", operator.eq)


class _Comparable:
    """What has a `number`. The chart records each comparison with a limit."""

    @property
    def number(self) -> Number:
        """The number that is compared."""
        raise NotImplementedError  # each subclass has its own

    __lt__ = _recorded("<", operator.lt)
    __le__ = _recorded("<=", operator.le)
    __gt__ = _recorded(">", operator.gt)
    __ge__ = _recorded(">=", operator.ge)

    def __eq__(self, other: object) -> bool:
        return _equal(self, other) if hasattr(other, "__float__") else NotImplemented

    def __ne__(self, other: object) -> bool:
        same = self.__eq__(other)
        return same if same is NotImplemented else not same


def _computed(operation: Callable[[float, float], float]) -> Callable[[Number, float], Number]:
    def compute(one: Number, other: float) -> Number:
        used = other.used if isinstance(other, Number) else ()
        try:
            value = operation(float(one), float(other))
        except ZeroDivisionError:
            raise DataFault("a number of the chart would have to be divided by 0") from None
        return Number.of(round(value, 9), one.chart, (*one.used, *used))

    return compute


class Number(_Comparable, float):
    """A number read from a chart. It records its comparisons; otherwise it is a float.

    What is computed from it does so too. It is rounded to 9 digits, because 64.1 − 62.1 must not be below 2.
    """

    chart: Chart
    used: tuple[Resource, ...]
    name = ""
    """What it is; empty for a reading."""

    @classmethod
    def of(cls, value: float, chart: Chart, used: tuple[Resource, ...]) -> Self:
        """A number that was read from these resources."""
        number = cls(value)
        number.chart, number.used = chart, used
        return number

    def named(self, name: str) -> Self:
        """The number, with a name."""
        self.name = name
        return self

    @property
    def number(self) -> Number:
        """The number itself."""
        return self

    __hash__ = float.__hash__
    __add__ = __radd__ = _computed(operator.add)
    __sub__ = _computed(operator.sub)
    __rsub__ = _computed(lambda one, other: other - one)
    __mul__ = __rmul__ = _computed(operator.mul)
    __truediv__ = _computed(operator.truediv)
    __rtruediv__ = _computed(lambda one, other: other / one)

    def __neg__(self) -> Number:
        return 0 - self

    def __abs__(self) -> Number:
        return -self if float(self) < 0 else self


class Age(_Comparable, int):
    """The age of a patient in full years. It records its comparisons; otherwise it is an int."""

    chart: Chart
    used: tuple[Resource, ...]

    __hash__ = int.__hash__

    @classmethod
    def on(cls, day: date, born: date, chart: Chart, patient: Resource) -> Self:
        """The age on a day."""
        age = cls(day.year - born.year - ((day.month, day.day) < (born.month, born.day)))
        age.chart, age.used = chart, (patient,)
        return age

    @property
    def number(self) -> Number:
        """The age as a number that records its comparisons."""
        return Number.of(int(self), self.chart, self.used).named("age")


@dataclass(frozen=True, slots=True, eq=False)
class Event(_Comparable):
    """Something done or measured: its resource, its time as stored (`text`) and parsed, and the value of a reading.

    Comparing it with a number compares its value. Both this and `before` are recorded.
    """

    __hash__ = object.__hash__

    resource: Resource = field(repr=False)
    text: str
    time: datetime
    chart: Chart = field(repr=False)
    value: Any = None

    @property
    def number(self) -> Number:
        """The value as a number that records its comparisons."""
        return Number.of(self.value, self.chart, (self.resource,))

    def before(self, moment: datetime, words: str = "") -> bool:
        """Whether this was before a moment. `words` say so: `older than a year`.

        Raises DataFault for a time without a zone.
        """
        outcome = not between([self], moment)
        words = words or self.chart.words_before(moment)
        self.chart.compared.append(Compared((self.resource,), "time", self.time, "<", moment, outcome, words))
        return outcome

    def older_than(self, **length: float) -> bool:
        """Whether this was longer ago than a length of time (`days=365`, `hours=48`)."""
        words = " and ".join(f"{value:g} {unit}" for unit, value in length.items())
        return self.before(self.chart.now - timedelta(**length), f"older than {words}")


class Chart:
    """A patient's chart. `patient` is the id of the Patient, `now` the clock of the task.

    `base` is the FHIR base URL of orders, with a slash at its end; `task` has the fields of the task.
    """

    identifier = "_id"
    """The search parameter that finds the Patient."""
    strict = True
    """Whether a resource must say what a rule needs (unit, time, drug), and is left out if its code is of another
    system, it was entered in error, or was not done. Published graders do not look at these.
    """
    until_now = True
    """Whether readings and events later than now are left out."""
    required: Sequence[Needed] = ()
    """What an agent must have read besides. Only for types with evidence of their own."""

    def __init__(
        self, source: Source, patient: str, now: datetime, rules: RuleSet, *, base: str = "", task: Any = None
    ) -> None:
        self.source, self.patient, self.now, self.rules, self.base = source, patient, now, rules, base
        self.task = as_object(task)
        self.looked: list[Looked] = []
        self.compared: list[Compared] = []
        self.is_read = False
        """Whether the rule is done. What a grader compares later is not recorded."""
        self.touched: dict[int, Resource] = {}
        """All resources that a search found, by identity."""

    # Hooks for published graders

    def counts(self, resource: Resource) -> bool:
        """Whether a resource counts. Raises DataFault."""
        return True

    def is_number(self, value: Any) -> bool:
        """Whether a value can be compared."""
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) <= sys.float_info.max

    def mentions(self, text: str, *words: str) -> bool:
        """Whether a text names one of some words (all in lower case), each as a whole word."""
        return any(re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) for word in words)

    def drug(self, order: Resource) -> str:
        """The names of an order's drug, in lower case. Raises DataFault without one."""
        if not self.strict:
            return drug_text(order)
        names = drug_names(order)
        if not names:
            raise DataFault(f"{ref(order)} does not name its drug, in a text or a display")
        return "\n".join(names)

    # Reads

    @property
    def needed(self) -> list[Needed]:
        """What an agent must have read."""
        return [*self.looked, *self.required]

    def note(self, search: Search, *used: Resource, how: How = "first", what: str = "", role: str = "") -> None:
        """Record that the ruling rests on these resources, or without any on the absence of what the search finds."""
        look = Looked(search, used, how, what, role, self.patient, self.now)
        if look not in self.looked:
            self.looked.append(look)

    def words_before(self, moment: datetime) -> str:
        """`before the last potassium` for the time of an event that the rule read, which differs between patients;
        otherwise empty.
        """
        for look in self.looked:
            if any(is_at(time_text(one), moment) for one in look.used):
                return f"before {'the last ' if look.how == 'last' else ''}{look.name}"
        return ""

    def find(self, search: Search) -> list[Resource]:
        """The resources that a search finds and that count. They are not recorded as decisive; see `note`."""
        matches = self.source.search(search.kind, patient=self.patient, **search.query)
        counting = [one for one in matches if self.counts(one) and (not self.strict or is_valid(one, search))]
        self.touched |= {id(one): one for one in counting}
        return counting

    def readings(self, lab: Lab) -> list[Event]:
        """All measurements in the server's order, not recorded. Raises DataFault if one cannot be read."""
        return self._past([self.reading(one, lab) for one in self.find(Search("Observation", (lab,)))])

    def _past(self, events: list[Event]) -> list[Event]:
        return between(events, end=self.now) if self.until_now else events

    def reading(self, resource: Resource, lab: Lab) -> Event:
        """A resource as a measurement. Raises DataFault if it cannot be read."""
        text, quantity = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity"))
        value, unit = quantity.get("value"), quantity.get("unit")
        if not self.is_number(value):
            raise DataFault(f"the Observation of {lab.code} at {text} has no usable valueQuantity.value")
        if self.strict and lab.unit and unit != lab.unit:
            raise DataFault(f"the Observation of {lab.code} at {text} is in {unit}, not in {lab.unit}")
        return Event(resource, str(text), self.moment(text, resource), self, value)

    def moment(self, text: Any, resource: Resource) -> datetime:
        """A stored time, parsed with `datetime.fromisoformat`. Raises DataFault."""
        try:
            return datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise DataFault(f"{resource.get('resourceType')}: {text!r} is not a time") from None

    def all(self, lab: Lab, within: timedelta | None = None) -> list[Event]:
        """All measurements, or those since `within` before now, in the server's order."""
        return self._used(lab, within, "all")

    def latest(self, lab: Lab, within: timedelta | None = None) -> Event | None:
        """The last measurement; of equal times the first in the server's order. None if there is none."""
        return self.last_of(*self._within(lab, within))

    def mean(self, lab: Lab, within: timedelta | None = None) -> Number | None:
        """The mean of the measurements, summed in the server's order. None if there are none."""
        return mean(self._used(lab, within, "mean"))

    def _used(self, lab: Lab, within: timedelta | None, how: How) -> list[Event]:
        search, events = self._within(lab, within)
        self.note(search, *(one.resource for one in events), how=how)
        return events

    def _within(self, lab: Lab, within: timedelta | None) -> tuple[Search, list[Event]]:
        start = None if within is None else self.now - within
        return Search("Observation", (lab,), start=start), between(self.readings(lab), start)

    def last_of(self, search: Search, events: Sequence[Event]) -> Event | None:
        """The last of the events that a search found; of equal times the first one. None if there is none."""
        last = newest(events)
        self.note(search, *([last.resource] if last else []), how="last")
        return last

    def last_done(self, *codes: Code, kind: str = "Procedure") -> Event | None:
        """The last resource of a type (Procedure, Immunization) with one of these codes. Raises DataFault if the time
        of one is missing.
        """
        search = Search(kind, codes)
        time = time_text if self.strict else performed
        done = self.timed((one, time(one)) for one in self.find(search))
        return self.last_of(search, self._past(done))

    def timed(self, items: Iterable[tuple[Resource, Any]]) -> list[Event]:
        """Resources with their stored times as events. One without a time (None) is a fault of the data; published
        graders leave it out.
        """
        events = []
        for one, text in items:
            if text is not None:
                events.append(Event(one, str(text), self.moment(text, one), self))
            elif self.strict:
                raise DataFault(f"{ref(one)}: the time is missing")
        return events

    def orders(self, *words: str, status: str = "active", most: int | None = None) -> list[Resource]:
        """The drug orders that name one of these words; of these the first `most`."""
        search, words = Search("MedicationRequest", status=status), tuple(word.lower() for word in words)
        matches = [one for one in self.find(search) if self.mentions(self.drug(one), *words)][:most]
        self.note(search, *matches, what=" or ".join(words))
        return matches

    def active_order(self, *words: str) -> Resource | None:
        """The first active drug order that names one of these words."""
        return next(iter(self.orders(*words, most=1)), None)

    def first(self, kind: str, code: Code, status: str = "") -> Resource | None:
        """The first resource of a type with a code: a condition, a service order."""
        search = Search(kind, (code,), status)
        matches = self.find(search)[:1]
        self.note(search, *matches)
        return next(iter(matches), None)

    def has_condition(self, code: Code) -> bool:
        """Whether the chart has this condition."""
        return self.first("Condition", code) is not None

    @cached_property
    def _person(self) -> Resource:
        matches = self.source.search("Patient", **{self.identifier: self.patient})
        if not matches:
            raise DataFault(f"no patient has the identifier {self.patient}")
        self.touched[id(matches[0])] = matches[0]
        return matches[0]

    @cached_property
    def birth_date(self) -> date:
        """The patient's birth date. Raises DataFault if it is not a full date."""
        text: Any = self._person.get("birthDate")
        self.note(Search("Patient"), self._person, what="birthDate", role="the patient's birth date")
        with suppress(TypeError, ValueError):
            born = date.fromisoformat(text)
            if born.isoformat() == text:
                return born
        raise DataFault(f"the birth date of {self.patient} is {text or 'missing'}, not a full date")

    @property
    def age(self) -> Age:
        """The patient's age in full years."""
        return Age.on(self.now.date(), self.birth_date, self, self._person)

    def tomorrow(self, hour: int, minute: int = 0) -> datetime:
        """A time on the next day."""
        return (self.now + timedelta(days=1)).replace(hour=hour, minute=minute, second=0, microsecond=0)


def between(events: Sequence[Event], start: datetime | None = None, end: datetime | None = None) -> list[Event]:
    """The events from `start` to `end`. Raises DataFault if only one of two times has a zone."""
    try:
        later = [one for one in events if start is None or one.time >= start]
        return [one for one in later if end is None or one.time <= end]
    except TypeError:
        raise _mixed(events) from None


def newest(events: Sequence[Event]) -> Event | None:
    """The event with the greatest time; the first one if several are equal. Raises DataFault for mixed times."""
    try:
        return max(events, key=lambda one: one.time, default=None)
    except TypeError:
        raise _mixed(events) from None


def _mixed(events: Sequence[Event]) -> DataFault:
    naive = next((one for one in events if one.time.utcoffset() is None), events[0])
    return DataFault(f"the time {naive.text} has no zone, but others have one: they cannot be compared")


def mean(events: Sequence[Event]) -> Number | None:
    """The mean, summed in this order: at the edge of a tolerance, the last digit decides. None without events."""
    if not events:
        return None
    value = sequential_mean([one.value for one in events])
    return Number.of(value, events[0].chart, tuple(one.resource for one in events))
