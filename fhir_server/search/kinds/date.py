"""Dates, with or without a prefix. The span of time that a date in a resource covers is as HAPI stores it.

A value without a time is compared with day numbers (yyyymmdd, as written in the resource). A value with a time is
compared with instants. Like in HAPI (observed), a year or month becomes its last day with `gt`, `ge` and `sa`, and its
first day with `lt`, `le` and `eb`. So `ge2023` does not match May 2023.

A date without a time zone is in UTC. A date without a time ends with its last millisecond. A date with a time ends when
it begins. The open ends of a period are in the years 1001 and 9000 (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

import re
from calendar import monthrange
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final, NamedTuple, TypeAlias

from fhir_server.errors import FhirError
from fhir_server.resources.primitives import PrimitiveError, WrongCharacterError, check_date
from fhir_server.search._join_order import ANY_DATE, BETWEEN, DATED
from fhir_server.search.condition import Condition, Criterion, either, of_type, unescape
from fhir_server.search.kinds.kind import (
    LOWER,
    UPPER,
    IndexRows,
    Kind,
    SearchScope,
    TableRow,
    ValueExtractor,
    by_type,
    prefixed,
)
from fhir_server.search.parameters import SearchParameter
from fhir_server.wire.json_values import Json

DAY: Final = 86_400_000
_EPOCH_DAY: Final = datetime(1970, 1, 1).toordinal()


class Span(NamedTuple):
    """First and last instant (milliseconds since 1970, UTC), and first and last day (yyyymmdd, as written)."""

    low: int
    high: int
    low_day: int
    high_day: int


def _midnight(year: int, month: int, day: int) -> int:
    # FHIR's dates allow a year 0, which Python does not; it is indexed as year 1.
    return (datetime(max(year, 1), month, day).toordinal() - _EPOCH_DAY) * DAY


OPEN_LOW: Final = (_midnight(1001, 1, 1), 10010101)
OPEN_HIGH: Final = (_midnight(9000, 1, 1) + DAY - 1, 90000101)


def span(text: str) -> Span:
    """The span of a valid date, dateTime or instant."""
    text = text.strip()
    year, length = int(text[:4]), len(text)
    if length > 10:
        instant, day = _instant(text), int(text[:4] + text[5:7] + text[8:10])
        return Span(instant, instant, day, day)
    month = int(text[5:7]) if length > 4 else 1
    day = int(text[8:10]) if length > 7 else 1
    last_month = month if length > 4 else 12
    last_day = day if length > 7 else monthrange(max(year, 1), last_month)[1]
    return Span(
        _midnight(year, month, day),
        _midnight(year, last_month, last_day) + DAY - 1,
        year * 10000 + month * 100 + day,
        year * 10000 + last_month * 100 + last_day,
    )


def _instant(text: str) -> int:
    """A date with a time as milliseconds since 1970. Digits after the milliseconds are dropped."""
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:  # a leap second, the year 0, or a fraction Python does not read
        head, seconds, rest = text[:17].replace("0000-", "0001-", 1), text[17:19], text[19:]
        digits = rest[1 : len(rest) - len(rest[1:].lstrip("0123456789"))] if rest.startswith(".") else ""
        zone = rest[len(digits) + 1 :] if digits else rest
        # HAPI ignores text after a Z.
        moment = datetime.fromisoformat(f"{head}00{'Z' if zone[:1] == 'Z' else zone}")
        return _milliseconds(moment) + int(seconds) * 1000 + int(f"{digits}000"[:3])
    return _milliseconds(moment)


def _milliseconds(moment: datetime) -> int:
    if moment.tzinfo is not None and moment.tzinfo is not UTC:
        offset = moment.utcoffset()
        shift = 0 if offset is None else offset.days * DAY + offset.seconds * 1000
    else:
        shift = 0
    clock = ((moment.hour * 60 + moment.minute) * 60 + moment.second) * 1000 + moment.microsecond // 1000
    return (moment.toordinal() - _EPOCH_DAY) * DAY + clock - shift


def period_span(period: Json) -> Span | None:
    """The span of a Period; None if both start and end are missing."""
    start, end = period.get("start"), period.get("end")
    if start is None and end is None:
        return None
    low, low_day = (OPEN_LOW) if start is None else span(start)[::2]
    high, high_day = (OPEN_HIGH) if end is None else span(end)[1::2]
    return Span(low, high, low_day, high_day)


def timing_span(timing: Json) -> Span | None:
    """The span of a Timing: from the first to the last of its events; without events, the limits of its repetition.

    As in HAPI, the first moment is that of either, although the days are those of the events.
    """
    bounds = (timing.get("repeat") or {}).get("boundsPeriod") or {}
    limits = sorted(span(date) for date in (bounds.get("start"), bounds.get("end")) if date is not None)
    events = sorted(span(date) for date in timing.get("event", ()) if date is not None)
    if events:
        low = min(item.low for item in (*events[:1], *limits[:1]))
        return Span(low, events[-1].high, events[0].low_day, events[-1].high_day)
    if not limits:
        return None
    return Span(limits[0].low, limits[-1].low, limits[0].low_day, limits[-1].low_day)


Row: TypeAlias = tuple[str, int, int, int, int]
"""Parameter, low and high (milliseconds since 1970, UTC), first and last day (yyyymmdd)."""

_FORM = re.compile(r"\d{4}(?:-\d\d(?:-\d\d(T\d\d:\d\d(:[0-5]\d(\.\d+)?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d)?)?)?)?")
"""A date in a query: its time, seconds and fraction. Like in HAPI, digits of other scripts are digits."""
_DAY_PLACE: Final = 100_000_000
_DAYS: Final = f"low_day * {_DAY_PLACE} + high_day"
"""SQL for the first and last day as one number."""


def _spans(span_of: Callable[[Json], Span | None]) -> ValueExtractor:
    """An extractor of the spans of values."""

    def extract(rows: IndexRows, name: str, value: Json) -> None:
        stretch = None if value is None else span_of(value)
        if stretch is not None:
            rows["date"].append((name, *stretch))

    return extract


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    **dict.fromkeys(("date", "dateTime", "instant"), _spans(span)),
    "Period": _spans(period_span),
    "Timing": _spans(timing_span),
}


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    """Rows of the table `dates`."""
    return [(numbers[row[0]], row_id, *row[1:]) for row in rows]


@dataclass(frozen=True, slots=True)
class DateParam:
    """A value in a query: its first and last day, and its first and last millisecond. `timed`: it includes a time."""

    prefix: str
    first_day: int
    last_day: int
    low: int
    high: int
    timed: bool


def date_param(text: str) -> DateParam:
    """Reads a value in a query. A blank in it was a plus. Raises FhirError with HAPI-1882, 1883, 1925, 1940 or 1941."""
    prefix, rest = prefixed(unescape(text.replace(" ", "+")))
    match = _FORM.fullmatch(rest)
    try:
        if not match:
            raise ValueError(rest)
        bounds = _bounds(prefix, match)
    except (ValueError, OverflowError):
        raise invalid_date(rest) from None
    if prefix == "ap":
        raise FhirError(400, "HAPI-1925: Unknown comparator: APPROXIMATE")
    return bounds


def invalid_date(text: str) -> FhirError:
    """HAPI's error for an invalid date. It quotes the first wrong character."""
    if len(text) >= 16 and text[10] != "T" and re.match(r"\d{4}-\d\d-\d\d", text):
        why = f"Expected character 'T' at index 10 but found {text[10]}"
        return FhirError(400, f'HAPI-1883: Invalid date/time format: "{text}": {why}')
    try:
        check_date(text)
    except WrongCharacterError as error:
        return FhirError(400, f"HAPI-1883: {error}")
    except PrimitiveError:
        pass
    return FhirError(400, f'HAPI-1882: Invalid date/time format: "{text}"')


def _bounds(prefix: str, match: re.Match[str]) -> DateParam:
    time, seconds, fraction = match.groups()
    # HAPI reads as many digits of a second's fraction as there are; nine of them say all that it keeps.
    written = match[0].replace(fraction, fraction[:10]) if fraction else match[0]
    first = span(re.sub(r"\d", lambda digit: str(int(digit[0])), written))
    width = 0  # in milliseconds, without the first
    if time and not seconds:
        width = 59_999
    elif time and not fraction:
        width = 999
    return DateParam(prefix, first.low_day, first.high_day, first.low, first.high + width, time is not None)


def date_params(values: Sequence[str]) -> list[DateParam]:
    """The values of one parameter, of which all must match, checked in order as by HAPI's DateRangeParam."""
    params: list[DateParam] = []
    lower = upper = False
    for value in values:
        item = date_param(value)
        params.append(item)
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
    return params


def _twice(number: str, which: str) -> FhirError:
    return FhirError(400, f"HAPI-{number}: Can not have multiple date range parameters for the same param{which}")


def conditions(scope: SearchScope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that one index row matches all values, or any of them if they are alternatives."""
    values, any_of = criterion.values, not criterion.all_of
    params = [date_param(value) for value in values] if any_of else date_params(values)
    if parameter.name == "_lastUpdated":  # an instant in a column of the table of resources
        compared = [_comparison(item, "updated", "updated", timed=True) for item in params]
        where, args = _joined(compared, any_of=any_of)
        return [of_type(scope.resource_type, where, args, "updated", 5)]
    # Each value by itself: one with a time is compared with instants, one without with days.
    compared = [_comparison(item, *_columns(timed=item.timed), timed=item.timed) for item in params]
    where, args = _joined(compared, any_of=any_of)
    timed = next((item.timed for item in params if item.prefix in UPPER), params[0].timed)
    low, high = _columns(timed=timed)
    order, tie = (low, f"{high}, ") if timed else (_DAYS, "")
    if (len(params) == 1 or not any_of) and all(item.prefix in ("gt", "ge", "eb") for item in params):
        order, tie = high, ""
    elif not any(item.timed for item in params) and (first := _first_day(params, any_of=any_of)):
        where, args = f"{where} AND {_DAYS} >= ?", (*args, first * _DAY_PLACE)
    access = ANY_DATE if any_of else BETWEEN
    if len(params) == 1:
        access = DATED[params[0].prefix]
    args = (scope.number(parameter.name), *args)
    return [Condition("dates", f"param = ? AND {where}", args, order, 4, access=access, streams=True, tie=tie)]


def _first_day(params: Sequence[DateParam], *, any_of: bool) -> int:
    """The first day on which a matching row can begin; 0 without a limit. Less of the index is then read."""
    firsts = [
        param.first_day if param.prefix == "eq" else param.last_day + 1
        for param in params
        if param.prefix in ("eq", "sa")
    ]
    return 0 if any_of else max(firsts, default=0)


def _columns(*, timed: bool) -> tuple[str, str]:
    """The columns of the first and last instant, or day."""
    return ("low", "high") if timed else ("low_day", "high_day")


def _joined(compared: Sequence[tuple[str, tuple[int, ...]]], *, any_of: bool) -> tuple[str, tuple[int, ...]]:
    tests = [f"({sql})" for sql, _ in compared]
    return either(tests) if any_of else " AND ".join(tests), tuple(bound for _, bounds in compared for bound in bounds)


def _comparison(item: DateParam, low: str, high: str, *, timed: bool) -> tuple[str, tuple[int, ...]]:
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


KIND = Kind(
    "date",
    conditions,
    "dates",
    ("param", "row_id", "low", "high", "low_day", "high_day"),
    by_type(_EXTRACTORS),
    table_rows,
    sort_key="low",
    combines=True,
    orders={"low": "low", "high": "high", "days": _DAYS, "high_day": "high_day"},
)
