"""Reads a chart: which resources count, when something was done, which is the latest.

`ChartFault` means that the published grader fails on the chart, so that the item is wrong whatever the agent does.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from refsol.json_values import as_object
from refsol.psb300._facts import Facts, Resource


class ChartFault(ValueError):
    """The chart makes a right verdict impossible. The text names the resource and the reason."""


@dataclass(frozen=True, slots=True)
class Search:
    """A search of one patient's resources. `code` is one code, or several joined by commas."""

    kind: str
    code: str | None = None
    status: str | None = None

    def __str__(self) -> str:
        parts = {"code": self.code, "status": self.status}
        query = "&".join(f"{name}={value}" for name, value in parts.items() if value)
        return f"{self.kind}?{query}" if query else self.kind


@dataclass(frozen=True, slots=True)
class Timed:
    """Something done or measured: its resource, its time as stored (`text`) and parsed, and the value of a reading."""

    resource: Resource
    text: str
    time: datetime
    value: float = math.nan

    @property
    def has_zone(self) -> bool:
        """Whether the time has a zone, so that it can be compared with other times that have one."""
        return self.time.utcoffset() is not None


@dataclass(frozen=True, slots=True)
class Chart:
    """One patient's chart. Resources stored after `cut_off` do not count; None: all count."""

    facts: Facts
    patient: str
    cut_off: datetime | None

    def find(self, search: Search, *, needs_meta: bool = True) -> list[Resource]:
        """The resources that a search finds and that count. Raises ChartFault, FactsError."""
        items = self.facts.search(search.kind, self.patient, search.code, search.status)
        return [resource for resource in items if self._counts(resource, needs_meta)]

    def done(self, search: Search) -> list[Timed]:
        """The resources that a search finds, with the time at which they were done. Those without a time are left out.

        Raises ChartFault.
        """
        return timed((resource, _performed(resource)) for resource in self.find(search))

    def medication_texts(self, search: Search) -> list[tuple[Resource, str]]:
        """MedicationRequests, each with the text of its concept in lower case (empty if it has none)."""
        return [(resource, _concept_text(resource).lower()) for resource in self.find(search)]

    def _counts(self, resource: Resource, needs_meta: bool) -> bool:
        if self.cut_off is None or ("meta" not in resource and not needs_meta):
            return True
        meta = resource.get("meta")
        if not isinstance(meta, dict):
            raise ChartFault(f"{named(resource)} has no meta")
        stamp = meta.get("lastUpdated")
        if stamp is None:
            return True
        stored = moment(stamp, resource)
        if stored.utcoffset() is None:
            raise ChartFault(f"{named(resource)}: meta.lastUpdated is {stamp}, a time without a zone")
        return stored <= self.cut_off


def named(resource: Resource) -> str:
    """The reference to a resource, such as `Procedure/12`."""
    return f"{resource.get('resourceType')}/{resource.get('id')}"


def moment(text: Any, resource: Resource) -> datetime:
    """Parse an ISO time with `datetime.fromisoformat`. Raises ChartFault."""
    try:
        return datetime.fromisoformat(text)
    except (TypeError, ValueError):
        raise ChartFault(f"{named(resource)}: {text!r} is not an ISO time") from None


def timed(items: Iterable[tuple[Resource, Any]]) -> list[Timed]:
    """Parse the stored times of resources. Resources without a time (None) are left out. Raises ChartFault."""
    return [Timed(resource, str(text), moment(text, resource)) for resource, text in items if text is not None]


def ordered_or_done(resource: Resource) -> Any:
    """When something was done, otherwise when it was ordered. None if neither is stated. Raises ChartFault."""
    text = _performed(resource)
    return resource.get("authoredOn") if text is None else text


def latest(items: Sequence[Timed]) -> Timed | None:
    """The item with the greatest time; the first one if several are equal. None if there are no items.

    Raises ChartFault if some times have a zone and others do not.
    """
    try:
        return max(items, key=lambda one: one.time, default=None)
    except TypeError:
        naive = next(one for one in items if not one.has_zone)
        raise ChartFault(f"{named(naive.resource)}: {naive.text} has no time zone, but other times have one") from None


def passed(since: Timed, now: datetime) -> timedelta:
    """How long ago something was done. Raises ChartFault for a time without a zone."""
    if not since.has_zone:
        raise ChartFault(f"{named(since.resource)}: {since.text} has no time zone")
    return now - since.time


def number(resource: Resource) -> int | float:
    """`valueQuantity.value`. Raises ChartFault if it is not a number."""
    value = as_object(resource.get("valueQuantity")).get("value")
    if not isinstance(value, int | float):
        raise ChartFault(f"{named(resource)} has no number in valueQuantity.value")
    return value


def _performed(resource: Resource) -> Any:
    text = resource.get("performedDateTime")
    if text is not None:
        return text
    period = resource.get("performedPeriod") or {}
    if not isinstance(period, dict):
        raise ChartFault(f"{named(resource)}: performedPeriod is not an object")
    return period.get("end") if period.get("end") is not None else period.get("start")


def _concept_text(resource: Resource) -> str:
    concept = resource.get("medicationCodeableConcept")
    if not isinstance(concept, dict):
        raise ChartFault(f"{named(resource)} has no medicationCodeableConcept")
    text = concept.get("text", "")
    if not isinstance(text, str):
        raise ChartFault(f"{named(resource)}: medicationCodeableConcept.text is not text")
    return text
