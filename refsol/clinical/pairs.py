"""Twins for a task set: a task over two charts that differ in one deciding fact, so that no reply is right on both.

What a rule read and compared says which facts can decide. The other fact comes from the hospital itself: a value of the
same test, a resource of the same kind, an encounter of the same patient. So each of the two charts could be a real one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import chain, islice, product, zip_longest
from random import Random
from typing import Any

from refsol.clinical.chart import Chart, Compared
from refsol.clinical.evidence import branch_words
from refsol.clinical.meanings import Coded, plain
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import Looked, drug_text, ref
from refsol.clinical.sources import Amendment, Resource, Resources, Source
from refsol.clinical.task_type import Solution, TaskType
from refsol.clinical.texts import quoted, requoted
from refsol.clinical.twins import Changed, time_of
from refsol.errors import DataFault
from refsol.history import Post
from refsol.json_values import as_object
from refsol.resources import codes, subject_id

Candidates = Callable[[Chart, "Hospital", Random], Iterator[Amendment]]
_TRIES = 120
"""The most changes that are tried for one task."""
_OF_ONE_WAY, _MOVES = 40, 10
_MOST = 8
"""The most resources that one change moves or removes."""
_BRANCHES = 3
"""The most branches for which a change is sought."""
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
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NO_WAY = "no plausible change of what its rule reads changes the ruling"


class Hospital:
    """The resources of a hospital: of each patient, and those of the same kind."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.source = Resources(resources)
        self.by_ref = {ref(one): one for one in resources}
        self.patients = [one for one in resources if one.get("resourceType") == "Patient"]
        self.of: dict[str, list[Resource]] = {}
        self.texts: dict[str, list[Resource]] = {}
        """The reports and notes of each patient."""
        self._alike: dict[tuple[str, str], list[Resource]] = {}
        self.kinds: dict[str, list[Resource]] = {}
        self._referred: set[str] = set()
        for one in resources:
            self.of.setdefault(subject_id(one) or "", []).append(one)
            if one.get("resourceType") in ("DiagnosticReport", "DocumentReference"):
                self.texts.setdefault(subject_id(one) or "", []).append(one)
            self.kinds.setdefault(str(one.get("resourceType")), []).append(one)
            for code in codes(one):
                self._alike.setdefault((str(one.get("resourceType")), code), []).append(one)
            parts = (value for name, value in one.items() if name not in _OWN_REFERENCES)
            self._referred.update(chain.from_iterable(map(_references, parts)))

    def alike(self, look: Looked) -> list[Resource]:
        """The resources of all patients that a read is about."""
        kind, names = look.search.kind, [code.code for code in look.search.codes]
        coded = [one for name in names for one in self._alike.get((kind, name), [])]
        return coded if names else self.kinds.get(kind, [])

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
    """A change that makes a task's twin, and the branches of the rule on both charts, in words."""

    change: Amendment
    before: str
    after: str


def pairs(case: Case, hospital: Hospital, dice: Random) -> list[Pair] | str:
    """Plausible changes after which no reply is right on both charts, one for each branch; or why there is none."""
    try:
        chart = case.charts(hospital.source)[0]
        ruling = case.kind.ruled(chart)
    except DataFault as error:
        return f"the data: {error}"
    if not chart.needed:
        return "its ruling rests on no reading"
    before, answered = branch_words(chart), False
    chosen: dict[str, Pair] = {}
    for change in islice(case.candidates(chart, hospital, dice), _TRIES):
        whole = with_quotes(change, chart, hospital)
        if whole is None:
            answered = True
            continue
        try:
            other = case.charts(Changed(hospital.source, whole))[0]
            rulings = ruling, case.kind.ruled(other)
            after = branch_words(other)
            if is_answered(change, rulings, chart, hospital):
                answered = True
            elif after not in chosen and are_apart(case, hospital.source, whole):
                chosen[after] = Pair(whole, before, after)
        except DataFault:
            continue
        if len(chosen) == _BRANCHES:
            break
    return list(chosen.values()) or ("a note, report or order answers its reading" if answered else _NO_WAY)


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
        if not all(one.needed for one in (first, second)):
            return False
        for reply in _replies(rulings, first):
            if all(case.kind.judge(one, reply).correct is not False for one in (first, second)):
                return False
    return True


def _is_agreed(case: Case, source: Source) -> bool:
    """Whether the right reply by the last rule set is right by all."""
    charts = case.charts(source)
    reply = Solution.of(case.kind.ruled(charts[-1]), charts[-1]).reply
    return all(case.kind.judge(one, reply).correct for one in case.charts(source))


def _replies(rulings: tuple[Ruling, Ruling], chart: Chart) -> Iterator[Reply]:
    sides = [[plain(one) for one in ruling.answers or ([],)] for ruling in rulings]
    answers = [*sides[0], *sides[1], *(_between(*both) for both in zip(*sides, strict=False))]
    bodies = [[one.json(chart) for one in ruling.due] for ruling in rulings]
    if len(bodies[0]) == len(bodies[1]) > 0:
        bodies.append([_between(*both) for both in zip(*bodies, strict=True)])
    for answer, posts, ruling in product(answers, bodies, rulings):
        sent = tuple(Post(f"{chart.base}{one['resourceType']}", one) for one in posts)
        yield Solution(answer, sent, ruling.edits).reply


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
    """Changes of what a rule read. Each comes in turn from another way of changing it.

    Resources that are missing, or that were another patient's, leave gaps in the patient's ids. So these come last;
    first, another resource of the patient takes the place of what is missing, or what was found becomes another one.
    """
    for ways in (_quiet, _loud):
        some = [islice(way, _OF_ONE_WAY) for way in ways(chart, hospital, dice)]
        dice.shuffle(some)
        yield from (one for turn in zip_longest(*some) for one in turn if one is not None)


def _quiet(chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Iterator[Amendment]]:
    """Ways to change a value, a status or a time of the patient's own resources."""
    for look in chart.looked:
        if look.search.kind == "Patient":
            yield _ages(look, dice)
        elif not look.used:
            yield _started(look, chart, hospital, dice)
            yield _become(look, chart, hospital, dice)
        else:
            yield _replaced(look, chart, hospital, dice)
            if look.lab is not None:
                yield _values(look, hospital, dice)
            if look.search.status:
                yield _ended(look, hospital, dice)
            if look.search.start is not None:
                yield _left(look, look.search.start, chart, hospital, dice)
    for compared in chart.compared:
        if compared.what == "time":
            yield _across(compared, chart, hospital, dice)


def _loud(chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Iterator[Amendment]]:
    """Ways to add or remove resources."""
    for look in chart.looked:
        if look.search.kind != "Patient":
            yield _removed(look, chart, hospital) if look.used else _adopted(look, chart, hospital, dice)


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


def _same_kind(look: Looked, chart: Chart, start: datetime | None = None) -> list[Resource]:
    """All that the chart has of what a read is about, since `start`."""
    own = {code.code for code in look.search.codes}
    same = [one for one in chart.touched.values() if own & set(codes(one))]
    return [one for one in same if start is None or _is_since(one, start)]


def _left(look: Looked, start: datetime, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """All in the window was measured earlier, so that the window is empty."""
    yield from _all_moved(_same_kind(look, chart, start), _LONG_AGO, start, chart, hospital, dice)


def _removed(look: Looked, chart: Chart, hospital: Hospital) -> Iterator[Amendment]:
    """The chart has none of what was used; or none of the same kind."""
    for some in (look.used, _same_kind(look, chart, look.search.start)):
        if 0 < len(some) <= _MOST and all(map(hospital.is_alone, some)):
            yield [ref(one) for one in some]


def _started(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """What the patient had earlier, or had been ordered, counts now."""
    search, own = look.search, {code.code for code in look.search.codes}
    same = [one for one in hospital.of.get(chart.patient, []) if one.get("resourceType") == search.kind]
    if search.status:
        named = [one for one in same if _is_named(one, look, chart) and (not own or own & set(codes(one)))]
        yield from ([{**one, "status": search.status}] for one in dice.sample(named, len(named)))
    elif search.start is not None:
        latest = sorted(_same_kind(look, chart), key=lambda one: str(_time(one)))[-3:]
        for one in dice.sample(latest, len(latest)):
            for time in _moments(one, search.start, chart.now, chart, hospital, dice):
                yield [moved(one, time, chart, hospital)]


def _become(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """Another resource of the patient becomes what the read did not find."""
    start = look.search.start or _LONG_AGO
    donors = [one for one in hospital.alike(look) if _fits(one, look, chart)]
    own = [one for one in _others(look, chart, hospital) if _is_since(one, start) and not _is_since(one, chart.now)]
    for one in dice.sample(own, min(len(own), _OF_ONE_WAY)) if donors else ():
        donor = dice.choice(donors)
        if donor.keys() == one.keys() and donor.get("category") == one.get("category"):
            yield [disguised(one, donor)]


def _replaced(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """What the read found, or all of the same kind, become other resources, as other patients have them."""
    pool = hospital.kinds.get(look.search.kind, [])
    for some in (list(look.used), _same_kind(look, chart, look.search.start)):
        for _ in range(_OF_ONE_WAY // 2 if 0 < len(some) <= _MOST and all(map(hospital.is_alone, some)) else 0):
            changed = [disguised(one, donor) for one in some if (donor := _unlike(one, look, chart, pool, dice))]
            if len(changed) == len(some):
                yield changed


def _unlike(resource: Resource, look: Looked, chart: Chart, pool: Sequence[Resource], dice: Random) -> Resource | None:
    """A resource of the same form that the read is not about."""
    own = {code.code for code in look.search.codes}
    for donor in (dice.choice(pool) for _ in range(_TRIES)):
        unlike = not own & set(codes(donor)) and not (look.what and _is_named(donor, look, chart))
        if unlike and donor.keys() == resource.keys() and donor.get("category") == resource.get("category"):
            return donor
    return None


def _others(look: Looked, chart: Chart, hospital: Hospital) -> list[Resource]:
    """The patient's resources of the same type that no rule has read and to which nothing refers."""
    same = [one for one in hospital.of.get(chart.patient, []) if one.get("resourceType") == look.search.kind]
    return [one for one in same if ref(one) not in set(map(ref, chart.touched.values())) and hospital.is_alone(one)]


def _fits(resource: Resource, look: Looked, chart: Chart) -> bool:
    return look.search.status in ("", resource.get("status")) and _is_named(resource, look, chart)


def disguised(resource: Resource, donor: Resource) -> Resource:
    """The content of another resource, with this one's identity, patient, encounter and times."""
    own = ("id", "meta", *_OWN_REFERENCES, *_TIMES, "performedPeriod", "effectivePeriod")
    return {**donor, **{name: resource[name] for name in own if name in resource}}


def _adopted(look: Looked, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """A resource that another patient has, during an encounter of this patient."""
    search = look.search
    others = [
        one
        for one in hospital.alike(look)
        if subject_id(one) != chart.patient
        and hospital.is_alone(one)
        and _fits(one, look, chart)
        and _time(one) is not None
    ]
    start = search.start or _LONG_AGO
    for one in dice.sample(others, min(len(others), _MOST)):
        own = adopted(one, chart, hospital)
        for time in islice(_moments(own, start, chart.now, chart, hospital, dice), 2):
            yield [moved(own, time, chart, hospital)]


def _is_named(resource: Resource, look: Looked, chart: Chart) -> bool:
    """Whether a resource is what a read looked for, if it looked for words."""
    if not look.what:
        return True
    try:
        return chart.mentions(drug_text(resource), *look.what.split(" or "))
    except DataFault:
        return False


def _across(compared: Compared, chart: Chart, hospital: Hospital, dice: Random) -> Iterator[Amendment]:
    """What was done moves to the other side of the limit, into an encounter of the patient. With it moves all that the
    chart has of the same kind on that side.
    """
    (used,) = compared.used
    limit, own = compared.limit, set(codes(used))
    if compared.outcome:
        yield from _all_moved([used], limit, chart.now, chart, hospital, dice)
    else:
        later = [one for one in chart.touched.values() if own & set(codes(one)) and _is_since(one, limit)]
        yield from _all_moved(later, _LONG_AGO, limit, chart, hospital, dice)


def _all_moved(
    some: Sequence[Resource], start: datetime, end: datetime, chart: Chart, hospital: Hospital, dice: Random
) -> Iterator[Amendment]:
    """All of some resources move between two times, each to another time."""
    timed = [one for one in some if _time(one) is not None]
    for _ in range(_MOVES if 0 < len(timed) <= _MOST else 0):
        times: list[datetime] = []
        for one in timed:
            times += islice((time for time in _moments(one, start, end, chart, hospital, dice) if time not in times), 1)
        if len(times) == len(timed):
            yield [moved(one, time, chart, hospital) for one, time in zip(timed, times, strict=True)]


def _moments(
    resource: Resource, start: datetime, end: datetime, chart: Chart, hospital: Hospital, dice: Random
) -> Iterator[datetime]:
    """Times between two times. For a resource of a panel, of the patient's other panels without its code. For any
    other, times in encounters, at its time of day if possible.
    """
    was = _time(resource)
    origin = subject_id(hospital.by_ref[ref(resource)]) or ""
    if was in _panels(resource, hospital.of[origin]):
        own = set(codes(resource))
        panels = _panels(resource, hospital.of.get(chart.patient, []))
        times = sorted(time for time, names in panels.items() if start <= time < end and not own & names)
        yield from dice.sample(times, len(times))
        return
    stays = [_stay(one) for one in hospital.of.get(chart.patient, [])]
    spans = [(max(begin, start), min(over or chart.now, end)) for begin, over in stays if begin is not None]
    spans = [(first, last) for first, last in spans if first < last]
    for first, last in dice.sample(spans, len(spans)):
        anywhere = (first + dice.random() * (last - first)).replace(second=0, microsecond=0)
        if was is None or last - first < timedelta(days=1):
            yield max(anywhere, first)
            continue
        same = anywhere.replace(hour=was.hour, minute=was.minute)
        yield same if first <= same <= last else max(anywhere, first)


def _panels(resource: Resource, patients: Sequence[Resource]) -> dict[datetime, set[str]]:
    """The times at which a patient has other resources of a resource's category, and their codes."""
    panels: dict[datetime, set[str]] = {}
    for one in patients:
        alike = all(one.get(name) == resource.get(name) for name in ("resourceType", "category"))
        if alike and ref(one) != ref(resource) and (time := _time(one)) is not None:
            panels.setdefault(time, set()).update(codes(one))
    return panels


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
    """A copy of another patient's resource that belongs to the chart's patient."""
    own = hospital.of.get(chart.patient, [])
    name = "patient" if "patient" in resource else "subject"
    kind = resource.get("resourceType")
    same = next((one[name] for one in own if one.get("resourceType") == kind and name in one), None)
    return {**resource, name: same or {"reference": f"Patient/{chart.patient}"}}


def _at_home(resource: Resource, chart: Chart, hospital: Hospital) -> Resource:
    """A resource in the patient's encounter that is nearest to its time; without one, if the patient has none."""
    name = next((one for one in ("encounter", "context") if one in resource), None)
    time = _time(resource)
    if name is None or time is None:
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


def with_quotes(change: Amendment, chart: Chart, hospital: Hospital) -> Amendment | None:
    """The change with the reports and notes that quote a changed value. None if they cannot be changed alike."""
    more: dict[str, Resource] = {}
    for entry in change:
        old = hospital.by_ref.get(entry if isinstance(entry, str) else ref(entry))
        if old is None or old.get("resourceType") != "Observation":
            continue
        same = not isinstance(entry, str) and all(entry.get(name) == old.get(name) for name in ("code", _TIMES[0]))
        new = entry if same and not isinstance(entry, str) else None
        for stored in hospital.texts.get(chart.patient, []):
            text = more.get(ref(stored), stored)
            if quoted(text, old):
                changed = requoted(text, old, new)
                if changed is None:
                    return None
                more[ref(text)] = changed
    return [*change, *more.values()]


def is_answered(change: Amendment, rulings: Sequence[Ruling], chart: Chart, hospital: Hospital) -> bool:
    """Whether after a reading that changes, the patient was given a drug for which the reading decides."""
    drugs = [
        one for ruling in rulings for order in ruling.due for one in order.fields if isinstance(one.meaning, Coded)
    ]
    words = {one.meaning.value.label.lower().split()[0] for one in drugs if isinstance(one.meaning, Coded)}
    old = [hospital.by_ref.get(one if isinstance(one, str) else ref(one)) for one in change]
    times = [time for one in old if one and one["resourceType"] == "Observation" and (time := _time(one)) is not None]
    orders = [one for one in hospital.of.get(chart.patient, []) if one["resourceType"] == "MedicationRequest"]
    return any(
        _is_since(one, time) and words and chart.mentions(drug_text(one), *words) for one in orders for time in times
    )
