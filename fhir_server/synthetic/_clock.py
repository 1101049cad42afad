"""A hospital's clock. A time is an integer: minutes after the hospital's now. Past times are negative."""

from __future__ import annotations

from datetime import date, datetime, timedelta

DAY = 24 * 60
_TEXTS = tuple(f"T{minute // 60:02d}:{minute % 60:02d}:00+00:00" for minute in range(DAY))


class HospitalClock:
    """Formats times as the benchmark's server does. `today` is the date of now."""

    def __init__(self, now: datetime) -> None:
        self.today = now.date()
        self._minute = now.hour * 60 + now.minute
        self._days: dict[int, str] = {}
        self._stamps: dict[int, str] = {}

    def text(self, time: int) -> str:
        """`2023-11-13T10:15:00+00:00`."""
        day, minute = divmod(self._minute + time, DAY)
        return (self._days.get(day) or self._day_text(day)) + _TEXTS[minute]

    def day_text(self, time: int) -> str:
        """`2023-11-13`."""
        return self._day_text((self._minute + time) // DAY)

    def at(self, days_ago: int, hour: int, minute: int) -> int:
        """The time `days_ago` days before today at `hour`:`minute`."""
        return -days_ago * DAY + hour * 60 + minute - self._minute

    def minute_of_day(self, time: int) -> int:
        """Minutes since midnight."""
        return (self._minute + time) % DAY

    def days_ago(self, time: int) -> int:
        """The number of midnights between a time and now."""
        return -((self._minute + time) // DAY)

    def stored(self, time: int) -> str:
        """The `lastUpdated` of a resource about this time: the next midnight; today the next full hour or now."""
        day = (self._minute + time) // DAY
        if day >= 0:
            minute = min(self._minute, ((self._minute + time) // 60 + 1) * 60)
            return self._day_text(day) + f"T{minute // 60:02d}:{minute % 60:02d}:00.000+00:00"
        stamp = self._stamps.get(day)
        if stamp is None:
            stamp = self._stamps[day] = self._day_text(day + 1) + "T00:00:00.000+00:00"
        return stamp

    def is_weekend(self, day: int) -> bool:
        """Whether the date `day` days ago is a Saturday or Sunday."""
        return self.date_of(-day).weekday() >= 5

    def date_of(self, days: int) -> date:
        """The date `days` days after today."""
        return self.today + timedelta(days=days)

    def _day_text(self, day: int) -> str:
        text = self._days.get(day)
        if text is None:
            text = self._days[day] = self.date_of(day).isoformat()
        return text
