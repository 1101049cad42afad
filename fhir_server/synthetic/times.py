"""The hospital's clock. A time is a whole number of minutes after NOW, so the past is negative."""

from __future__ import annotations

from datetime import date, timedelta
from functools import cache

NOW_TEXT = "2023-11-13T10:15:00+00:00"
TODAY = date(2023, 11, 13)
MINUTE_OF_DAY = 10 * 60 + 15
DAY = 24 * 60
YEAR = 365 * DAY
_CLOCK_TEXTS = tuple(f"T{minute // 60:02d}:{minute % 60:02d}:00+00:00" for minute in range(DAY))


@cache
def _day_text(day: int) -> str:
    return (TODAY + timedelta(days=day)).isoformat()


def text(time: int) -> str:
    """`time` as the recordings write it: `2023-11-13T10:15:00+00:00`."""
    day, minute = divmod(MINUTE_OF_DAY + time, DAY)
    return _day_text(day) + _CLOCK_TEXTS[minute]


def day_text(time: int) -> str:
    """The date of `time`, `2023-11-13`."""
    return _day_text((MINUTE_OF_DAY + time) // DAY)


def at(days_ago: int, hour: int, minute: int) -> int:
    """The time `days_ago` days before today at `hour`:`minute`."""
    return -days_ago * DAY + hour * 60 + minute - MINUTE_OF_DAY
