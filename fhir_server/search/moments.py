"""Date conditions: a query value as bounds, and the comparison with what the index holds.

A value of day precision or coarser compares day numbers (yyyymmdd as the resource says it), one with a time compares
instants. With `gt`, `ge` and `sa` a year or month first becomes its last day, with `lt`, `le` and `eb` its first; that
is HAPI's way (observed), which is why `ge2023` misses May 2023.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

from fhir_server.errors import FhirError
from fhir_server.search.conditions import Condition, prefixed

LOWER, UPPER = ("gt", "ge", "sa"), ("lt", "le", "eb")
_FORM = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@dataclass(frozen=True, slots=True)
class Moment:
    """A query value: first and last day it covers, and, where it has a time, first and last millisecond."""

    prefix: str
    first_day: int
    last_day: int
    low: int
    high: int
    timed: bool


def moment(text: str) -> Moment:
    """Reads a query value; raises FhirError with HAPI-1882, 1940 or 1941."""
    prefix, rest = prefixed(text)
    found = _FORM.fullmatch(rest.replace(" ", "+"))
    if prefix == "ap":
        raise FhirError(400, "HAPI-1925: Unknown comparator: APPROXIMATE")
    try:
        if not found:
            raise ValueError(rest)
        return _moment(prefix, found)
    except (ValueError, OverflowError):
        raise FhirError(400, f'HAPI-1882: Invalid date/time format: "{rest}"') from None


def _moment(prefix: str, found: re.Match[str]) -> Moment:
    year, month, day, hour, minute, second, fraction, zone = found.groups()
    y, m, d = int(year), int(month or 1), int(day or 1)
    start = datetime(y, m, d, int(hour or 0), int(minute or 0), int(second or 0), tzinfo=UTC)
    last_month = int(month or 12)
    last = int(day or calendar.monthrange(y, last_month)[1])
    first_day, last_day = y * 10000 + m * 100 + d, y * 10000 + last_month * 100 + last
    low = (start - _EPOCH) // timedelta(milliseconds=1) + int(f"{fraction or 0:0<3}"[:3])
    if zone and zone != "Z":
        sign = 1 if zone[0] == "+" else -1
        low -= sign * (int(zone[1:3]) * 60 + int(zone[4:6])) * 60_000
    if hour is None:
        end = datetime(y, last_month, last, tzinfo=UTC) + timedelta(days=1)
        high = (end - _EPOCH) // timedelta(milliseconds=1) - 1
    else:
        high = low + (0 if fraction else 999 if second else 59_999)
    return Moment(prefix, first_day, last_day, low, high, hour is not None)


def moments(values: Sequence[str], *, same: bool = True) -> list[Moment]:
    """The values of one parameter, checked together as HAPI's DateRangeParam does."""
    found = [moment(value) for value in values]
    if same and len(found) > 1:
        if sum(item.prefix in LOWER for item in found) > 1:
            raise _twice("1923", "lower")
        if sum(item.prefix in UPPER for item in found) > 1:
            raise _twice("1924", "upper")
    return found


def _twice(number: str, which: str) -> FhirError:
    return FhirError(
        400,
        f"HAPI-{number}: Can not have multiple date range parameters for the same param that specify"
        f" {'an upper' if which == 'upper' else 'a lower'} bound",
    )


def dates(param: int, values: Sequence[str]) -> Condition:
    """The condition that all values of a date parameter hold of one index row."""
    found = moments(values)
    timed = any(item.timed for item in found)
    parts: list[str] = []
    args: list[object] = [param]
    low, high = ("low", "high") if timed else ("low_day", "high_day")
    for item in found:
        sql, bounds = _comparison(item, low, high, timed)
        parts.append(f"({sql})")
        args += bounds
    order = low if timed else "low_day * 100000000 + high_day"
    if len(found) == 1 and found[0].prefix in ("gt", "ge", "eb"):
        order = high
    return Condition("dates", "param = ? AND " + " AND ".join(parts), tuple(args), order, 4)


def _comparison(item: Moment, low: str, high: str, timed: bool) -> tuple[str, tuple[int, ...]]:
    first, last = (item.low, item.high) if timed else (item.first_day, item.last_day)
    match item.prefix:
        case "eq":
            return f"{low} >= ? AND {high} <= ?", (first, last)
        case "ne":
            return f"{low} < ? OR {high} > ?", (first, last)
        case "gt":
            return f"{high} >= ?", (last + 1,)
        case "ge":
            return f"{high} >= ?", (first if timed else last,)
        case "sa":
            return f"{low} >= ?", (last + 1,)
        case "lt":
            return f"{low} <= ?", (first - 1,)
        case "le":
            return f"{low} <= ?", (last if timed else first,)
        case _:
            return f"{high} <= ?", (first - 1,)


def updated(resource_type: str, values: Sequence[str]) -> Condition:
    """The condition on `_lastUpdated`, which is always an instant."""
    parts: list[str] = []
    args: list[object] = [resource_type]
    for item in moments(values):
        sql, bounds = _comparison(item, "updated", "updated", timed=True)
        parts.append(f"({sql})")
        args += bounds
    where = "type = ? AND text IS NOT NULL AND " + " AND ".join(parts)
    return Condition("resources", where, tuple(args), "updated", 5)
