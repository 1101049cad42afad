"""The span of time that a date in a resource covers, as HAPI stores it: instants, and the days as written.

A date without a time zone is in UTC. A date without a time ends with its last millisecond. A date with a time ends when
it begins. The open ends of a period are in the years 1001 and 9000 (observed in HAPI FHIR 7.6.0).
"""

from __future__ import annotations

from calendar import monthrange
from datetime import UTC, datetime
from typing import Final, NamedTuple

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
    # Python has no year 0, which FHIR's dates allow; it is indexed as year 1.
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
    """The span of a Period; None if it has neither start nor end."""
    start, end = period.get("start"), period.get("end")
    if start is None and end is None:
        return None
    low, low_day = (OPEN_LOW) if start is None else span(start)[::2]
    high, high_day = (OPEN_HIGH) if end is None else span(end)[1::2]
    return Span(low, high, low_day, high_day)


def timing_span(timing: Json) -> Span | None:
    """The span of a Timing: from the first to the last of its events and the bounds of its repetition."""
    bounds = (timing.get("repeat") or {}).get("boundsPeriod") or {}
    dates = [date for date in (*timing.get("event", ()), bounds.get("start"), bounds.get("end")) if date is not None]
    if not dates:
        return None
    spans = sorted(span(date) for date in dates)
    return Span(spans[0].low, spans[-1].low, spans[0].low_day, spans[-1].low_day)
