"""One patient's record at a time, as a rule reads it. Every read and every comparison is recorded.

A benchmark whose published grader reads a chart in its own way has a subclass.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any, Literal, NamedTuple, Self

from refsol._moments import distance_words, length_words
from refsol.clinical.codes import Code, Lab
from refsol.clinical.meanings import RuleSet
from refsol.clinical.sources import Resource, Source
from refsol.errors import DataFault
from refsol.json_values import as_object, objects
from refsol.reads import Query, Read, has_read, has_reading, searched
from refsol.stats import sequential_mean
from refsol.verdict import Fact, Needed

How = Literal["last", "all", "mean", "first"]
"""How a read uses what it found."""


class Search(NamedTuple):
    """A search of one patient's resources: of a type, with one of some codes, with a status, since `start`."""

    kind: str
    codes: tuple[Code, ...] = ()
    status: str = ""
    start: datetime | None = None

    @property
    def query(self) -> dict[str, str]:
        """The parameters, without the patient."""
        code = {"code": ",".join([one.code for one in self.codes])} if self.codes else {}
        return {**code, "status": self.status} if self.status else code

    def __str__(self) -> str:
        query = "&".join(f"{name}={value}" for name, value in self.query.items())
        return f"{self.kind}?{query}" if query else self.kind


class Looked(NamedTuple):
    """One read: its search, and the resources on which the ruling rests. Without any, it rests on their absence.

    `what` names what was looked for, if not the code; `role` is what a resource is for the rule.
    """

    search: Search
    used: tuple[Resource, ...]
    how: How
    what: str
    role: str
    patient: str
    now: datetime

    @property
    def lab(self) -> Lab | None:
        """The laboratory test, if it was a search for one."""
        return next((code for code in self.search.codes if isinstance(code, Lab)), None)

    @property
    def name(self) -> str:
        """What was looked for, in words."""
        return self.what or " or ".join(dict.fromkeys(code.label for code in self.search.codes)) or str(self.search)

    # What an agent must have read too: the resources, or a search that shows their absence

    def unread(self, reads: Sequence[Read]) -> list[str]:
        """What is missing from these reads, as texts."""
        if self.search.kind == "Patient":
            seen = (one for read in reads for one in read.resources if is_patient(one, self.patient))
            return [] if any(one.get("birthDate") for one in seen) else [f"the birthDate of {self.patient}"]
        if self.used:
            return [text for one in self.used for text in self._unread(one, reads)]
        return [text for query, text in self._queries() if not searched(reads, query)]

    def _unread(self, resource: Resource, reads: Sequence[Read]) -> Iterator[str]:
        time, name = resource.get("effectiveDateTime"), ref(resource)
        if self.lab is not None and isinstance(time, str):
            seen, name = has_reading(reads, self.patient, self.lab.code, time), f"{self.lab.code} at {time}"
        else:
            seen = has_read(reads, name)
        if not seen:
            yield name

    def _queries(self) -> Iterator[tuple[Query, str]]:
        """The searches that show the absence, one for each code."""
        kind, codes, status, start = self.search
        window = None if start is None else (start, self.now)
        for code in codes or (Code(""),):
            token = f"{code.system}|{code.code}" if code.system else code.code
            category = code.category if isinstance(code, Lab) else ""
            query = Query(kind, self.patient, token or None, status or None, window, category or None)
            yield query, f"a complete search of {code.code or kind}"

    # The facts, and the read in words

    @property
    def window(self) -> str:
        """Since when resources count, in words."""
        start = self.search.start
        return "in the record" if start is None else f"of the last {length_words(self.now - start)}"

    @property
    def facts(self) -> list[Fact]:
        """What the ruling rests on."""
        if not self.used:
            name, unit = (self.lab.code, self.lab.unit) if self.lab else (str(self.search), "")
            return [Fact(name, None, unit or None, None, f"none {self.window}")]
        role = {"last": "latest", "first": "first"}.get(self.how, "one")
        return [self._fact(one, self.role or f"{role} {self.window}") for one in self.used]

    def _fact(self, resource: Resource, role: str) -> Fact:
        if self.what == "birthDate":
            return Fact("birthDate", resource.get("birthDate"), None, None, role)
        if self.lab is not None:
            return Fact(self.lab.code, _value(resource), self.lab.unit or None, resource.get("effectiveDateTime"), role)
        text = drug_text(resource) if resource.get("resourceType") == "MedicationRequest" else None
        return Fact(ref(resource), text, None, time_text(resource), role)

    def __str__(self) -> str:
        if not self.used:
            return " ".join(filter(None, ("no", self.search.status, self.name, self.window)))
        if self.how not in ("all", "mean"):
            return "; ".join(map(self._used, self.used))
        values = [_value(one) for one in self.used]
        unit = self.lab.unit if self.lab else ""
        listed = f"{self.name} {self.window}: {', '.join(map(str, values))} {unit}".rstrip()
        return listed if self.how == "all" else f"{listed}; their mean is {sequential_mean(values):.6g}"

    def _used(self, resource: Resource) -> str:
        """`last magnesium 1.2 mg/dL at 2023-11-13T05:12:00+00:00, 5 h before now`."""
        fact = self._fact(resource, "")
        what = f"last {self.name}" if self.how == "last" else (self.what and self.search.status) or self.name
        unit = None if fact.value is None else fact.unit
        words = " ".join(str(one) for one in (what, fact.value, unit) if one is not None)
        if fact.time is None:
            return words
        try:
            return f"{words} at {fact.time}, {distance_words(datetime.fromisoformat(fact.time), self.now)}"
        except ValueError:
            return f"{words} at {fact.time}"


class Compared(NamedTuple):
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


def _recorded(op: str, test: Callable[[float, float], bool]) -> Callable[[Any, float], bool]:
    def compare(one: Any, limit: float) -> bool:
        number: Number = one.number
        outcome = test(float(number), float(limit))
        number.chart.compared.append(Compared(number.used, "value", float(number), op, float(limit), outcome))
        return outcome

    return compare


class _Comparable:
    """What has a `number`. The chart records each comparison with a limit."""

    __lt__ = _recorded("<", operator.lt)
    __le__ = _recorded("<=", operator.le)
    __gt__ = _recorded(">", operator.gt)
    __ge__ = _recorded(">=", operator.ge)


class Number(_Comparable, float):
    """A number read from a chart. It records its comparisons; otherwise it is a float.

    Sums and differences are rounded to 9 digits, because 64.1 − 62.1 must not be below 2.
    """

    chart: Chart
    used: tuple[Resource, ...]

    @classmethod
    def of(cls, value: float, chart: Chart, used: tuple[Resource, ...]) -> Self:
        """A number that was read from these resources."""
        number = cls(value)
        number.chart, number.used = chart, used
        return number

    @property
    def number(self) -> Number:
        """The number itself."""
        return self

    def __add__(self, other: float) -> Number:
        used = other.used if isinstance(other, Number) else ()
        return Number.of(round(float(self) + float(other), 9), self.chart, (*self.used, *used))

    def __neg__(self) -> Number:
        return Number.of(-float(self), self.chart, self.used)

    def __sub__(self, other: float) -> Number:
        return self + -other


@dataclass(frozen=True, slots=True, eq=False)
class Event(_Comparable):
    """Something done or measured: its resource, its time as stored (`text`) and parsed, and the value of a reading.

    Comparing it with a number compares its value. Both this and `before` are recorded.
    """

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
    units = True
    """Whether a reading in another unit is a fault of the data."""
    until_now = True
    """Whether readings later than now are left out."""
    required: Sequence[Needed] = ()
    """What an agent must have read besides. Only for types with evidence of their own."""

    def __init__(
        self, source: Source, patient: str, now: datetime, rules: RuleSet, *, base: str = "", task: Any = None
    ) -> None:
        self.source, self.patient, self.now, self.rules, self.base = source, patient, now, rules, base
        self.task = as_object(task)
        self.looked: list[Looked] = []
        self.compared: list[Compared] = []
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

    def find(self, search: Search) -> list[Resource]:
        """The resources that a search finds and that count. They are not recorded as decisive; see `note`."""
        matches = self.source.search(search.kind, patient=self.patient, **search.query)
        counting = [one for one in matches if self.counts(one)]
        self.touched |= {id(one): one for one in counting}
        return counting

    def readings(self, lab: Lab) -> list[Event]:
        """All measurements in the server's order, not recorded. Raises DataFault if one cannot be read."""
        events = [self.reading(one, lab) for one in self.find(Search("Observation", (lab,)))]
        return between(events, end=self.now) if self.until_now else events

    def reading(self, resource: Resource, lab: Lab) -> Event:
        """A resource as a measurement. Raises DataFault if it cannot be read."""
        text, quantity = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity"))
        value, unit = quantity.get("value"), quantity.get("unit")
        if not self.is_number(value):
            raise DataFault(f"the Observation of {lab.code} at {text} has no usable valueQuantity.value")
        if self.units and lab.unit and unit != lab.unit:
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
        """The last resource of a type (Procedure, Immunization) with one of these codes. Those without a time are
        left out.
        """
        search = Search(kind, codes)
        return self.last_of(search, self.timed((one, performed(one)) for one in self.find(search)))

    def timed(self, items: Iterable[tuple[Resource, Any]]) -> list[Event]:
        """Resources with their stored times as events. Those without a time (None) are left out."""
        return [Event(one, str(text), self.moment(text, one), self) for one, text in items if text is not None]

    def orders(self, *words: str, status: str = "active", most: int | None = None) -> list[Resource]:
        """The drug orders whose text names one of these words; of these the first `most`."""
        search = Search("MedicationRequest", status=status)
        matches = [one for one in self.find(search) if self.mentions(drug_text(one), *words)][:most]
        self.note(search, *matches, what=" or ".join(words))
        return matches

    def active_order(self, *words: str) -> Resource | None:
        """The first active drug order whose text names one of these words."""
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
    def birth_date(self) -> date:
        """The patient's birth date. Raises DataFault if it is not a full date."""
        matches = self.source.search("Patient", **{self.identifier: self.patient})
        if not matches:
            raise DataFault(f"no patient has the identifier {self.patient}")
        text: Any = matches[0].get("birthDate")
        self.touched[id(matches[0])] = matches[0]
        self.note(Search("Patient"), matches[0], what="birthDate", role="the patient's birth date")
        with suppress(TypeError, ValueError):
            born = date.fromisoformat(text)
            if born.isoformat() == text:
                return born
        raise DataFault(f"the birth date of {self.patient} is {text or 'missing'}, not a full date")

    @property
    def age(self) -> int:
        """The patient's age in full years."""
        born, today = self.birth_date, self.now.date()
        return today.year - born.year - ((today.month, today.day) < (born.month, born.day))

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


def is_patient(resource: Resource, patient: str) -> bool:
    """Whether a resource is the Patient with this id or identifier."""
    known = [resource.get("id"), *(one.get("value") for one in objects(resource.get("identifier")))]
    return resource.get("resourceType") == "Patient" and patient in known


def ref(resource: Mapping[str, Any]) -> str:
    """The reference to a resource, such as `Procedure/12`."""
    return f"{resource.get('resourceType')}/{resource.get('id')}"


def drug_text(resource: Resource) -> str:
    """`medicationCodeableConcept.text` in lower case; empty if it is missing. Raises DataFault."""
    concept = resource.get("medicationCodeableConcept")
    text = concept.get("text", "") if isinstance(concept, dict) else None
    if not isinstance(text, str):
        raise DataFault(f"{ref(resource)} has no readable medicationCodeableConcept")
    return text.lower()


def performed(resource: Resource) -> Any:
    """When something was done, as stored: a time, otherwise the end or the start of a period. Raises DataFault."""
    text = resource.get("performedDateTime", resource.get("occurrenceDateTime"))
    if text is not None:
        return text
    period = resource.get("performedPeriod") or {}
    if not isinstance(period, dict):
        raise DataFault(f"{ref(resource)}: performedPeriod is not an object")
    return period.get("start") if period.get("end") is None else period["end"]


def time_text(resource: Resource) -> str | None:
    """The time of a resource as stored. None if it has none that can be read."""
    try:
        time = performed(resource)
    except DataFault:
        return None
    time = time or resource.get("effectiveDateTime") or resource.get("authoredOn")
    return time if isinstance(time, str) else None


def _value(resource: Resource) -> Any:
    return as_object(resource.get("valueQuantity")).get("value")
