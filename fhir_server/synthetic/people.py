"""Who the patients are. Birthdays and names are dealt so that some fall together: see `people`."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import date, timedelta

from fhir_server.synthetic import names
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.times import TODAY

NAMESAKES = 4
"""Pairs of patients who share a name; as many again share a birth date and nearly a name."""
BIRTHDAYS = {"today": 11, "just before": 6, "just after": 6}
"""How many patients have their birthday on the clock's day, or within a week before or after it."""

LEAP_DAY = date(2024, 2, 29)


@dataclass(frozen=True, slots=True)
class Person:
    """Demographics of a patient; `mrn` is the id and the identifier."""

    mrn: str
    family: str
    given: str
    gender: str
    birth: date
    race: tuple[str, str]
    ethnicity: tuple[str, str]
    phone: str
    street: str
    town: tuple[str, str, str]
    zip: str

    @property
    def age(self) -> int:
        """Full years on the clock's day."""
        return TODAY.year - self.birth.year - ((TODAY.month, TODAY.day) < (self.birth.month, self.birth.day))


def people(dice: Dice, ages: list[tuple[int, int]]) -> list[Person]:
    """One person for each (youngest, oldest) age. The last of them share names or birth dates with earlier ones."""
    mrns = _mrns(dice, len(ages))
    days = _birthdays(dice, len(ages))
    families = dice.shuffled(names.FAMILIES)
    out = [_person(dice, mrn, families[n % len(families)], _born(dice, days[n], ages[n])) for n, mrn in enumerate(mrns)]
    for n in range(NAMESAKES):
        model, twin = out[n], out[-1 - n]
        out[-1 - n] = replace(twin, family=model.family, given=model.given, gender=model.gender)
        model, twin = out[NAMESAKES + n], out[-1 - NAMESAKES - n]
        givens = _givens(model.gender)
        given = givens[(givens.index(model.given) + 1) % len(givens)]
        out[-1 - NAMESAKES - n] = replace(
            twin, family=model.family, given=given, gender=model.gender, birth=model.birth
        )
    return out


def _mrns(dice: Dice, count: int) -> list[str]:
    numbers: dict[int, None] = {}
    while len(numbers) < count:
        numbers[dice.between(500_000, 6_999_999)] = None
    return [f"S{number:07d}" for number in numbers]


def _birthdays(dice: Dice, count: int) -> list[int]:
    """Days from the clock's day to the birthday, -182 … 182."""
    near = [0] * BIRTHDAYS["today"]
    near += [-1 - n for n in range(BIRTHDAYS["just before"])]
    near += [1 + n for n in range(BIRTHDAYS["just after"])]
    near.append((LEAP_DAY - TODAY).days)
    return dice.shuffled(near + [dice.between(-182, 182) for _ in range(count - len(near))])


def _born(dice: Dice, offset: int, ages: tuple[int, int]) -> date:
    day = TODAY + timedelta(days=offset)
    year = day.year - dice.between(*ages)
    leap_day = (day.month, day.day) == (2, 29)
    return day.replace(year=year - year % 4 if leap_day else year)


def _givens(gender: str) -> tuple[str, ...]:
    return names.FEMALE if gender == "female" else names.MALE


def _person(dice: Dice, mrn: str, family: str, birth: date) -> Person:
    gender = dice.pick(("female", "male"))
    town = dice.pick(names.TOWNS)
    return Person(
        mrn=mrn,
        family=family,
        given=dice.pick(_givens(gender)),
        gender=gender,
        birth=birth,
        race=dice.pick(names.RACES),
        ethnicity=dice.pick(names.ETHNICITIES),
        phone=f"{dice.between(201, 989)}-555-{dice.between(100, 199):04d}",
        street=f"{dice.between(3, 9800)} {dice.pick(names.STREETS)} {dice.pick(names.WAYS)}",
        town=town,
        zip=f"{town[2]}{dice.between(1, 99):02d}",
    )
