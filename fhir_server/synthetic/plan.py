"""The clinical plan: who is admitted, what they have, and how magnesium, potassium, glucose and A1c end.

A `Course` fixes the last measurement of a test: when it was taken and what it said. Courses are dealt like cards, so
that the hospital always has patients with severe, moderate, mild and no magnesium deficiency, low and normal potassium,
old and recent A1c, levels just inside and just outside the last 24 hours, and patients never tested at all.
"""

from __future__ import annotations

from dataclasses import dataclass

from fhir_server.synthetic import problems as p
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.people import Person, people
from fhir_server.synthetic.times import DAY, YEAR, at

SETTINGS = ("admitted",) * 46 + ("followed",) * 38 + ("new",) * 16
AGES = {"admitted": (34, 91), "followed": (26, 84), "new": (19, 58)}
SEEN = {"admitted": (16, 90), "followed": (4, 200), "new": (20, 600)}
"""How many days ago the last visit was, at least and at most."""
DRAWN = 20
"""Minutes from the vital signs of a visit to the draw."""
KEY_TESTS = ("MG", "K", "GLU", "A1C")


@dataclass(frozen=True, slots=True)
class Course:
    """The last measurement of a test: minutes before the clock, and the value."""

    ago: int
    value: float


@dataclass(frozen=True, slots=True)
class PatientPlan:
    """A patient's story: admitted `days_in` days ago, last seen in the clinic at the time `seen`.

    `courses` has a key for each of KEY_TESTS, None where the test was never done.
    """

    person: Person
    setting: str
    days_in: int
    seen: int
    problems: tuple[p.Diagnosis, ...]
    acute: p.Diagnosis | None
    courses: dict[str, Course | None]

    @property
    def diabetic(self) -> bool:
        """Whether diabetes stands on the problem list."""
        return any(problem in p.DIABETES for problem in self.problems)


def plans(dice: Dice) -> list[PatientPlan]:
    """The plans of the hospital's patients, in the order of their charts."""
    settings = dice.shuffled(SETTINGS)
    persons = people(dice, [AGES[setting] for setting in settings])
    admitted = [n for n, setting in enumerate(settings) if setting == "admitted"]
    others = [n for n, setting in enumerate(settings) if setting != "admitted"]
    diabetic = _diabetics(dice, persons, settings)
    seen = [_office_hours(dice, *SEEN[setting]) for setting in settings]
    magnesium = _magnesium(dice, admitted, others)
    potassium = _potassium(dice, settings, seen, magnesium)
    a1c = _a1c(dice, settings, diabetic)
    glucose = _glucose(dice, settings, seen, {n: a1c[n] for n in diabetic})
    out = []
    for n, (person, setting) in enumerate(zip(persons, settings, strict=True)):
        courses = {"MG": magnesium[n], "K": potassium[n], "GLU": glucose[n], "A1C": a1c[n]}
        acute = _acute(dice, person.age) if setting == "admitted" else None
        listed = _problems(dice, person.age, setting, n in diabetic, courses)
        out.append(PatientPlan(person, setting, dice.between(2, 11), seen[n], listed, acute, courses))
    return out


def _diabetics(dice: Dice, persons: list[Person], settings: list[str]) -> set[int]:
    fitting = [n for n, setting in enumerate(settings) if setting != "new" and persons[n].age >= 34]
    return set(dice.shuffled(fitting)[:38])


def usual_glucose(a1c: float) -> float:
    """Mean glucose, mg/dL, that goes with an A1c in % (the ADAG study: Nathan, Diabetes Care 2008)."""
    return 28.7 * a1c - 46.7


def _office_hours(dice: Dice, least: int, most: int) -> int:
    """A time so many days ago, in the hours of the clinic."""
    return at(dice.between(least, most), dice.between(8, 15), dice.between(0, 59))


def _hours(dice: Dice, low: float, high: float) -> int:
    return dice.between(int(low * 60), int(high * 60))


def _magnesium(dice: Dice, admitted: list[int], others: list[int]) -> dict[int, Course | None]:
    """Of the admitted 36 have a level within 24 h (two of them exactly 24 h old), 6 just outside, 4 none at all."""
    severe = [0.6, 0.7, 0.7, 0.8, 0.8, 0.9, 0.9, 0.9]
    moderate = [1.0, 1.0, 1.1, 1.2, 1.2, 1.3, 1.4, 1.4]
    mild = [1.5, 1.5, 1.6, 1.7, 1.7, 1.8, 1.9, 1.9]
    normal = [2.0, 2.0, 2.1, 2.1, 2.2, 2.2, 2.3, 2.3, 2.4, 2.5, 2.7, 2.8]
    inside = dice.shuffled(severe + moderate + mild + normal)
    courses: list[Course | None] = [Course(_hours(dice, 1, 22), value) for value in inside]
    courses[0], courses[1] = Course(DAY, inside[0]), Course(DAY - 1, inside[1])
    just_outside = (DAY + 1, DAY + 1, DAY + 15, DAY + 50, DAY + 300, 2 * DAY)
    courses += [Course(ago, dice.pick((0.9, 1.2, 1.6, 2.0, 2.2))) for ago in just_outside]
    courses += [None] * (len(admitted) - len(courses))
    old: list[Course | None] = [Course(-_office_hours(dice, 9, 900), 1.7 + 0.1 * dice.between(0, 6)) for _ in range(20)]
    old += [None] * (len(others) - len(old))
    return dict(zip(admitted, dice.shuffled(courses), strict=True)) | dict(zip(others, dice.shuffled(old), strict=True))


def _potassium(
    dice: Dice, settings: list[str], seen: list[int], magnesium: dict[int, Course | None]
) -> dict[int, Course | None]:
    """Low in 14 of those with the least magnesium (the two go together) and in 4 followed patients; none in the new."""
    admitted = [n for n, setting in enumerate(settings) if setting == "admitted"]
    short = sorted(admitted, key=lambda n: (_level(magnesium[n]), n))
    followed = dice.shuffled([n for n, setting in enumerate(settings) if setting == "followed"])
    values = dice.shuffled([2.4, 2.5, *(2.6 + 0.1 * (n % 9) for n in range(16))])
    low = dict(zip(short[:14] + followed[:4], values, strict=True))
    out: dict[int, Course | None] = {}
    for n, setting in enumerate(settings):
        value = low.get(n, 3.5 if n % 19 == 0 else 3.6 + 0.1 * dice.between(0, 12))
        ago = _hours(dice, 1, 20) if setting == "admitted" else -seen[n] - DRAWN
        out[n] = None if setting == "new" else Course(ago, value)
    return out


def _level(course: Course | None) -> float:
    return course.value if course else 9.0


def _glucose(
    dice: Dice, settings: list[str], seen: list[int], diabetics: dict[int, Course | None]
) -> dict[int, Course | None]:
    """Within 24 h in most of the admitted, just outside in 6; else at the last visit; never done in 9 of the new."""
    admitted = dice.shuffled([n for n, setting in enumerate(settings) if setting == "admitted"])
    outside = dict(zip(admitted[:6], (DAY + 1, DAY + 1, DAY + 20, DAY + 240, DAY + 900, DAY + 1500), strict=True))
    never = [n for n, setting in enumerate(settings) if setting == "new"][:9]
    out: dict[int, Course | None] = {}
    for n, setting in enumerate(settings):
        a1c = diabetics.get(n)
        value = usual_glucose(a1c.value) * (0.75 + dice.unit() * 0.6) if a1c else dice.between(78, 128)
        ago = _hours(dice, 0.5, 9) if setting == "admitted" else -seen[n] - DRAWN
        out[n] = None if n in never else Course(outside.get(n, ago), round(value))
    return out


def _a1c(dice: Dice, settings: list[str], diabetic: set[int]) -> dict[int, Course | None]:
    """Recent in most diabetics, older than a year in 12 of them and in 10 others, a few at the year's very edge."""
    out: dict[int, Course | None] = dict.fromkeys(range(len(settings)))
    known = dice.shuffled(sorted(diabetic))
    for place, n in enumerate(known):
        value = 6.4 + 0.1 * min(dice.between(0, 42), dice.between(0, 42))
        ago = _old(dice, place) if place < 12 else YEAR - 1 if place == 12 else -_office_hours(dice, 4, 350)
        out[n] = Course(ago, value)
    others = dice.shuffled([n for n, s in enumerate(settings) if s != "new" and n not in diabetic])
    for place, n in enumerate(others[:20]):
        ago = _old(dice, place + 12) if place < 10 else -_office_hours(dice, 10, 350)
        out[n] = Course(ago, 4.9 + 0.1 * dice.between(0, 12))
    return out


def _old(dice: Dice, place: int) -> int:
    """Two of the old ones are a minute too old, and one less than a day."""
    edges = {0: YEAR + 1, 1: YEAR + 500, 12: YEAR + 1}
    return edges.get(place) or -_office_hours(dice, 375, 1200)


def _acute(dice: Dice, age: int) -> p.Diagnosis:
    return dice.pick([problem for problem in p.ACUTE if age >= problem.age])


def _problems(
    dice: Dice, age: int, setting: str, diabetic: bool, courses: dict[str, Course | None]
) -> tuple[p.Diagnosis, ...]:
    weight = {"admitted": 1.3, "followed": 1.0, "new": 0.3}[setting]
    a1c = courses["A1C"]
    listed = [p.DIABETES[1 if a1c and a1c.value >= 8.5 else 0]] if diabetic else []
    listed += [c for c in p.CHRONIC if age >= c.age and dice.chance(c.share * weight)]
    if _level(courses["MG"]) <= 1.4:
        listed += [dice.pick(p.WASTING), p.LOW_MAGNESIUM]
    potassium = courses["K"]
    if potassium and potassium.value < 3.4:
        listed.append(p.LOW_POTASSIUM)
    return tuple(listed)
