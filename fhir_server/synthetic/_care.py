"""Visits, and care with a date: images, thyroid tests, electrocardiograms, vaccines.

The kinds that decide tasks (the age of a CT, which QTc is the last) come from `_courses`. Here each gets a time, and
the visit or stay that it belongs to.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from datetime import date

from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._courses import Features
from fhir_server.synthetic._profile import HospitalProfile
from fhir_server.synthetic._stays import Stay
from fhir_server.synthetic.seeded_random import SeededRandom

SEEN = {"admitted": (16, 60), "followed": (4, 120), "new": (20, 300)}
"""The minimum and maximum number of days since the last visit, by setting."""
DRAWN = 20
"""Minutes from the beginning of a visit to the blood sample."""
_NEAR = 12 * 60
_COVID = date(2020, 12, 14)
"""The first day of vaccination in the United States."""
_CT = ("IMGCT0491", "IMGCT0491", "IMGCT0491", "IMGIL0001", "74177")


@dataclass(frozen=True, slots=True)
class Visit:
    """An outpatient visit. `kind`: `clinic`, `draw` (only a blood draw), `imaging`, or `warfarin` (only an INR)."""

    start: int
    end: int
    kind: str


@dataclass(frozen=True, slots=True)
class Ecg:
    """An electrocardiogram: when it was taken, its QTc in ms, and when it was stored."""

    time: int
    qtc: int
    stored: int


@dataclass(frozen=True, slots=True)
class Thyroid:
    """A sample for thyroid tests: TSH in hundredths of m[IU]/L, free T4 in tenths of ng/dL."""

    time: int
    tsh: int
    ft4: int


@dataclass(frozen=True, slots=True)
class Care:
    """Care with a date. Times are as in `HospitalClock`."""

    images: tuple[tuple[int, str], ...] = ()
    """CTs of the abdomen: time and procedure code."""
    thyroid: tuple[Thyroid, ...] = ()
    ecgs: tuple[Ecg, ...] = ()
    influenza: int | None = None
    covid: int | None = None


def overlaps(start: int, end: int, other_start: int, other_end: int) -> bool:
    return start <= other_end and other_start <= end


class Planner:
    """Plans one patient's visits and care outside the stays."""

    def __init__(
        self, rng: SeededRandom, clock: HospitalClock, profile: HospitalProfile, stays: Sequence[Stay], until: int
    ) -> None:
        self._rng = rng
        self._clock = clock
        self._profile = profile
        self._stays = stays
        self._until = until
        self._visits: list[Visit] = []

    def draws(self, ago: Iterable[int]) -> None:
        """Adds visits for the blood samples taken at these times (minutes before now) that are not during a stay."""
        outside = sorted({-minutes for minutes in ago if not any(stay.holds(-minutes) for stay in self._stays)})
        groups: list[list[int]] = []
        for time in outside:
            if groups and time - groups[-1][-1] <= 60:
                groups[-1].append(time)
            else:
                groups.append([time])
        self._visits += [Visit(times[0] - DRAWN, min(-1, times[-1] + 25), "draw") for times in groups]

    def plan(self, features: Features, setting: str) -> tuple[Care, tuple[Visit, ...]]:
        """The care, and all visits in the order of time."""
        images = self._images(features)
        clinic = self._clinic(features, setting)
        care = Care(
            images,
            self._thyroid(features.thyroid, clinic),
            self._ecgs(features, clinic),
            self._vaccine(features.influenza, ((10, 70), (320, 358)), ((372, 420), (700, 780))),
            self._covid(features.covid),
        )
        return care, self._sorted()

    def warfarin(self, start: int) -> tuple[Visit, ...]:
        """All visits, including the checks of a warfarin started at this time: after a week, then every few weeks."""
        day = min(self._clock.days_ago(start), self._profile.size.span) - 7
        last = self._clock.days_ago(self._until)
        while day > last:
            time = self._clock.at(day, self._rng.between(8, 15), self._rng.between(0, 59))
            if self._clock.is_weekend(day) or not self._free(time, time + 15):
                day -= 1
                continue
            self._visits.append(Visit(time, time + 15, "warfarin"))
            day -= self._rng.between(21, 42)
        return self._sorted()

    def _sorted(self) -> tuple[Visit, ...]:
        return tuple(sorted(self._visits, key=lambda visit: visit.start))

    def _free(self, start: int, end: int) -> bool:
        stays = any(overlaps(start, end, stay.start - _NEAR, stay.until + _NEAR) for stay in self._stays)
        return (
            end < self._until
            and not stays
            and not any(overlaps(start, end, visit.start - 15, visit.end + 15) for visit in self._visits)
        )

    def _day(self, spans: Sequence[tuple[int, int]], fits: Callable[[int], bool]) -> int | None:
        """A time in the clinic's hours that `fits`, on a day in one of `spans`; None if 30 random tries fail.

        `spans` are in days before the end of the story.
        """
        last = self._clock.days_ago(self._until)
        for _ in range(30):
            day = last + self._rng.between(*self._rng.pick(spans))
            time = self._clock.at(day, self._rng.between(8, 15), self._rng.between(0, 59))
            if not self._clock.is_weekend(day) and fits(time):
                return time
        return None

    def _images(self, features: Features) -> tuple[tuple[int, str], ...]:
        tumour = features.tumour == "yes"
        spans = {"recent": ((4, 86) if tumour else (4, 355),), "old": ((95, 700) if tumour else (370, 900),)}
        if features.ct not in spans:
            return ()

        def fits(time: int) -> bool:
            inside = any(stay.start + 120 < time < stay.until - 60 for stay in self._stays)
            return inside or self._free(time - 15, time + 40)

        time = self._day(spans[features.ct], fits)
        if time is None:
            return ()
        if not any(stay.holds(time) for stay in self._stays):
            self._visits.append(Visit(time - 15, time + 40, "imaging"))
        return ((time, self._rng.pick(_CT)),)

    def _clinic(self, features: Features, setting: str) -> list[Visit]:
        """Visits to the clinic, oldest first; enough for the thyroid tests (six weeks apart) and electrocardiograms."""
        rng, clock, size = self._rng, self._clock, self._profile.size
        day = clock.days_ago(self._until) + rng.between(*SEEN[setting])
        visits: list[Visit] = []
        least = 2 if features.late_ecg else 1
        if features.thyroid in ("overt", "once high"):
            least = 3
        while day < size.span or len(visits) < least:
            start = clock.at(day, rng.between(8, 15), rng.between(0, 59))
            visit = Visit(start, start + rng.between(30, 55), "clinic")
            if not clock.is_weekend(day) and self._free(visit.start, visit.end):
                visits.append(visit)
                self._visits.append(visit)
            if setting == "new" and len(visits) >= max(2, least):
                break
            step = rng.between(*size.between_visits)
            spaced = max(46, step) if len(visits) < least else step
            day += spaced if visits and visits[-1] is visit else 1
        return visits[::-1]

    def _thyroid(self, kind: str, clinic: Sequence[Visit]) -> tuple[Thyroid, ...]:
        rng = self._rng
        if kind == "none" or not clinic:
            return ()
        last = clinic[-1].start + DRAWN
        earlier = [visit.start + DRAWN for visit in clinic if visit.start < last - 45 * DAY]
        normal = [Thyroid(time, rng.between(70, 420), rng.between(9, 16)) for time in earlier[:-1][-2:]]
        before = earlier[-1] if earlier else None
        if kind in ("overt", "once high") and before is not None:
            high = Thyroid(before, rng.between(1040, 2600), rng.between(5, 9))
            now = Thyroid(last, rng.between(1040, 2600), rng.between(5, 9))
            if kind == "once high":
                now = Thyroid(last, rng.between(150, 420), rng.between(9, 15))
            return (*normal, high, now)
        if kind == "subclinical":
            level = rng.pick((450, 1000)) if rng.chance(0.25) else rng.between(460, 990)
            return (*normal, Thyroid(last, level, rng.pick((8, 18)) if rng.chance(0.2) else rng.between(9, 16)))
        if kind == "low hormone":
            return (*normal, Thyroid(last, rng.between(460, 990), rng.between(4, 7)))
        return (*normal, Thyroid(last, rng.between(70, 420), rng.between(9, 16)))

    def _ecgs(self, features: Features, clinic: Sequence[Visit]) -> tuple[Ecg, ...]:
        """The last electrocardiogram and an earlier one, which in some charts is stored later."""
        rng, kind = self._rng, features.qt
        if kind == "none":
            return ()
        here = self._stays[-1] if self._stays and self._stays[-1].end is None else None
        if here is not None:
            times = [here.start + 40, -rng.between(4 * 60, 40 * 60)]
        else:
            times = [visit.start + 12 for visit in clinic[-2:]]
        long, normal = rng.between(504, 561), rng.between(392, 468)
        if kind == "normal":
            last, first = normal, rng.between(392, 470)
        elif kind == "stored last":
            last, first = normal, long
        elif kind == "late long":
            last, first = long, long + rng.between(6, 28)
        elif kind == "late normal":
            last, first = normal, normal + rng.between(6, 28)
        else:
            last, first = long, rng.between(405, 478)
        if len(times) == 1:
            return (Ecg(times[0], last, times[0] + 5),)
        held = min(-2, times[1] + rng.between(2 * 60, 20 * 60)) if features.late_ecg else times[0] + 5
        return (Ecg(times[0], first, held), Ecg(times[1], last, min(-3, times[1] + 5)))

    def _vaccine(self, kind: str, recent: Sequence[tuple[int, int]], old: Sequence[tuple[int, int]]) -> int | None:
        if kind == "none":
            return None
        spans = recent if kind == "recent" else old
        return self._day(spans, lambda time: self._free(time, time))

    def _covid(self, kind: str) -> int | None:
        time = self._vaccine(kind, ((12, 350),), ((380, 800),))
        return time if time is None or self._clock.date_of(-self._clock.days_ago(time)) >= _COVID else None
