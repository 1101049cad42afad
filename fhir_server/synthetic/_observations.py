"""Observations as lines of compact JSON, in the format that the benchmark's server returns.

Most resources of a hospital are observations. So parts of a line are rendered once per test, per reference range and
per patient.
"""

from __future__ import annotations

from functools import cache
from typing import NamedTuple

from fhir_server.synthetic._catalog import TESTS
from fhir_server.synthetic._clock import HospitalClock

_TERMS = "http://terminology.hl7.org/CodeSystem/"
_UNITS = "http://unitsofmeasure.org"
_CATEGORIES = {
    "lab": f'"system":"{_TERMS}observation-category","code":"laboratory","display":"Laboratory"',
    "vital": '"system":"http://hl7.org/fhir/observation-category","code":"vital-signs","display":"Vital Signs"',
    "output": f'"system":"{_TERMS}observation-category","code":"survey","display":"Fluid output"',
    "procedure": f'"system":"{_TERMS}observation-category","code":"procedure","display":"Procedure"',
}
Limits = tuple[str | None, ...]
"""The lower and upper end of a reference range, as shown."""


class Reading(NamedTuple):
    """An observation before it is rendered. `value` is JSON, `encounter` is an id or "".

    `delay`: minutes until a laboratory result is issued. `stored`: the time of `lastUpdated`, if it is not the time of
    the next batch (`HospitalClock.stored`).
    """

    code: str
    status: str
    time: int
    value: str
    encounter: str
    category: str
    delay: int = 0
    stored: int | None = None


def observation(clock: HospitalClock, id: str, subject_text: str, reading: Reading) -> str:
    """A reading as a line of JSON."""
    taken = clock.text(reading.time)
    known = min(reading.time + reading.delay, -1)
    issued = f'"issued":"{clock.text(known)}",' if reading.delay else ""
    stamp = clock.stored(known) if reading.stored is None else clock.text(reading.stored).replace("+", ".000+")
    where = f'"encounter":{{"reference":"Encounter/{reading.encounter}"}},' if reading.encounter else ""
    return (
        f'{{"resourceType":"Observation","id":"{id}","meta":{{"lastUpdated":"{stamp}"}},'
        f'{_head(reading.code, reading.status, reading.category)}"subject":{subject_text},{where}'
        f'"effectiveDateTime":"{taken}",{issued}{reading.value}}}'
    )


@cache
def _head(code: str, status: str, category: str) -> str:
    about = f'{{"system":"http://loinc.org","code":"{code}","display":"{code}"}}'
    return (
        f'"status":"{status}","category":[{{"coding":[{{{_CATEGORIES[category]}}}]}}],'
        f'"code":{{"coding":[{about}],"text":"{code}"}},'
    )


@cache
def _quantity(unit: str) -> str:
    return f',"unit":"{unit}","system":"{_UNITS}","code":"{unit}"}}'


_FORMS = tuple(f"{{:.{decimals}f}}".format for decimals in range(4))


def shown(value: float, decimals: int) -> str:
    """A value with this number of decimals."""
    return _FORMS[decimals](value)


@cache
def limits(code: str, gender: str) -> Limits:
    """The reference range of a test for a gender, as shown."""
    test = TESTS[code]
    return tuple(None if steps is None else shown(steps, test.decimals) for steps in test.reference(gender))


def quantity(text: str, unit: str, comparator: str = "") -> str:
    """`valueQuantity`. `text` is the number as written in JSON."""
    bound = f',"comparator":"{comparator}"' if comparator else ""
    return f'"valueQuantity":{{"value":{text}{bound}{_quantity(unit)}'


def result(text: str, unit: str, ends: Limits, comparator: str = "") -> str:
    """A laboratory value with its interpretation and reference range."""
    return quantity(text, unit, comparator) + _range(flag(text, ends), unit, ends)


@cache
def _numbers(ends: Limits) -> tuple[float, float]:
    low, high = ends
    return float(low or "-inf"), float(high or "inf")


def flag(text: str, ends: Limits) -> str:
    """`L`, `H` or `N`, by the reference range."""
    low, high = _numbers(ends)
    value = float(text)
    if value < low:
        return "L"
    return "H" if value > high else "N"


@cache
def _range(mark: str, unit: str, ends: Limits) -> str:
    named = zip(("low", "high"), ends, strict=True)
    bounds = ",".join(f'"{name}":{{"value":{end},"unit":"{unit}"}}' for name, end in named if end is not None)
    coding = f'{{"system":"{_TERMS}v3-ObservationInterpretation","code":"{mark}"}}'
    return f',"interpretation":[{{"coding":[{coding}]}}],"referenceRange":[{{{bounds}}}]'


def text_value(text: str) -> str:
    return f'"valueString":"{text}"'


@cache
def absent() -> str:
    """`dataAbsentReason` of a hemolyzed specimen."""
    coding = f'{{"system":"{_TERMS}data-absent-reason","code":"error","display":"Error"}}'
    return f'"dataAbsentReason":{{"coding":[{coding}],"text":"Specimen hemolyzed"}}'
