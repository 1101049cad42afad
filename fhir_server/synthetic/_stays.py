"""Stays in hospital: reason, start, end, and units (emergency department, ward, intensive care, ward).

Hours are as in real hospitals. Patients arrive at the emergency department at any hour, mostly in the afternoon and
evening. Planned stays begin in the morning. Discharges are from late morning to early evening.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from fhir_server.synthetic._clock import HospitalClock
from fhir_server.synthetic._problems import COMPLICATIONS, INFECTIONS, PLANNED, REASONS, Complication, Reason
from fhir_server.synthetic.seeded_random import SeededRandom

HOUR = 60
_ARRIVALS = (
    *(0, 1, 2, 4, 6, 7, 8, 9, 10, 10, 11, 11, 12, 12, 13, 13, 14, 14, 15, 15, 16, 16),
    *(17, 17, 18, 18, 19, 19, 20, 20, 21, 21, 22, 22, 23),
)
_DISCHARGES = (10, 11, 11, 12, 12, 13, 13, 14, 14, 14, 15, 15, 15, 16, 16, 16, 17, 17, 18)
WARDS = {
    "Emergency": ("ED", "Emergency Department"),
    "Medicine": ("WARD", "Medicine 4 West"),
    "Surgery": ("WARD", "Surgery 5 East"),
    "Cardiology": ("WARD", "Cardiology 6 North"),
    "MICU": ("ICU", "Medical Intensive Care Unit (MICU)"),
    "SICU": ("ICU", "Surgical Intensive Care Unit (SICU)"),
    "CCU": ("ICU", "Coronary Care Unit (CCU)"),
}
"""The kind and name of each unit of the hospital, by its short name."""
_INTENSIVE = {"Medicine": "MICU", "Surgery": "SICU", "Cardiology": "CCU"}


@dataclass(frozen=True, slots=True)
class Segment:
    """Part of a stay in one unit (`ward` is a key of `WARDS`). `end` is None while the patient is there."""

    ward: str
    start: int
    end: int | None

    @property
    def kind(self) -> str:
        """`ED`, `WARD` or `ICU`."""
        return WARDS[self.ward][0]


@dataclass(frozen=True, slots=True)
class Stay:
    """A stay. `end` is None while it lasts. `fatal`: it ends with the patient's death."""

    start: int
    end: int | None
    reason: Reason
    segments: tuple[Segment, ...]
    fatal: bool = False
    severity: float = 1.0
    """Scales the shifts. An infection with a low severity is without fever and rapid pulse."""
    complications: tuple[Complication, ...] = ()

    @property
    def shifts(self) -> dict[str, float]:
        """The shifts of tests by the reason and the complications."""
        shifts = dict(self.reason.shifts)
        for complication in self.complications:
            for code, shift in complication.shifts.items():
                shifts[code] = shifts.get(code, 0.0) + shift
        return shifts

    @property
    def until(self) -> int:
        """The end, or the last minute before now."""
        return -1 if self.end is None else self.end

    def holds(self, time: int) -> bool:
        return self.start <= time <= self.until


def fitting(age: int, gender: str, listed: Sequence[str]) -> list[Reason]:
    """The reasons that fit the patient's age, gender and problems (ICD-10-CM codes)."""
    return [
        reason
        for reason in REASONS
        if age >= reason.age and reason.sex in ("", gender) and (not reason.needs or reason.needs in listed)
    ]


def present(rng: SeededRandom, clock: HospitalClock, reasons: Sequence[Reason], least: int) -> Stay:
    """A current stay that began `least` or `least` + 1 days ago."""
    reason = rng.pick([reason for reason in reasons if reason.days[1] >= 6 and not reason.planned])
    start = _arrival(rng, clock, reason, rng.between(least, least + 1))
    return _stay(rng, reason, start, None)


def past(rng: SeededRandom, clock: HospitalClock, reason: Reason, last: int) -> Stay:
    """A stay that ended `last` days ago."""
    end = clock.at(last, rng.pick(_DISCHARGES), rng.between(0, 59))
    return _stay(rng, reason, _arrival(rng, clock, reason, last + rng.between(*reason.days)), end)


def fatal(rng: SeededRandom, clock: HospitalClock, reasons: Sequence[Reason], died: int) -> Stay:
    """A stay that ends with the patient's death at the time `died`."""
    reason = rng.pick([reason for reason in reasons if reason.icu and not reason.planned])
    start = _arrival(rng, clock, reason, clock.days_ago(died) + rng.between(3, 9))
    return _stay(rng, reason, start, died, dies=True)


def _arrival(rng: SeededRandom, clock: HospitalClock, reason: Reason, day: int) -> int:
    hour = rng.between(6, 8) if reason.planned else rng.pick(_ARRIVALS)
    return clock.at(day, hour, rng.between(0, 59))


def _stay(rng: SeededRandom, reason: Reason, start: int, end: int | None, *, dies: bool = False) -> Stay:
    """A stay with its segments. Each segment begins when the one before it ends."""
    until = -1 if end is None else end
    marks = [(reason.service, start)]
    if not reason.planned:
        marks = [("Emergency", start), (reason.service, start + rng.between(150, 8 * HOUR))]
    first = marks[-1][1]
    if dies or (rng.chance(reason.icu) and until - first > 30 * HOUR):
        length = rng.between(16 * HOUR, min(80 * HOUR, max(17 * HOUR, until - first - 8 * HOUR)))
        moved = first if dies or reason.planned or rng.chance(0.7) else first + rng.between(3 * HOUR, 7 * HOUR)
        if reason.planned:
            moved = first + rng.between(4 * HOUR, 7 * HOUR)
        intensive = (_INTENSIVE[reason.service], moved)
        marks = [*marks, intensive] if moved > first else [*marks[:-1], intensive]
        if not dies and moved + length < until - 6 * HOUR:
            marks.append((reason.service, moved + length))
    ends: list[int | None] = [time for _, time in marks[1:]]
    segments = tuple(Segment(ward, time, after) for (ward, time), after in zip(marks, [*ends, end], strict=True))
    mild = reason.code in INFECTIONS and rng.chance(0.12)
    severity = 0.3 if mild else 0.7 + 1.3 * rng.unit() * rng.unit()
    return Stay(start, end, reason, segments, dies, severity, _complications(rng, reason))


def _complications(rng: SeededRandom, reason: Reason) -> tuple[Complication, ...]:
    """The complications of a stay, at random."""
    factor = PLANNED if reason.planned else 1.0
    return tuple(
        complication
        for complication in COMPLICATIONS
        if rng.chance(complication.shares.get(reason.code, complication.share * factor))
    )
