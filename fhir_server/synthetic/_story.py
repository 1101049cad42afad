"""A patient's story: the person, the problems, and when the patient was in hospital and at the clinic.

It is sampled before any reading. Readings, orders and notes belong to one of its stays and visits and agree with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from fhir_server.synthetic import _problems as p
from fhir_server.synthetic import _stays as s
from fhir_server.synthetic import _vocabulary as v
from fhir_server.synthetic._care import Care, Planner, Visit, overlaps
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._courses import DIABETIC, Courses, Features, KeyReading, all_courses, sample_features
from fhir_server.synthetic._profile import HospitalProfile
from fhir_server.synthetic.people import Person, people
from fhir_server.synthetic.seeded_random import SeededRandom

AGES = {"admitted": (34, 91), "followed": (26, 84), "new": (19, 58)}
DECEASED = 0.04
WARFARIN = 0.35
"""The share of patients with atrial fibrillation who take warfarin, not apixaban."""
LONGER = (3, 7)
"""How many days longer the current stays of patients with diabetes last, so far. Most of them then have more glucose
readings than a page of a search."""
NEAR = 12 * 60
"""A problem without a later contact is recorded at its onset if it would be recorded this close to a stay (minutes)."""


@dataclass(frozen=True, slots=True)
class Problem:
    """A problem of the problem list, with the times of its onset and of its recording."""

    diagnosis: p.Diagnosis
    onset: int
    recorded: int


@dataclass(frozen=True, slots=True)
class Story:
    """One patient. `problems` is the problem list. Stays and visits are in the order of time."""

    person: Person
    courses: Courses
    features: Features
    allergies: tuple[tuple[str, str, str], ...]
    problems: tuple[Problem, ...]
    stays: tuple[s.Stay, ...]
    visits: tuple[Visit, ...]
    care: Care
    warfarin: int | None = None
    """When the patient started to take warfarin."""

    @property
    def until(self) -> int:
        """The last minute of the story."""
        return -1 if self.person.died is None else self.person.died

    @property
    def allergens(self) -> tuple[str, ...]:
        return tuple(name for _, name, _ in self.allergies)

    @property
    def resected(self) -> bool:
        """Whether the renal tumour was removed."""
        return any(stay.reason.code == p.TUMOUR.code for stay in self.stays)

    @property
    def renal(self) -> bool:
        """Whether the patient has a chronic kidney disease."""
        return any(problem.diagnosis.code == "N18.31" for problem in self.problems)


def stories(rng: SeededRandom, clock: HospitalClock, profile: HospitalProfile, mrns: Sequence[str]) -> list[Story]:
    """The patients of a block. The deceased ones are at the end."""
    dead = round(DECEASED * len(mrns))
    courses = all_courses(rng, profile, len(mrns) - dead)
    features = sample_features(rng, [course.setting for course in courses])
    ages = [
        (46, 88) if feature.tumour == "yes" else AGES[course.setting]
        for course, feature in zip(courses, features, strict=True)
    ] + [(58, 91)] * dead
    persons = people(rng, clock, mrns, ages)
    for n in range(len(courses), len(mrns)):
        time = clock.at(rng.between(20, 400), rng.between(0, 23), rng.between(0, 59))
        persons[n] = replace(persons[n], died=time)
    features = _old_enough(persons, courses, features)
    courses += [Courses("followed")] * dead
    features += [Features("no", "none", "none")] * dead
    teller = _Teller(rng, clock, profile)
    return [teller.story(*plan) for plan in zip(persons, courses, features, strict=True)]


def _old_enough(persons: Sequence[Person], courses: Sequence[Courses], features: Sequence[Features]) -> list[Features]:
    """The features of each patient, with no tumour in a patient who is too young for it.

    A patient who shares a birth date with another may be that young. Such a patient swaps all features with one of the
    same setting. If there is none, the hospital has one tumour less.
    """
    out = list(features)
    old = [person.age >= p.TUMOUR.age + 2 for person in persons]
    for n, feature in enumerate(features):
        if feature.tumour == "no" or old[n]:
            continue
        others = (m for m, plan in enumerate(courses) if plan.setting == courses[n].setting and old[m])
        swapped = next((m for m in others if out[m].tumour == "no"), None)
        if swapped is None:
            out[n] = replace(feature, tumour="no")
        else:
            out[n], out[swapped] = out[swapped], feature
    return out


class _Teller:
    """Samples the stories of a hospital's patients."""

    def __init__(self, rng: SeededRandom, clock: HospitalClock, profile: HospitalProfile) -> None:
        self._rng = rng
        self._clock = clock
        self._profile = profile

    def story(self, person: Person, courses: Courses, features: Features) -> Story:
        rng = self._rng
        listed = self._problems(person, courses, features)
        stays = self._stays(person, courses, features, [diagnosis.code for diagnosis in listed])
        planner = Planner(rng, self._clock, self._profile, stays, -1 if person.died is None else person.died)
        planner.draws([reading.ago for reading in _outpatient(courses)])
        care, visits = planner.plan(features, courses.setting)
        allergies = rng.shuffled(v.ALLERGENS)[: max(0, rng.between(-2, 2))]
        problems = [self._dated(diagnosis, person, courses, visits, stays) for diagnosis in listed]
        fibrillation = next((problem for problem in problems if problem.diagnosis.code == p.FIBRILLATION), None)
        warfarin = fibrillation.recorded + 5 if fibrillation and rng.chance(WARFARIN) else None
        if warfarin is not None:
            visits = planner.warfarin(warfarin)
        return Story(person, courses, features, tuple(allergies), tuple(problems), stays, visits, care, warfarin)

    def _problems(self, person: Person, courses: Courses, features: Features) -> list[p.Diagnosis]:
        rng, profile, here = self._rng, self._profile, courses.setting == "admitted"
        weight = {"admitted": 1.3, "followed": 1.0, "new": 0.3}[courses.setting]
        a1c = courses.a1c.last
        percent = profile.a1c.usual(a1c.steps) if a1c else 5.0
        listed = []
        if percent >= DIABETIC:
            listed.append(p.DIABETES[1 if percent >= 8.5 else 0])
        barred = {"E03.9"} if features.thyroid != "normal" else set()  # its patients have normal TSH, by levothyroxine
        if here and features.anticoagulant in ("none", "heparin"):
            barred.add(p.FIBRILLATION)
        for diagnosis in p.CHRONIC:
            fits = person.age >= diagnosis.age and diagnosis.sex in ("", person.gender) and diagnosis.code not in barred
            if fits and rng.chance(diagnosis.share * weight):
                listed.append(diagnosis)
        magnesium, potassium = courses.magnesium.last, courses.potassium.last
        if magnesium and magnesium.steps < profile.magnesium_levels[1]:
            listed += [rng.pick(p.WASTING), p.LOW_MAGNESIUM]
        if potassium and potassium.steps < profile.potassium_low:
            listed.append(p.LOW_POTASSIUM)
        if features.tumour == "yes":
            listed.append(p.TUMOUR)
        if features.opioid != "none" and not here and features.tumour != "yes":
            listed.append(p.PAIN)
        if features.long_qt and not here and rng.chance(0.6):
            listed.append(p.BIPOLAR)
        return listed

    def _stays(self, person: Person, courses: Courses, features: Features, listed: Sequence[str]) -> tuple[s.Stay, ...]:
        rng, clock, profile = self._rng, self._clock, self._profile
        reasons = s.fitting(person.age, person.gender, listed)
        out: list[s.Stay] = []
        if courses.setting == "admitted":
            fits = {"K92.2": ("none",), "I21.4": ("two", "other")}
            now = [
                reason
                for reason in reasons
                if features.anticoagulant in fits.get(reason.code, (features.anticoagulant,))
            ]
            least = max(5, (profile.window + 2 * DAY) // DAY + 2)
            longer = rng.between(*LONGER) if any(code.startswith("E11") for code in listed) else 0
            out.append(s.present(rng, clock, now, least + longer))
        elif person.died is not None and rng.chance(0.6):
            out.append(s.fatal(rng, clock, reasons, person.died))
        reasons = [reason for reason in reasons if not out or reason.code != out[0].reason.code]
        measured = [reading.ago for course in (courses.potassium, courses.glucose) for reading in course.readings]
        day = max([0, *(clock.days_ago(stay.start) for stay in out), *(ago // DAY + 2 for ago in measured)])
        if person.died is not None:
            day = max(day, clock.days_ago(person.died) + 3)
        for _ in range(rng.between(*profile.size.stays[courses.setting])):
            stay = s.past(rng, clock, rng.pick(reasons), day + rng.between(12, 240))
            if clock.days_ago(stay.start) > profile.size.span:
                break
            day = clock.days_ago(stay.start) + 7
            if any(
                stay.start - DAY < -reading.ago < stay.start or stay.until < -reading.ago < stay.until + DAY
                for reading in _outpatient(courses)
            ):
                continue  # a draw of the clinic, just before or after a stay
            if stay.reason.planned:
                reasons = [reason for reason in reasons if reason.code != stay.reason.code]
            out.append(stay)
        return tuple(reversed(out))

    def _dated(
        self,
        diagnosis: p.Diagnosis,
        person: Person,
        courses: Courses,
        visits: Sequence[Visit],
        stays: Sequence[s.Stay],
    ) -> Problem:
        """The problem with its onset and the contact at which it was recorded."""
        rng, clock = self._rng, self._clock
        course = {p.LOW_MAGNESIUM.code: courses.magnesium, p.LOW_POTASSIUM.code: courses.potassium}.get(diagnosis.code)
        if course and course.readings:
            onset = -course.readings[-1].ago
            return Problem(diagnosis, onset, min(-1, onset + rng.between(20, 40)))
        until = 0 if person.died is None else clock.days_ago(person.died)
        grown = (person.age - max(18, diagnosis.age - 3)) * 365
        oldest = max(241, min(700 if diagnosis is p.TUMOUR else 4000, grown - 300))
        needing = [clock.days_ago(stay.start) - until for stay in stays if stay.reason.needs == diagnosis.code]
        least = max([240, *(days + 10 for days in needing)])
        day = rng.between(least, max(oldest, least + 60))
        onset = clock.at(until + day, rng.between(8, 16), rng.between(0, 59))
        contacts = [visit.start + 10 for visit in visits] + [stay.start + 30 for stay in stays]
        later = sorted(time for time in contacts if time >= onset)
        first = min(contacts, default=0)
        recorded = later[0] if later and onset > first else onset + rng.between(0, 20) * DAY
        if any(overlaps(recorded, recorded, stay.start - NEAR, stay.until + NEAR) for stay in stays) and not later:
            recorded = onset
        return Problem(diagnosis, onset, recorded)


def _outpatient(courses: Courses) -> list[KeyReading]:
    """The readings of all four courses."""
    every = (courses.magnesium, courses.potassium, courses.glucose, courses.a1c)
    return [reading for course in every for reading in course.readings]
