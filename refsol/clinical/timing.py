"""How often an order is carried out: FHIR's Timing, its codes, and the words for it in a text."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import timedelta
from fractions import Fraction
from typing import Any

from refsol.clinical.amounts import in_unit
from refsol.clinical.meanings import Meaning
from refsol.clinical.units import amount_in
from refsol.clinical.vocabulary import spaced
from refsol.json_values import as_object, is_number, objects

_DAY = Fraction(24)
_CODES: Mapping[str, Fraction] = {
    "QD": 1 / _DAY,
    "AM": 1 / _DAY,
    "PM": 1 / _DAY,
    "QHS": 1 / _DAY,
    "BED": 1 / _DAY,
    "DAILY": 1 / _DAY,
    "NIGHTLY": 1 / _DAY,
    "BID": 2 / _DAY,
    "TID": 3 / _DAY,
    "QID": 4 / _DAY,
    "QOD": 1 / (2 * _DAY),
    "HOURLY": Fraction(1),
    "WK": 1 / (7 * _DAY),
    "WEEKLY": 1 / (7 * _DAY),
    "MO": 1 / (30 * _DAY),
    "MONTHLY": 1 / (30 * _DAY),
}
"""Times an hour by code (HL7 v3 GTSAbbreviation) or word, in capitals."""
_COUNTS = {"once": 1, "one": 1, "twice": 2, "two": 2, "three": 3, "four": 4, "six": 6}
_COUNT = rf"(\d+|{'|'.join(_COUNTS)})"
_PERIOD = r"(minute|min|hour|hr|h|day|d|week|wk|month|morning|evening|night)s?"
_TIMES_A = re.compile(rf"\b{_COUNT}\s*(?:x|times)?\s*(?:a|an|per|each|every|/)\s*(minute|hour|day|week|month)\b")
_TIMES_DAILY = re.compile(rf"\b{_COUNT}\s*(?:x|times)?\s*daily\b")
_EVERY = re.compile(rf"\b(?:q|every|each)\s*(\d+(?:\.\d+)?|other)?\s*(?:-|–|to)?\s*(?:\d+)?\s*{_PERIOD}\b")
_WORD = re.compile(rf"(?<![\w.])(?:{'|'.join(map(str.lower, _CODES))}|at bedtime)(?!\w)")
_A_DAY = re.compile(r"(?:/|\bper |\ba )\s*(day|d|week|wk|month)\b")
_LENGTH = re.compile(r"\b(?:for|x|times)\s*(\d+)\s*(day|week|month|dose)s?\b")
_HOURS = {
    **dict.fromkeys(("minute", "min"), Fraction(1, 60)),
    **dict.fromkeys(("hour", "hr", "h"), Fraction(1)),
    **dict.fromkeys(("day", "d", "morning", "evening", "night"), _DAY),
    **dict.fromkeys(("week", "wk"), 7 * _DAY),
    "month": 30 * _DAY,
}


def frequency_in_text(text: Any) -> Fraction | None:
    """How often an hour a text says that something is done; None if it does not say, or says once."""
    words = re.sub(r"\b([bqt])\.?i\.?d\b\.?", r"\1id", spaced(text).lower()) if isinstance(text, str) else ""
    if match := _TIMES_DAILY.search(words):
        return _number(match[1]) / _DAY
    if match := _TIMES_A.search(words):
        return _number(match[1]) / _HOURS[match[2]]
    if match := _EVERY.search(words):
        number = Fraction(2) if match[1] == "other" else Fraction(match[1] or 1)
        return 1 / (number * _HOURS[match[2]]) if number else None
    if match := _WORD.search(words):
        return _CODES.get(match[0].upper(), 1 / _DAY)
    if match := _A_DAY.search(words):
        return 1 / _HOURS[match[1]]
    if (match := _LENGTH.search(words)) and int(match[1]) > 1:
        return 1 / _DAY  # more than one dose, without saying how often
    return None


def _number(text: str) -> Fraction:
    return Fraction(_COUNTS.get(text) or text)


def frequencies(timing: Mapping[str, Any]) -> Iterator[Fraction]:
    """How often an hour a Timing says that something is done, by each of its parts that says so."""
    repeat, code = as_object(timing.get("repeat")), as_object(timing.get("code"))
    period, count = repeat.get("period", 0), repeat.get("frequency", 1)
    if is_number(period) and is_number(count) and period > 0:
        hours = amount_in({"value": period, "unit": repeat.get("periodUnit", "d")}, "h")
        if hours:
            yield Fraction(str(count)) / hours
    codings = objects(code.get("coding"))
    for text in (code.get("text"), *(coding.get(name) for coding in codings for name in ("code", "display"))):
        if (frequency := frequency_in_text(text)) is not None:
            yield frequency


def frequency_words(frequency: Fraction) -> str:
    """`every 8 h`."""
    return f"every {float(1 / frequency):g} h"


class Every(Meaning):
    """A Timing that repeats after a length of time: as a frequency and a period, or as a code such as `Q8H`."""

    @property
    def frequency(self) -> Fraction:
        """Times an hour."""
        length: timedelta = self.value
        return 1 / (Fraction(length // timedelta(seconds=1)) / 3600)

    def json(self) -> Any:
        hours = float(1 / self.frequency)
        period: dict[str, Any] = (
            {"period": hours / 24, "periodUnit": "d"} if hours % 24 == 0 else {"period": hours, "periodUnit": "h"}
        )
        whole = {**period, "period": int(period["period"])} if period["period"].is_integer() else period
        return {"repeat": {"frequency": 1, **whole}}

    def accepts(self, actual: Any, chart: Any) -> bool:
        parts = list(frequencies(as_object(actual)))
        return bool(parts) and all(part == self.frequency for part in parts)

    @property
    def expected(self) -> str:
        return frequency_words(self.frequency)


def length_of(repeat: Mapping[str, Any], name: str) -> float | None:
    """The hours of `duration` or `durationMax` of a Timing; None if it has none."""
    return in_unit({"value": repeat.get(name), "unit": repeat.get("durationUnit", "h")}, "h")
