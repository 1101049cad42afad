"""Dates: the bounds of a value in a query, and their comparison with the index.

A value without a time is compared with day numbers (yyyymmdd, as written in the resource). A value with a time is
compared with instants. Like in HAPI (observed), a year or month becomes its last day with `gt`, `ge` and `sa`, and its
first day with `lt`, `le` and `eb`. So `ge2023` does not match May 2023.
"""

from __future__ import annotations

import calendar
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final, TypeAlias

from fhir_server.errors import FhirError
from fhir_server.resources.primitives import PrimitiveError, check_date
from fhir_server.search._criteria import Criterion
from fhir_server.search._join_order import ANY_DATE, BETWEEN, DATED
from fhir_server.search.condition import Condition, of_type
from fhir_server.search.dates import Span, period_span, span, timing_span
from fhir_server.search.index_rows import IndexRows
from fhir_server.search.kinds.kind import Kind, Scope, TableRow, ValueExtractor, by_type
from fhir_server.search.parameters import SearchParameter
from fhir_server.search.prefixes import LOWER, UPPER, prefixed
from fhir_server.wire.json_values import Json

Row: TypeAlias = tuple[str, int, int, int, int]
"""Parameter, low and high (milliseconds since 1970, UTC), first and last day (yyyymmdd)."""

_FORM = re.compile(
    r"(\d{4})(?:-(\d\d)(?:-(\d\d)(?:T(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,9}))?)?(Z|[+-]\d\d:\d\d)?)?)?)?", re.ASCII
)
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_DAY_PLACE: Final = 100_000_000
_DAYS: Final = f"low_day * {_DAY_PLACE} + high_day"
"""SQL for the first and last day as one number."""


def _add(rows: IndexRows, name: str, stretch: Span | None) -> None:
    if stretch is not None:
        rows["date"].append((name, *stretch))


def _date(rows: IndexRows, name: str, value: Json) -> None:
    if value is not None:
        _add(rows, name, span(value))


def _period(rows: IndexRows, name: str, value: Json) -> None:
    _add(rows, name, period_span(value))


def _timing(rows: IndexRows, name: str, value: Json) -> None:
    _add(rows, name, timing_span(value))


_EXTRACTORS: Final[dict[str, ValueExtractor]] = {
    **dict.fromkeys(("date", "dateTime", "instant"), _date),
    "Period": _period,
    "Timing": _timing,
}


def table_rows(rows: list[Row], numbers: Mapping[str, int], row_id: int) -> list[TableRow]:
    """Rows of the table `dates`."""
    return [(numbers[row[0]], row_id, *row[1:]) for row in rows]


@dataclass(frozen=True, slots=True)
class DateParam:
    """A value in a query: its first and last day, and its first and last millisecond. `timed`: it has a time."""

    prefix: str
    first_day: int
    last_day: int
    low: int
    high: int
    timed: bool


def date_param(text: str) -> DateParam:
    """Reads a value in a query. A blank in it was a plus. Raises FhirError with HAPI-1882, 1883, 1925, 1940 or 1941."""
    prefix, rest = prefixed(text.replace(" ", "+"))
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
    """HAPI's error for an invalid date. It names the first wrong character."""
    if len(text) >= 16 and text[10] != "T" and re.match(r"\d{4}-\d\d-\d\d", text):
        why = f"Expected character 'T' at index 10 but found {text[10]}"
        return FhirError(400, f'HAPI-1883: Invalid date/time format: "{text}": {why}')
    try:
        check_date(text)
    except PrimitiveError as error:
        if "Expected character" in str(error):
            return FhirError(400, f"HAPI-1883: {error}")
    return FhirError(400, f'HAPI-1882: Invalid date/time format: "{text}"')


def _bounds(prefix: str, match: re.Match[str]) -> DateParam:
    year, month, day, hour, minute, second, fraction, zone = match.groups()
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
    return DateParam(prefix, first_day, last_day, low, high, hour is not None)


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


def conditions(scope: Scope, parameter: SearchParameter, criterion: Criterion) -> list[Condition]:
    """The condition that one index row matches all values, or any of them if they are alternatives."""
    values, any_of = criterion.values, not criterion.all_of
    params = [date_param(value) for value in values] if any_of else date_params(values)
    if parameter.name == "_lastUpdated":  # an instant in a column of the table of resources
        where, args = _joined(params, "updated", "updated", timed=True, any_of=any_of)
        return [of_type(scope.resource_type, where, args, "updated", 5)]
    timed = any(item.timed for item in params)
    low, high = ("low", "high") if timed else ("low_day", "high_day")
    where, args = _joined(params, low, high, timed, any_of=any_of)
    order = low if timed else _DAYS
    if len(params) == 1 and params[0].prefix in ("gt", "ge", "eb"):
        order = high
    elif not timed and (first := _first_day(params, any_of=any_of)):
        where, args = f"{where} AND {_DAYS} >= ?", (*args, first * _DAY_PLACE)
    access = DATED[params[0].prefix] if len(params) == 1 else ANY_DATE if any_of else BETWEEN
    args = (scope.number(parameter.name), *args)
    return [Condition("dates", f"param = ? AND {where}", args, order, 4, access=access, streams=True)]


def _first_day(params: Sequence[DateParam], *, any_of: bool) -> int:
    """The first day on which a matching row can begin; 0 if there is no such bound. Less of the index is then read."""
    if any_of:
        return 0
    firsts = {"eq": lambda item: item.first_day, "sa": lambda item: item.last_day + 1}
    return max((firsts[item.prefix](item) for item in params if item.prefix in firsts), default=0)


def _joined(
    params: Sequence[DateParam], low: str, high: str, timed: bool, *, any_of: bool
) -> tuple[str, tuple[int, ...]]:
    compared = [_comparison(item, low, high, timed) for item in params]
    joined = (" OR " if any_of else " AND ").join(f"({sql})" for sql, _ in compared)
    return f"({joined})", tuple(bound for _, bounds in compared for bound in bounds)


def _comparison(item: DateParam, low: str, high: str, timed: bool) -> tuple[str, tuple[int, ...]]:
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
