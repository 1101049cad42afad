"""The clinical facts of a patient at the benchmark's moment: age, latest reading, mean, each from an `Ehr`.

Times are read by `datetime.fromisoformat` and compared by Python; where the stored data does not allow that, the
published grader fails the agent, and `DataError` says that the data is at fault. Observed behaviour throughout.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

from refsol.medagentbench.ehr import Ehr, Reading

NOW_TEXT = "2023-11-13T10:15:00+00:00"
NOW = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
DAY_AGO = NOW - timedelta(hours=24)
YEAR_AGO = NOW.replace(year=2022)
_FULL_DATE = re.compile(r"\d{4}-\d{2}-\d{2}")


class DataError(ValueError):
    """The stored data makes a right verdict impossible, whatever the agent did."""


@dataclass(frozen=True, slots=True)
class Lab:
    """A reading whose time and value could be read; `text` is the time as stored."""

    time: datetime
    value: int | float
    text: str


def age(ehr: Ehr, mrn: str) -> int:
    """Full years at the benchmark's date. Raises DataError without a full birth date, FactsError."""
    patient = ehr.patient(mrn)
    if patient is None:
        raise DataError(f"no patient has the identifier {mrn}")
    text = patient.birth_date or ""
    try:
        born = date.fromisoformat(text) if _FULL_DATE.fullmatch(text) else None
    except ValueError:
        born = None
    if born is None:
        raise DataError(f"the birth date of {mrn} is {text or 'missing'}, not a full date")
    today = NOW.date()
    return today.year - born.year - ((today.month, today.day) < (born.month, born.day))


def labs(ehr: Ehr, mrn: str, code: str) -> list[Lab]:
    """All readings of a code in the server's order. Raises DataError where one cannot be read, FactsError."""
    return [read_lab(reading, code) for reading in ehr.observations(mrn, code)]


def since(found: Sequence[Lab], start: datetime) -> list[Lab]:
    """Those at or after `start`; later than now counts too. Raises DataError for a time without a zone."""
    try:
        return [lab for lab in found if lab.time >= start]
    except TypeError:
        raise DataError("a reading's time has no zone and cannot be compared with the benchmark's now") from None


def until(found: Sequence[Lab], end: datetime) -> list[Lab]:
    """Those at or before `end`. Raises DataError for a time without a zone."""
    try:
        return [lab for lab in found if lab.time <= end]
    except TypeError:
        raise DataError("a reading's time has no zone and cannot be compared with the benchmark's now") from None


def latest(found: Sequence[Lab]) -> Lab | None:
    """The one with the greatest time, the first of equals. Raises DataError where zones are mixed."""
    try:
        return max(found, key=lambda lab: lab.time, default=None)
    except TypeError:
        raise DataError("some readings' times have a zone and some have none: they cannot be compared") from None


def mean(found: Sequence[Lab]) -> float:
    """The mean, summed one after the other in the given order (`sum` compensates since Python 3.12)."""
    total = 0.0
    for lab in found:
        total += lab.value
    return total / len(found)


def read_lab(reading: Reading, code: str) -> Lab:
    """A reading with its time and value read. Raises DataError where either is missing or cannot be."""
    if reading.time is None:
        raise DataError(f"an Observation of {code} has no effectiveDateTime")
    if reading.value is None or abs(reading.value) > sys.float_info.max:
        raise DataError(
            f"the Observation of {code} at {reading.time} has no valueQuantity.value that can be reckoned with"
        )
    try:
        return Lab(datetime.fromisoformat(reading.time), reading.value, reading.time)
    except ValueError:
        raise DataError(f"the time {reading.time} of an Observation of {code} is not a full date") from None
