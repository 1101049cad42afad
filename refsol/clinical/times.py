"""Times of a chart. A date without a time of day is its whole day, and a month or a year is all of its days."""

from __future__ import annotations

import operator
import re
from calendar import monthrange
from collections.abc import Callable
from datetime import date, datetime, tzinfo
from typing import Any, NoReturn

from refsol.errors import DataFault

_DATE = re.compile(r"(\d{4})(?:-(\d{2})(?:-(\d{2}))?)?")


def is_date(text: Any) -> bool:
    """Whether a text is a date of FHIR without a time of day: `2024`, `2024-03` or `2024-03-05`."""
    return isinstance(text, str) and _DATE.fullmatch(text) is not None


def days_of(text: str) -> tuple[date, date]:
    """The first and the last day of a date, a month or a year. Raises ValueError."""
    match = _DATE.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not a date")
    year, month, day = (int(part or 0) for part in match.groups())
    first, last_month = date(year, month or 1, day or 1), month or 12
    return first, date(year, last_month, day or monthrange(year, last_month)[1])


class WholeDay(datetime):
    """A date of a chart without a time of day: its first moment. `last` is its last one.

    A comparison is decided if every moment of the day gives the same outcome; otherwise it raises DataFault. To
    calculate with it raises DataFault, too.
    """

    text: str
    first: datetime
    last: datetime

    @classmethod
    def of(cls, text: str, zone: tzinfo | None) -> WholeDay:
        """A date, month or year in a zone. Raises ValueError."""
        first, last = days_of(text)
        whole = cls(first.year, first.month, first.day, tzinfo=zone)
        whole.text = text
        whole.first = datetime(first.year, first.month, first.day, tzinfo=zone)
        whole.last = datetime(last.year, last.month, last.day, 23, 59, 59, 999999, tzinfo=zone)
        return whole

    def _decided(self, moment: Any, test: Callable[[datetime, datetime], bool]) -> bool:
        if not isinstance(moment, datetime):
            raise TypeError(f"a time cannot be compared with {moment!r}")
        outcomes = {test(mine, theirs) for mine in bounds(self) for theirs in bounds(moment)}
        if len(outcomes) > 1:
            raise self._too_coarse
        return outcomes.pop()

    def __lt__(self, other: date) -> bool:
        return self._decided(other, operator.lt)

    def __le__(self, other: date) -> bool:
        return self._decided(other, operator.le)

    def __gt__(self, other: date) -> bool:
        return self._decided(other, operator.gt)

    def __ge__(self, other: date) -> bool:
        return self._decided(other, operator.ge)

    @property
    def _too_coarse(self) -> DataFault:
        return DataFault(f"{self.text} states no time of day, on which the ruling depends", "day too coarse")

    def _calculate(self, operand: Any) -> NoReturn:
        raise self._too_coarse

    __add__ = __radd__ = __sub__ = __rsub__ = _calculate


def bounds(moment: datetime) -> tuple[datetime, datetime]:
    """The first and the last moment that a time may be."""
    return (moment.first, moment.last) if isinstance(moment, WholeDay) else (moment, moment)
