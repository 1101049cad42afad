"""What a value of a reply must mean: the JSON that a right reply has, and the forms that count as the same.

`json` writes the value; `accepts` compares a value by its clinical meaning. A rule set of a published grader may
compare a meaning in its own way (`RuleSet.forms`). A test never raises: a value that is missing or of another type
fails it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any, Literal

from refsol.clinical.amounts import in_unit
from refsol.clinical.routes import route_named, routes_in
from refsol.clinical.vocabulary import is_same_code, spaced, system_of
from refsol.json_values import as_object, objects
from refsol.verdict import MISSING, show


@dataclass(frozen=True, slots=True)
class Meaning:
    """A requirement for one value: exactly this JSON value, or, in a subclass, what means the same."""

    value: Any

    def json(self) -> Any:
        """The value in a right reply."""
        return self.value

    def accepts(self, actual: Any, chart: Any) -> bool:
        """Whether a value means the same, for the patient and the rules of a `Chart`."""
        return bool(actual == self.json())

    @property
    def expected(self) -> str:
        """The requirement as text."""
        return show(self.json())

    @property
    def stated(self) -> tuple[str, ...]:
        """The texts that an instruction must contain, so that an agent can write the value without the chart."""
        return ()


Is = Meaning


class OneOf(Meaning):
    """One of some values, each JSON or a meaning; the first one is written."""

    def __init__(self, *values: Any) -> None:
        super().__init__(values)

    def json(self) -> Any:
        return plain(self.value[0])

    def accepts(self, actual: Any, chart: Any) -> bool:
        return any(_is_meant(meaning, actual, chart) for meaning in self.value)

    @property
    def expected(self) -> str:
        return " or ".join(map(_in_words, self.value))

    @property
    def stated(self) -> tuple[str, ...]:
        first = self.value[0]
        return first.stated if isinstance(first, Meaning) else ()


@dataclass(frozen=True, slots=True)
class Near(Meaning):
    """A number at most `tolerance` away."""

    tolerance: float

    def json(self) -> Any:
        return float(self.value)

    def accepts(self, actual: Any, chart: Any) -> bool:
        return bool(distance(actual, self.value) <= self.tolerance + chart.rules.slack)

    @property
    def expected(self) -> str:
        return f"{float(self.value)!r} ± {self.tolerance}"


class Coded(Meaning):
    """A CodeableConcept with this `Code` among its codings; with its system, if the code has one."""

    def json(self) -> Any:
        code = self.value
        coding = {"system": code.system, "code": code.code, "display": code.name}
        named = {"text": code.name} if code.name else {}
        return {"coding": [{name: value for name, value in coding.items() if value}], **named}

    def accepts(self, actual: Any, chart: Any) -> bool:
        expected, system = self.value.code, system_of(self.value.system)
        for coding in objects(as_object(actual).get("coding")):
            stated_system = system_of(coding.get("system"))
            if system in ("", stated_system) and is_same_code(stated_system, coding.get("code"), expected):
                return True
        return False

    @property
    def expected(self) -> str:
        return f"{self.value.system}|{self.value.code}"

    @property
    def stated(self) -> tuple[str, ...]:
        return (self.value.code,)


Unit = Literal["second", "minute", "hour"]
WIDTHS: Mapping[Unit, int] = {"second": 19, "minute": 16, "hour": 14}
"""The width of a time as text, to the second, minute or hour."""


@dataclass(frozen=True, slots=True)
class At(Meaning):
    """A time, equal to the second, the minute or the hour, in any zone. Without a zone it is in that of the task, but a
    time to the second needs one. A Period counts if it contains only this time.
    """

    to: Unit = "minute"

    def __post_init__(self) -> None:
        if self.to not in WIDTHS:
            raise ValueError(f"to={self.to!r}: use {', '.join(map(repr, WIDTHS))}")

    def json(self) -> Any:
        return self.value.isoformat()

    def accepts(self, actual: Any, chart: Any) -> bool:
        if isinstance(actual, dict):
            return self._is_only_in(actual, chart)
        zone, width = self.value.tzinfo, WIDTHS[self.to]
        try:
            moment = datetime.fromisoformat(actual)
            exact = moment.tzinfo is not None and actual[16:17] == ":"  # FHIR requires both, and the T
            local = moment.astimezone(zone) if moment.tzinfo else moment
        except (TypeError, ValueError, OverflowError):
            return False
        same = local.isoformat()[:width] == self.json()[:width]
        return same and actual[10:11] == "T" and (exact or self.to != "second")

    def _is_only_in(self, period: Mapping[str, Any], chart: Any) -> bool:
        """Whether a Period starts at this time and ends before the next one that differs from it."""
        if not self.accepts(period.get("start"), chart):
            return False
        end, start = moment_of(period.get("end"), self.value), moment_of(period.get("start"), self.value)
        if end is None or start is None or end < start:
            return False
        return end <= self._next or self.accepts(period.get("end"), chart)

    @property
    def _next(self) -> datetime:
        """The next full hour, minute or second."""
        length: dict[Unit, timedelta] = {
            "hour": timedelta(hours=1),
            "minute": timedelta(minutes=1),
            "second": timedelta(seconds=1),
        }
        zeros = {"hour": {"minute": 0, "second": 0}, "minute": {"second": 0}, "second": {}}
        start: datetime = self.value.replace(microsecond=0, **zeros[self.to])
        return start + length[self.to]

    @property
    def expected(self) -> str:
        return show(self.json()) + ("" if self.to == "second" else f" (to the {self.to})")


class Authored(At):
    """When an order was written: the minute, or the date alone. Published graders compare it as `to` says."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        return isinstance(actual, str) and (actual == self.json()[:10] or At(self.value).accepts(actual, chart))


def moment_of(text: Any, near: datetime) -> datetime | None:
    """A FHIR dateTime as a time with a zone, by default that of another time. A date is its start. None for any other
    value.
    """
    try:
        moment = datetime.fromisoformat(text)
    except (TypeError, ValueError):
        return None
    return moment if moment.tzinfo else moment.replace(tzinfo=near.tzinfo)


class Instant(Meaning):
    """A time as the chart writes it; the same instant in another form counts."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        try:
            moments = [datetime.fromisoformat(text).replace(microsecond=0) for text in (actual, self.value)]
        except (TypeError, ValueError):
            return bool(actual == self.value)
        return moments[0] == moments[1]


class Route(Meaning):
    """A route of a drug, such as `IV`, `oral`, `SC` or `IM`, in any of its words or codes, or any other as text. As a
    text, or as a CodeableConcept. No part of it may mean another route.
    """

    def accepts(self, actual: Any, chart: Any) -> bool:
        expected = route_named(self.value)
        parts = [expected in routes for routes in routes_in(actual, expected)]
        return bool(parts) and all(parts)


@dataclass(frozen=True, slots=True)
class Amount(Meaning):
    """A Quantity: a number within a tolerance, in this unit or another one that converts to it, with or without the
    unit's system and code (UCUM). `valence` converts mmol to mEq.
    """

    unit: str
    tolerance: float = 0.0
    valence: int = 0

    def json(self) -> Any:
        value = round(float(self.value), 9)  # (3.5 - 3.1) / 0.1 * 10 is 40
        return {"value": int(value) if value.is_integer() else value, "unit": self.unit}

    def accepts(self, actual: Any, chart: Any) -> bool:
        amount = self.of(actual)
        return amount is not None and self.is_near(amount, chart)

    def of(self, actual: Any) -> float | None:
        """The number of a Quantity in this unit; None if it does not convert."""
        return in_unit(as_object(actual), self.unit, self.valence)

    def is_near(self, amount: float, chart: Any) -> bool:
        """Whether a number in this unit is close enough."""
        least = max(1e-9, 1e-9 * abs(self.value))
        return bool(distance(amount, self.value) <= max(self.tolerance + chart.rules.slack, least))

    @property
    def expected(self) -> str:
        return f"{self.value:.10g} {self.unit}" + (f" ± {self.tolerance}" if self.tolerance else "")


_ROUNDED = 1e-3
"""How far a rate may be off, as a share: 16.67 mg/min is 1 g/h."""


@dataclass(frozen=True, slots=True)
class Over(Meaning):
    """An amount given over some hours, at `doseAndRate`: as a duration, a rate, or a ratio. The amount and the
    hours may each be off by a tolerance.
    """

    unit: str
    hours: float
    tolerance: float = 0.0
    hours_tolerance: float = 0.0
    valence: int = 0

    def __post_init__(self) -> None:
        if not self.hours > self.hours_tolerance >= 0:
            raise ValueError(f"over={self.hours:g}: a dose is given over more than 0 hours; leave `over` out otherwise")

    def json(self) -> Any:
        return {"rateQuantity": {"value": self.hours, "unit": "h"}}

    def accepts(self, actual: Any, chart: Any) -> bool:
        dosage = as_object(actual)
        tests = {"rateQuantity": self._is_quantity, "rateRatio": self._is_ratio}
        parts = [test(as_object(dosage[name])) for name, test in tests.items() if dosage.get(name)]
        return bool(parts) and all(parts)

    def _is_quantity(self, quantity: Mapping[str, Any]) -> bool:
        hours = in_unit(quantity, "h")
        if hours is not None:
            return self.lasts(hours)
        rate = in_unit(quantity, f"{self.unit}/h", self.valence)
        return rate is not None and self._is_given(rate, 1.0)

    def _is_ratio(self, ratio: Mapping[str, Any]) -> bool:
        below = as_object(ratio.get("denominator"))
        amount = in_unit(as_object(ratio.get("numerator")), self.unit, self.valence)
        hours = in_unit({"value": 1, **below}, "h")
        return amount is not None and hours is not None and hours > 0 and self._is_given(amount, hours)

    def lasts(self, hours: float) -> bool:
        """Whether a dose that is given over these hours is this one."""
        return distance(hours, self.hours) <= self.hours_tolerance + 1e-9

    def _is_given(self, amount: float, hours: float) -> bool:
        """Whether an amount in some hours is this rate, which may be rounded."""
        least = (self.value - self.tolerance) / (self.hours + self.hours_tolerance) * hours
        most = (self.value + self.tolerance) / (self.hours - self.hours_tolerance) * hours
        return bool(distance(amount, min(max(amount, least), most)) <= _ROUNDED * most)

    @property
    def expected(self) -> str:
        rate = f"{self.value / self.hours:g} {self.unit}/h"
        off = f" ± {self.hours_tolerance:g}" if self.hours_tolerance else ""
        return f"over {self.hours:g}{off} h (a rateQuantity of {self.hours:g} h, or {rate})"


_REFERENCE = {"reference", "type", "identifier", "display"}
_PATIENT_TYPES = ("Patient", "http://hl7.org/fhir/StructureDefinition/Patient")


class Note(Meaning):
    """An Annotation, or a list of them, with a text that contains this text, with any spaces and line breaks."""

    def json(self) -> Any:
        return {"text": self.value}

    def accepts(self, actual: Any, chart: Any) -> bool:
        notes = [as_object(actual), *objects(actual)]
        return any(isinstance(text := note.get("text"), str) and spaced(self.value) in spaced(text) for note in notes)

    @property
    def expected(self) -> str:
        return f"a text that contains {show(self.value)}"

    @property
    def stated(self) -> tuple[str, ...]:
        return (self.value,)


class About(Meaning):
    """A reference to a patient, relative or on this server, or by an identifier of the patient; or both. It may have a
    display, which is not judged.
    """

    def json(self) -> Any:
        return {"reference": f"Patient/{self.value}"}

    def accepts(self, actual: Any, chart: Any) -> bool:
        subject = as_object(actual)
        reference, identifier = subject.get("reference"), subject.get("identifier")
        if not subject.keys() <= _REFERENCE or subject.get("type", "Patient") not in _PATIENT_TYPES:
            return False
        if reference is None and identifier is None:
            return False
        is_reference = reference is None or self._is_reference(reference, chart)
        return is_reference and (identifier is None or self._is_identifier(identifier, chart))

    def _is_reference(self, reference: Any, chart: Any) -> bool:
        if not isinstance(reference, str):
            return False
        path = reference.removeprefix(chart.base) if chart.base else reference
        if path.startswith("Patient?identifier="):
            return path.partition("=")[2].rpartition("|")[2] in chart.identifiers
        return path.partition("/_history/")[0] == f"Patient/{self.value}"

    def _is_identifier(self, identifier: Any, chart: Any) -> bool:
        value = as_object(identifier).get("value")
        return isinstance(value, str) and value in chart.identifiers


@dataclass(frozen=True, slots=True)
class Names(Meaning):
    """JSON whose text names all of some words; a tuple of words are alternatives. Words in lower case count in
    any case. The value is what a right reply has, because a search for words cannot write one.
    """

    words: tuple[str | tuple[str, ...], ...]

    def accepts(self, actual: Any, chart: Any) -> bool:
        text, spelled = "" if actual is MISSING else str(actual), str(self.words)
        if spelled == spelled.lower():
            text = text.lower()
        return all(chart.mentions(text, *([word] if isinstance(word, str) else word)) for word in self.words)

    @property
    def expected(self) -> str:
        words = (show(word) if isinstance(word, str) else " or ".join(map(show, word)) for word in self.words)
        return f"a text with {' and '.join(words)}"


VERSION = "2"
"""The version of the rules by which an order is judged by its meaning. In version 1, an order was right if its fields
were, whatever else it said.
"""


@dataclass(frozen=True)
class RuleSet:
    """What a rule set accepts. The default judges an order by its meaning, as a pharmacist would read it.

    `forms` compare a type of meaning as a published grader does.
    """

    name: str = "clinical"
    version: str = VERSION
    forms: Mapping[type[Meaning], Callable[[Any, Any], bool]] = field(default_factory=dict)
    by_meaning: bool = True
    """Whether an order is also wrong because of what it says besides its fields: that it is not to be given, …"""
    slack: float = 1e-9
    """How much more than its tolerance a number may be off, because 4.2 - 4.1 is more than 0.1 in floating point."""
    urls: bool = False
    """Whether the URL of a post and the time of an order are compared."""
    in_order: bool = False
    """Whether several posts must have the order of the due ones."""
    prose_counts: bool = False
    """Whether the word POST anywhere in a message is an attempt."""
    stored: bool = False
    """Whether posts are read from what the server stored."""

    def accepts(self, meaning: Meaning, actual: Any, chart: Any) -> bool:
        """Whether a value has a meaning."""
        form = self.forms.get(type(meaning))
        return meaning.accepts(actual, chart) if form is None else form(meaning, actual)


CLINICAL = RuleSet()
"""The rules of own task types."""


def distance(actual: Any, expected: float) -> float:
    """The distance of a number from the expected one; infinite if it is not a number or is too large."""
    try:
        return abs(float(actual - expected)) if isinstance(actual, int | float) else math.inf
    except OverflowError:
        return math.inf


def plain(value: Any) -> Any:
    """An accepted answer as JSON: each meaning in it is replaced by the value that it writes."""
    if isinstance(value, Meaning):
        return value.json()
    return [plain(element) for element in value] if isinstance(value, list) else value


class Accepted(Meaning):
    """One of some accepted answers: JSON in which a value may be a meaning."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        return any(_is_meant(answer, actual, chart) for answer in self.value)

    @property
    def expected(self) -> str:
        return " or ".join(map(_in_words, self.value))


def _is_meant(accepted: Any, actual: Any, chart: Any) -> bool:
    if isinstance(accepted, Meaning):
        return bool(chart.rules.accepts(accepted, actual, chart))
    if isinstance(accepted, list) and isinstance(actual, list):
        pairs = zip(accepted, actual, strict=False)
        return len(accepted) == len(actual) and all(_is_meant(expected, value, chart) for expected, value in pairs)
    return bool(accepted == actual)


def _in_words(value: Any) -> str:
    if isinstance(value, Meaning):
        return value.expected
    return f"[{', '.join(map(_in_words, value))}]" if isinstance(value, list) else show(value)
