"""One patient's record at a time, as a rule reads it. Every read and every comparison is recorded.

A benchmark whose published grader reads a chart in its own way has a subclass.
"""

from __future__ import annotations

import operator
import re
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from copy import copy
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self, get_args

from refsol.clinical.codes import Code, Drug, Lab
from refsol.clinical.meanings import RuleSet
from refsol.clinical.searches import (
    How,
    Search,
    Searched,
    concept_names,
    drug_names,
    drug_text,
    is_at,
    is_coded,
    is_valid,
    measured,
    performed,
    ref,
    time_text,
)
from refsol.clinical.sources import Resource, Source
from refsol.clinical.times import WholeDay, bounds, days_of, is_date
from refsol.clinical.units import Conversion, UnitFault, as_float, converted
from refsol.errors import DataFault, FactsError, FaultKind
from refsol.json_values import as_object, is_number, objects
from refsol.stats import sequential_mean
from refsol.verdict import RequiredRead


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


Several = Literal["highest", "lowest"]
"""How a rule chooses among different values at one time."""
Drugs = Sequence[str | Drug]
SEXES = ("male", "female", "other", "unknown")
"""FHIR's administrative genders."""


def _recorded(op: str, test: Callable[[float, float], bool]) -> Callable[[Any, Any], bool]:
    def compare(value: Any, limit: Any) -> bool:
        numbers: Sequence[Number] = value.numbers
        if isinstance(limit, _Comparable):  # of their difference, the limit is the same for all patients
            numbers = [(number - bound).named("difference") for number in numbers for bound in limit.numbers]
            limit = 0
        number, outcomes = numbers[0], {test(float(number), limit) for number in numbers}
        if len(outcomes) > 1:
            raise too_coarse(f"the {number.name}")
        outcome, chart = outcomes.pop(), number.chart
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

    @property
    def numbers(self) -> Sequence[Number]:
        """The numbers that it may be. A comparison is decided if its outcome is the same for all."""
        return [self.number]

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
    def compute(number: Number, operand: float) -> Number:
        used = operand.used if isinstance(operand, Number) else ()
        try:
            value = operation(float(number), float(operand))
        except ZeroDivisionError:
            raise DataFault("a number of the chart would have to be divided by 0", "no value") from None
        return Number.of(round(value, 9), number.chart, (*number.used, *used))

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
    __rsub__ = _computed(lambda number, operand: operand - number)
    __mul__ = __rmul__ = _computed(operator.mul)
    __truediv__ = _computed(operator.truediv)
    __rtruediv__ = _computed(lambda number, operand: operand / number)

    def __neg__(self) -> Number:
        return 0 - self

    def __abs__(self) -> Number:
        return -self if float(self) < 0 else self


def _of_one_age(operation: Callable[[int, Any], Any]) -> Callable[[Age, Any], Any]:
    def compute(age: Age, operand: Any) -> Any:
        age.check_exact()
        return operation(age, operand)

    return compute


class Age(_Comparable, int):
    """The age of a patient in full years. It records its comparisons; otherwise it is an int.

    Of a birth date without a day, it is the lower of two ages. Comparisons are made with both; to calculate with it
    raises DataFault.
    """

    chart: Chart
    used: tuple[Resource, ...]
    highest: int

    __hash__ = int.__hash__
    __add__ = __radd__ = _of_one_age(int.__add__)
    __sub__ = _of_one_age(int.__sub__)
    __rsub__ = _of_one_age(int.__rsub__)
    __mul__ = __rmul__ = _of_one_age(int.__mul__)
    __floordiv__ = _of_one_age(int.__floordiv__)
    __truediv__ = _of_one_age(int.__truediv__)
    __mod__ = _of_one_age(int.__mod__)

    @classmethod
    def on(cls, day: date, born: tuple[date, date], chart: Chart, patient: Resource) -> Self:
        """The age on a day of somebody who was born on one of the days from the first to the last."""
        highest, lowest = (day.year - date.year - ((day.month, day.day) < (date.month, date.day)) for date in born)
        age = cls(lowest)
        age.chart, age.used, age.highest = chart, (patient,), highest
        return age

    def check_exact(self) -> None:
        """Raises DataFault if the birth date allows two ages."""
        if self.highest != int(self):
            raise too_coarse("the age")

    @property
    def number(self) -> Number:
        """The age as a number that records its comparisons. Raises DataFault if there are two."""
        self.check_exact()
        return self.numbers[0]

    @property
    def numbers(self) -> Sequence[Number]:
        ages = dict.fromkeys((int(self), self.highest))
        return [Number.of(age, self.chart, self.used).named("age") for age in ages]


@dataclass(frozen=True, slots=True, eq=False)
class Event(_Comparable):
    """Something done or measured: its resource, its time as stored (`text`) and parsed, and the value of a reading, in
    the unit of its `Lab`.

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
        nearest = bounds(self.time)[1 if outcome else 0]
        limit = bounds(moment)[0 if outcome else 1]
        self.chart.compared.append(Compared((self.resource,), "time", nearest, "<", limit, outcome, words))
        return outcome

    def older_than(self, **length: float) -> bool:
        """Whether this was longer ago than a length of time (`days=365`, `hours=48`)."""
        words = " and ".join(f"{value:g} {unit}" for unit, value in length.items())
        return self.before(earlier(self.chart.now, timedelta(**length)), f"older than {words}")


def earlier(now: datetime, length: timedelta) -> datetime:
    """A time before now; the first of all times if there is no year so early."""
    try:
        return now - length
    except OverflowError:
        return datetime.min.replace(tzinfo=now.tzinfo)


def later(now: datetime, length: timedelta) -> datetime:
    """A time after now; the last of all times if there is no year so late."""
    try:
        return now + length
    except OverflowError:
        return datetime.max.replace(tzinfo=now.tzinfo)


class Chart:
    """A patient's chart. `patient` is the id of the Patient, `now` the clock of the task.

    A date without a time of day is its whole day in the zone of `now` (see `WholeDay`).

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
    required: Sequence[RequiredRead] = ()
    """What an agent must have read besides. Only for types with evidence of their own."""

    def __init__(
        self, source: Source, patient: str, now: datetime, rules: RuleSet, *, base: str = "", task: Any = None
    ) -> None:
        self.source = source
        self.patient = patient
        self.now = now
        self.rules = rules
        self.base = base
        self.task = as_object(task)
        self.searched: list[Searched] = []
        self.compared: list[Compared] = []
        self.is_read = False
        """Whether the rule is done. What a grader compares later is not recorded."""
        self._conversions: dict[int, Conversion] = {}
        self.touched: dict[int, Resource] = {}
        """All resources that a search found, by identity."""

    def over(self, source: Source) -> Self:
        """The same patient's chart over another source, without a record."""
        chart = copy(self)
        for name in ("_person", "birth_date", "identifiers"):
            chart.__dict__.pop(name, None)
        chart.source, chart.required = source, ()
        chart.searched, chart.compared, chart.touched, chart.is_read = [], [], {}, False
        return chart

    @cached_property
    def identifiers(self) -> frozenset[str]:
        """The values that identify the patient: that of the task, and those of the Patient, if it can be read."""
        try:
            patients = self.source.search("Patient", **{self.identifier: self.patient})
        except (FactsError, LookupError):
            patients = ()
        identifiers = [item for patient in patients for item in objects(patient.get("identifier"))]
        return frozenset({self.patient, *(str(item["value"]) for item in identifiers if "value" in item)})

    # Hooks for published graders

    def counts(self, resource: Resource) -> bool:
        """Whether a resource counts. Raises DataFault."""
        return True

    def is_number(self, value: Any) -> bool:
        """Whether a value can be compared."""
        return is_number(value)

    def mentions(self, text: str, *words: str) -> bool:
        """Whether a text names one of some words (all in lower case), each as a whole word."""
        return any(re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) for word in words)

    def drug(self, order: Resource) -> str:
        """The names of an order's drug, in lower case. Raises DataFault without one."""
        if not self.strict:
            return drug_text(order)
        names = drug_names(order)
        if not names:
            raise DataFault(f"{ref(order)} does not name its drug, in a text or a display", "no drug's name")
        return "\n".join(names)

    # Reads

    @property
    def needed(self) -> list[RequiredRead]:
        """What an agent must have read."""
        return [*self.searched, *self.required]

    def note(self, search: Search, *used: Resource, how: How = "first", what: str = "", role: str = "") -> None:
        """Record that the ruling rests on these resources, or without any on the absence of what the search finds."""
        searched = Searched(search, used, how, what, role, self.patient, self.now, self.strict)
        if searched not in self.searched:
            self.searched.append(searched)

    def words_before(self, moment: datetime) -> str:
        """`before the last potassium` for the time of an event that the rule read, which differs between patients;
        otherwise empty.
        """
        for searched in self.searched:
            if any(is_at(time_text(resource), moment) for resource in searched.used):
                return f"before {'the last ' if searched.how == 'last' else ''}{searched.name}"
        return ""

    def find(self, search: Search) -> list[Resource]:
        """The resources that a search finds and that count. They are not recorded as decisive; see `note`."""
        matches = self.source.search(search.kind, patient=self.patient, **search.query)
        counting = [match for match in matches if self.counts(match) and (not self.strict or is_valid(match, search))]
        self.touched |= {id(match): match for match in counting}
        return counting

    def readings(self, lab: Lab) -> list[Event]:
        """All measurements until now in the server's order, not recorded. Raises DataFault if one cannot be read."""
        return readable(self._past(self._readings(lab)))

    def _readings(self, lab: Lab) -> list[Event]:
        """All measurements. One with a time but without a value that can be read has the fault as its value, because
        it does not matter if another time is read.
        """
        events = []
        for resource in self.find(Search("Observation", (lab,))):
            try:
                events.append(self.reading(resource, lab))
            except DataFault as fault:
                if not self.strict:
                    raise
                events.append(self._unreadable(resource, fault))
        return events

    def _unreadable(self, resource: Resource, fault: DataFault) -> Event:
        text = measured(resource)
        try:
            time = self.moment(text, resource)
        except DataFault:
            raise fault from None
        return Event(resource, str(text), time, self, fault)

    def _past(self, events: list[Event]) -> list[Event]:
        return between(events, end=self.now) if self.until_now else events

    def reading(self, resource: Resource, lab: Lab) -> Event:
        """A resource as a measurement, in the unit of the test. Raises DataFault if it cannot be read."""
        text = measured(resource) if self.strict else resource.get("effectiveDateTime")
        quantity = as_object(resource.get("valueQuantity"))
        value: Any = quantity.get("value")
        words = f"the Observation of {lab.code} at {text}"
        if not self.is_number(value) or (self.strict and "comparator" in quantity):
            raise DataFault(f"{words} has no usable valueQuantity.value", "no value")
        if self.strict:
            try:
                there = converted(quantity, lab)
            except UnitFault as fault:
                raise DataFault(f"{words}: {fault}", fault.kind, fault.detail) from None
            self._conversions[id(resource)] = there
            value = value if there.is_same else as_float(there.of(value))
        return Event(resource, str(text), self.moment(text, resource), self, value)

    def conversion(self, resource: Resource) -> Conversion:
        """How the value of a reading was converted from the chart's unit into that of the test."""
        return self._conversions.get(id(resource), Conversion())

    def moment(self, text: Any, resource: Resource) -> datetime:
        """A stored time: a date without a time of day as a `WholeDay`, any other with `datetime.fromisoformat`.

        Published graders take a date for its first moment. Raises DataFault.
        """
        try:
            return WholeDay.of(text, self.now.tzinfo) if self.strict and is_date(text) else datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise DataFault(f"{resource.get('resourceType')}: {text!r} is not a time", "no time") from None

    def all(self, lab: Lab, within: timedelta | None = None) -> list[Event]:
        """All measurements, or those since `within` before now, in the server's order."""
        return self._used(lab, within, "all")

    def latest(self, lab: Lab, within: timedelta | None = None, several: Several | None = None) -> Event | None:
        """The last measurement. None if there is none.

        `several` chooses among different values at the same time, which are a fault of the data without it. Published
        graders take the first one in the server's order.
        """
        if several not in (None, *get_args(Several)):
            raise ValueError(f"latest: several={several!r}: use {' or '.join(map(repr, get_args(Several)))}")
        if not self.strict:
            return self.last_of(*self._within(lab, within))
        start = None if within is None else self.now - within
        search = Search("Observation", (lab,), start=start)
        return self._last(search, self._readings(lab), start, several)

    def _last(
        self, search: Search, events: Sequence[Event], start: datetime | None = None, several: Several | None = None
    ) -> Event | None:
        """The last event until now. It is a fault of the data if the chart does not say which one it is."""
        end = self.now if self.until_now else None
        candidates = readable(between(last_ones(may_be_between(events, start, end)), start, end))
        last = max(candidates, key=lambda event: bounds(event.time)[1], default=None)
        values = dict.fromkeys(event.value for event in candidates)
        if last is not None and len(values) > 1:
            if several is None:
                raise _several(search, candidates)
            value = max(values) if several == "highest" else min(values)
            last = next(event for event in candidates if event.value == value)
        self.note(search, *([last.resource] if last else []), how="last")
        return last

    def mean(self, lab: Lab, within: timedelta | None = None) -> Number | None:
        """The mean of the measurements, summed in the server's order. None if there are none."""
        return mean(self._used(lab, within, "mean"))

    def _used(self, lab: Lab, within: timedelta | None, how: How) -> list[Event]:
        search, events = self._within(lab, within)
        self.note(search, *(event.resource for event in events), how=how)
        return events

    def _within(self, lab: Lab, within: timedelta | None) -> tuple[Search, list[Event]]:
        start = None if within is None else self.now - within
        events = between(self._past(self._readings(lab)), start)
        return Search("Observation", (lab,), start=start), readable(events)

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
        if not self.strict:
            done = self.timed((match, performed(match)) for match in self.find(search))
            return self.last_of(search, self._past(done))
        return self._last(search, self.timed((match, time_text(match)) for match in self.find(search)))

    def timed(self, items: Iterable[tuple[Resource, Any]]) -> list[Event]:
        """Resources with their stored times as events. One without a time (None) is a fault of the data; published
        graders leave it out.
        """
        events = []
        for resource, text in items:
            if text is not None:
                events.append(Event(resource, str(text), self.moment(text, resource), self))
            elif self.strict:
                raise DataFault(f"{ref(resource)}: the time is missing", "no time")
        return events

    def orders(self, *drugs: str | Drug, status: str = "active", most: int | None = None) -> list[Resource]:
        """The drug orders of one of some drugs; of these the first `most`.

        A drug is a word that the order must contain, or a `Drug`, found by its code, its name and its words.
        """
        search = Search("MedicationRequest", status=status)
        return self._about(search, "medicationCodeableConcept", self.drug, drugs)[:most]

    def _about(self, search: Search, element: str, name_of: Callable[[Resource], str], drugs: Drugs) -> list[Resource]:
        words = [word for drug in drugs for word in (drug.named_by if isinstance(drug, Drug) else (drug.lower(),))]
        coded = [drug for drug in drugs if isinstance(drug, Drug)]
        if not drugs or not all(map(str.strip, words)):
            raise ValueError(
                f"{search.kind}: no drug to search for; name it by words, or pass the Drug itself instead of its words"
            )
        matches = [
            match
            for match in self.find(search)
            if is_coded(match, element, coded) or self.mentions(name_of(match), *words)
        ]
        self.note(search, *matches, what=" or ".join(dict.fromkeys(words)) or coded[0].code)
        return matches

    def active_order(self, *drugs: str | Drug) -> Resource | None:
        """The first active order of one of some drugs: see `orders`."""
        return next(iter(self.orders(*drugs, most=1)), None)

    def allergy(self, *drugs: str | Drug, status: str = "") -> Resource | None:
        """The first allergy to, or intolerance of, one of some drugs: see `orders`. Raises DataFault for one without a
        name. Those that are inactive, resolved or refuted count with status="any".
        """
        matches = self._about(Search("AllergyIntolerance", status=status), "code", _substance, drugs)
        return next(iter(matches), None)

    def first(self, kind: str, code: Code, status: str = "") -> Resource | None:
        """The first resource of a type with a code: a condition, an allergy, a service order.

        Conditions, allergies and intolerances that are inactive, resolved or refuted count with status="any".
        """
        search = Search(kind, (code,), status)
        matches = self.find(search)[:1]
        self.note(search, *matches)
        return next(iter(matches), None)

    def has_condition(self, code: Code, status: str = "") -> bool:
        """Whether the chart has this condition: see `first`."""
        return self.first("Condition", code, status) is not None

    @cached_property
    def _person(self) -> Resource:
        matches = self.source.search("Patient", **{self.identifier: self.patient})
        if not matches:
            raise DataFault(f"no patient has the identifier {self.patient}", "no patient")
        self.touched[id(matches[0])] = matches[0]
        return matches[0]

    def _birth_text(self) -> Any:
        self.note(Search("Patient"), self._person, what="birthDate", role="the patient's birth date")
        return self._person.get("birthDate")

    @cached_property
    def birth_date(self) -> date:
        """The patient's birth date. Raises DataFault if it is not a full date."""
        text = self._birth_text()
        with suppress(TypeError, ValueError):
            born = date.fromisoformat(text)
            if born.isoformat() == text:
                return born
        kind: FaultKind = "day too coarse" if is_date(text) else "no birth date"
        raise DataFault(f"the birth date of {self.patient} is {text or 'missing'}, not a full date", kind)

    @property
    def age(self) -> Age:
        """The patient's age in full years. A birth date of a year or month is enough if it decides the comparison."""
        text: Any = self._birth_text() if self.strict else None
        try:
            born = days_of(text) if is_date(text) else (self.birth_date, self.birth_date)
        except ValueError:
            raise DataFault(f"the birth date of {self.patient} is {text}, not a date", "no birth date") from None
        return Age.on(self.now.date(), born, self, self._person)

    @property
    def sex(self) -> str:
        """The patient's administrative gender: male, female, other or unknown. Raises DataFault if it is missing."""
        sex = self._person.get("gender")
        self.note(Search("Patient"), self._person, what="gender", role="the patient's sex")
        if sex not in SEXES:
            raise DataFault(f"the gender of {self.patient} is missing or none of FHIR's", "no sex")
        return str(sex)

    def tomorrow(self, hour: int, minute: int = 0) -> datetime:
        """A time on the next day."""
        return (self.now + timedelta(days=1)).replace(hour=hour, minute=minute, second=0, microsecond=0)


def readable(events: list[Event]) -> list[Event]:
    """The events. Raises the DataFault of the first one whose value cannot be read."""
    for event in events:
        if isinstance(event.value, DataFault):
            raise event.value
    return events


def between(events: Sequence[Event], start: datetime | None = None, end: datetime | None = None) -> list[Event]:
    """The events from `start` to `end`. Raises DataFault if only one of two times has a zone, or if a date without a
    time of day may be in or out.
    """
    try:
        later = [event for event in events if start is None or event.time >= start]
        return [event for event in later if end is None or event.time <= end]
    except TypeError:
        raise _mixed(events) from None


def may_be_between(events: Sequence[Event], start: datetime | None, end: datetime | None) -> list[Event]:
    """The events of which some moment is from `start` to `end`. Raises DataFault as `between` does for zones."""
    try:
        later = [event for event in events if start is None or bounds(event.time)[1] >= start]
        return [event for event in later if end is None or bounds(event.time)[0] <= end]
    except TypeError:
        raise _mixed(events) from None


def last_ones(events: Sequence[Event]) -> list[Event]:
    """The events after which certainly no other one came: one, or those of one time or one day."""
    try:
        latest = max((bounds(event.time)[0] for event in events), default=None)
        return [event for event in events if latest is None or bounds(event.time)[1] >= latest]
    except TypeError:
        raise _mixed(events) from None


def newest(events: Sequence[Event]) -> Event | None:
    """The event with the greatest time; the first one if several are equal. Raises DataFault for mixed times."""
    try:
        return max(events, key=lambda event: event.time, default=None)
    except TypeError:
        raise _mixed(events) from None


def _mixed(events: Sequence[Event]) -> DataFault:
    naive = next((event for event in events if event.time.utcoffset() is None), events[0])
    words = f"the time {naive.text} has no zone, but others have one: they cannot be compared"
    return DataFault(words, "no time zone")


def _several(search: Search, events: Sequence[Event]) -> DataFault:
    """The fault of several last readings with different values."""
    name = search.codes[0].label
    if len({event.text for event in events}) > 1:
        words = f"which {name} is the last depends on the time of day of one that states none"
        return DataFault(words, "day too coarse")
    words = f"several values of {name} at {events[0].text}; the rule may choose one: several='highest'"
    return DataFault(words, "several values at once")


def too_coarse(what: str) -> DataFault:
    """The fault of a date that does not decide."""
    return DataFault(f"{what} depends on the day, which the chart does not state", "day too coarse")


def _substance(allergy: Resource) -> str:
    names = concept_names(allergy, "code")
    if not names:
        raise DataFault(f"{ref(allergy)} does not name its substance, in a text or a display", "no drug's name")
    return "\n".join(names)


def mean(events: Sequence[Event]) -> Number | None:
    """The mean, summed in this order: at the edge of a tolerance, the last digit decides. None without events."""
    if not events:
        return None
    value = sequential_mean([event.value for event in events])
    return Number.of(value, events[0].chart, tuple(event.resource for event in events))
