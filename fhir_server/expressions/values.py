"""FHIRPath's own values that Python does not have: dates and times of any precision, and amounts with a unit.

Booleans, integers, decimals and texts are Python's.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from datetime import datetime, timedelta
from decimal import Decimal
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple, TypeAlias

from fhir_server.expressions.errors import FhirPathError
from fhir_server.expressions.parser import CALENDAR
from fhir_server.expressions.units import comparable, unit

_DATE = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d)(?::(\d\d)(?::(\d\d(?:\.\d+)?))?)?(Z|[+-]\d\d:\d\d)?)?)?)?(T?)", re.ASCII
)
_TIME = re.compile(r"T?(\d\d)(?::(\d\d)(?::(\d\d(?:\.\d+)?))?)?", re.ASCII)
_HIGHEST: tuple[int | Decimal, ...] = (9999, 12, 31, 23, 59, Decimal("59.999"))
_LOWEST: tuple[int | Decimal, ...] = (1, 1, 1, 0, 0, Decimal("00.000"))
_FURTHEST = timedelta(hours=14)
"""No time zone is further from UTC."""
_SECONDS: dict[str, int | Fraction] = {
    "week": 604_800,
    "day": 86_400,
    "hour": 3600,
    "minute": 60,
    "second": 1,
    "millisecond": Fraction(1, 1000),
}
_CODES = {"week": "wk", "day": "d", "hour": "h", "minute": "min", "second": "s", "millisecond": "ms"}
"""The calendar's units that always have the same length, each with its code in UCUM."""
_BY_CODE = {code: name for name, code in _CODES.items()}


class Moment(NamedTuple):
    """A date, a date with time, or a time (`kind`: `Date`, `DateTime`, `Time`), as precise as it was written.

    `fields` are year, month, day, hour, minute and second, or hour, minute and second of a time. `offset` is that from
    UTC in minutes.
    """

    kind: str
    fields: tuple[int | Decimal, ...]
    offset: int | None = None

    def __str__(self) -> str:
        if self.kind == "Time":
            return _clock(self.fields)
        date = "-".join(f"{number:0{width}}" for number, width in zip(self.fields[:3], (4, 2, 2), strict=False))
        if self.kind == "Date" or len(self.fields) < 4:
            return date
        return f"{date}T{_clock(self.fields[3:])}{_zone(self.offset)}"

    @property
    def digits(self) -> int:
        """The digits that it is written with, as `precision()` counts them."""
        return len(re.sub(r"\D", "", str(self._replace(offset=None))))


class Quantity(NamedTuple):
    """An amount. `unit` is a code of UCUM, or a calendar's unit such as `days`."""

    value: Decimal
    unit: str

    def __str__(self) -> str:
        return f"{self.value:f} {self.unit}" if calendar(self.unit) else f"{self.value:f} '{self.unit}'"

    @property
    def code(self) -> str:
        """The unit as UCUM has it. A calendar's months and years do not have a code."""
        name = calendar(self.unit)
        return _CODES.get(name, name) if name else self.unit

    def amount(self) -> Fraction:
        """The value in base units, for amounts whose units are comparable."""
        return Fraction(self.value) * (12 if self.code == "year" else unit(self.code).factor)

    def is_comparable(self, second: Quantity) -> bool:
        """Whether the units of both measure the same. The months of a calendar are not those of UCUM."""
        months = [quantity.code in ("year", "month") for quantity in (self, second)]
        return all(months) if any(months) else comparable(self.code, second.code)


Value: TypeAlias = bool | int | Decimal | str | Moment | Quantity


def calendar(text: str) -> str:
    """The singular of a calendar's unit; otherwise an empty text."""
    name = text.removesuffix("s")
    return name if name in CALENDAR else ""


def _clock(fields: Sequence[int | Decimal]) -> str:
    parts = [f"{number:02}" for number in fields[:2]]
    if len(fields) > 2:
        whole, point, fraction = f"{fields[2]:f}".partition(".")
        parts.append(f"{whole:0>2}{point}{fraction}")
    return ":".join(parts)


def _zone(offset: int | None) -> str:
    if offset is None:
        return ""
    if offset == 0:
        return "Z"
    hours, minutes = divmod(abs(offset), 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


@lru_cache(maxsize=4096)
def moment(text: str, kind: str) -> Moment | None:
    """A moment from its text; None if the text is not one of that kind."""
    if kind == "Time":
        match = _TIME.fullmatch(text)
        fields = _numbers(match.groups()) if match else ()
        return Moment(kind, fields) if fields and _is_time(fields) else None
    match = _DATE.fullmatch(text)
    if match is None or (kind == "Date" and (match[4] or match[8])):
        return None
    fields = _numbers(match.groups()[:6])
    year, month, day = (int(number) for number in (*fields[:3], *_LOWEST[len(fields) : 3]))
    try:
        datetime(year, month, day)  # only checks the date
    except ValueError:
        return None
    return Moment(kind, fields, _minutes(match[7])) if _is_time(fields[3:]) else None


def _numbers(texts: Sequence[str | None]) -> tuple[int | Decimal, ...]:
    return tuple(Decimal(text) if index == len(texts) - 1 else int(text) for index, text in enumerate(texts) if text)


def _is_time(fields: Sequence[int | Decimal]) -> bool:
    return all(number < limit for number, limit in zip(fields, (24, 60, 60), strict=False))


def _minutes(zone: str | None) -> int | None:
    if not zone:
        return None
    if zone == "Z":
        return 0
    minutes = int(zone[1:3]) * 60 + int(zone[4:])
    return -minutes if zone[0] == "-" else minutes


def _shifted(instant: Moment, delta: timedelta) -> tuple[int | Decimal, ...]:
    """The fields of a date with time after so long."""
    year, month, day, hour, *rest = instant.fields
    minute = int(rest[0]) if rest else 0
    try:
        later = datetime(int(year), int(month), int(day), int(hour), minute) + delta  # in UTC
    except OverflowError as error:
        raise FhirPathError(f"{instant} is too far from today") from error
    fields = (later.year, later.month, later.day, later.hour, later.minute, *rest[1:])
    return fields[: len(instant.fields)]


def in_utc(instant: Moment) -> Moment:
    """The same moment in UTC, if its time zone is known."""
    if not instant.offset or len(instant.fields) < 4:
        return instant
    return Moment(instant.kind, _shifted(instant, timedelta(minutes=-instant.offset)), 0)


def compared(left: Moment, right: Moment) -> int | None:
    """-1, 0 or 1; None if it is unknown, since one is less precise, or only one has a time zone.

    Raises:
        FhirPathError: one is a time without a date, the other is not.
    """
    if (left.kind == "Time") != (right.kind == "Time"):
        raise FhirPathError(f"{left} and {right} do not compare")
    if len(left.fields) > 3 and len(right.fields) > 3 and (left.offset is None) != (right.offset is None):
        return _compared_zoneless(left, right)
    if len(left.fields) > 3 and len(right.fields) > 3:
        left, right = in_utc(left), in_utc(right)
    return _compared_fields(left.fields, right.fields)


def _compared_fields(left: tuple[int | Decimal, ...], right: tuple[int | Decimal, ...]) -> int | None:
    for one_field, other_field in zip(left, right, strict=False):
        if one_field != other_field:
            return -1 if one_field < other_field else 1
    return 0 if len(left) == len(right) else None


def _compared_zoneless(left: Moment, right: Moment) -> int | None:
    """The comparison of a moment in a time zone with one in an unknown zone."""
    if left.offset is None:
        result = _compared_zoneless(right, left)
        return None if result is None else -result
    fields = in_utc(left).fields
    if _compared_fields(fields, _shifted(right, -_FURTHEST)) == -1:
        return -1
    return 1 if _compared_fields(fields, _shifted(right, _FURTHEST)) == 1 else None


def added(start: Moment, quantity: Quantity, sign: int) -> Moment:
    """A moment after (`sign` 1) or before (-1) an amount of time. Its precision stays.

    Raises:
        FhirPathError: the unit is not one of a calendar or of a fixed length, or the date leaves years 1 to 9999.
    """
    name = calendar(quantity.unit) or _BY_CODE.get(quantity.unit, "")
    if not name:
        raise FhirPathError(f"{quantity} cannot be added to a date or a time")
    if start.kind == "Time":
        return _added_to_time(start, name, quantity.value * sign)
    if name in ("year", "month"):
        return _added_months(start, int(quantity.value) * (12 if name == "year" else 1) * sign)
    return _added_seconds(start, name, quantity.value, sign)


def _added_seconds(start: Moment, name: str, value: Decimal, sign: int) -> Moment:
    amount = Fraction(int(value)) * Fraction(_SECONDS[name])
    second = start.fields[5] if len(start.fields) > 5 else Decimal(0)
    total = Fraction(second) + amount * sign
    whole = total.numerator // total.denominator
    year, month, day, hour, minute = (int(number) for number in (*start.fields[:5], *_LOWEST[len(start.fields) : 5]))
    try:
        later = datetime(year, month, day, hour, minute) + timedelta(seconds=whole)  # in its own zone
    except OverflowError as error:
        raise FhirPathError(f"{start} and {value} {name}s: outside the years 1 to 9999") from error
    rest = total - whole
    fraction = Decimal(rest.numerator) / Decimal(rest.denominator)
    exact = Decimal(later.second) + fraction
    digits = max(-int(Decimal(second).as_tuple().exponent), 3 if fraction else 0)
    fields = (later.year, later.month, later.day, later.hour, later.minute, exact.quantize(Decimal(1).scaleb(-digits)))
    return start._replace(fields=fields[: len(start.fields)])


def _added_months(start: Moment, months: int) -> Moment:
    year, month, day = (int(number) for number in (*start.fields[:3], *_LOWEST[len(start.fields) : 3]))
    years, index = divmod(year * 12 + month - 1 + months, 12)
    if not 1 <= years <= 9999:
        raise FhirPathError(f"{start} and {months} months: outside the years 1 to 9999")
    fields = (years, index + 1, min(day, last_day(years, index + 1)), *start.fields[3:])
    return start._replace(fields=fields[: len(start.fields)])


def _added_to_time(start: Moment, name: str, value: Decimal) -> Moment:
    if name in ("year", "month", "week", "day"):
        raise FhirPathError(f"{name}s cannot be added to a time")
    full = Moment("DateTime", (2000, 1, 1, *start.fields))
    moved = _added_seconds(full, name, abs(value), 1 if value >= 0 else -1)
    return start._replace(fields=moved.fields[3:])


def last_day(year: int, month: int) -> int:
    """The days of a month."""
    following = datetime(year + month // 12, month % 12 + 1, 1) if (year, month) != (9999, 12) else None
    return (following - timedelta(days=1)).day if following else 31


def boundary(start: Moment, digits: int, is_high: bool) -> Moment | None:
    """The earliest or the latest moment that it may be, with this number of digits; None if it cannot have it."""
    fields = start.fields
    if start.kind == "Time":
        count = {2: 1, 4: 2, 6: 3, 9: 3}.get(digits)
        ends = (_HIGHEST if is_high else _LOWEST)[3:]
    else:
        count = {4: 1, 6: 2, 8: 3, 10: 4, 12: 5, 14: 6, 17: 6}.get(digits)
        ends = _HIGHEST if is_high else _LOWEST
        if len(fields) == 4:
            fields = (*fields, 0)  # as in HAPI, an hour alone is its first minute
    if count is None or (start.kind == "Date" and count > 3):
        return None
    complete = [*fields, *ends[len(fields) :]]
    if start.kind != "Time" and is_high and len(fields) < 3:
        complete[2] = last_day(int(complete[0]), int(complete[1]))
    second = complete[-1]
    if digits in (9, 17) and isinstance(second, Decimal):
        whole = int(second.as_tuple().exponent) >= 0
        complete[-1] = (second + Decimal("0.999") if whole and is_high else second).quantize(Decimal("0.001"))
    offset = start.offset
    if start.kind == "DateTime" and count > 3 and offset is None:
        offset = -12 * 60 if is_high else 14 * 60
    return Moment(start.kind, tuple(complete[:count]), offset if count > 3 else None)
