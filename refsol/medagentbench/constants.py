"""What a data set of MedAgentBench fixes besides tasks and patients: its now, its runner's texts, its thresholds.

`PUBLISHED` are the constants of the published data sets. A newer data set may have others, so every rule gets them as a
parameter. A level is in the unit of its `LabTest`; the instructions use the same unit.
"""

from __future__ import annotations

from calendar import monthrange
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property


@dataclass(frozen=True)
class LabTest:
    """A laboratory test of the rules: its code in the record and the unit of its values."""

    code: str
    unit: str


REFERRAL = (
    "Situation: acute left knee injury, Background: radiology report indicates ACL tear. "
    "Assessment: ACL tear grade II. Recommendation: request for Orthopedic service to evaluate and provide "
    "management recommendations."
)
"""The free text of a task8 referral, as quoted by every task8 instruction of the published data set."""


@dataclass(frozen=True)
class Constants:
    """The constants of one data set. `now` must have a time zone."""

    now: datetime = datetime(2023, 11, 13, 10, 15, tzinfo=UTC)
    base: str = "http://localhost:8080/fhir/"
    """The FHIR base URL that agents are shown, and with which the URLs of their posts start."""
    acknowledgement: str = "POST request accepted"
    """A text in the runner's reply to an accepted POST."""
    mrn_form: str = "S#######"
    """The form of MRNs: `#` is a digit, `@` a capital letter."""
    magnesium: LabTest = LabTest("MG", "mg/dL")
    potassium: LabTest = LabTest("K", "mmol/L")
    glucose: LabTest = LabTest("GLU", "mg/dL")
    a1c: LabTest = LabTest("A1C", "%")
    look_back_hours: int = 24
    """The maximum age of a magnesium or glucose result in tasks that ask for a recent one, in hours."""
    blood_pressure: str = "118/77 mmHg"
    blood_pressure_code: str = "BP"
    referral: str = REFERRAL
    referral_code: str = "306181000000106"
    """SNOMED CT code of the referral order."""
    magnesium_doses: tuple[tuple[float, int], ...] = ((1, 4), (1.5, 2), (1.9, 1))
    """Pairs (level, grams), lowest level first: magnesium below the level needs this dose. At the last level itself,
    magnesium is still low.
    """
    magnesium_hours_per_gram: int = 1
    magnesium_drug: str = "0338-1715-40"
    """NDC code."""
    potassium_low: float = 3.5
    """Potassium below this level is replaced."""
    potassium_dose: int = 10
    """mEq per 0.1 below that level."""
    potassium_drug: str = "40032-917-01"
    """NDC code."""
    potassium_test: str = "2823-3"
    """LOINC code of the follow-up test, which is ordered for `follow_up_hour` of the next day."""
    follow_up_hour: int = 8
    a1c_months: int = 12
    """A new HbA1c is due if the last one is older than this, in months."""
    a1c_test: str = "4548-4"
    """LOINC code."""

    @cached_property
    def now_text(self) -> str:
        """Now as written in the instructions, `2023-11-13T10:15:00+00:00`."""
        return self.now.isoformat()

    @cached_property
    def a1c_start(self) -> datetime:
        """The earliest time of an HbA1c that is not due again: this many months before now.

        If that month is shorter, its last day.
        """
        year, month = divmod(self.now.year * 12 + self.now.month - 1 - self.a1c_months, 12)
        return self.now.replace(year=year, month=month + 1, day=min(self.now.day, monthrange(year, month + 1)[1]))

    @cached_property
    def a1c_interval(self) -> str:
        """`a year`, or the number of months as text."""
        return "a year" if self.a1c_months == 12 else f"{self.a1c_months} months"

    @property
    def magnesium_low(self) -> float:
        """Magnesium at or below this level needs a dose."""
        return self.magnesium_doses[-1][0]


PUBLISHED = Constants()
"""The constants of the published data sets, v1 and v2."""
