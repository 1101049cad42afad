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

from refsol.clinical.chart import SEXES, Chart, Compared
from refsol.clinical.codes import Code, Lab
from refsol.clinical.meanings import plain
from refsol.clinical.rulings import Ruling
from refsol.clinical.searches import ANY, Searched, performed, ref
from refsol.clinical.sources import Amendment, Resource, Resources, Source
from refsol.clinical.task_type import TaskType
from refsol.clinical.times import WholeDay, days_of, is_date
from refsol.clinical.units import as_float
from refsol.errors import DataFault, FactsError
from refsol.resources import CLINICAL_STATUS, coded_in, codes

MakeChart = Callable[[Source], Chart]
"""A new chart of a task's patient over some resources."""

_STATUS_COST, _MOVE_COST, _REMOVE_COST, _ADD_COST = 20.0, 50.0, 500.0, 1000.0
"""The costs of changes. A value's cost is its number of steps in the last decimal."""
_MINUTE = timedelta(minutes=1)
_FULL_DATE = len("2024-03-05")
_TIMES = ("effectiveDateTime", "performedDateTime", "occurrenceDateTime", "authoredOn", "onsetDateTime")


@dataclass(frozen=True, slots=True)
class ChartChange:
    """A change of resources: in words, its size, and by reference the changed resource (None: it is removed).

    A new resource has the empty reference.
    """

    words: str
    cost: float
    put: Mapping[str, Resource | None]

    def on(self, resources: Sequence[Resource]) -> list[Resource]:
        """The resources after the change."""
        changed = [*(self.put.get(ref(resource), resource) for resource in resources), self.put.get("")]
        return [resource for resource in changed if resource is not None]


@dataclass(frozen=True, slots=True)
class Twin:
    """A change, and the rulings before and after it."""

    change: ChartChange
    before: Ruling
    after: Ruling


def twin(kind: TaskType, make: MakeChart, resources: Sequence[Resource]) -> Twin | None:
    """The smallest change that changes the ruling. None if there is none. Raises DataFault."""
    chart = make(Resources(resources))
    before = kind.ruled(chart)
    ruling_before = signature(before, chart)
    for change in sorted(changes(chart), key=lambda change: change.cost):
        try:
            changed_chart = make(Resources(change.on(resources)))
            after = kind.ruled(changed_chart)
        except DataFault:
            continue
        if signature(after, changed_chart) != ruling_before:
            return Twin(change, before, after)
    return None


def signature(ruling: Ruling, chart: Chart) -> tuple[str, ...]:
    """What makes two rulings different: the branch, the orders and the changes; for a query, its first answer."""
    if ruling.branch == "query":
        return ruling.branch, json.dumps(plain(ruling.answers[0])) if ruling.answers else ""
    return (
        ruling.branch,
        *(json.dumps(order.json(chart)) for order in ruling.due),
        *(edit.words for edit in ruling.edits),
    )


def changes(chart: Chart) -> Iterator[ChartChange]:
    """Small changes of what a rule read, in no particular order."""
    for compared in chart.compared:
        if compared.what == "time":
            yield from _older(compared, chart)
        elif compared.used[0]["resourceType"] == "Patient":
            yield from _to_age(compared, chart)
        elif [_value(used, chart) for used in compared.used] == [compared.actual]:
            yield from _to_limit(compared, chart)
        else:
            yield from _parts(compared, chart)
    for searched in chart.searched:
        if searched.search.kind == "Patient":
            yield from _sexes(searched) if searched.what == "gender" else _birth_dates(searched, chart)
        elif searched.used:
            yield from _present(searched, chart)
        else:
            yield from _absent(searched, chart)


def _to_limit(compared: Compared, chart: Chart) -> Iterator[ChartChange]:
    """A value moves to a limit, or to one step below or above it."""
    (used,) = compared.used
    step = _step(used, chart)
    for value in (compared.limit, compared.limit - step, compared.limit + step):
        yield _in_unit_of_chart(used, value, abs(value - compared.actual) / step, chart)


def _parts(compared: Compared, chart: Chart) -> Iterator[ChartChange]:
    """A sum, a mean or another computed number moves across a limit, because one of its readings does."""
    limit, actual = compared.limit, compared.actual
    ratios = (limit / actual, actual / limit) if limit and actual else ()
    for used in compared.used:
        value = _value(used, chart)
        sums = (value + times * (limit - actual) for times in (1, -1, len(compared.used)))
        for target in (*sums, *(value * ratio for ratio in ratios)):
            for by in (0.0, -0.1, 0.1):
                yield _in_unit_of_chart(used, target + by, abs(target + by - value) * 10, chart)


def _older(compared: Compared, chart: Chart) -> Iterator[ChartChange]:
    """An event moves across a limit of time; or all of its kind since then move before it."""
    if not compared.used:
        return
    (used,) = compared.used
    step = _step_of_time(used)
    for time in (compared.limit, compared.limit - step, compared.limit + step):
        yield moved(used, time)
    names, later = set(codes(used)), list[ChartChange]()
    for resource in chart.touched.values():
        time = time_of(resource)
        if names & set(codes(resource)) and time is not None and _not_before(time, compared.limit):
            later.append(moved(resource, compared.limit - (1 + len(later)) * _step_of_time(resource)))
    if len(later) > 1:
        put = {name: resource for change in later for name, resource in change.put.items()}
        words = f"{len(later)} moved before {compared.limit.isoformat()}"
        yield ChartChange(words, sum(change.cost for change in later), put)


def _present(searched: Searched, chart: Chart) -> Iterator[ChartChange]:
    """What the rule found is removed, ended, moved out of the window, or changes its last decimal."""
    for used in searched.used:
        yield ChartChange(f"{ref(used)} is removed", _REMOVE_COST, {ref(used): None})
        if searched.search.status not in ("", ANY):
            status = "resolved" if searched.search.kind in CLINICAL_STATUS else "stopped"
            words = f"{ref(used)}: status {searched.search.status} → {status}"
            yield ChartChange(words, _STATUS_COST, {ref(used): {**used, **_status(searched.search.kind, status)}})
        if searched.search.start is not None:
            yield moved(used, searched.search.start - _step_of_time(used))
        if searched.lab is not None and "valueQuantity" in used:
            yield _in_unit_of_chart(used, _value(used, chart) + 10.0**-searched.lab.decimals, 1, chart)


def _absent(searched: Searched, chart: Chart) -> Iterator[ChartChange]:
    """What the rule did not find is moved into the window, or added."""
    search = searched.search
    names = {code.code for code in search.codes}
    if search.start is not None:
        for resource in chart.touched.values():
            if names & set(codes(resource)) and time_of(resource) is not None:
                yield moved(resource, search.start)
                if _step_of_time(resource) > _MINUTE:
                    yield moved(resource, search.start + _step_of_time(resource))
    status = "" if search.status == ANY else search.status
    added = {
        "resourceType": search.kind,
        "id": "twin-1",
        **_status(search.kind, status or _STATUS_OF_KIND.get(search.kind, "completed")),
        "patient" if search.kind in _OF_PATIENT else "subject": {"reference": f"Patient/{chart.patient}"},
        _TIME_OF_KIND.get(search.kind, "performedDateTime"): (chart.now - timedelta(hours=1)).isoformat(),
    }
    if searched.lab is not None:
        for value in (1.0, 3.0, 100.0):
            quantity = {"value": value, "unit": searched.lab.unit}
            yield _added(
                {**added, "code": _concept(searched.lab), "valueQuantity": quantity}, f"{searched.lab.label} {value:g}"
            )
    elif searched.what and not search.codes:
        text = searched.what.partition(" or ")[0]
        element = "medicationCodeableConcept" if search.kind == "MedicationRequest" else "code"
        yield _added({**added, element: {"text": text}}, text)
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


def _added(resource: Resource, name: str) -> ChartChange:
    return ChartChange(f"{resource['resourceType']} added: {name}, an hour before now", _ADD_COST, {"": resource})


def _sexes(searched: Searched) -> Iterator[ChartChange]:
    """The patient has another sex."""
    for used in searched.used:
        for sex in SEXES:
            if sex != used["gender"]:
                words = f"{ref(used)}: gender {used['gender']} → {sex}"
                yield ChartChange(words, _STATUS_COST, {ref(used): {**used, "gender": sex}})


def _birth_dates(searched: Searched, chart: Chart) -> Iterator[ChartChange]:
    """The patient is born a day earlier or later, or has a birthday just now or tomorrow. A birth date without a day
    changes by a month or a year.
    """
    for used in searched.used:
        (first, last), today = days_of(str(used["birthDate"])), chart.now.date()
        days = (first - timedelta(days=1), last + timedelta(days=1), _in_year(today, first.year))
        for day in (*days, _in_year(today + timedelta(days=1), first.year)):
            yield _born(used, day)


def _to_age(compared: Compared, chart: Chart) -> Iterator[ChartChange]:
    """The patient gets the age of a limit, or is a year younger or older."""
    (used,), today = compared.used, chart.now.date()
    year = today.year - int(compared.limit)
    for day in (_in_year(today, year), _in_year(today, year - 1), _in_year(today + timedelta(days=1), year)):
        yield _born(used, day)
    if len(str(used["birthDate"])) < _FULL_DATE:
        yield from (_born(used, _in_year(today, year + by)) for by in (1, -2))


def _born(used: Resource, day: date) -> ChartChange:
    """A patient gets another birth date, as exactly as it is stated."""
    text = str(used["birthDate"])
    birth_date = day.isoformat()[: len(text)]
    words = f"{ref(used)}: birthDate {text} → {birth_date}"
    return ChartChange(words, abs((day - days_of(text)[0]).days), {ref(used): {**used, "birthDate": birth_date}})


def _in_year(day: date, year: int) -> date:
    return day.replace(year=year, day=min(day.day, 28)) if day.month == 2 else day.replace(year=year)


def _step(used: Resource, chart: Chart) -> float:
    """One step in the last decimal of a reading."""
    labs: Iterator[Lab] = (
        searched.lab for searched in chart.searched if searched.lab is not None and used in searched.used
    )
    lab = next(labs, None)
    return 10.0 ** -(1 if lab is None else lab.decimals)


def _value(used: Resource, chart: Chart) -> float:
    """The value of a reading in the unit of the rule."""
    value: float = used["valueQuantity"]["value"]
    there = chart.conversion(used)
    return value if there.is_same else as_float(there.of(value))


def _in_unit_of_chart(used: Resource, value: float, cost: float, chart: Chart) -> ChartChange:
    """A reading gets another value, which is in the unit of the rule."""
    there = chart.conversion(used)
    return valued(used, value if there.is_same else as_float(there.back(value)), cost)


def valued(used: Resource, value: float, cost: float) -> ChartChange:
    """A reading gets another value, in its own unit."""
    quantity = used["valueQuantity"]
    words = f"{ref(used)}: value {quantity['value']} → {round(value, 6):g}"
    return ChartChange(words, cost, {ref(used): {**used, "valueQuantity": {**quantity, "value": round(value, 6)}}})


def moved(used: Resource, time: datetime) -> ChartChange:
    """A resource gets another time. A date without a time of day stays one."""
    name = next((element for element in _TIMES if element in used), "performedDateTime")
    rest = {key: value for key, value in used.items() if key != "performedPeriod"}
    old, text = time_of(used), used.get(name)
    same_kind = old is not None and (old.tzinfo is None) == (time.tzinfo is None)
    cost = _MOVE_COST + (abs((time - old) / timedelta(days=10)) if old is not None and same_kind else _MOVE_COST)
    was = "no time" if old is None else old.isoformat()
    new = time.date().isoformat()[: len(str(text))] if is_date(text) else time.isoformat()
    words = f"{ref(used)}: {text if is_date(text) else was} → {new}"
    return ChartChange(words, cost, {ref(used): {**rest, name: new}})


def time_of(resource: Resource) -> datetime | None:
    """The time of a resource; of a date without a time of day its first moment, without a zone. None if there is none
    that can be read.
    """
    text = next((resource[name] for name in _TIMES if name in resource), None)
    try:
        stated = text if text is not None else performed(resource)
        return WholeDay.of(stated, None).first if is_date(stated) else datetime.fromisoformat(stated)
    except (TypeError, ValueError):
        return None


def _step_of_time(resource: Resource) -> timedelta:
    """The least by which the time of a resource can change: a minute, or the day, month or year that it states."""
    text: Any = next((resource[name] for name in _TIMES if name in resource), None)
    if not is_date(text):
        return _MINUTE
    first, last = days_of(text)
    return last - first + timedelta(days=1)


def _not_before(time: datetime, limit: datetime) -> bool:
    return (time.tzinfo is None) == (limit.tzinfo is None) and time >= limit


class Changed:
    """A source in which some resources have another content, or are missing. See `Amendment`.

    A resource of the patient stays in its place; one that was another patient's comes last.
    """

    def __init__(self, source: Source, change: Amendment) -> None:
        self._source = source
        self._own = {entry if isinstance(entry, str) else ref(entry): entry for entry in change}
        self._kinds = {name.partition("/")[0] for name in self._own}

    def search(self, kind: str, **query: str) -> Sequence[Resource]:
        stored = self._source.search(kind, **query)
        if kind not in self._kinds:
            return stored
        matches = {ref(resource): resource for resource in stored if ref(resource) not in self._own}
        new = Resources(entry for entry in self._own.values() if not isinstance(entry, str)).search(kind, **query)
        matches |= {ref(resource): resource for resource in new}
        wide = {name: value for name, value in query.items() if name not in ("status", "clinical-status")}
        try:
            order = [ref(resource) for resource in self._source.search(kind, **wide)]
        except FactsError:  # recorded searches need not contain the wider one
            order = []
        return [matches[name] for name in dict.fromkeys([*order, *matches]) if name in matches]


def changed(source: Source, change: Amendment | None) -> Source:
    """The source with a change, if there is one."""
    return Changed(source, change) if change else source
