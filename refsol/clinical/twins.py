"""Twins: the smallest change of one fact that a rule read, after which the rule gives another ruling.

The changes follow from the chart's record: a value moves to a limit that it was compared with, a time leaves or enters
a window, a resource is removed or added. Each is verified: the rule runs again on the changed resources.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from typing import Any

from refsol.clinical.chart import Chart, Compared
from refsol.clinical.codes import Code, Lab
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Ruling
from refsol.clinical.searches import Looked, performed, ref
from refsol.clinical.sources import Amendment, Resource, Resources, Source
from refsol.clinical.task_type import TaskType
from refsol.errors import DataFault
from refsol.resources import CLINICAL_STATUS, coded_in, codes

MakeChart = Callable[[Source], Chart]
"""A new chart of a task's patient over some resources."""

_STATUS_COST, _MOVE_COST, _REMOVE_COST, _ADD_COST = 20.0, 50.0, 500.0, 1000.0
"""The costs of changes. A value's cost is its number of steps in the last decimal."""
_MINUTE = timedelta(minutes=1)
_TIMES = ("effectiveDateTime", "performedDateTime", "occurrenceDateTime", "authoredOn", "onsetDateTime")


@dataclass(frozen=True, slots=True)
class Change:
    """A change of resources: in words, its size, and by reference the changed resource (None: it is removed).

    A new resource has the empty reference.
    """

    words: str
    cost: float
    put: Mapping[str, Resource | None]

    def on(self, resources: Sequence[Resource]) -> list[Resource]:
        """The resources after the change."""
        changed = [*(self.put.get(ref(one), one) for one in resources), self.put.get("")]
        return [one for one in changed if one is not None]


@dataclass(frozen=True, slots=True)
class Twin:
    """A change, and the rulings before and after it."""

    change: Change
    before: Ruling
    after: Ruling


def twin(kind: TaskType, make: MakeChart, resources: Sequence[Resource]) -> Twin | None:
    """The smallest change that changes the ruling. None if there is none. Raises DataFault."""
    chart = make(Resources(resources))
    before = kind.ruled(chart)
    own = signature(before, chart)
    for change in sorted(changes(chart), key=lambda one: one.cost):
        try:
            other = make(Resources(change.on(resources)))
            after = kind.ruled(other)
        except DataFault:
            continue
        if signature(after, other) != own:
            return Twin(change, before, after)
    return None


def signature(ruling: Ruling, chart: Chart) -> tuple[str, ...]:
    """What makes two rulings different: the branch, the orders and the changes; for a query, its first answer."""
    if ruling.branch == "query":
        return ruling.branch, json.dumps(plain(ruling.answers[0])) if ruling.answers else ""
    return ruling.branch, *(json.dumps(one.json(chart)) for one in ruling.due), *(one.words for one in ruling.edits)


def changes(chart: Chart) -> Iterator[Change]:
    """Small changes of what a rule read, in no particular order."""
    for compared in chart.compared:
        if compared.what == "time":
            yield from _older(compared, chart)
        elif compared.used[0]["resourceType"] == "Patient":
            yield from _to_age(compared, chart)
        elif [one["valueQuantity"]["value"] for one in compared.used] == [compared.actual]:
            yield from _to_limit(compared, chart)
        else:
            yield from _parts(compared)
    for look in chart.looked:
        if look.search.kind == "Patient":
            yield from _birth_dates(look, chart)
        elif look.used:
            yield from _present(look)
        else:
            yield from _absent(look, chart)


def _to_limit(compared: Compared, chart: Chart) -> Iterator[Change]:
    """A value moves to a limit, or to one step below or above it."""
    (used,) = compared.used
    step = _step(used, chart)
    for value in (compared.limit, compared.limit - step, compared.limit + step):
        yield valued(used, value, abs(value - compared.actual) / step)


def _parts(compared: Compared) -> Iterator[Change]:
    """A sum, a mean or another computed number moves across a limit, because one of its readings does."""
    limit, actual = compared.limit, compared.actual
    ratios = (limit / actual, actual / limit) if limit and actual else ()
    for used in compared.used:
        value = used["valueQuantity"]["value"]
        sums = (value + times * (limit - actual) for times in (1, -1, len(compared.used)))
        for one in (*sums, *(value * ratio for ratio in ratios)):
            for by in (0.0, -0.1, 0.1):
                yield valued(used, one + by, abs(one + by - value) * 10)


def _older(compared: Compared, chart: Chart) -> Iterator[Change]:
    """An event moves across a limit of time; or all of its kind since then move before it."""
    if not compared.used:
        return
    (used,) = compared.used
    for time in (compared.limit, compared.limit - _MINUTE, compared.limit + _MINUTE):
        yield moved(used, time)
    own, later = set(codes(used)), list[Change]()
    for one in chart.touched.values():
        time = time_of(one)
        if own & set(codes(one)) and time is not None and _not_before(time, compared.limit):
            later.append(moved(one, compared.limit - (1 + len(later)) * _MINUTE))
    if len(later) > 1:
        put = {name: resource for one in later for name, resource in one.put.items()}
        words = f"{len(later)} moved before {compared.limit.isoformat()}"
        yield Change(words, sum(one.cost for one in later), put)


def _present(look: Looked) -> Iterator[Change]:
    """What the rule found is removed, ended, moved out of the window, or changes its last decimal."""
    for used in look.used:
        yield Change(f"{ref(used)} is removed", _REMOVE_COST, {ref(used): None})
        if look.search.status:
            other = "resolved" if look.search.kind in CLINICAL_STATUS else "stopped"
            words = f"{ref(used)}: status {look.search.status} → {other}"
            yield Change(words, _STATUS_COST, {ref(used): {**used, **_status(look.search.kind, other)}})
        if look.search.start is not None:
            yield moved(used, look.search.start - _MINUTE)
        if look.lab is not None:
            yield valued(used, used["valueQuantity"]["value"] + 10.0**-look.lab.decimals, 1)


def _absent(look: Looked, chart: Chart) -> Iterator[Change]:
    """What the rule did not find is moved into the window, or added."""
    search = look.search
    own = {code.code for code in search.codes}
    if search.start is not None:
        outside = [one for one in chart.touched.values() if own & set(codes(one))]
        yield from (moved(one, search.start) for one in outside if time_of(one) is not None)
    added = {
        "resourceType": search.kind,
        "id": "twin-1",
        **_status(search.kind, search.status or _STATUS_OF_KIND.get(search.kind, "completed")),
        "patient" if search.kind in _OF_PATIENT else "subject": {"reference": f"Patient/{chart.patient}"},
        _TIME_OF_KIND.get(search.kind, "performedDateTime"): (chart.now - timedelta(hours=1)).isoformat(),
    }
    if look.lab is not None:
        for value in (1.0, 3.0, 100.0):
            quantity = {"value": value, "unit": look.lab.unit}
            yield _added(
                {**added, "code": _concept(look.lab), "valueQuantity": quantity}, f"{look.lab.label} {value:g}"
            )
    elif search.kind == "MedicationRequest" and not search.codes:
        text = look.what.partition(" or ")[0]
        yield _added({**added, "medicationCodeableConcept": {"text": text}}, text)
    elif search.codes:
        yield _added({**added, coded_in(search.kind): _concept(search.codes[0])}, search.codes[0].label)


_TIME_OF_KIND = {
    "Observation": "effectiveDateTime",
    "MedicationRequest": "authoredOn",
    "ServiceRequest": "authoredOn",
    "Condition": "onsetDateTime",
    "AllergyIntolerance": "onsetDateTime",
    "Immunization": "occurrenceDateTime",
}
_STATUS_OF_KIND = {"Observation": "final", **dict.fromkeys(CLINICAL_STATUS, "active")}
_OF_PATIENT = ("AllergyIntolerance", "Immunization")
"""The types that refer to the Patient in `patient`."""


def _status(kind: str, status: str) -> dict[str, Any]:
    """The element with the status of a resource."""
    return {"clinicalStatus": {"coding": [{"code": status}]}} if kind in CLINICAL_STATUS else {"status": status}


def _concept(code: Code) -> dict[str, Any]:
    return {"coding": [{"system": code.system, "code": code.code} if code.system else {"code": code.code}]}


def _added(resource: Resource, name: str) -> Change:
    return Change(f"{resource['resourceType']} added: {name}, an hour before now", _ADD_COST, {"": resource})


def _birth_dates(look: Looked, chart: Chart) -> Iterator[Change]:
    """The patient is born a day earlier or later, or has a birthday just now or tomorrow."""
    for used in look.used:
        born, today = date.fromisoformat(str(used["birthDate"])), chart.now.date()
        days = (born - timedelta(days=1), born + timedelta(days=1), _in_year(today, born.year))
        for day in (*days, _in_year(today + timedelta(days=1), born.year)):
            yield _born(used, day)


def _to_age(compared: Compared, chart: Chart) -> Iterator[Change]:
    """The patient gets the age of a limit, or is a year younger or older."""
    (used,), today = compared.used, chart.now.date()
    year = today.year - int(compared.limit)
    for day in (_in_year(today, year), _in_year(today, year - 1), _in_year(today + timedelta(days=1), year)):
        yield _born(used, day)


def _born(used: Resource, day: date) -> Change:
    """A patient gets another birth date."""
    born = date.fromisoformat(str(used["birthDate"]))
    words = f"{ref(used)}: birthDate {born} → {day}"
    return Change(words, abs((day - born).days), {ref(used): {**used, "birthDate": day.isoformat()}})


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, 28)) if day.month == 2 else day.replace(year=year)


def _step(used: Resource, chart: Chart) -> float:
    """One step in the last decimal of a reading."""
    labs: Iterator[Lab] = (look.lab for look in chart.looked if look.lab is not None and used in look.used)
    lab = next(labs, None)
    return 10.0 ** -(1 if lab is None else lab.decimals)


def valued(used: Resource, value: float, cost: float) -> Change:
    """A reading gets another value."""
    quantity = used["valueQuantity"]
    words = f"{ref(used)}: value {quantity['value']} → {round(value, 6):g}"
    return Change(words, cost, {ref(used): {**used, "valueQuantity": {**quantity, "value": round(value, 6)}}})


def moved(used: Resource, time: datetime) -> Change:
    """A resource gets another time."""
    name = next((one for one in _TIMES if one in used), "performedDateTime")
    rest = {key: value for key, value in used.items() if key != "performedPeriod"}
    old = time_of(used)
    same_kind = old is not None and (old.tzinfo is None) == (time.tzinfo is None)
    cost = _MOVE_COST + (abs((time - old) / timedelta(days=10)) if old is not None and same_kind else _MOVE_COST)
    was = "no time" if old is None else old.isoformat()
    return Change(f"{ref(used)}: {was} → {time.isoformat()}", cost, {ref(used): {**rest, name: time.isoformat()}})


def time_of(resource: Resource) -> datetime | None:
    """The time of a resource. None if there is none that can be read."""
    text = next((resource[name] for name in _TIMES if name in resource), None)
    try:
        return datetime.fromisoformat(text if text is not None else performed(resource))
    except (TypeError, ValueError):
        return None


def _not_before(time: datetime, limit: datetime) -> bool:
    return (time.tzinfo is None) == (limit.tzinfo is None) and time >= limit


class Changed:
    """A source in which some resources have another content, or are missing. See `Amendment`.

    A resource of the patient stays in its place; one that was another patient's comes last.
    """

    def __init__(self, source: Source, change: Amendment) -> None:
        self._source = source
        self._own = {one if isinstance(one, str) else ref(one): one for one in change}
        self._kinds = {name.partition("/")[0] for name in self._own}

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        stored = self._source.search(kind, **query)
        if kind not in self._kinds:
            return stored
        matches = {ref(one): one for one in stored if ref(one) not in self._own}
        new = Resources(one for one in self._own.values() if not isinstance(one, str)).search(kind, **query)
        matches |= {ref(one): one for one in new}
        wide = {name: value for name, value in query.items() if name not in ("status", "clinical-status")}
        order = [ref(one) for one in self._source.search(kind, **wide)]
        return [matches[name] for name in dict.fromkeys([*order, *matches]) if name in matches]


def changed(source: Source, change: Amendment | None) -> Source:
    """The source with a change, if there is one."""
    return Changed(source, change) if change else source
