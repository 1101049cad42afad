"""Twins for a task set: a task over two charts that differ in one deciding fact, so that no reply is right on both.

What a rule read and compared says which facts can decide. The other fact comes from the hospital itself: a value of the
same test, a resource of the same kind, an encounter of the same patient. So each of the two charts could be a real one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from itertools import islice, product, zip_longest
from random import Random
from typing import Any

from refsol.clinical.chart import Chart, Compared
from refsol.clinical.evidence import branch_words
from refsol.clinical.meanings import Coded, plain
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.searches import Searched, drug_text, ref
from refsol.clinical.sources import Amendment, Resource, Resources, Source
from refsol.clinical.task_type import Solution, TaskType
from refsol.clinical.texts import quoted, requoted
from refsol.clinical.twins import Changed, time_of
from refsol.errors import DataFault
from refsol.history import Post
from refsol.json_values import as_object
from refsol.resources import TIMES, codes, subject_id

Event = tuple[str, datetime, str]
"""The type, the time and a code of a resource."""
Candidates = Callable[[Chart, "Hospital", Random], Iterator[Amendment]]
_TRIES = 120
"""The most changes that are tried for one task."""
_OF_ONE_WAY, _MOVES = 40, 10
_MOST = 8
"""The most resources that one change moves or removes."""
_OPTIONS = 6
"""The most changes of a task among which its twin is chosen."""
_OWN_REFERENCES = ("subject", "patient", "encounter", "context")
_LONG_AGO = datetime.min.replace(tzinfo=UTC)
_NO_WAY = "no plausible change of what its rule reads changes the ruling"


class Hospital:
    """The resources of a hospital: of each patient, and those of the same kind."""

    def __init__(self, resources: Sequence[Resource]) -> None:
        self.source = Resources(resources)
        self.by_ref = {ref(resource): resource for resource in resources}
        self.patients = [resource for resource in resources if resource.get("resourceType") == "Patient"]
        self.of: dict[str, list[Resource]] = {}
        self.texts: dict[str, list[Resource]] = {}
        """The reports and notes of each patient."""
        self.encounters: dict[str, list[Resource]] = {}
        self._alike: dict[tuple[str, str], list[Resource]] = {}
        self.kinds: dict[str, list[Resource]] = {}
        self._referred: set[str] = set()
        self._timed: dict[str, list[tuple[datetime, Resource]]] = {}
        self._events: dict[str, dict[Event, set[str]]] = {}
        for resource in resources:
            self.of.setdefault(subject_id(resource) or "", []).append(resource)
            if resource.get("resourceType") in ("DiagnosticReport", "DocumentReference"):
                self.texts.setdefault(subject_id(resource) or "", []).append(resource)
            if resource.get("resourceType") == "Encounter":
                self.encounters.setdefault(subject_id(resource) or "", []).append(resource)
            self.kinds.setdefault(str(resource.get("resourceType")), []).append(resource)
            for code in codes(resource):
                self._alike.setdefault((str(resource.get("resourceType")), code), []).append(resource)
            for name, part in resource.items():
                if name not in _OWN_REFERENCES:
                    _add_references(part, self._referred)

    def timed_of(self, patient: str) -> Sequence[tuple[datetime, Resource]]:
        """The resources of a patient's chart that have a time, with it."""
        if patient not in self._timed:
            timed = ((_time(resource), resource) for resource in self.of.get(patient, []))
            self._timed[patient] = [(time, resource) for time, resource in timed if time is not None]
        return self._timed[patient]

    def events_of(self, patient: str) -> Mapping[Event, set[str]]:
        """The events of a patient's chart, each with the references of its resources."""
        if patient not in self._events:
            events = self._events[patient] = dict[Event, set[str]]()
            for resource in self.of.get(patient, []):
                for event in _events(resource):
                    events.setdefault(event, set()).add(ref(resource))
        return self._events[patient]

    def alike(self, searched: Searched) -> list[Resource]:
        """The resources of all patients that a read is about."""
        kind, names = searched.search.kind, [code.code for code in searched.search.codes]
        coded = [resource for name in names for resource in self._alike.get((kind, name), [])]
        return coded if names else self.kinds.get(kind, [])

    def is_unreferenced(self, resource: Resource) -> bool:
        """Whether no other resource refers to it, so that it can be missing."""
        return ref(resource) not in self._referred


def _add_references(value: Any, references: set[str]) -> None:
    """Add all references within a JSON value."""
    if isinstance(value, dict):
        if isinstance(text := value.get("reference"), str):
            references.add(text)
        for part in value.values():
            _add_references(part, references)
    elif isinstance(value, list):
        for part in value:
            _add_references(part, references)


def _no_answer(source: Source) -> Mapping[str, Any]:
    """The fields of a task that does not state what is right."""
    return {}


@dataclass(frozen=True, slots=True)
class Case:
    """A task: its type, its charts over a source, and its possible changes.

    There is a chart for each rule set. The first one decides the ruling; what is right by the last one is right by all.
    """

    kind: TaskType
    charts: Callable[[Source], Sequence[Chart]]
    candidates: Candidates
    answer: Callable[[Source], Mapping[str, Any]] = _no_answer
    """The fields of the task that state what is right on a chart."""


@dataclass(frozen=True, slots=True)
class Pair:
    """A change that makes a task's twin, the branches of the rule on both charts, in words, and whether anything is due
    there.
    """

    change: Amendment
    before: str
    after: str
    due: tuple[bool, bool] = (True, True)
    more: int = 0
    """Whether the rule's searches find more on the changed chart (1), or fewer (-1)."""


def pairs(case: Case, hospital: Hospital, rng: Random) -> list[Pair] | str:
    """Plausible changes after which no reply is right on both charts, or why there is none. For each branch there is at
    most one with which the rule finds more, one with which it finds as much, and one with which it finds less.
    """
    try:
        chart = case.charts(hospital.source)[0]
        ruling = case.kind.ruled(chart)
        if not chart.needed:
            return "its ruling rests on no reading"
        if not _is_agreed(case, hospital.source):
            return "no reply is right by all of its rule sets"
    except DataFault as error:
        return f"the data: {error}"
    before, answered = branch_words(chart), False
    chosen: dict[tuple[str, int], Pair] = {}
    for change in islice(case.candidates(chart, hospital, rng), _TRIES):
        if is_doubled(change, chart, hospital):
            continue
        whole = with_quotes(change, chart, hospital)
        if whole is None:
            answered = True
            continue
        try:
            changed_chart = case.charts(Changed(hospital.source, whole))[0]
            rulings = ruling, case.kind.ruled(changed_chart)
            after, more = branch_words(changed_chart), _order(len(changed_chart.touched), len(chart.touched))
            if is_revealed_by_drugs(change, rulings, chart, hospital):
                answered = True
            elif (after, more) not in chosen and exclude_each_other(case, hospital.source, whole):
                due = [bool(ruling.due or ruling.edits) for ruling in rulings]
                chosen[after, more] = Pair(whole, before, after, (due[0], due[1]), more)
        except DataFault:
            continue
        if len(chosen) == _OPTIONS:
            break
    return list(chosen.values()) or ("a note, report or order answers its reading" if answered else _NO_WAY)


def _order(first: int, second: int) -> int:
    """1 if the first number is greater, -1 if the second is, otherwise 0."""
    return (first > second) - (first < second)


def is_doubled(change: Amendment, chart: Chart, hospital: Hospital) -> bool:
    """Whether a chart with a change has two resources of one kind with the same code at the same time, of which one is
    new there: no real chart has, so they would tell which chart is the changed one.
    """
    changed = [resource for resource in change if not isinstance(resource, str)]
    events = {event for resource in changed for event in _events(resource) if not _was_there(event, resource, hospital)}
    if not events:
        return False
    gone = {entry if isinstance(entry, str) else ref(entry) for entry in change}
    counts = Counter(event for resource in changed for event in _events(resource))
    before = hospital.events_of(chart.patient)
    return any(counts[event] > 1 or before.get(event, set()) - gone for event in events)


def _was_there(event: Event, resource: Resource, hospital: Hospital) -> bool:
    """Whether a resource had an event before its change."""
    before = hospital.by_ref.get(ref(resource))
    return before is not None and event in _events(before)


def _events(resource: Resource) -> list[Event]:
    """The type, the time and each code of a resource; none without a time."""
    time = _time(resource)
    if time is None:
        return []
    return [(str(resource.get("resourceType")), time, code) for code in codes(resource)]


# Whether a reply can be right on both


def exclude_each_other(case: Case, source: Source, change: Amendment) -> bool:
    """Whether by no rule set a reply is right on both charts, while on the changed one a reply is right by all. Tries
    the right replies of both, all their mixtures, and replies whose numbers lie between them.
    """
    changed = Changed(source, change)
    if not _is_agreed(case, changed):
        return False
    for first, second in zip(case.charts(source), case.charts(changed), strict=True):
        rulings = case.kind.ruled(first), case.kind.ruled(second)
        if not all(charted.needed for charted in (first, second)):
            return False
        for reply in _replies(rulings, first):
            if all(case.kind.judge(charted, reply).correct is not False for charted in (first, second)):
                return False
    return True


def _is_agreed(case: Case, source: Source) -> bool:
    """Whether the right reply by the last rule set is right by all."""
    charts = case.charts(source)
    reply = Solution.of(case.kind.ruled(charts[-1]), charts[-1]).reply
    return all(case.kind.judge(chart, reply).correct for chart in case.charts(source))


def _replies(rulings: tuple[Ruling, Ruling], chart: Chart) -> Iterator[Reply]:
    sides = [[plain(answer) for answer in ruling.answers or ([],)] for ruling in rulings]
    answers = [*sides[0], *sides[1], *(_between(*both) for both in zip(*sides, strict=False))]
    bodies = [[order.json(chart) for order in ruling.due] for ruling in rulings]
    if len(bodies[0]) == len(bodies[1]) > 0:
        bodies.append([_between(*both) for both in zip(*bodies, strict=True)])
    for answer, posts, ruling in product(answers, bodies, rulings):
        sent = tuple(Post(f"{chart.base}{body['resourceType']}", body) for body in posts)
        yield Solution(answer, sent, ruling.edits).reply


def _between(first: Any, second: Any) -> Any:
    """The JSON between two values of the same form; the first one where they differ in form."""
    if isinstance(first, dict) and isinstance(second, dict):
        return {name: _between(value, second.get(name)) for name, value in first.items()}
    if isinstance(first, list) and isinstance(second, list) and len(first) == len(second):
        return [_between(*both) for both in zip(first, second, strict=True)]
    numbers = all(isinstance(value, int | float) and not isinstance(value, bool) for value in (first, second))
    return (first + second) / 2 if numbers and first != second else first


# Plausible changes


def plausible(chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """Changes of what a rule read. Each comes in turn from another way of changing it.

    Changes of several values come after those of a single resource. Resources that are missing, or that were another
    patient's, leave gaps in the patient's ids. So these come last; first, another resource of the patient takes the
    place of what is missing, or what was found becomes another one.
    """
    for ways in (_changes_in_place, _changes_of_all_values, _additions_and_removals):
        streams = [islice(way, _OF_ONE_WAY) for way in ways(chart, hospital, rng)]
        rng.shuffle(streams)
        yield from (change for turn in zip_longest(*streams) for change in turn if change is not None)


def _changes_in_place(chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Iterator[Amendment]]:
    """Ways to change a value, a status or a time of the patient's own resources."""
    for searched in chart.searched:
        if searched.search.kind == "Patient":
            yield _birth_dates_near(searched, rng)
        elif not searched.used:
            yield _earlier_made_current(searched, chart, hospital, rng)
            yield _recoded_as_match(searched, chart, hospital, rng)
        else:
            yield _recoded_as_mismatch(searched, chart, hospital, rng)
            if searched.lab is not None:
                yield _values_of_others(searched, hospital, rng)
            if searched.search.status:
                yield _statuses_of_others(searched, hospital, rng)
                yield _earlier_made_current(searched, chart, hospital, rng)
                yield _recoded_as_match(searched, chart, hospital, rng)
            if searched.search.start is not None:
                yield _moved_before_window(searched, searched.search.start, chart, hospital, rng)
    for compared in chart.compared:
        if compared.what == "time":
            yield _moved_across_limit(compared, chart, hospital, rng)


def _changes_of_all_values(chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Iterator[Amendment]]:
    """Ways to change the values of all readings of a test, where rule sets go by different ones."""
    for searched in chart.searched:
        if searched.lab is not None and searched.used:
            yield _all_values_of_others(searched, chart, hospital, rng)


def _additions_and_removals(chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Iterator[Amendment]]:
    """Ways to add or remove resources."""
    for searched in chart.searched:
        if searched.search.kind != "Patient":
            yield (
                _removals(searched, chart, hospital)
                if searched.used
                else _copied_from_others(searched, chart, hospital, rng)
            )


def _values_of_others(searched: Searched, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """One of the readings gets the value of another patient's reading, with its flag."""
    donors = hospital.alike(searched)
    seen = set()
    for donor in rng.sample(donors, len(donors)):
        reading, value = rng.choice(searched.used), as_object(donor.get("valueQuantity")).get("value")
        if _can_have_value(reading, donor) and value not in seen:
            seen.add(value)
            yield [_with_value(reading, donor)]


def _all_values_of_others(searched: Searched, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """Each reading gets the value of another patient's reading, with its flag."""
    readings, donors = _read_since(searched, chart, searched.search.start), hospital.alike(searched)
    for _ in range(_OF_ONE_WAY if 1 < len(readings) <= _MOST else 0):
        chosen = [(reading, rng.choice(donors)) for reading in readings]
        if all(_can_have_value(reading, donor) for reading, donor in chosen):
            yield [_with_value(reading, donor) for reading, donor in chosen]


def _can_have_value(reading: Resource, donor: Resource) -> bool:
    """Whether a donor has another value of the same unit, range and status."""
    quantity, donated = as_object(reading.get("valueQuantity")), as_object(donor.get("valueQuantity"))
    same = all(reading.get(name) == donor.get(name) for name in ("referenceRange", "status"))
    value = donated.get("value")
    return same and quantity.get("unit") == donated.get("unit") and value not in (None, quantity.get("value"))


def _with_value(reading: Resource, donor: Resource) -> Resource:
    """A reading with the value and the flag of a donor."""
    flag = {"interpretation": donor["interpretation"]} if "interpretation" in donor else {}
    rest = {name: content for name, content in reading.items() if name != "interpretation" or flag}
    return {**rest, "valueQuantity": {**reading["valueQuantity"], "value": donor["valueQuantity"]["value"]}, **flag}


def _birth_dates_near(searched: Searched, rng: Random) -> Iterator[Amendment]:
    """The patient is born up to five years earlier or later."""
    for used in searched.used:
        born = date.fromisoformat(str(used["birthDate"]))
        for _ in range(_TRIES):
            day = born + timedelta(days=rng.choice((-1, 1)) * rng.randint(200, 1800))
            yield [{**used, "birthDate": day.isoformat()}]


def _statuses_of_others(searched: Searched, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """One of the orders, or all of them, have the status that other ones have."""
    ended = [
        str(resource.get("status"))
        for resource in hospital.alike(searched)
        if resource.get("status") in ("stopped", "completed")
    ]
    if ended:
        for used in rng.sample(searched.used, len(searched.used)):
            yield [{**used, "status": rng.choice(ended)}]
        yield [{**used, "status": rng.choice(ended)} for used in searched.used]


def _read_since(searched: Searched, chart: Chart, start: datetime | None = None) -> list[Resource]:
    """All that the chart has of what a read is about, since `start`."""
    codes_sought = {code.code for code in searched.search.codes}
    same = [resource for resource in chart.touched.values() if codes_sought & set(codes(resource))]
    return [resource for resource in same if start is None or _is_since(resource, start)]


def _moved_before_window(
    searched: Searched, start: datetime, chart: Chart, hospital: Hospital, rng: Random
) -> Iterator[Amendment]:
    """All in the window was measured earlier, so that the window is empty."""
    yield from _all_moved(_read_since(searched, chart, start), _LONG_AGO, start, chart, hospital, rng)


def _removals(searched: Searched, chart: Chart, hospital: Hospital) -> Iterator[Amendment]:
    """The chart has none of what was used; or none of the same kind."""
    for group in (searched.used, _read_since(searched, chart, searched.search.start)):
        if 0 < len(group) <= _MOST and all(map(hospital.is_unreferenced, group)):
            yield [ref(resource) for resource in group]


def _earlier_made_current(searched: Searched, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """What the patient had earlier, or had been ordered, counts now."""
    search, codes_sought = searched.search, {code.code for code in searched.search.codes}
    same = [resource for resource in hospital.of.get(chart.patient, []) if resource.get("resourceType") == search.kind]
    if search.status:
        named = [
            resource
            for resource in same
            if _is_named(resource, searched, chart) and (not codes_sought or codes_sought & set(codes(resource)))
        ]
        ended = [resource for resource in named if resource.get("status") != search.status]
        yield from ([{**resource, "status": search.status}] for resource in rng.sample(ended, len(ended)))
    elif search.start is not None:
        latest = sorted(_read_since(searched, chart), key=lambda resource: str(_time(resource)))[-3:]
        for resource in rng.sample(latest, len(latest)):
            for time in _moments(resource, search.start, chart.now, chart, hospital, rng):
                yield [moved(resource, time, chart, hospital)]


def _recoded_as_match(searched: Searched, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """Another resource of the patient becomes what the read did not find."""
    start = searched.search.start or _LONG_AGO
    donors = [resource for resource in hospital.alike(searched) if _fits(resource, searched, chart)]
    candidates = [
        resource
        for resource in _unread_of_same_type(searched, chart, hospital)
        if _is_since(resource, start) and not _is_since(resource, chart.now)
    ]
    for resource in rng.sample(candidates, min(len(candidates), _OF_ONE_WAY)) if donors else ():
        donor = rng.choice(donors)
        if donor.keys() == resource.keys() and donor.get("category") == resource.get("category"):
            yield [with_content_of(resource, donor)]


def _recoded_as_mismatch(searched: Searched, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """What the read found, or all of the same kind, become other resources, as other patients have them."""
    pool = hospital.kinds.get(searched.search.kind, [])
    for group in (list(searched.used), _read_since(searched, chart, searched.search.start)):
        for _ in range(
            _OF_ONE_WAY // 2 if 0 < len(group) <= _MOST and all(map(hospital.is_unreferenced, group)) else 0
        ):
            changed = [
                with_content_of(resource, donor)
                for resource in group
                if (donor := _mismatch(resource, searched, chart, pool, rng))
            ]
            if len(changed) == len(group):
                yield changed


def _mismatch(
    resource: Resource, searched: Searched, chart: Chart, pool: Sequence[Resource], rng: Random
) -> Resource | None:
    """A resource of the same form that the read is not about."""
    codes_sought = {code.code for code in searched.search.codes}
    for donor in (rng.choice(pool) for _ in range(_TRIES)):
        alike = donor.keys() == resource.keys() and donor.get("category") == resource.get("category")
        if alike and not codes_sought & codes(donor) and not (searched.what and _is_named(donor, searched, chart)):
            return donor
    return None


def _unread_of_same_type(searched: Searched, chart: Chart, hospital: Hospital) -> list[Resource]:
    """The patient's resources of the same type that no rule has read and to which nothing refers."""
    same = [
        resource
        for resource in hospital.of.get(chart.patient, [])
        if resource.get("resourceType") == searched.search.kind
    ]
    read = set(map(ref, chart.touched.values()))
    return [resource for resource in same if ref(resource) not in read and hospital.is_unreferenced(resource)]


def _fits(resource: Resource, searched: Searched, chart: Chart) -> bool:
    return searched.search.status in ("", resource.get("status")) and _is_named(resource, searched, chart)


def with_content_of(resource: Resource, donor: Resource) -> Resource:
    """The content of another resource, with this one's identity, patient, encounter and times."""
    unchanged_elements = ("id", "meta", *_OWN_REFERENCES, *TIMES, "performedPeriod", "effectivePeriod")
    return {**donor, **{name: resource[name] for name in unchanged_elements if name in resource}}


def _copied_from_others(searched: Searched, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """A resource that another patient has, during an encounter of this patient."""
    search = searched.search
    others = [
        resource
        for resource in hospital.alike(searched)
        if subject_id(resource) != chart.patient
        and hospital.is_unreferenced(resource)
        and _fits(resource, searched, chart)
        and _time(resource) is not None
    ]
    start = search.start or _LONG_AGO
    for resource in rng.sample(others, min(len(others), _MOST)):
        copied = copied_to_patient(resource, chart, hospital)
        for time in islice(_moments(copied, start, chart.now, chart, hospital, rng), 2):
            yield [moved(copied, time, chart, hospital)]


def _is_named(resource: Resource, searched: Searched, chart: Chart) -> bool:
    """Whether a resource is what a read looked for, if it looked for words."""
    if not searched.what:
        return True
    try:
        return chart.mentions(drug_text(resource), *searched.what.split(" or "))
    except DataFault:
        return False


def _moved_across_limit(compared: Compared, chart: Chart, hospital: Hospital, rng: Random) -> Iterator[Amendment]:
    """What was done moves to the other side of the limit, into an encounter of the patient. With it moves all that the
    chart has of the same kind on that side.
    """
    (used,) = compared.used
    limit, codes_used = compared.limit, set(codes(used))
    if compared.outcome:
        yield from _all_moved([used], limit, chart.now, chart, hospital, rng)
    else:
        later = [
            resource
            for resource in chart.touched.values()
            if codes_used & set(codes(resource)) and _is_since(resource, limit)
        ]
        yield from _all_moved(later, _LONG_AGO, limit, chart, hospital, rng)


def _all_moved(
    resources: Sequence[Resource], start: datetime, end: datetime, chart: Chart, hospital: Hospital, rng: Random
) -> Iterator[Amendment]:
    """All of some resources move between two times, each to another time."""
    timed = [resource for resource in resources if _time(resource) is not None]
    for _ in range(_MOVES if 0 < len(timed) <= _MOST else 0):
        times: list[datetime] = []
        for resource in timed:
            times += islice(
                (time for time in _moments(resource, start, end, chart, hospital, rng) if time not in times), 1
            )
        if len(times) == len(timed):
            yield [moved(resource, time, chart, hospital) for resource, time in zip(timed, times, strict=True)]


def _moments(
    resource: Resource, start: datetime, end: datetime, chart: Chart, hospital: Hospital, rng: Random
) -> Iterator[datetime]:
    """Times between two times. For a resource of a panel, of the patient's other panels without its code. For any
    other, times in encounters, at its time of day if possible.
    """
    was = _time(resource)
    origin = subject_id(hospital.by_ref[ref(resource)]) or ""
    if was in _panels(resource, origin, hospital):
        codes_here = codes(resource)
        panels = _panels(resource, chart.patient, hospital)
        times = sorted(time for time, names in panels.items() if start <= time < end and not codes_here & names)
        yield from rng.sample(times, len(times))
        return
    stays = [_stay(encounter) for encounter in hospital.encounters.get(chart.patient, [])]
    spans = [(max(begin, start), min(over or chart.now, end)) for begin, over in stays if begin is not None]
    spans = [(first, last) for first, last in spans if first < last]
    for first, last in rng.sample(spans, len(spans)):
        anywhere = (first + rng.random() * (last - first)).replace(second=0, microsecond=0)
        if was is None or last - first < timedelta(days=1):
            yield max(anywhere, first)
            continue
        same = anywhere.replace(hour=was.hour, minute=was.minute)
        yield same if first <= same <= last else max(anywhere, first)


def _panels(resource: Resource, patient: str, hospital: Hospital) -> dict[datetime, set[str]]:
    """The times at which a patient has other resources of a resource's category, and their codes."""
    panels: dict[datetime, set[str]] = {}
    for time, relative in hospital.timed_of(patient):
        alike = all(relative.get(name) == resource.get(name) for name in ("resourceType", "category"))
        if alike and ref(relative) != ref(resource):
            panels.setdefault(time, set()).update(codes(relative))
    return panels


def moved(resource: Resource, time: datetime, chart: Chart, hospital: Hospital) -> Resource:
    """A resource at another time, in the encounter of the patient that is nearest to it. All its times move alike."""
    was = _time(resource)
    assert was is not None
    shift = time - was
    changed = {name: _later(resource[name], shift) for name in TIMES if name in resource}
    for name in ("performedPeriod", "effectivePeriod"):
        if name in resource:
            changed[name] = {part: _later(value, shift) for part, value in resource[name].items()}
    meta = dict(resource.get("meta") or {})
    if "lastUpdated" in meta:
        days = timedelta(days=(time.date() - was.date()).days)
        stored = min(datetime.fromisoformat(meta["lastUpdated"]) + days, chart.now)
        changed["meta"] = {**meta, "lastUpdated": stored.isoformat(timespec="milliseconds")}
    return _in_nearest_encounter({**resource, **changed}, chart, hospital)


def _later(text: Any, shift: timedelta) -> Any:
    try:
        if len(text) == len("2023-11-13"):
            return (date.fromisoformat(text) + shift).isoformat()
        return (datetime.fromisoformat(text) + shift).isoformat()
    except (TypeError, ValueError):
        return text


def copied_to_patient(resource: Resource, chart: Chart, hospital: Hospital) -> Resource:
    """A copy of another patient's resource that belongs to the chart's patient."""
    ours = hospital.of.get(chart.patient, [])
    name = "patient" if "patient" in resource else "subject"
    kind = resource.get("resourceType")
    same = next((sibling[name] for sibling in ours if sibling.get("resourceType") == kind and name in sibling), None)
    return {**resource, name: same or {"reference": f"Patient/{chart.patient}"}}


def _in_nearest_encounter(resource: Resource, chart: Chart, hospital: Hospital) -> Resource:
    """A resource in the patient's encounter that is nearest to its time; without one, if the patient has none."""
    name = next((element for element in ("encounter", "context") if element in resource), None)
    time = _time(resource)
    if name is None or time is None:
        return resource
    stays = [
        (_gap(encounter, time), ref(encounter))
        for encounter in hospital.encounters.get(chart.patient, [])
        if _stay(encounter)[0] is not None
    ]
    rest = {key: value for key, value in resource.items() if key != name}
    return {**resource, name: {"reference": min(stays)[1]}} if stays else rest


def _stay(encounter: Resource) -> tuple[datetime | None, datetime | None]:
    """The start and the end of an encounter."""
    period = as_object(encounter.get("period"))
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


def _is_same_reading(changed: Resource, old: Resource) -> bool:
    """Whether a reading has the same test and time as before."""
    return all(changed.get(name) == old.get(name) for name in ("code", "effectiveDateTime"))


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
        new = None if isinstance(entry, str) or not _is_same_reading(entry, old) else entry
        for stored in hospital.texts.get(chart.patient, []):
            text = more.get(ref(stored), stored)
            if quoted(text, old):
                changed = requoted(text, old, new)
                if changed is None:
                    return None
                more[ref(text)] = changed
    return [*change, *more.values()]


def is_revealed_by_drugs(change: Amendment, rulings: Sequence[Ruling], chart: Chart, hospital: Hospital) -> bool:
    """Whether after a reading that changes, the patient was given a drug for which the reading decides."""
    drugs = [
        field
        for ruling in rulings
        for order in ruling.due
        for field in order.fields
        if isinstance(field.meaning, Coded)
    ]
    words = {field.meaning.value.label.lower().split()[0] for field in drugs if isinstance(field.meaning, Coded)}
    if not words:
        return False
    old = [hospital.by_ref.get(entry if isinstance(entry, str) else ref(entry)) for entry in change]
    times = [
        time
        for resource in old
        if resource and resource["resourceType"] == "Observation" and (time := _time(resource)) is not None
    ]
    orders = [order for order in hospital.of.get(chart.patient, []) if order["resourceType"] == "MedicationRequest"]
    return any(
        _is_since(order, time) and chart.mentions(drug_text(order), *words) for order in orders for time in times
    )
