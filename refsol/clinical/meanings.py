"""What a value of a reply must mean: the JSON that a right reply has, and the forms that count as the same.

`json` writes the value; `accepts` compares a value by its clinical meaning. A rule set of a published grader may
compare a meaning in its own way (`RuleSet.forms`). A test never raises: a value that is missing or of another type
fails it.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any, ClassVar, Literal

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
        return any(_is_meant(one, actual, chart) for one in self.value)

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
        codings = objects(as_object(actual).get("coding"))
        system, code = self.value.system, self.value.code
        return any(one.get("code") == code and system in ("", one.get("system")) for one in codings)

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
    time to the second needs one.
    """

    to: Unit = "minute"

    def json(self) -> Any:
        return self.value.isoformat()

    def accepts(self, actual: Any, chart: Any) -> bool:
        zone, width = self.value.tzinfo, WIDTHS[self.to]
        try:
            moment = datetime.fromisoformat(actual)
            exact = moment.tzinfo is not None and actual[16:17] == ":"  # FHIR requires both, and the T
            own = moment.astimezone(zone) if moment.tzinfo else moment
        except (TypeError, ValueError, OverflowError):
            return False
        same = own.isoformat()[:width] == self.json()[:width]
        return same and actual[10:11] == "T" and (exact or self.to != "second")

    @property
    def expected(self) -> str:
        return show(self.json()) + ("" if self.to == "second" else f" (to the {self.to})")


class Instant(Meaning):
    """A time as the chart writes it; the same instant in another form counts."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        try:
            moments = [datetime.fromisoformat(one).replace(microsecond=0) for one in (actual, self.value)]
        except (TypeError, ValueError):
            return bool(actual == self.value)
        return moments[0] == moments[1]


class Route(Meaning):
    """A route of a drug: `IV`, `oral`, `SC` or `IM`, in any of its words, or any other as text. As a text, or as a
    CodeableConcept.
    """

    WORDS: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "IV": ("iv", "intravenous", "intravenous route"),
        "oral": ("oral", "oral route", "po"),
        "SC": ("sc", "subcutaneous", "subcutaneous route"),
        "IM": ("im", "intramuscular", "intramuscular route"),
    }
    CODES: ClassVar[Mapping[str, tuple[str, ...]]] = {
        "IV": ("47625008", "IV"),
        "oral": ("26643006", "PO"),
        "SC": ("34206005", "SQ"),
        "IM": ("78421000", "IM"),
    }
    """Codes of SNOMED CT and of HL7 v3 RouteOfAdministration."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        concept, own = as_object(actual), self.value.strip().lower()
        codings = objects(concept.get("coding"))
        texts = [actual, concept.get("text"), *(one.get("display") for one in codings)]
        route = next((name for name, words in self.WORDS.items() if own in words), "")
        words = self.WORDS.get(route, (own,))
        named = any(isinstance(text, str) and text.strip().lower() in words for text in texts)
        return named or any(one.get("code") in self.CODES.get(route, ()) for one in codings)


UCUM = "http://unitsofmeasure.org"
_REFERENCE = {"reference", "type", "identifier", "display"}
_QUANTITY = {"value", "unit", "system", "code"}
_SPELLINGS = {"mEq": ("meq",), "h": ("h", "hr", "hour", "hours"), "g": ("g", "gram", "grams")}
"""Other spellings of a unit, in lower case; UCUM's code is always accepted."""


def same_unit(quantity: Mapping[str, Any], unit: str) -> bool:
    """Whether a Quantity has this unit, as its text or as its UCUM code."""
    spellings = {unit.lower(), *_SPELLINGS.get(unit, ())}
    texts = [one for one in (quantity.get("unit"), quantity.get("code")) if one is not None]
    known = quantity.keys() <= _QUANTITY and quantity.get("system", UCUM) == UCUM
    return known and bool(texts) and all(isinstance(one, str) and one.lower() in spellings for one in texts)


@dataclass(frozen=True, slots=True)
class Amount(Meaning):
    """A Quantity: a number within a tolerance, and its unit, with or without the unit's system and code (UCUM)."""

    unit: str
    tolerance: float = 0.0

    def json(self) -> Any:
        value = round(float(self.value), 9)  # (3.5 - 3.1) / 0.1 * 10 is 40
        return {"value": int(value) if value.is_integer() else value, "unit": self.unit}

    def accepts(self, actual: Any, chart: Any) -> bool:
        quantity = as_object(actual)
        near = distance(quantity.get("value"), self.value) <= max(self.tolerance + chart.rules.slack, 1e-9)
        return near and same_unit(quantity, self.unit)

    @property
    def expected(self) -> str:
        return f"{self.value:.10g} {self.unit}" + (f" ± {self.tolerance}" if self.tolerance else "")


@dataclass(frozen=True, slots=True)
class Over(Meaning):
    """An amount given over some hours, at `doseAndRate`: as a duration, a rate per hour, or a ratio. The amount and the
    hours may each be off by a tolerance.
    """

    unit: str
    hours: float
    tolerance: float = 0.0
    hours_tolerance: float = 0.0

    def __post_init__(self) -> None:
        if not self.hours > self.hours_tolerance >= 0:
            raise ValueError(f"over={self.hours:g}: a dose is given over more than 0 hours; leave `over` out otherwise")

    def json(self) -> Any:
        return {"rateQuantity": {"value": self.hours, "unit": "h"}}

    def accepts(self, actual: Any, chart: Any) -> bool:
        dosage = as_object(actual)
        quantity, ratio = as_object(dosage.get("rateQuantity")), as_object(dosage.get("rateRatio"))
        if quantity:
            is_near = distance(quantity.get("value"), self.hours) <= self.hours_tolerance + 1e-9
            return (is_near and same_unit(quantity, "h")) or self._is_rate(quantity)
        numerator, denominator = as_object(ratio.get("numerator")), as_object(ratio.get("denominator"))
        length = denominator.get("value", 1)
        if not (same_unit(numerator, self.unit) and same_unit(denominator, "h")) or not _is_positive(length):
            return False
        return self._is_hourly(numerator.get("value"), length)

    def _is_rate(self, quantity: Mapping[str, Any]) -> bool:
        texts = [one for one in (quantity.get("unit"), quantity.get("code")) if one is not None]
        parts = [str(one).replace(" per ", "/").partition("/") for one in texts]
        units = bool(parts) and all(
            same_unit({"unit": unit.strip()}, self.unit) and same_unit({"unit": time.strip()}, "h")
            for unit, _, time in parts
        )
        return units and self._is_hourly(quantity.get("value"))

    def _is_hourly(self, actual: Any, length: float = 1.0) -> bool:
        """Whether a number is the amount that is given in a length of time in hours."""
        least = (self.value - self.tolerance) / (self.hours + self.hours_tolerance) * length
        most = (self.value + self.tolerance) / (self.hours - self.hours_tolerance) * length
        off = distance(actual, min(max(actual, least), most)) if isinstance(actual, int | float) else math.inf
        return off < 1e-6

    @property
    def expected(self) -> str:
        rate = f"{self.value / self.hours:g} {self.unit}/h"
        off = f" ± {self.hours_tolerance:g}" if self.hours_tolerance else ""
        return f"over {self.hours:g}{off} h (a rateQuantity of {self.hours:g} h, or {rate})"


def _is_positive(value: Any) -> bool:
    return isinstance(value, int | float) and 0 < value < math.inf


class Note(Meaning):
    """An Annotation, or a list of them, with a text that contains this text."""

    def json(self) -> Any:
        return {"text": self.value}

    def accepts(self, actual: Any, chart: Any) -> bool:
        notes = [as_object(actual), *objects(actual)]
        return any(isinstance(text := one.get("text"), str) and self.value in text for one in notes)

    @property
    def expected(self) -> str:
        return f"a text that contains {show(self.value)}"

    @property
    def stated(self) -> tuple[str, ...]:
        return (self.value,)


class About(Meaning):
    """A reference to a patient, relative or on this server; it may have a display, a type and an identifier."""

    def json(self) -> Any:
        return {"reference": f"Patient/{self.value}"}

    def accepts(self, actual: Any, chart: Any) -> bool:
        subject = as_object(actual)
        bases = ("", chart.base)
        same = subject.get("reference") in [f"{one}Patient/{self.value}" for one in bases]
        return same and subject.keys() <= _REFERENCE


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


@dataclass(frozen=True)
class RuleSet:
    """What a rule set accepts. The default accepts what a clinician would accept.

    `forms` compare a type of meaning as a published grader does; if `lenient`, the meaning's own forms count too.
    """

    name: str = "clinical"
    forms: Mapping[type[Meaning], Callable[[Any, Any], bool]] = field(default_factory=dict)
    lenient: bool = True
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
        if form is None:
            return meaning.accepts(actual, chart)
        return form(meaning, actual) or (self.lenient and meaning.accepts(actual, chart))


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
    return [plain(one) for one in value] if isinstance(value, list) else value


class Accepted(Meaning):
    """One of some accepted answers: JSON in which a value may be a meaning."""

    def accepts(self, actual: Any, chart: Any) -> bool:
        return any(_is_meant(one, actual, chart) for one in self.value)

    @property
    def expected(self) -> str:
        return " or ".join(map(_in_words, self.value))


def _is_meant(accepted: Any, actual: Any, chart: Any) -> bool:
    if isinstance(accepted, Meaning):
        return bool(chart.rules.accepts(accepted, actual, chart))
    if isinstance(accepted, list) and isinstance(actual, list):
        pairs = zip(accepted, actual, strict=False)
        return len(accepted) == len(actual) and all(_is_meant(one, other, chart) for one, other in pairs)
    return bool(accepted == actual)


def _in_words(value: Any) -> str:
    if isinstance(value, Meaning):
        return value.expected
    return f"[{', '.join(map(_in_words, value))}]" if isinstance(value, list) else show(value)
