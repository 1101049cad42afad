"""Why an order that has all due fields is wrong nevertheless: it forbids, contradicts or repeats what it orders.

An order is read as a pharmacist reads it. Each rule has a name, and gives a reason. What a note says is not judged.
`as_read` is the same order with each thing in the place where a rule of a task type looks for it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from datetime import timedelta
from typing import Any, NamedTuple, Protocol

from refsol.clinical.amounts import amounts_in, in_unit
from refsol.clinical.chart import Chart
from refsol.clinical.codes import Code
from refsol.clinical.meanings import Amount, Meaning, OneOf, Over, Route, moment_of
from refsol.clinical.routes import route_named, routes_in, routes_in_text
from refsol.clinical.timing import Every, frequencies, frequency_in_text, frequency_words, length_of
from refsol.clinical.vocabulary import Entry, entries, entry_of, is_same_code, named_in, spaced, system_of
from refsol.json_values import as_object, objects
from refsol.verdict import Check, show

DRUG_ORDER = "MedicationRequest"
ENDINGS = ("stopped", "cancelled", "completed", "entered-in-error")
"""The statuses of a MedicationRequest that end a drug."""
_ORDERS = ("order", "original-order", "reflex-order", "filler-order", "instance-order")
"""The intents that order."""
_FORBIDS = "doNotPerform"
_NEEDED = re.compile(r"(?<!\w)(prn|p\.r\.n\.|(as|if|when) (needed|necessary|required))(?!\w)", re.IGNORECASE)
_DAY = timedelta(days=1)
Json = Mapping[str, Any]


class DueField(Protocol):
    """A field of a due order: its path, and what its value must mean."""

    @property
    def path(self) -> str: ...

    @property
    def meaning(self) -> Meaning: ...


class DueOrder(Protocol):
    """The parts of an `Order` by which another one is judged."""

    @property
    def about(self) -> tuple[Code, ...]: ...

    @property
    def may_repeat(self) -> tuple[Every, ...]: ...

    @property
    def as_needed(self) -> bool: ...

    def every(self, chart: Chart) -> Sequence[DueField]:
        """All fields."""


class Placed(NamedTuple):
    """An order as it was posted, and the due order with which it is compared."""

    payload: Json
    due: DueOrder
    chart: Chart

    @property
    def dosage(self) -> Json:
        """The first dosage."""
        return next(iter(objects(self.payload.get("dosageInstruction"))), {})

    @property
    def gives(self) -> bool:
        """Whether the due order gives something, so that its dosage matters: not if it stops a drug."""
        status = next((field.meaning.json() for field in self.due.every(self.chart) if field.path == "status"), "")
        return status not in ENDINGS

    def meanings(self, kind: type[Meaning]) -> list[Any]:
        """The meanings of a kind that the due order states."""
        return [meaning for field in self.due.every(self.chart) for meaning in _options(field.meaning, kind)]

    def is_now(self, text: Any) -> bool:
        """Whether a time is on the day of the task's now."""
        moment, now = moment_of(text, self.chart.now), self.chart.now
        if moment is None or abs(moment - now) >= 2 * _DAY:
            return False
        with suppress(OverflowError):
            return moment.astimezone(now.tzinfo).date() == now.date()
        return False


def _options(meaning: Meaning, kind: type[Meaning]) -> list[Any]:
    options = meaning.value if isinstance(meaning, OneOf) else (meaning,)
    return [option for option in options if isinstance(option, kind)]


Rule = Callable[[Placed], Iterator[str]]


def objections(due: DueOrder, payload: Any, chart: Chart) -> Iterator[Check]:
    """A failed check for each rule that an order breaks, with its first reason."""
    if isinstance(payload, dict):
        placed = Placed(payload, due, chart)
        for name, rule in RULES.items():
            reason = next(rule(placed), None)
            if reason is not None:
                yield Check(name, False, "", reason)


# An order that is none


def forbids(payload: Any) -> bool:
    """Whether an order says that it is not to be carried out."""
    return as_object(payload).get(_FORBIDS) not in (None, False, "false")


def _forbids(placed: Placed) -> Iterator[str]:
    if forbids(placed.payload):
        yield f"an order not to {'give' if placed.payload.get('resourceType') == DRUG_ORDER else 'do'} it"


def _extended(placed: Placed) -> Iterator[str]:
    if _has_modifier(placed.payload):
        yield "an extension that can change what the order means"


def _has_modifier(payload: Json) -> bool:
    parts: list[Any] = [payload]
    while parts:
        part = parts.pop()
        if isinstance(part, dict):
            if part.get("modifierExtension"):
                return True
            parts.extend(part.values())
        elif isinstance(part, list):
            parts.extend(part)
    return False


def _intends(placed: Placed) -> Iterator[str]:
    intent = placed.payload.get("intent")
    is_field = any(field.path == "intent" for field in placed.due.every(placed.chart))
    if not is_field and isinstance(intent, str) and intent.strip().lower() not in _ORDERS:
        yield f"{show(intent)} is no order"


# What is ordered


def _names_another(placed: Placed) -> Iterator[str]:
    """Each accepted code is compared with all that the order names. One that is not contradicted is enough."""
    concepts = list(_concepts(placed.payload))
    accepted = [code for code in placed.due.about if len(placed.due.about) == 1 or _has_code(concepts, code)]
    reasons = [next(_contradictions(concepts, code), None) for code in accepted]
    if reasons and all(reason is not None for reason in reasons):
        yield str(reasons[0])


def is_contradicted(due: DueOrder, payload: Any, chart: Chart) -> bool:
    """Whether an order names something else than the due order, in a code or a text."""
    order = as_object(payload)
    concepts = [concept for concept in _concepts(order) if concept.get("coding") or concept.get("text")]
    if next(_names_another(Placed(order, due, chart)), None) is not None:
        return True
    if any(_has_code(concepts, code) for code in due.about) or not concepts or not due.about:
        return False
    texts = [text for concept in concepts for text in _texts(concept)]
    known = [name for code in due.about for name in (*_names_of(code), spaced(code.name).lower()) if name]
    return not any(chart.mentions(spaced(text).lower(), *known) for text in texts)


def _names_of(code: Code) -> Iterator[str]:
    return (name for entry in entries_of(code) for name in entry.names)


def _texts(concept: Json) -> Iterator[str]:
    texts = (concept.get("text"), *(coding.get("display") for coding in objects(concept.get("coding"))))
    return (text for text in texts if isinstance(text, str))


def _has_code(concepts: Iterable[Json], code: Code) -> bool:
    return any(_is_code(coding, code) for concept in concepts for coding in objects(concept.get("coding")))


def _is_code(coding: Json, code: Code) -> bool:
    system, expected = system_of(coding.get("system")), system_of(code.system)
    return expected in ("", system) and is_same_code(system, coding.get("code"), code.code)


def _concepts(payload: Json) -> Iterator[Json]:
    """The concepts that say what is ordered, in the order itself and in a contained Medication."""
    yield as_object(payload.get("code"))
    yield as_object(payload.get("medicationCodeableConcept"))
    reference = as_object(payload.get("medicationReference"))
    yield {"text": reference.get("display")}
    medication = _contained(payload, reference)
    yield as_object(medication.get("code"))
    for ingredient in objects(medication.get("ingredient")):
        yield as_object(ingredient.get("itemCodeableConcept"))


def _contained(payload: Json, reference: Json) -> Json:
    """The contained resource to which a reference points; empty without one."""
    name = reference.get("reference")
    if not isinstance(name, str) or not name.startswith("#"):
        return {}
    for resource in objects(payload.get("contained")):
        if str(resource.get("id")).lstrip("#") == name.lstrip("#"):
            return resource
    return {}


def _contradictions(concepts: Sequence[Json], accepted: Code) -> Iterator[str]:
    known, own_name = entries_of(accepted), spaced(accepted.name).lower()
    for concept in concepts:
        codings = objects(concept.get("coding"))
        for coding in codings:
            yield from _other_code(coding, accepted, known)
        for text in (concept.get("text"), *(coding.get("display") for coding in codings)):
            named = named_in(text)
            if not known:  # a text about an unknown drug may contain words such as "sodium"
                named = frozenset(entry for entry in named if entry.kind == "drug" and not own_name)
            if named and named.isdisjoint(known):
                yield f"{show(text)} is {' or '.join(sorted(entry.name for entry in named))}"


def _other_code(coding: Json, accepted: Code, known: frozenset[Entry]) -> Iterator[str]:
    system, code = system_of(coding.get("system")), coding.get("code")
    if code is None or _is_code(coding, accepted):
        return
    entry = entry_of(system, code)
    if entry in known:
        return
    if entry is not None:
        yield f"the code {show(code)} is {entry}"
    elif accepted.code and system and system == system_of(accepted.system):
        yield f"the code {show(code)} is another one of {system}"


def entries_of(code: Code) -> frozenset[Entry]:
    """The entries of the table that a code means, by the code or its name, and those that share a name with them."""
    entry = entry_of(code.system, code.code) if code.code else None
    known = ({entry} if entry else set()) | named_in(code.name)
    names = frozenset[str]().union(*(entry.names for entry in known))
    return frozenset(entry for entry in entries() if not names.isdisjoint(entry.names))


# How much of it, and how


def _routes(placed: Placed) -> Iterator[str]:
    stated = [route_named(route.value) for route in placed.meanings(Route)]
    if not placed.gives:
        return
    parts = list(routes_in(placed.dosage.get("route"), stated[0] if stated else ""))
    text = routes_in_text(placed.dosage.get("text"))
    if not stated and len(parts) > 1 and not set.intersection(*parts):
        yield f"its parts mean {' and '.join(sorted(set.union(*parts)))}"
    expected = set(stated) or (parts[0] if parts else set())
    if text and expected and text.isdisjoint(expected):
        yield f"the text of the dosage means {' or '.join(sorted(text))}"


def _dosages(placed: Placed) -> Iterator[str]:
    if not placed.gives:
        return
    if len(objects(placed.payload.get("dosageInstruction"))) > 1:
        yield "a second dosage"
    rates = objects(placed.dosage.get("doseAndRate"))
    if len(rates) > 1:
        yield "a second dose"
    if any("doseRange" in rate or "rateRange" in rate for rate in rates):
        yield "a range of doses or rates"
    for amount in placed.meanings(Amount)[:1]:
        yield from _limits(placed.dosage, amount)


def _limits(dosage: Json, amount: Amount) -> Iterator[str]:
    """Limits in a dosage that are below the dose."""
    period = as_object(as_object(dosage.get("maxDosePerPeriod")).get("numerator"))
    for limit in (
        as_object(dosage.get("maxDosePerAdministration")),
        as_object(dosage.get("maxDosePerLifetime")),
        period,
    ):
        most = in_unit(limit, amount.unit, amount.valence)
        if most is not None and most < amount.value - amount.tolerance - 1e-9:
            yield f"a limit of {most:g} {amount.unit}, below the dose"


def _dose_in_text(placed: Placed) -> Iterator[str]:
    text, amounts = placed.dosage.get("text"), placed.meanings(Amount)
    if not (placed.gives and amounts and isinstance(text, str)):
        return
    unit, valence = amounts[0].unit, amounts[0].valence
    written = list(amounts_in(text, unit, valence))
    if written and not any(amount.is_near(number, placed.chart) for amount in amounts for number in written):
        yield f"the text of the dosage says {' and '.join(f'{number:g}' for number in written)} {unit}"


def _lasts(placed: Placed) -> Iterator[str]:
    overs = placed.meanings(Over)
    repeat = as_object(as_object(placed.dosage.get("timing")).get("repeat"))
    for name in ("duration", "durationMax"):
        hours = length_of(repeat, name)
        if overs and hours is not None and not any(over.lasts(hours) for over in overs):
            yield f"given over {hours:g} h"


# How often, and when


def _repeats(placed: Placed) -> Iterator[str]:
    if not placed.gives:
        return
    timings = [placed.dosage.get("timing"), placed.payload.get("occurrenceTiming")]
    stated = [every.frequency for every in placed.meanings(Every)] + [
        every.frequency for every in placed.due.may_repeat
    ]
    texts = [placed.dosage.get("text")]
    known = [frequency for timing in timings for frequency in frequencies(as_object(timing))]
    known += [frequency for text in texts if (frequency := frequency_in_text(text)) is not None]
    if stated:
        yield from (frequency_words(frequency) for frequency in known if frequency not in stated)
        return
    if all(as_object(as_object(timing).get("repeat")).get("count") != 1 for timing in timings):
        yield from map(frequency_words, known)
        yield from (reason for timing in timings for reason in _again(as_object(timing), placed))
    yield from _dispensed(placed)
    yield from (f"{show(value)} of it" for value in _quantities(placed.payload) if value != 1)


def _again(timing: Json, placed: Placed) -> Iterator[str]:
    """What makes a Timing more than one occurrence."""
    repeat = as_object(timing.get("repeat"))
    if len(_events(timing)) > 1:
        yield f"at {len(_events(timing))} times"
    for name in ("count", "countMax", "frequency", "frequencyMax"):
        if repeat.get(name, 1) != 1:
            yield f"{name} {show(repeat[name])}"
    for name in ("period", "periodMax", "dayOfWeek", "timeOfDay", "when"):
        if repeat.get(name):
            yield f"{name} {show(repeat[name])}"
    hours = in_unit(as_object(repeat.get("boundsDuration")), "h")
    if "boundsRange" in repeat or (hours is not None and not any(over.lasts(hours) for over in placed.meanings(Over))):
        yield "for a length of time"
    period = as_object(repeat.get("boundsPeriod"))
    start = moment_of(period.get("start"), placed.chart.now) or placed.chart.now
    end = moment_of(period.get("end"), placed.chart.now)
    if end is not None and end - start > _DAY:
        yield f"until {show(period['end'])}"


def _events(timing: Json) -> Sequence[Any]:
    """The times of a Timing that are listed one by one."""
    events = timing.get("event")
    return events if isinstance(events, list) else ()


def _dispensed(placed: Placed) -> Iterator[str]:
    """What a dispense request says that makes it more than one dose."""
    request = as_object(placed.payload.get("dispenseRequest"))
    if request.get("numberOfRepeatsAllowed") not in (None, 0):
        yield f"{show(request['numberOfRepeatsAllowed'])} refills"
    supply = in_unit(as_object(request.get("expectedSupplyDuration")), "h")
    if supply is not None and supply > 24:
        yield f"a supply for {supply / 24:g} days"
    course = as_object(placed.payload.get("courseOfTherapyType"))
    kinds = [coding.get("code") for coding in objects(course.get("coding"))]
    if "continuous" in kinds or "seasonal" in kinds:
        yield "a course that goes on"


def _quantities(payload: Json) -> Iterator[Any]:
    """How many of a service are ordered."""
    if "quantityQuantity" in payload:
        yield as_object(payload["quantityQuantity"]).get("value")
    yield from (payload[name] for name in ("quantityRatio", "quantityRange") if name in payload)


def _if_needed(placed: Placed) -> Iterator[str]:
    if not placed.gives or placed.due.as_needed:
        return
    for part in (placed.dosage, placed.payload):
        if part.get("asNeededBoolean") not in (None, False, "false") or part.get("asNeededCodeableConcept"):
            yield "only if it is needed"
    code = as_object(as_object(placed.dosage.get("timing")).get("code"))
    texts = [placed.dosage.get("text"), code.get("text")]
    texts += [coding.get(name) for coding in objects(code.get("coding")) for name in ("code", "display")]
    if any(isinstance(text, str) and _NEEDED.search(spaced(text)) for text in texts):
        yield "only if it is needed"


def _starts(placed: Placed) -> Iterator[str]:
    if not placed.gives:
        return
    timing = as_object(placed.dosage.get("timing"))
    for event in _events(timing):
        if not placed.is_now(event):
            yield f"at {show(event)}, not now"
    bounds = as_object(as_object(timing.get("repeat")).get("boundsPeriod"))
    validity = as_object(as_object(placed.payload.get("dispenseRequest")).get("validityPeriod"))
    for period in (bounds, validity):
        if "start" in period and not placed.is_now(period["start"]):
            yield f"from {show(period['start'])}, not now"
        end = moment_of(period.get("end"), placed.chart.now)
        if end is not None and end < placed.chart.now and not placed.is_now(period["end"]):
            yield f"until {show(period['end'])}, which is over"


def _occurs(placed: Placed) -> Iterator[str]:
    stated = [field.meaning for field in placed.due.every(placed.chart) if field.path == "occurrenceDateTime"]
    occurrences = list(_occurrences(placed.payload))
    for name, value in occurrences[1:] if stated else occurrences:  # the field is compared with the first one
        if not stated:
            is_due = (
                placed.is_now(value) if isinstance(value, str) else all(map(placed.is_now, as_object(value).values()))
            )
        else:
            is_due = any(meaning.accepts(value, placed.chart) for meaning in stated)
        if not is_due:
            yield f"{name} {show(value)}"


def _occurrences(payload: Json) -> Iterator[tuple[str, Any]]:
    for name in ("occurrenceDateTime", "occurrencePeriod"):
        if name in payload:
            yield name, payload[name]
    yield from (("occurrenceTiming", event) for event in _events(as_object(payload.get("occurrenceTiming"))))


# A measurement


def _measures(placed: Placed) -> Iterator[str]:
    """A second value of an Observation beside the recorded text, unless it is a part of it."""
    payload = placed.payload
    if payload.get("resourceType") != "Observation":
        return
    numbers = set(str(payload.get("valueString")).replace("/", " ").split())
    values = [payload.get("valueQuantity"), *(part.get("valueQuantity") for part in objects(payload.get("component")))]
    for quantity in values:
        if quantity is not None and f"{as_object(quantity).get('value')}".removesuffix(".0") not in numbers:
            yield f"another value, {show(quantity)}"
    if payload.get("dataAbsentReason"):
        yield "a reason why there is no value"


RULES: Mapping[str, Rule] = {
    _FORBIDS: _forbids,
    "modifierExtension": _extended,
    "intent": _intends,
    "code": _names_another,
    "route": _routes,
    "dosage": _dosages,
    "dose": _dose_in_text,
    "rate": _lasts,
    "repeat": _repeats,
    "asNeeded": _if_needed,
    "start": _starts,
    "occurrence": _occurs,
    "value": _measures,
}
"""The rules by the name that a verdict gives."""


def as_read(payload: Any, due: DueOrder, chart: Chart) -> Any:
    """The order with each thing in the place where a field of the due order looks for it: a contained Medication or
    Patient, a duration in a Timing, a time in a Period, the free text of a referral in its reason.
    """
    if not isinstance(payload, dict):
        return payload
    order = dict(payload)
    medication = _contained(payload, as_object(payload.get("medicationReference")))
    if "medicationCodeableConcept" not in order and medication.get("resourceType") == "Medication":
        order["medicationCodeableConcept"] = medication.get("code")
    patient = _contained(payload, as_object(payload.get("subject")))
    if patient.get("resourceType") == "Patient":
        order["subject"] = _by_identifiers(as_object(payload["subject"]), patient)
    occurrence = next((value for name, value in _occurrences(payload) if name != "occurrenceDateTime"), None)
    if occurrence is not None:
        order.setdefault("occurrenceDateTime", occurrence)
    if any(field.path == "note" for field in due.every(chart)):
        notes = [as_object(payload.get("note")), *objects(payload.get("note")), *objects(payload.get("reasonCode"))]
        order["note"] = [note for note in notes if note]
    return _with_rate(order, due, chart)


def _by_identifiers(subject: Json, patient: Json) -> Json:
    """A reference to a contained Patient as one by its identifier, if it has exactly one."""
    identifiers = objects(patient.get("identifier"))
    rest = {name: value for name, value in subject.items() if name != "reference"}
    return {"identifier": identifiers[0], **rest} if len(identifiers) == 1 else subject


def _with_rate(order: dict[str, Any], due: DueOrder, chart: Chart) -> dict[str, Any]:
    """The order with the duration of its Timing as the rate, if it has no other one and the due order states one."""
    placed = Placed(order, due, chart)
    rates = objects(placed.dosage.get("doseAndRate"))
    hours = length_of(as_object(as_object(placed.dosage.get("timing")).get("repeat")), "duration")
    if hours is None or not rates or not placed.meanings(Over) or any("rate" in name for name in rates[0]):
        return order
    rate = {**rates[0], "rateQuantity": {"value": hours, "unit": "h"}}
    dosages = [{**placed.dosage, "doseAndRate": [rate, *rates[1:]]}, *order["dosageInstruction"][1:]]
    return {**order, "dosageInstruction": dosages}
