"""One patient's record at a time, as a rule reads it. Every read and every comparison is recorded.

A benchmark whose published grader reads a chart in its own way has a subclass.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Sequence
from datetime import date, datetime, timedelta
from functools import cached_property
from typing import Any

from refsol.clinical.codes import Code, Lab
from refsol.clinical.faults import DataFault
from refsol.clinical.records import Event, How, Number, Record, Search, drug_text, ordered
from refsol.clinical.rules import RuleSet
from refsol.clinical.sources import Resource, Source, ref
from refsol.json_values import as_object
from refsol.stats import sequential_mean

_DAY = re.compile(r"\d{4}-\d{2}-\d{2}")


class Chart(Record):
    """A patient's chart. `patient` is the id of the Patient, `now` the clock of the task.

    `base` is the FHIR base URL of orders, with a slash at its end; `task` has the fields of the task.
    """

    identifier = "_id"
    """The search parameter that finds the Patient."""

    def __init__(
        self,
        source: Source,
        patient: str,
        now: datetime,
        rules: RuleSet,
        *,
        base: str = "",
        task: Any = None,
    ) -> None:
        super().__init__(now)
        self.source, self.patient, self.rules, self.base = source, patient, rules, base
        self.task = as_object(task)

    # Hooks for published graders

    def counts(self, resource: Resource) -> bool:
        """Whether a resource counts. Raises DataFault."""
        return True

    def is_number(self, value: Any) -> bool:
        """Whether a value can be compared."""
        return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < math.inf

    def mentions(self, text: str, *words: str) -> bool:
        """Whether a text names one of some words (all in lower case), each as a whole word."""
        return any(re.search(rf"(?<![^\W_]){re.escape(word)}(?![^\W_])", text) for word in words)

    # Reads

    def find(self, kind: str, *codes: Code, status: str = "") -> list[Resource]:
        """The resources that a search finds and that count. They are not recorded as decisive; see `note`."""
        return self._found(Search(kind, codes, status))

    def _found(self, search: Search) -> list[Resource]:
        found = self.source.search(search.kind, patient=self.patient, **search.query)
        counting = [one for one in found if self.counts(one)]
        self.touched |= {id(one): one for one in counting}
        return counting

    def readings(self, lab: Lab) -> list[Event]:
        """All measurements in the server's order, not recorded. Raises DataFault if one cannot be read."""
        events = [self.reading(one, lab) for one in self.find("Observation", lab)]
        if self.rules.until_now:
            events = [one for one in events if ordered(one, self.now, lambda time, now: time <= now)]
        return events

    def reading(self, resource: Resource, lab: Lab) -> Event:
        """A resource as a measurement. Raises DataFault if it cannot be read."""
        text, quantity = resource.get("effectiveDateTime"), as_object(resource.get("valueQuantity"))
        value, unit = quantity.get("value"), quantity.get("unit")
        if not self.is_number(value):
            raise DataFault(f"the Observation of {lab.code} at {text} has no usable valueQuantity.value")
        if self.rules.units and lab.unit and unit != lab.unit:
            raise DataFault(f"the Observation of {lab.code} at {text} is in {unit}, not in {lab.unit}")
        return Event(resource, str(text), self.moment(text, resource), self, value)

    def moment(self, text: Any, resource: Resource) -> datetime:
        """A stored time, parsed with `datetime.fromisoformat`. Raises DataFault."""
        try:
            return datetime.fromisoformat(text)
        except (TypeError, ValueError):
            raise DataFault(f"{resource.get('resourceType')}: {text!r} is not a time") from None

    def since(self, events: Sequence[Event], start: datetime | None) -> list[Event]:
        """The events at or after a moment."""
        if start is None:
            return list(events)
        return [one for one in events if ordered(one, start, lambda time, begin: time >= begin)]

    def all(self, lab: Lab, within: timedelta | None = None) -> list[Event]:
        """All measurements, or those since `within` before now, in the server's order."""
        return self._window(lab, within, "all")

    def _window(self, lab: Lab, within: timedelta | None, how: How) -> list[Event]:
        start = None if within is None else self.now - within
        events = self.since(self.readings(lab), start)
        used = events if how != "last" else [one for one in [newest(events)] if one is not None]
        self.note(Search("Observation", (lab,), start=start), *(one.resource for one in used), how=how)
        return used

    def latest(self, lab: Lab, within: timedelta | None = None) -> Event | None:
        """The last measurement; of equal times the first in the server's order. None if there is none."""
        return next(iter(self._window(lab, within, "last")), None)

    def mean(self, lab: Lab, within: timedelta | None = None) -> Number | None:
        """The mean of the measurements, summed in the server's order. None if there are none."""
        return mean(self._window(lab, within, "mean"))

    def last_done(self, *codes: Code, kind: str = "Procedure") -> Event | None:
        """The last resource of a type (Procedure, Immunization) with one of these codes. Those without a time are
        left out.
        """
        search = Search(kind, codes)
        last = newest(self.timed((one, performed(one)) for one in self._found(search)))
        self.note(search, *([last.resource] if last else []), how="last")
        return last

    def timed(self, items: Iterable[tuple[Resource, Any]]) -> list[Event]:
        """Resources with their stored times as events. Those without a time (None) are left out."""
        return [Event(one, str(text), self.moment(text, one), self) for one, text in items if text is not None]

    def orders(self, *words: str, status: str = "active") -> list[Resource]:
        """The drug orders whose text names one of these words."""
        found = [one for one in self.find("MedicationRequest", status=status) if self.mentions(drug_text(one), *words)]
        self.note(Search("MedicationRequest", status=status), *found, what=" or ".join(words))
        return found

    def active_order(self, *words: str) -> Resource | None:
        """The first active drug order whose text names one of these words."""
        active = self.find("MedicationRequest", status="active")
        found = [one for one in active if self.mentions(drug_text(one), *words)][:1]
        self.note(Search("MedicationRequest", status="active"), *found, what=" or ".join(words))
        return found[0] if found else None

    def first(self, kind: str, code: Code, status: str = "") -> Resource | None:
        """The first resource of a type with a code: a condition, a service order."""
        search = Search(kind, (code,), status)
        found = self._found(search)
        self.note(search, *found[:1])
        return found[0] if found else None

    def has_condition(self, code: Code) -> bool:
        """Whether the chart has this condition."""
        return self.first("Condition", code) is not None

    @cached_property
    def birth_date(self) -> date:
        """The patient's birth date. Raises DataFault if it is not a full date."""
        found = self.source.search("Patient", **{self.identifier: self.patient})
        if not found:
            raise DataFault(f"no patient has the identifier {self.patient}")
        text = found[0].get("birthDate")
        self.touched[id(found[0])] = found[0]
        self.note(Search("Patient"), found[0], what="birthDate", role="the patient's birth date")
        try:
            if isinstance(text, str) and _DAY.fullmatch(text):
                return date.fromisoformat(text)
        except ValueError:
            pass
        raise DataFault(f"the birth date of {self.patient} is {text or 'missing'}, not a full date")

    @property
    def age(self) -> int:
        """The patient's age in full years."""
        born, today = self.birth_date, self.now.date()
        return today.year - born.year - ((today.month, today.day) < (born.month, born.day))

    # Times

    def tomorrow(self, hour: int, minute: int = 0) -> datetime:
        """A time on the next day."""
        return (self.now + timedelta(days=1)).replace(hour=hour, minute=minute, second=0, microsecond=0)


def newest(events: Sequence[Event]) -> Event | None:
    """The event with the greatest time; the first one if several are equal. Raises DataFault for mixed times."""
    try:
        return max(events, key=lambda one: one.time, default=None)
    except TypeError:
        naive = next(one for one in events if one.time.utcoffset() is None)
        raise DataFault(f"the time {naive.text} has no zone, but others have one: they cannot be compared") from None


def mean(events: Sequence[Event]) -> Number | None:
    """The mean, summed in this order: at the edge of a tolerance, the last digit decides. None without events."""
    if not events:
        return None
    value = sequential_mean([one.value for one in events])
    return Number.of(value, events[0].chart, tuple(one.resource for one in events))


def performed(resource: Resource) -> Any:
    """When something was done, as stored: a time, otherwise the end or the start of a period. Raises DataFault."""
    text = resource.get("performedDateTime", resource.get("occurrenceDateTime"))
    if text is not None:
        return text
    period = resource.get("performedPeriod") or {}
    if not isinstance(period, dict):
        raise DataFault(f"{ref(resource)}: performedPeriod is not an object")
    return period.get("end") if period.get("end") is not None else period.get("start")
