"""A patient's story before any reading: who, what they have, when they were in hospital and at the clinic."""

from __future__ import annotations

from dataclasses import dataclass, replace

from fhir_server.synthetic import problems as p
from fhir_server.synthetic.clock import DAY, Clock
from fhir_server.synthetic.courses import DIABETIC, Courses, a1c_percent, all_courses
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.people import Person, people
from fhir_server.synthetic.profile import Profile

AGES = {"admitted": (34, 91), "followed": (26, 84), "new": (19, 58)}
SEEN = {"admitted": (16, 60), "followed": (4, 120), "new": (20, 400)}
"""How many days ago the last visit was, at least and at most."""
DECEASED = 0.04


@dataclass(frozen=True, slots=True)
class Stay:
    """A hospital stay: first and last day, in days before today; the last is 0 for those still in."""

    first: int
    last: int
    acute: p.Diagnosis


@dataclass(frozen=True, slots=True)
class Story:
    """One patient. `problems` stand on the list; `visits` are times, the oldest first, as are the stays."""

    person: Person
    courses: Courses
    problems: tuple[p.Diagnosis, ...]
    stays: tuple[Stay, ...]
    visits: tuple[int, ...]


def stories(dice: Dice, clock: Clock, profile: Profile) -> list[Story]:
    """All patients, those who have died the last."""
    dead = round(DECEASED * profile.patients)
    courses = all_courses(dice, profile, profile.patients - dead)
    courses += [Courses("followed")] * dead
    ages = [AGES[one.setting] for one in courses[: len(courses) - dead]] + [(58, 91)] * dead
    persons = people(dice, clock, profile.mrn_form, ages)
    out = []
    for n, (person, ends) in enumerate(zip(persons, courses, strict=True)):
        if n >= len(persons) - dead:
            person = replace(person, died=dice.between(20, 400))
        problems = _problems(dice, profile, person, ends)
        stays = _stays(dice, profile, person, ends.setting)
        out.append(Story(person, ends, problems, stays, _visits(dice, clock, profile, person, ends.setting, stays)))
    return out


def _problems(dice: Dice, profile: Profile, person: Person, courses: Courses) -> tuple[p.Diagnosis, ...]:
    weight = {"admitted": 1.3, "followed": 1.0, "new": 0.3}[courses.setting]
    a1c = courses.a1c.last
    percent = a1c_percent(profile, a1c) if a1c else 5.0
    listed = [p.DIABETES[1 if percent >= 8.5 else 0]] if percent >= DIABETIC else []
    listed += [one for one in p.CHRONIC if person.age >= one.age and dice.chance(one.share * weight)]
    magnesium, potassium = courses.magnesium.last, courses.potassium.last
    if magnesium and magnesium.steps < profile.magnesium_levels[1]:
        listed += [dice.pick(p.WASTING), p.LOW_MAGNESIUM]
    if potassium and potassium.steps < profile.potassium_low:
        listed.append(p.LOW_POTASSIUM)
    return tuple(listed)


def _stays(dice: Dice, profile: Profile, person: Person, setting: str) -> tuple[Stay, ...]:
    fitting = [one for one in p.ACUTE if person.age >= one.age]
    out = [Stay(dice.between(3, 8), 0, dice.pick(fitting))] if setting == "admitted" else []
    start = (out[0].first if out else person.died or 0) + 30
    for _ in range(dice.between(*profile.size.stays[setting])):
        last = start + dice.between(10, 240)
        first = last + dice.between(3, 9)
        if first > profile.size.span:
            break
        out.append(Stay(first, last, dice.pick(fitting)))
        start = first + 14
    return tuple(reversed(out))


def _visits(
    dice: Dice, clock: Clock, profile: Profile, person: Person, setting: str, stays: tuple[Stay, ...]
) -> tuple[int, ...]:
    """Times in the clinic's hours; none within a stay."""
    day = (person.died or 0) + dice.between(*SEEN[setting])
    out = []
    while day < profile.size.span:
        if not any(stay.last - 1 <= day <= stay.first + 1 for stay in stays):
            out.append(clock.at(day, dice.between(8, 15), dice.between(0, 59)))
        if setting == "new" and len(out) >= 2:
            break
        day += dice.between(*profile.size.between_visits)
    return tuple(reversed([time for time in out if time < -2 * DAY]))
