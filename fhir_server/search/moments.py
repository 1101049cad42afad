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
    """Reads a query value, a blank in it as the plus that it was; raises FhirError with HAPI-1882, 1940 or 1941."""
    prefix, rest = prefixed(text.replace(" ", "+"))
    found = _FORM.fullmatch(rest)
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


def moments(values: Sequence[str]) -> list[Moment]:
    """The values of one parameter, which all hold, checked one after the other as HAPI's DateRangeParam does."""
    found: list[Moment] = []
    lower = upper = False
    for value in values:
        item = moment(value)
        found.append(item)
        if item.prefix in LOWER:
            if lower:
                raise _twice("1923", " that specify a lower bound")
            lower = True
        elif item.prefix in UPPER:
            if upper:
                raise _twice("1924", " that specify an upper bound")
            upper = True
        else:
            if lower or upper:
                raise _twice("1922", " without a qualifier")
            lower = upper = True
    return found


def _twice(number: str, which: str) -> FhirError:
    return FhirError(400, f"HAPI-{number}: Can not have multiple date range parameters for the same param{which}")


def dates(param: int, values: Sequence[str], *, any_of: bool = False) -> Condition:
    """The condition that all values of a date parameter hold of one index row, or any of them."""
    found = [moment(value) for value in values] if any_of else moments(values)
    timed = any(item.timed for item in found)
    low, high = ("low", "high") if timed else ("low_day", "high_day")
    where, args = _joined(found, low, high, timed, any_of=any_of)
    order = low if timed else "low_day * 100000000 + high_day"
    if len(found) == 1 and found[0].prefix in ("gt", "ge", "eb"):
        order = high
    return Condition("dates", f"param = ? AND {where}", (param, *args), order, 4)


def _joined(found: Sequence[Moment], low: str, high: str, timed: bool, *, any_of: bool) -> tuple[str, tuple[int, ...]]:
    compared = [_comparison(item, low, high, timed) for item in found]
    joined = (" OR " if any_of else " AND ").join(f"({sql})" for sql, _ in compared)
    return f"({joined})", tuple(bound for _, bounds in compared for bound in bounds)


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


def updated(resource_type: str, values: Sequence[str], *, any_of: bool = False) -> Condition:
    """The condition on `_lastUpdated`, which is always an instant: all values hold, or any of them."""
    found = [moment(value) for value in values] if any_of else moments(values)
    where, args = _joined(found, "updated", "updated", timed=True, any_of=any_of)
    return Condition("resources", f"type = ? AND text IS NOT NULL AND {where}", (resource_type, *args), "updated", 5)
