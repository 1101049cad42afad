"""Due orders as templates: each field has a meaning, from which a right order is written and a post is compared."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from functools import lru_cache
from itertools import product
from typing import Any, NamedTuple

from refsol.changes import Change
from refsol.clinical.chart import Chart
from refsol.clinical.codes import Code, Drug
from refsol.clinical.meanings import (
    About,
    Amount,
    At,
    Authored,
    Coded,
    Is,
    Meaning,
    Names,
    Near,
    Note,
    OneOf,
    Over,
    Route,
    Unit,
    plain,
)
from refsol.clinical.order_rules import DRUG_ORDER, ENDINGS, as_read, entries_of, objections
from refsol.clinical.searches import drug_names
from refsol.clinical.timing import Every
from refsol.history import Post
from refsol.json_values import as_object
from refsol.verdict import MISSING, Check

_STEP = re.compile(r"\[(\d+)\]|([^.\[]+)")
_ACTIVE = Is("active")
_RATE = "dosageInstruction[0].doseAndRate[0]"


class Field(NamedTuple):
    """A requirement for the value at a path of an order (`dosageInstruction[0].route`; empty: the whole order)."""

    path: str
    meaning: Meaning
    optional: bool = False

    def check(self, payload: Any, kind: str, chart: Chart) -> Check:
        """Compare the field of a payload. The name of the check starts with `kind`, the expected resource type."""
        actual = lookup(payload, self.path)
        right = (self.optional and actual is MISSING) or chart.rules.accepts(self.meaning, actual, chart)
        return Check(f"{kind} {self.path}".strip(), right, self.meaning, actual)


@dataclass(frozen=True)
class Order:
    """A due post. `kinds` are the resource types that are right; the first one is written.

    `words` describe the order for people, with its dose and time.
    """

    kinds: tuple[str, ...]
    fields: tuple[Field, ...]
    words: str = ""
    ends: tuple[str, ...] = ()
    """The words of a drug that the order ends. Ending an active order in the chart counts as well."""
    about: tuple[Code, ...] = ()
    """What is ordered, each one a way in which it is right. What contradicts all of them is wrong."""
    may_repeat: tuple[Every, ...] = ()
    """How often it may be carried out, if it need not say so."""
    as_needed: bool = False
    """Whether it is carried out only if it is needed."""

    def is_met_by(self, change: Change, chart: Chart) -> bool:
        """Whether a change of the chart is what the order asks for: an active order of the drug was ended."""
        if not self.ends or change.before is None or change.after is None or not ends_drug(change):
            return False
        return chart.mentions("\n".join(drug_names(change.before)), *self.ends)

    @property
    def kind(self) -> str:
        """The resource type that is written."""
        return self.kinds[0]

    def every(self, chart: Chart) -> tuple[Field, ...]:
        """All fields, for the patient and the time of a chart."""
        return self.fields

    def json(self, chart: Chart) -> dict[str, Any]:
        """A right order."""
        body: dict[str, Any] = {"resourceType": self.kind}
        for field in self.every(chart):
            value = field.meaning.json()
            for step in reversed(steps(field.path)):
                value = {step: value} if isinstance(step, str) else [value]
            _merge(body, value)
        return body

    def checks(self, post: Post | None, chart: Chart) -> Iterator[Check]:
        """The checks of a post with the order. Without a post, all fail."""
        url, payload = (post.url, post.payload) if post else (MISSING, MISSING)
        by_meaning = chart.rules.by_meaning
        if chart.rules.urls:
            addresses = OneOf(*(chart.base + kind for kind in self.kinds))
            address = url.rstrip("/") if post and by_meaning else url
            yield Check(f"{self.kind} url", addresses.accepts(address, chart), addresses, url)
        kind = lookup(payload, "resourceType")
        yield Check(f"{self.kind} resourceType", kind in self.kinds, OneOf(*self.kinds), kind)
        order = as_read(payload, self, chart) if by_meaning else payload
        for field in self.every(chart):
            yield field.check(order, self.kind, chart)
        if by_meaning:
            yield from objections(self, payload, chart)

    @property
    def stated(self) -> tuple[str, ...]:
        """The texts that an instruction must contain, so that an agent can place the order without the chart."""
        return tuple(text for field in self.fields for text in field.meaning.stated)


@lru_cache(maxsize=256)  # rules have few paths, and each is looked up for every post
def steps(path: str) -> tuple[str | int, ...]:
    """The steps of a path: `a[0].b` is `a`, 0, `b`."""
    return tuple(int(number) if number else name for number, name in _STEP.findall(path))


def lookup(value: Any, path: str) -> Any:
    """The value at a path; MISSING if a step does not exist or has another type."""
    for step in steps(path):
        if isinstance(value, dict):
            value = value.get(step, MISSING)
        elif isinstance(value, list) and isinstance(step, int) and step < len(value):
            value = value[step]
        else:
            return MISSING
    return value


def _merge(body: dict[str, Any], more: Mapping[str, Any]) -> None:
    """Add JSON to JSON, in depth. Lists have one item."""
    for name, value in more.items():
        old = body.get(name)
        if isinstance(old, list) and isinstance(value, list):
            _merge(old[0], value[0])
        elif isinstance(old, dict) and isinstance(value, dict):
            _merge(old, value)
        else:
            body[name] = value


def ends_drug(change: Change) -> bool:
    """Whether a change ended an active drug order, or deleted it."""
    before = change.before or {}
    if before.get("resourceType") != DRUG_ORDER or before.get("status") != "active":
        return False
    return change.after is None or change.after.get("status") in ENDINGS


_INTENT = Field("intent", Is("order"))


@dataclass(frozen=True)
class Request(Order):
    """An order for the chart's patient, written now; `to` is how exactly its time is compared."""

    status: Meaning = _ACTIVE
    to: Unit = "minute"

    def every(self, chart: Chart) -> tuple[Field, ...]:
        return (
            *self.fields,
            Field("status", self.status),
            _INTENT,
            Field("subject", About(chart.patient)),
            Field("authoredOn", Authored(chart.now, self.to), optional=chart.rules.by_meaning),
        )


def _meant(argument: Any, wrap: Callable[[Any], Meaning]) -> Meaning:
    """What an argument of an order means: its own meaning, or `wrap` of a plain value. So do the values of `OneOf`."""
    if isinstance(argument, OneOf):
        return OneOf(*(_meant(meaning, wrap) for meaning in argument.value))
    return argument if isinstance(argument, Meaning) else wrap(argument)


def _numbers(argument: Any, tolerance: float = 0.0) -> list[Near]:
    """The numbers that an argument allows, each with its tolerance."""
    values = argument.value if isinstance(argument, OneOf) else (argument,)
    return [value if isinstance(value, Near) else Near(plain(value), tolerance) for value in values]


def _any(meanings: Sequence[Meaning]) -> Meaning:
    """Any of some meanings."""
    return meanings[0] if len(meanings) == 1 else OneOf(*meanings)


def _in_words(argument: Any, words: Callable[[Any], str] = str) -> str:
    """An argument in words. `words` describes a plain value."""
    if isinstance(argument, OneOf):
        return " or ".join(_in_words(value, words) for value in argument.value)
    return argument.expected if isinstance(argument, Meaning) else words(argument)


def _label(code: Code) -> str:
    return code.label


def _codes(argument: Any) -> tuple[Code, ...]:
    """The codes that an argument allows, by which an order is read. JSON that a rule states has none."""
    if isinstance(argument, OneOf):
        return tuple(code for option in argument.value for code in _codes(option))
    value = argument.value if isinstance(argument, Coded) else argument
    return (value,) if isinstance(value, Code) else ()


class Needed(Meaning):
    """A part of an order that says that it is carried out only if it is needed, with or without a reason."""

    def json(self) -> Any:
        return {"asNeededBoolean": True}

    def accepts(self, actual: Any, chart: Chart) -> bool:
        part = as_object(actual)
        return part.get("asNeededBoolean") is True or bool(part.get("asNeededCodeableConcept"))

    @property
    def expected(self) -> str:
        return "only if needed (asNeededBoolean true)"


def lab_test(
    code: Code | Meaning,
    at: datetime | Meaning | None = None,
    priority: str | Meaning | None = None,
    note: str | Meaning | None = None,
    *,
    to: Unit = "minute",
    repeat: timedelta | Meaning | None = None,
    as_needed: bool = False,
) -> Order:
    """A ServiceRequest for a test: its code, when it is due (equal to the minute or the hour), priority and note.

    With `repeat`, it is done again after each such length of time, instead of once; with `as_needed`, only if it is
    needed. Each may be a meaning instead of a value, here and in `medication`: `OneOf("urgent", "stat")`.
    """
    if at is not None and repeat is not None:
        raise ValueError("at and repeat: a test is due at one time or repeats; state one of them")
    fields = [Field("code", _meant(code, Coded))]
    words = f"order {_in_words(code, _label)}"
    if priority is not None:
        fields.append(Field("priority", _meant(priority, Is)))
    if at is not None:
        fields.append(Field("occurrenceDateTime", _meant(at, lambda time: At(time, to))))
        words += f" at {_in_words(at, lambda time: time.isoformat(timespec='minutes')[:16])}"
    if note is not None:
        fields.append(Field("note", _meant(note, Note)))
    words += _add_frequency(fields, repeat, as_needed, "occurrenceTiming", "")
    return Request(("ServiceRequest",), tuple(fields), words, about=_codes(code), as_needed=as_needed, to="second")


referral = imaging = lab_test
"""A ServiceRequest for a referral or for imaging has the same fields as one for a test."""


def _add_frequency(fields: list[Field], repeat: Any, as_needed: bool, timing: str, needed: str) -> str:
    """Add the fields for how often something is done, at these paths, and describe them."""
    words = ""
    if repeat is not None:
        every = _meant(repeat, Every)
        fields.append(Field(timing, every))
        words += f", {every.expected}"
    if as_needed:
        fields.append(Field(needed, Needed(None)))
        words += ", if needed"
    return words


def _valence(code: Code) -> int:
    """The valence of an electrolyte, by which mmol and mEq convert; 0 for any other drug."""
    return max((entry.valence for entry in entries_of(code)), default=0)


def medication(
    code: Code | Meaning,
    dose: float | Meaning,
    unit: str,
    route: str | Meaning | None = None,
    over: float | Meaning | None = None,
    tolerance: float | None = None,
    *,
    repeat: timedelta | Meaning | None = None,
    as_needed: bool = False,
) -> Order:
    """A MedicationRequest: the drug, a dose with its unit, a route, and the hours over which the dose is given.

    `tolerance` is the dose's; `Near(dose, tolerance)` says the same. The dose is given once, now; with `repeat`, again
    after each such length of time (`hours(8)`), and with `as_needed` only if it is needed.
    """
    doses, codes = _numbers(dose, tolerance or 0.0), _codes(code)
    valence = max(map(_valence, codes), default=0)
    fields = [Field("medicationCodeableConcept", _meant(code, Coded))]
    amounts = " or ".join(f"{number.value:.6g}" for number in doses)
    words = f"order {amounts} {unit} of {_in_words(code, _label)}"
    if route is not None:
        fields.append(Field("dosageInstruction[0].route", _meant(route, Route)))
        words += f", {_in_words(route)}"
    amount = _any([Amount(number.value, unit, number.tolerance, valence) for number in doses])
    fields.append(Field(f"{_RATE}.doseQuantity", amount))
    if over is not None:
        hours = _numbers(over)
        rates = [
            Over(number.value, unit, length.value, number.tolerance, length.tolerance, valence)
            for number, length in product(doses, hours)
        ]
        fields.append(Field(_RATE, _any(rates)))
        words += f" over {' or '.join(f'{length.value:g}' for length in hours)} h"
    words += _add_frequency(fields, repeat, as_needed, "dosageInstruction[0].timing", "dosageInstruction[0]")
    return Request((DRUG_ORDER,), tuple(fields), words, about=codes, as_needed=as_needed)


def stop(drug: Drug) -> Order:
    """A new MedicationRequest that names a drug and has a status that ends it. If writes are executed, an update or
    patch that ends the active order counts as well.
    """
    written = next(iter(drug.words), drug.name)
    if not written:
        raise ValueError(f"stop: the drug {drug.code} needs a name or words, by which its orders are recognised")
    names = Field("medicationCodeableConcept", Names({"text": written}, (drug.named_by,)))
    about = (Code(drug.code, drug.system, " ".join((drug.name, *drug.words))),)
    return Request(
        (DRUG_ORDER,), (names,), f"stop {drug.name or written}", drug.named_by, about, status=OneOf(*ENDINGS)
    )
