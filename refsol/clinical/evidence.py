"""What follows from a chart's record: what an agent must have read, the reason of a ruling, and the deciding facts."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple

from refsol._moments import distance_words, length_words, margin_words
from refsol.clinical.chart import Chart, Compared, Looked, drug_text, performed, ref
from refsol.clinical.codes import Lab
from refsol.clinical.rulings import Ruling
from refsol.clinical.sources import Resource
from refsol.errors import DataFault
from refsol.json_values import as_object, objects
from refsol.reads import Query, Read, has_read, has_reading, searched
from refsol.stats import sequential_mean
from refsol.verdict import Because, Fact, Needed

ONE_HOUR = timedelta(hours=1)


class Evidence(NamedTuple):
    """One read of a rule, which an agent must have made too: its resources, or a search that shows their absence."""

    look: Looked
    patient: str
    now: datetime

    def unread(self, reads: Sequence[Read]) -> list[str]:
        """What is missing from these reads, as texts."""
        if self.look.search.kind == "Patient":
            seen = (one for read in reads for one in read.resources if is_patient(one, self.patient))
            return [] if any(one.get("birthDate") for one in seen) else [f"the birthDate of {self.patient}"]
        if self.look.used:
            return [text for one in self.look.used for text in self._unread(one, reads)]
        return [text for query, text in self._queries() if not searched(reads, query)]

    def _unread(self, resource: Resource, reads: Sequence[Read]) -> Iterator[str]:
        lab, time, name = self.look.lab, resource.get("effectiveDateTime"), ref(resource)
        if lab is not None and isinstance(time, str):
            seen, name = has_reading(reads, self.patient, lab.code, time), f"{lab.code} at {time}"
        else:
            seen = has_read(reads, name)
        if not seen:
            yield name

    def _queries(self) -> Iterator[tuple[Query, str]]:
        """The searches that show the absence, one for each code."""
        search = self.look.search
        window = None if search.start is None else (search.start, self.now)
        for code in search.codes or (None,):
            token = None if code is None else f"{code.system}|{code.code}" if code.system else code.code
            category = code.category or None if isinstance(code, Lab) else None
            query = Query(search.kind, self.patient, token, search.status or None, window, category)
            yield query, f"a complete search of {search.kind if code is None else code.code}"


def is_patient(resource: Resource, patient: str) -> bool:
    """Whether a resource is the Patient with this id or identifier."""
    known = [resource.get("id"), *(one.get("value") for one in objects(resource.get("identifier")))]
    return resource.get("resourceType") == "Patient" and patient in known


def evidence(chart: Chart) -> tuple[Needed, ...]:
    """What an agent must have read. Empty if the rule read nothing."""
    own = (needed for needed, _ in chart.required)
    return (*(Evidence(look, chart.patient, chart.now) for look in chart.looked), *own)


def because(chart: Chart, ruling: Ruling) -> Because:
    """The reason of a ruling: the reads, the limits that decided, and what follows."""
    looked = [fact for look in chart.looked for fact in _facts(look, chart)]
    facts = (*looked, *(fact for _, fact in chart.required))
    if ruling.because:
        return Because(ruling.because, facts)
    reads = [_read_words(look, chart) for look in chart.looked]
    limits = [f"{words}{margin}" for words, margin in _limits(_decisive(chart))]
    parts = "; ".join([*reads, *([", ".join(limits)] if limits else [])])
    follows = {
        "query": "",
        "no order": "nothing to order",
        "order": " and ".join([*(one.words for one in ruling.due), *(one.words for one in ruling.edits)]),
    }
    consequence = follows[ruling.branch]
    arrow = " → " if limits else "; "
    return Because(f"{parts}{arrow}{consequence}" if consequence and parts else parts or consequence, facts)


def _decisive(chart: Chart) -> list[Compared]:
    """The comparisons of the resources on which the ruling rests."""
    used = {id(one) for look in chart.looked for one in look.used}
    return [one for one in chart.compared if used.issuperset(map(id, one.used))]


def _window(look: Looked, chart: Chart) -> str:
    start = look.search.start
    return "in the record" if start is None else f"of the last {length_words(chart.now - start)}"


def _name(look: Looked) -> str:
    search = look.search
    if look.what:
        return look.what
    return " or ".join(dict.fromkeys(code.label for code in search.codes)) or str(search)


def _read_words(look: Looked, chart: Chart) -> str:
    name, window = _name(look), _window(look, chart)
    if not look.used:
        status = f"{look.search.status} " if look.search.status else ""
        return f"no {status}{name} {window}"
    if look.how in ("all", "mean"):
        unit = look.lab.unit if look.lab else ""
        values: list[Any] = [as_object(one.get("valueQuantity")).get("value") for one in look.used]
        listed = f"{name} {window}: {', '.join(map(str, values))} {unit}".rstrip()
        if look.how == "all":
            return listed
        return f"{listed}; their mean is {sequential_mean(values):.6g}"
    return "; ".join(_used_words(look, one, chart) for one in look.used)


def _used_words(look: Looked, resource: Resource, chart: Chart) -> str:
    """`last magnesium 1.2 mg/dL at 2023-11-13T05:12:00+00:00, 5 h before now`."""
    fact, name = _fact(look, resource, ""), _name(look)
    what = f"last {name}" if look.how == "last" else (look.what and look.search.status) or name
    unit = None if fact.value is None else fact.unit
    words = " ".join(str(one) for one in (what, fact.value, unit) if one is not None)
    if fact.time is None:
        return words
    try:
        return f"{words} at {fact.time}, {distance_words(datetime.fromisoformat(fact.time), chart.now)}"
    except ValueError:
        return f"{words} at {fact.time}"


def _facts(look: Looked, chart: Chart) -> Iterator[Fact]:
    window, lab = _window(look, chart), look.lab
    if not look.used:
        yield Fact(
            lab.code if lab else str(look.search), None, lab.unit or None if lab else None, None, f"none {window}"
        )
    role = {"last": "latest", "first": "first"}.get(look.how, "one")
    for one in look.used:
        yield _fact(look, one, look.role or f"{role} {window}")


def _fact(look: Looked, resource: Resource, role: str) -> Fact:
    lab = look.lab
    if look.what == "birthDate":
        return Fact("birthDate", resource.get("birthDate"), None, None, role)
    if lab is not None:
        value = as_object(resource.get("valueQuantity")).get("value")
        return Fact(lab.code, value, lab.unit or None, resource.get("effectiveDateTime"), role)
    text = drug_text(resource) if resource.get("resourceType") == "MedicationRequest" else None
    return Fact(ref(resource), text, None, _time(resource), role)


def _time(resource: Resource) -> str | None:
    try:
        time = performed(resource)
    except DataFault:
        return None
    time = time or resource.get("effectiveDateTime") or resource.get("authoredOn")
    return time if isinstance(time, str) else None


def _limits(compared: Sequence[Compared]) -> Iterator[tuple[str, str]]:
    """The limits that decided, in words: for a value the range in which it is, for a time its side of the limit. Each
    with the distance of a time from its limit, if that is small.
    """
    values: dict[tuple[int, ...], list[Compared]] = {}
    for one in compared:
        if one.what == "value":
            values.setdefault(tuple(map(id, one.used)), []).append(one)
        else:
            yield _side(one), margin_words(one.actual, one.limit) if one.actual.tzinfo is not None else ""
    for group in values.values():
        yield range_words(group), ""


def _side(one: Compared) -> str:
    return f"{'' if one.outcome else 'not '}{one.words or f'before {one.limit.isoformat()}'}"


def branch_words(chart: Chart) -> str:
    """The branch of a rule in words: what it did not find, and the limits that decided. Patients of one branch have the
    same words.
    """
    absent = [f"no {_name(look)}" for look in chart.looked if not look.used]
    return ", ".join([*absent, *dict.fromkeys(words for words, _ in _limits(_decisive(chart)))]) or "any"


def is_edge(chart: Chart) -> bool:
    """Whether a decision was close: a value at its limit, a time within an hour of its limit or of a window's start."""
    starts = [look.search.start for look in chart.looked if look.search.start is not None]
    return any(map(_is_close, chart.compared)) or any(
        _is_near(_time(one), start) for one in chart.touched.values() for start in starts
    )


def _is_near(text: str | None, moment: datetime) -> bool:
    try:
        return abs(datetime.fromisoformat(text or "") - moment) < ONE_HOUR
    except (TypeError, ValueError):
        return False


def _is_close(one: Compared) -> bool:
    distance = abs(one.actual - one.limit)
    if one.what == "time":
        return bool(distance < ONE_HOUR)
    decimals = len(f"{one.limit:.9g}".partition(".")[2]) or 1  # at least those of a value one step away from the limit
    return bool(distance <= 10.0**-decimals + 1e-9)


def range_words(compared: Sequence[Compared]) -> str:
    """The range of a value that some comparisons show: `below 1`, `1 to below 1.5`, `1.5 to 1.9`, `above 1.9`."""
    lower = [one for one in compared if (one.op in (">", ">=")) == one.outcome]
    upper = [one for one in compared if (one.op in ("<", "<=")) == one.outcome]
    low = max(lower, key=lambda one: one.limit, default=None)
    high = min(upper, key=lambda one: one.limit, default=None)
    open_low = low is not None and _excludes(low)
    open_high = high is not None and _excludes(high)
    if low is not None and high is not None:
        start = f"above {low.limit:g}" if open_low else f"{low.limit:g}"
        return f"{start} to {'below ' if open_high else ''}{high.limit:g}"
    if high is not None:
        return f"{'below' if open_high else 'not above'} {high.limit:g}"
    if low is not None:
        return f"{'above' if open_low else 'not below'} {low.limit:g}"
    return ""


def _excludes(one: Compared) -> bool:
    """Whether the limit itself is outside of the range: `<` and `>` if they hold, `<=` and `>=` if they do not."""
    return (one.op in ("<", ">")) == one.outcome


class Deciding(NamedTuple):
    """The laboratory test that decided, for a picture: its window, and the limits with words.

    `start` is the start of the window or the limit of age, None if every reading counts; `window` describes it.
    """

    lab: Lab
    start: datetime | None
    window: str
    limits: tuple[tuple[float, str], ...]
    is_mean: bool

    @classmethod
    def of(cls, chart: Chart) -> Deciding | None:
        """The first test that a rule read. None if it read none."""
        look = next((one for one in chart.looked if one.lab is not None), None)
        if look is None or look.lab is None:
            return None
        limits: dict[float, str] = {}
        start, window = look.search.start, "the latest reading counts, however old"
        if start is not None:
            window = f"the last {length_words(chart.now - start)} count"
        own = set(map(id, look.used))
        for one in chart.compared:
            if own.isdisjoint(map(id, one.used)):
                continue
            if one.what == "value":
                limits[one.limit] = range_words([one])
            else:
                start, window = one.limit, f"not {one.words or 'before the limit'}"
        return cls(look.lab, start, window, tuple(limits.items()), look.how == "mean")
