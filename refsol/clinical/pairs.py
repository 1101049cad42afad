"""Twins for a task set: the same task over two charts that differ in one deciding fact, so that no reply is right on both.

What a rule read and compared says which facts can decide. The other fact comes from the hospital itself: a value of the
same test, a resource of the same kind, an encounter of the same patient. So each of the two charts could be a real one.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice, zip_longest
from random import Random
from typing import Any

from refsol.clinical.chart import Chart
from refsol.clinical.evidence import evidence
from refsol.clinical.faults import DataFault
from refsol.clinical.meanings import plain
from refsol.clinical.records import Compared, Looked, drug_text
from refsol.clinical.rules import Reply
from refsol.clinical.rulings import Ruling
from refsol.clinical.sources import Amendment, Changed, Resource, Resources, Source, ref
from refsol.clinical.task_type import Solution, TaskType
from refsol.clinical.texts import quoted, requoted
from refsol.clinical.twins import time_of
from refsol.history import Post
from refsol.json_values import as_object, objects
from refsol.resources import codes, subject_id

Candidates = Callable[[Chart, "Hospital", Random], Iterator[Amendment]]
_TRIES = 200
"""The most changes that are tried for one task."""
_REMOVED = 12
"""The most resources that one change removes."""
_OWN_REFERENCES = ("subject", "patient", "encounter", "context")
_TIMES = (
    "effectiveDateTime",
    "issued",
    "performedDateTime",
    "occurrenceDateTime",
    "authoredOn",
    "onsetDateTime",
    "recordedDate",
)
_NO_WAY = "no plausible change of what its rule reads changes the ruling"


class Hospital:
    """The resources of a hospital: of each patient, and those of the same kind."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.source = Resources(resources)
        self.patients = [one for one in resources if one.get("resourceType") == "Patient"]
        self.of: dict[str, list[Resource]] = {}
        self._alike: dict[tuple[str, str], list[Resource]] = {}
        self._referred: set[str] = set()
        for one in resources:
            self.of.setdefault(subject_id(one) or "", []).append(one)
            for code in ("", *codes(one)):
                self._alike.setdefault((str(one.get("resourceType")), code), []).append(one)
            parts = (value for name, value in one.items() if name not in _OWN_REFERENCES)
            self._referred.update(chain.from_iterable(map(_references, parts)))

    def alike(self, look: Looked) -> list[Resource]:
        """The resources of all patients that a read is about."""
        names = [code.code for code in look.search.codes] or [""]
        return [one for name in names for one in self._alike.get((look.search.kind, name), [])]

    def is_alone(self, resource: Resource) -> bool:
        """Whether no other resource refers to it, so that it can be missing."""
        return ref(resource) not in self._referred


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(text := value.get("reference"), str):
            yield text
        yield from chain.from_iterable(map(_references, value.values()))
    elif isinstance(value, list):
        yield from chain.from_iterable(map(_references, value))


@dataclass(frozen=True, slots=True)
class Case:
    """A task: its type, its charts over a source, and its possible changes.

    There is a chart for each rule set. The first one decides the ruling; what is right by the last one is right by all.
    """

    kind: TaskType
    charts: Callable[[Source], Sequence[Chart]]
    candidates: Candidates


@dataclass(frozen=True, slots=True)
class Pair:
    """The change that makes a task's twin, and the twin's first chart."""

    change: Amendment
    ruling: Ruling


def pair(case: Case, hospital: Hospital, dice: Random) -> Pair | str:
    """A plausible change after which no reply is right on both charts, or why there is none."""
    try:
        chart = case.charts(hospital.source)[0]
        ruling = case.kind.ruled(chart)
    except DataFault as error:
        return f"the data: {error}"
    if not evidence(chart) and not chart.required:
        return "its ruling rests on no reading"
    quotes = 0
    for change in islice(case.candidates(chart, hospital, dice), _TRIES):
        whole = _with_quotes(change, chart, hospital)
        if whole is None:
            quotes += 1
            continue
        try:
            after = case.kind.ruled(case.charts(Changed(hospital.source, whole))[0])
            if are_apart(case, hospital.source, whole):
                return Pair(whole, after)
        except DataFault:
            continue
    return "a note or a report quotes its reading" if quotes else _NO_WAY


# Whether a reply can be right on both


def are_apart(case: Case, source: Source, change: Amendment) -> bool:
    """Whether by no rule set a reply is right on both charts, while on each a reply is right by all. Tries the right
    replies of both, all their mixtures, and replies whose numbers lie between them.
    """
    other = Changed(source, change)
    if not all(_is_agreed(case, one) for one in (source, other)):
        return False
    for first, second in zip(case.charts(source), case.charts(other), strict=True):
        rulings = case.kind.ruled(first), case.kind.ruled(second)
        if not all(evidence(one) or one.required for one in (first, second)):
            return False
        for reply in _replies(rulings, first.base):
            if all(case.kind.judge(one, reply).correct is not False for one in (first, second)):
                return False
    return True


def _is_agreed(case: Case, source: Source) -> bool:
    """Whether the right reply by the last rule set is right by all."""
    charts = case.charts(source)
    solution = Solution.of(case.kind.ruled(charts[-1]), charts[-1])
    posts = tuple(Post(url, body) for url, body in solution.posts)
    reply = Reply(solution.answer, posts, bool(posts), unanswered=False, raw=json.dumps(solution.answer))
    return all(case.kind.judge(one, reply).correct for one in case.charts(source))


def _replies(rulings: tuple[Ruling, Ruling], base: str) -> Iterator[Reply]:
    sides = [[plain(one) for one in ruling.answers or ([],)] for ruling in rulings]
    answers = [*sides[0], *sides[1], *(_between(*both) for both in zip(*sides, strict=False))]
    bodies = [[one.json() for one in ruling.due] for ruling in rulings]
    if len(bodies[0]) == len(bodies[1]) > 0:
        bodies.append([_between(*both) for both in zip(*bodies, strict=True)])
    for answer in answers:
        for posts in bodies:
            sent = tuple(Post(f"{base}{one['resourceType']}", one) for one in posts)
            yield Reply(answer, sent, attempted=bool(sent), unanswered=False, raw=json.dumps(answer))


def _between(one: Any, other: Any) -> Any:
    """The JSON between two values of the same form; the first one where they differ in form."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {name: _between(value, other.get(name)) for name, value in one.items()}
    if isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        return [_between(*both) for both in zip(one, other, strict=True)]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (one, other))
    return (one + other) / 2 if numbers and one != other else one


# Plausible changes


def plausible(chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """Changes of what a rule read, each in turn from another way of changing it."""
    ways = [iter(way) for way in _ways(chart, hospital, dice)]
    dice.shuffle(ways)
    yield from (one for turn in zip_longest(*ways) for one in turn if one is not None)


def _ways(chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Iterator[Amendment]]:
    for look in chart.looked:
        if look.search.kind == "Patient":
            yield _ages(look, dice)
        elif look.used:
            if look.lab is not None:
                yield _values(look, hospital, dice)
            if look.search.status:
                yield _ended(look, hospital, dice)
            yield _removed(look, chart, hospital)
        else:
            yield _started(look, chart, hospital, dice)
            yield _adopted(look, chart, hospital, dice)
    for compared in chart.compared:
        if compared.what == "time":
            yield _across(compared, chart, hospital, dice)


def _values(look: Looked, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """One of the readings gets the value of another patient's reading, with its flag."""
    donors = hospital.alike(look)
    seen = set()
    for donor in dice.sample(donors, len(donors)):
        reading = dice.choice(look.used)
        own, other = as_object(reading.get("valueQuantity")), as_object(donor.get("valueQuantity"))
        same = all(reading.get(name) == donor.get(name) for name in ("referenceRange", "status"))
        value = other.get("value")
        if not same or own.get("unit") != other.get("unit") or value in (None, own.get("value")) or value in seen:
            continue
        seen.add(value)
        flag = {"interpretation": donor["interpretation"]} if "interpretation" in donor else {}
        rest = {name: one for name, one in reading.items() if name != "interpretation" or flag}
        yield [{**rest, "valueQuantity": {**own, "value": value}, **flag}]


def _ages(look: Looked, dice: Random) -> Iterator[Amendment]:
    """The patient is born up to five years earlier or later."""
    for used in look.used:
        born = date.fromisoformat(str(used["birthDate"]))
        for _ in range(_TRIES):
            day = born + timedelta(days=dice.choice((-1, 1)) * dice.randint(200, 1800))
            yield [{**used, "birthDate": day.isoformat()}]


def _ended(look: Looked, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """One of the orders, or all of them, have the status that other ones have."""
    ended = [str(one.get("status")) for one in hospital.alike(look) if one.get("status") in ("stopped", "completed")]
    if ended:
        for used in dice.sample(look.used, len(look.used)):
            yield [{**used, "status": dice.choice(ended)}]
        yield [{**used, "status": dice.choice(ended)} for used in look.used]


def _removed(look: Looked, chart: Chart, hospital: Hospital) -> Iterator[Amendment]:
    """The chart has none of what was used; or none of the same kind in the window."""
    own = {code.code for code in look.search.codes}
    start = look.search.start
    whole = [one for one in chart.touched.values() if own & set(codes(one))] if own else []
    if start is not None:
        whole = [one for one in whole if _is_since(one, start)]
    for some in (look.used, whole):
        if 0 < len(some) <= _REMOVED and all(map(hospital.is_alone, some)):
            yield [ref(one) for one in some]


def _started(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """What the patient had earlier, or had been ordered, counts now."""
    search, own = look.search, {code.code for code in look.search.codes}
    same = [one for one in hospital.of.get(chart.patient, []) if one.get("resourceType") == search.kind]
    if search.status:
        words = look.what.split(" or ") if look.what else [""]
        named = [one for one in same if _names(one, words, chart) and (not own or own & set(codes(one)))]
        yield from ([{**one, "status": search.status}] for one in dice.sample(named, len(named)))
    elif search.start is not None:
        earlier = [one for one in chart.touched.values() if own & set(codes(one)) and hospital.is_alone(one)]
        latest = sorted(earlier, key=lambda one: str(_time(one)))[-3:]
        for one in dice.sample(latest, len(latest)):
            time = search.start + dice.random() * (chart.now - search.start)
            yield [moved(one, time.replace(microsecond=0, second=0), chart, hospital)]


def _adopted(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """A resource that another patient has."""
    search, words = look.search, look.what.split(" or ") if look.what else [""]
    others = [
        one
        for one in hospital.alike(look)
        if subject_id(one) != chart.patient
        and hospital.is_alone(one)
        and (not search.status or one.get("status") == search.status)
        and (search.start is None or _is_since(one, search.start))
        and _names(one, words, chart)
    ]
    for one in dice.sample(others, len(others)):
        yield [adopted(one, chart, hospital)]


def _names(resource: Resource, words: Sequence[str], chart: Chart) -> bool:
    if words == [""]:
        return True
    try:
        return chart.mentions(drug_text(resource), *words)
    except DataFault:
        return False


def _across(compared: Compared, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """What was done moves to the other side of the limit, to an encounter of the patient; or all since then is removed."""
    (used,) = compared.used
    limit = compared.limit
    own = set(codes(used))
    stays = [start for one in hospital.of.get(chart.patient, []) if (start := _stay(one)[0]) is not None]
    other = [one for one in stays if one <= chart.now and (one < limit) is not (compared.outcome)]
    hours = [timedelta(minutes=dice.randint(5, 240)) for _ in other]
    for start, later in dice.sample(list(zip(other, hours, strict=True)), len(other)):
        yield [moved(used, start + later, chart, hospital)]
    for _ in range(10):
        days = dice.randint(2, 200)
        time = limit - timedelta(days=days) if not compared.outcome else limit + dice.random() * (chart.now - limit)
        yield [moved(used, time.replace(microsecond=0, second=0), chart, hospital)]
    since = [one for one in chart.touched.values() if own & set(codes(one)) and _is_since(one, limit)]
    if 0 < len(since) <= _REMOVED and all(map(hospital.is_alone, since)):
        yield [ref(one) for one in since]


def moved(resource: Resource, time: datetime, chart: Chart, hospital: Hospital) -> Resource:
    """A resource at another time, in the encounter of the patient that is nearest to it. All its times move alike."""
    was = _time(resource)
    assert was is not None
    shift = time - was
    changed = {name: _later(resource[name], shift) for name in _TIMES if name in resource}
    for name in ("performedPeriod", "effectivePeriod"):
        if name in resource:
            changed[name] = {part: _later(value, shift) for part, value in resource[name].items()}
    meta = dict(resource.get("meta") or {})
    if "lastUpdated" in meta:
        days = timedelta(days=(time.date() - was.date()).days)
        stored = min(datetime.fromisoformat(meta["lastUpdated"]) + days, chart.now)
        changed["meta"] = {**meta, "lastUpdated": stored.isoformat(timespec="milliseconds")}
    return _at_home({**resource, **changed}, chart, hospital)


def _later(text: Any, shift: timedelta) -> Any:
    try:
        if len(text) == len("2023-11-13"):
            return (date.fromisoformat(text) + shift).isoformat()
        return (datetime.fromisoformat(text) + shift).isoformat()
    except (TypeError, ValueError):
        return text


def adopted(resource: Resource, chart: Chart, hospital: Hospital) -> Resource:
    """A resource of another patient as one of the chart's patient."""
    own = hospital.of.get(chart.patient, [])
    name = "patient" if "patient" in resource else "subject"
    kind = resource.get("resourceType")
    same = next((one[name] for one in own if one.get("resourceType") == kind and name in one), None)
    return _at_home({**resource, name: same or {"reference": f"Patient/{chart.patient}"}}, chart, hospital)


def _at_home(resource: Resource, chart: Chart, hospital: Hospital) -> Resource:
    """A resource in the patient's encounter that is nearest to its time; without one, if the patient has none."""
    name = next((one for one in ("encounter", "context") if one in resource), None)
    time = _time(resource)
    if name is None or time is None or resource["resourceType"] == "DocumentReference":
        return resource
    stays = [(_gap(one, time), ref(one)) for one in hospital.of.get(chart.patient, []) if _stay(one)[0] is not None]
    rest = {key: value for key, value in resource.items() if key != name}
    return {**resource, name: {"reference": min(stays)[1]}} if stays else rest


def _stay(resource: Resource) -> tuple[datetime | None, datetime | None]:
    """The start and the end of an encounter; None for another resource."""
    period = as_object(resource.get("period")) if resource.get("resourceType") == "Encounter" else {}
    times = []
    for name in ("start", "end"):
        try:
            time = datetime.fromisoformat(period[name])
        except (KeyError, TypeError, ValueError):
            time = None
        times.append(time if time is None or time.tzinfo else None)
    return times[0], times[1]


def _gap(encounter: Resource, time: datetime) -> timedelta:
    start, end = _stay(encounter)
    assert start is not None
    return max(start - time, time - (end or time), timedelta(0))


def _is_since(resource: Resource, start: datetime) -> bool:
    time = _time(resource)
    return time is not None and time >= start


def _time(resource: Resource) -> datetime | None:
    """The time of a resource; without a zone, in UTC."""
    time = time_of(resource)
    return time if time is None or time.tzinfo else time.replace(tzinfo=UTC)


# What depends on a changed value


def _with_quotes(change: Amendment, chart: Chart, hospital: Hospital) -> Amendment | None:
    """The change with the reports and notes that quote a changed value. None if they cannot be changed alike."""
    more: dict[str, Resource] = {}
    before: Mapping[str, Resource] = {ref(one): one for one in hospital.of.get(chart.patient, [])}
    for entry in change:
        old = before.get(entry if isinstance(entry, str) else ref(entry))
        if old is None or old.get("resourceType") != "Observation":
            continue
        new = None if isinstance(entry, str) else entry
        for text in objects(list(before.values())):
            text = more.get(ref(text), text)
            if quoted(text, old):
                changed = requoted(text, old, new)
                if changed is None:
                    return None
                more[ref(text)] = changed
    return [*change, *more.values()]
