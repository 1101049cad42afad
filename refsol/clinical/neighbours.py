"""Neighbouring charts: what a chart would be if one fact that its rule read were another one.

A fact has another value, is missing, is another patient's or another test's, or there is one more. A twin
(`clinical.twins`) is the neighbour with the smallest change. What one more resource looks like, its status, category,
codings and value, is copied from examples of the same hospital.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timedelta
from typing import Any, NamedTuple, Protocol

from refsol._moments import shown_time
from refsol.clinical.chart import Chart
from refsol.clinical.searches import ANY, Searched, ref, time_text
from refsol.clinical.sources import Amendment, Resource
from refsol.clinical.twins import changes, valued
from refsol.json_values import as_object
from refsol.resources import CLINICAL_STATUS, TIMES, coded_in, codes_in, subject_id
from refsol.verdict import RequiredRead

Examples = Mapping[str, Sequence[Resource]]
"""What resources look like in a hospital, by `example_name`: one of each form, and the lowest, the middle and the
highest value. Their patient is `PATIENT`.
"""

PATIENT = "example-patient"
_EXAMPLE = "example"
ANOTHER_PATIENT = "another-patient"
ANOTHER_CODE = {"text": "another"}
_FORMS = 6
"""The most forms of one kind of resource."""
_MINUTE = timedelta(minutes=1)
_AGES = tuple(timedelta(days=days) for days in (0.5, 2, 7, 30, 90, 200, 400, 1000))
"""How long ago one more resource may be, besides the limits of the rule."""
LONG_AGO = "1970-01-01T00:00:00+00:00"
_LEFT_OUT = ("id", "meta", "text")
"""The elements that an example does not have."""
_REFERENCES = ("encounter", "context", "basedOn", "reasonReference", "partOf", "hasMember")
"""The elements of an example that refer to no resource of the hospital."""


class Neighbour(NamedTuple):
    """A chart that differs in one fact.

    `changed` are the resources that differ, by reference (None: it is missing). `added` is one more resource.
    """

    words: str
    changed: Mapping[str, Resource | None] = {}
    added: Resource | None = None

    @property
    def change(self) -> Amendment:
        """The change of the chart."""
        amendment: list[Resource | str] = [name if new is None else new for name, new in self.changed.items()]
        return amendment if self.added is None else [*amendment, self.added]

    def renamed(self, name: str) -> Neighbour:
        """The neighbour whose added resource has another id."""
        return self if self.added is None else self._replace(added={**self.added, "id": name})


class Evidence(RequiredRead, Protocol):
    """What an agent must have read for a type whose rule does not read the chart, with neighbours of its own."""

    @property
    def words(self) -> str:
        """What it is: `the Patient S1234567`."""

    def resources(self, shown: Sequence[Resource]) -> list[Resource]:
        """What the task says of resources, with what replies have shown of them."""

    def neighbours(self, shown: Sequence[Resource], examples: Examples) -> list[Neighbour]:
        """The charts on which no right reply is right."""


# What the rule read


def changed_charts(chart: Chart, examples: Examples) -> Iterator[Neighbour]:
    """The neighbours in which something that the rule read is different. `chart` has the record of its rule."""
    for change in changes(chart):
        if "" not in change.put:
            yield Neighbour(change.words, change.put)
    for searched in chart.searched:
        if searched.search.kind != "Patient":
            yield from _all_missing(searched, chart)
            yield from _others(searched)
            yield from _other_values(searched, examples)
            yield from _other_kinds(searched, chart, examples)


def _all_missing(searched: Searched, chart: Chart) -> Iterator[Neighbour]:
    """Nothing of what a search found is there. Of two equal facts, one alone does not matter."""
    same = [resource for resource in chart.touched.values() if is_about(resource, searched)] if searched.used else []
    if len(same) > 1:
        yield Neighbour(f"none of {len(same)} {searched.name}", dict.fromkeys(map(ref, same)))


def is_about(resource: Resource, searched: Searched) -> bool:
    """Whether a resource has one of the codes of a search, whatever its status and time."""
    named = {code.code for code in searched.search.codes}
    if resource.get("resourceType") != searched.search.kind:
        return False
    return not named or not named.isdisjoint(codes_in(resource, coded_in(searched.search.kind)))


def _others(searched: Searched) -> Iterator[Neighbour]:
    """What the rule found is another patient's, or another test, drug or problem."""
    coded = coded_in(searched.search.kind)
    for used in searched.used:
        for name in ("subject", "patient"):
            if name in used:
                another = {**used, name: {"reference": f"Patient/{ANOTHER_PATIENT}"}}
                yield Neighbour(f"{ref(used)} is another patient's", {ref(used): another})
        if coded in used:
            yield Neighbour(f"{ref(used)} is not {searched.name}", {ref(used): {**used, coded: ANOTHER_CODE}})


def _other_values(searched: Searched, examples: Examples) -> Iterator[Neighbour]:
    if searched.lab is None:
        return
    for used in filter(_has_value, searched.used):
        for value in _values(examples.get(example_name(searched), ())):
            change = valued(used, value, 0)
            yield Neighbour(change.words, change.put)


def _other_kinds(searched: Searched, chart: Chart, examples: Examples) -> Iterator[Neighbour]:
    """What the rule found is what another search of the rule looks for: another drug, problem or procedure."""
    coded = coded_in(searched.search.kind)
    searches = [
        search for search in chart.searched if search.search.kind == searched.search.kind and search.lab is None
    ]
    for search in searches:
        concepts = {
            str(example[coded]): example[coded]
            for example in examples.get(example_name(search), ())
            if coded in example
        }
        for used in searched.used:
            for concept in concepts.values():
                yield Neighbour(f"{ref(used)} is {search.name}", {ref(used): {**used, coded: concept}})


# One more


def added_charts(chart: Chart, examples: Examples) -> Iterator[Iterator[list[Neighbour]]]:
    """For each search of the rule, one more of what it looks for, in groups of which one is enough: at a time with some
    value, and at the last time each value and each other form.
    """
    for searched in chart.searched:
        if searched.search.kind != "Patient":
            yield _groups(searched, chart, examples.get(example_name(searched), ()))


def _groups(searched: Searched, chart: Chart, known: Sequence[Resource]) -> Iterator[list[Neighbour]]:
    forms, values, last = _forms(known), _values(known), chart.now - _MINUTE
    for time in _times(searched, chart, known) if forms else ():
        yield [_one_more(searched, chart, example, time) for example in _with_values(forms[0], values)]
    for form in forms[1:]:
        yield [_one_more(searched, chart, example, last) for example in _with_values(form, values)]
    for example in _with_values(forms[0], values) if values else ():
        yield [_one_more(searched, chart, example, last)]


def _with_values(example: Resource, values: Sequence[float]) -> list[Resource]:
    return [
        {**example, "valueQuantity": {**as_object(example.get("valueQuantity")), "value": value}} for value in values
    ] or [example]


def _one_more(searched: Searched, chart: Chart, example: Resource, time: datetime) -> Neighbour:
    resource = dict(example) | {name: _written(time, name) for name in TIMES if name in example}
    if "performedPeriod" in resource:
        del resource["performedPeriod"]
        resource["performedDateTime"] = time.isoformat()
    for name in ("subject", "patient"):
        if name in resource:
            resource[name] = renamed(resource[name], PATIENT, chart.patient)
    status = "" if searched.search.status == ANY else searched.search.status
    if status and searched.search.kind in CLINICAL_STATUS:
        coding = {"system": CLINICAL_STATUS[searched.search.kind], "code": status}
        resource["clinicalStatus"] = {"coding": [coding]}
    elif status:
        resource["status"] = status
    resource |= {"id": "added", "meta": {"lastUpdated": time.isoformat(timespec="milliseconds")}}
    value = as_object(resource.get("valueQuantity")).get("value")
    state = resource.get("status")
    details = " ".join(str(part) for part in (value, state and f"({state})") if part not in (None, ""))
    return Neighbour(
        f"one more {searched.name} {details} at {shown_time(time.isoformat())}".replace("  ", " "), added=resource
    )


def _written(time: datetime, name: str) -> str:
    return time.date().isoformat() if name == "recordedDate" else time.isoformat()


def _times(searched: Searched, chart: Chart, known: Sequence[Resource]) -> list[datetime]:
    """From the start of the window, otherwise from the first one of the hospital, until now. If only the last one
    counts, after it.
    """
    start = searched.search.start or min(filter(None, map(_time, known)), default=chart.now - _AGES[-1])
    last = max(filter(None, map(_time, searched.used)), default=None) if searched.how == "last" else None
    first = start if last is None else max(start, last + _MINUTE)
    limits = (compared.limit for compared in chart.compared if compared.what == "time")
    times = (first, chart.now - _MINUTE, *(chart.now - age for age in _AGES), *filter(_has_zone, limits))
    return sorted({time for time in times if first <= time <= chart.now})


def _has_zone(time: datetime) -> bool:
    return time.tzinfo is not None


def _time(resource: Resource) -> datetime | None:
    try:
        time = datetime.fromisoformat(time_text(resource) or "")
    except ValueError:
        return None
    return time if time.tzinfo else None


# Examples


def example_name(searched: Searched) -> str:
    """What a search looks for, whatever its status and window: `Observation?code=MG`, `MedicationRequest: insulin`."""
    search = str(searched.search._replace(status="", start=None))
    return f"{search}: {searched.what}" if searched.what else search


def examples_of(
    searched: Searched, chart: Chart, same: Sequence[Resource], kind: Sequence[Resource], limits: Iterable[float] = ()
) -> list[Resource]:
    """Examples of what a search looks for, among the resources with its codes (`same`). If there are none, resources of
    its type (`kind`) with its first code or word instead of their own. Of values, they contain the lowest, the middle
    and the highest, and those on both sides of some limits.
    """
    if searched.what:
        same = [resource for resource in same if _is_named(resource, searched, chart)]
    if not same:
        same = [_recoded(resource, searched) for resource in kind]
    forms = Counter(map(_form, same))
    first = {
        form: next(resource for resource in same if _form(resource) == form) for form, _ in forms.most_common(_FORMS)
    }
    oldest = sorted(filter(_time, same), key=lambda resource: str(time_text(resource)))[:1]
    chosen = {id(resource): resource for resource in (*first.values(), *_spread(same, limits), *oldest)}
    return [_as_example(resource) for resource in chosen.values()]


def _spread(same: Sequence[Resource], limits: Iterable[float]) -> Iterator[Resource]:
    """The resources with the lowest, the middle and the highest value, and with the nearest ones to some limits."""
    ordered = sorted(filter(_has_value, same), key=_value)
    if not ordered:
        return
    yield from (ordered[0], ordered[len(ordered) // 2], ordered[-1])
    values = list(map(_value, ordered))
    for limit in sorted(set(limits)):
        for place in (bisect_left(values, limit) - 1, bisect_left(values, limit), bisect_right(values, limit)):
            if 0 <= place < len(ordered):
                yield ordered[place]


def _value(resource: Resource) -> float:
    value: float = as_object(resource["valueQuantity"])["value"]
    return value


def _is_named(resource: Resource, searched: Searched, chart: Chart) -> bool:
    names = [as_object(resource.get(name)) for name in ("medicationCodeableConcept", "medicationReference")]
    text = " ".join(str(name.get("text") or name.get("display") or "") for name in names).lower()
    return chart.mentions(text, *searched.what.lower().split(" or "))


def _recoded(resource: Resource, searched: Searched) -> Resource:
    if searched.search.codes:
        code = searched.search.codes[0]
        coding = {name: part for name, part in (("system", code.system), ("code", code.code)) if part}
        return {**resource, coded_in(searched.search.kind): {"coding": [coding], "text": code.label}}
    rest = {name: part for name, part in resource.items() if name != "medicationReference"}
    return {**rest, "medicationCodeableConcept": {"text": searched.what.partition(" or ")[0]}}


def _form(resource: Resource) -> str:
    """What the form of a resource is: status, category and codings, and whether it belongs to an encounter."""
    kind = str(resource.get("resourceType"))
    states = (resource.get("status"), resource.get("intent"), sorted(codes_in(resource, "clinicalStatus")))
    coded = sorted(codes_in(resource, coded_in(kind))), str(as_object(resource.get(coded_in(kind))).get("text"))
    return str((*states, resource.get("category"), "encounter" in resource, *coded))


def _forms(known: Sequence[Resource]) -> list[Resource]:
    forms: dict[str, Resource] = {}
    for example in known:
        forms.setdefault(_form(example), example)
    return list(forms.values())


def _has_value(resource: Resource) -> bool:
    return isinstance(as_object(resource.get("valueQuantity")).get("value"), int | float)


def _values(known: Sequence[Resource]) -> list[float]:
    """The values of examples, the most different ones first."""
    values = sorted({_value(example) for example in known if _has_value(example)})
    return list(dict.fromkeys([values[0], values[-1], *values])) if values else []


def _as_example(resource: Resource) -> Resource:
    example = {name: part for name, part in resource.items() if name not in _LEFT_OUT}
    example |= {name: _to_nothing(example[name]) for name in _REFERENCES if name in example}
    for name in ("subject", "patient"):
        if name in example:
            example[name] = renamed(example[name], subject_id(resource) or "", PATIENT)
    return example


def _to_nothing(reference: Any) -> Any:
    """A reference, or a list of them, to a resource that does not exist."""
    if isinstance(reference, list):
        return [_to_nothing(part) for part in reference]
    kind = str(as_object(reference).get("reference") or "").rpartition("/")[0].rpartition("/")[2]
    return {"reference": f"{kind}/{_EXAMPLE}"} if kind else {"display": _EXAMPLE}


def example_for(patient: str, example: Resource, part: Resource) -> dict[str, Any]:
    """What an example adds to a resource of a patient of which only a part is known: all except other times."""
    times = {*TIMES, "performedPeriod"} - part.keys()
    return {name: renamed(value, PATIENT, patient) for name, value in example.items() if name not in times}


def renamed(value: Any, old: str, new: str) -> Any:
    """JSON with a name in all its texts replaced."""
    if isinstance(value, dict):
        return {name: renamed(part, old, new) for name, part in value.items()}
    if isinstance(value, list):
        return [renamed(part, old, new) for part in value]
    return value.replace(old, new) if isinstance(value, str) and old else value


def limits_of(charts: Iterable[Chart]) -> dict[str, set[float]]:
    """The limits with which the rules of some tasks compare values, by `example_name`."""
    limits: dict[str, set[float]] = {}
    for chart in charts:
        for searched in chart.searched:
            used = set(map(id, searched.used))
            compared = (
                comparison.limit
                for comparison in chart.compared
                if comparison.what == "value" and used.intersection(map(id, comparison.used))
            )
            limits.setdefault(example_name(searched), set()).update(compared)
    return limits
