"""What a data set of MedAgentBench fixes beside its tasks and patients: its now, the words of its runner, thresholds.

`PUBLISHED` are those of the published data sets. A data set made later may have others: every rule takes them from
here, as a parameter. Numbers are in the units of `UNITS`, in which the instructions state them too.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import cached_property

UNITS = {"MG": "mg/dL", "K": "mmol/L", "GLU": "mg/dL", "A1C": "%"}
"""The unit of each laboratory code that the rules ask for."""

REFERRAL = (
    "Situation: acute left knee injury, Background: radiology report indicates ACL tear. "
    "Assessment: ACL tear grade II. Recommendation: request for Orthopedic service to evaluate and provide "
    "management recommendations."
)
"""The free text of a task8 referral, as every task8 instruction of the published data set quotes it."""


@dataclass(frozen=True)
class Constants:
    """The constants of one data set. `now` must have a zone."""

    now: datetime = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
    base: str = "http://localhost:8080/fhir/"
    """The FHIR base that agents are shown, and that the URLs of their posts begin with."""
    acknowledgement: str = "POST request accepted"
    """What the runner's reply to an accepted POST contains."""
    blood_pressure: str = "118/77 mmHg"
    referral: str = REFERRAL
    magnesium_doses: tuple[tuple[float, int], ...] = ((1, 4), (1.5, 2), (1.9, 1))
    """Magnesium below this level asks for so many grams, lowest level first; the last level itself is still low."""
    potassium_low: float = 3.5
    """Potassium below this level is replaced."""

    @cached_property
    def now_text(self) -> str:
        """Now as the instructions write it, `2023-11-13T10:15:00+00:00`."""
        return self.now.isoformat()

    @cached_property
    def minute_text(self) -> str:
        """Now to the minute, `2023-11-13T10:15`."""
        return self.now_text[:16]

    @cached_property
    def next_morning_text(self) -> str:
        """Eight o'clock of the next day, to the hour: `2023-11-14T08:`."""
        return f"{(self.now + timedelta(days=1)).date().isoformat()}T08:"

    @cached_property
    def day_ago(self) -> datetime:
        """24 hours before now."""
        return self.now - timedelta(hours=24)

    @cached_property
    def year_ago(self) -> datetime:
        """The same moment a year before; of 29 February, that of the 28th."""
        leap_day = (self.now.month, self.now.day) == (2, 29)
        return self.now.replace(year=self.now.year - 1, day=28 if leap_day else self.now.day)

    @property
    def magnesium_low(self) -> float:
        """Magnesium up to this level asks for a dose."""
        return self.magnesium_doses[-1][0]

    def magnesium_dose(self, level: float) -> int:
        """The grams that a low level asks for."""
        return next((grams for below, grams in self.magnesium_doses if level < below), self.magnesium_doses[-1][1])


PUBLISHED = Constants()
"""The constants of the published data sets, v1 and v2."""
