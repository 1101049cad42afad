"""The observations of a chart: rounds of vital signs, morning draws of stays, panels of visits, and the deciding ones.

Readings of a key test outside its course (`courses.py`) are all older than it, so that the course alone decides.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fhir_server.synthetic import catalog as c
from fhir_server.synthetic import render
from fhir_server.synthetic.clock import DAY, Clock
from fhir_server.synthetic.courses import Course, a1c_percent, usual_glucose
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.physiology import TESTS, Body
from fhir_server.synthetic.profile import KeyTest, Profile
from fhir_server.synthetic.story import Stay, Story
from fhir_server.synthetic.vocabulary import NEIGHBOURS

DRAWN = 20
"""Minutes from the vital signs of a visit to the draw."""
PULL = 5 * DAY
"""For so long before a course magnesium and potassium are pulled towards its last level."""
HEMOLYZED, CORRECTED = 0.003, 0.006
UNREVIEWED = 6 * 60
"""Results of so many minutes are still preliminary, but those that decide."""
KEYS = {"MG": "magnesium", "K": "potassium", "GLU": "glucose", "A1C": "a1c"}
"""The catalog's codes of the key tests, and their names in a profile."""


@dataclass(frozen=True, slots=True)
class Reading:
    """A reading to be written: its code as shown, status, time taken, minutes until issued, and rendered value."""

    code: str
    status: str
    time: int
    delay: int
    value: str


class Chart:
    """Draws one patient's readings."""

    def __init__(self, dice: Dice, clock: Clock, profile: Profile, story: Story) -> None:
        self._dice, self._clock, self._profile, self._story = dice, clock, profile, story
        a1c = story.courses.a1c.last
        sugar = {"GLU": usual_glucose(profile, a1c) - 98.0, "A1C": a1c_percent(profile, a1c) - 5.3} if a1c else {}
        shifts = [problem.shifts for problem in story.problems]
        self._body = Body(dice, [*shifts, sugar], story.person.gender)
        self._tests = {code: (getattr(profile, name), getattr(story.courses, name)) for code, name in KEYS.items()}
        self._taken: set[tuple[str, int]] = set()

    def readings(self) -> list[Reading]:
        """All readings, in no order of time, as charts come from a server that was loaded from many sources."""
        out: list[Reading] = []
        contacts: list[tuple[int, int | Stay]] = [(visit, visit) for visit in self._story.visits]
        contacts += [(-stay.first * DAY, stay) for stay in self._story.stays]
        for _, contact in sorted(contacts, key=lambda entry: entry[0]):
            out += self._stay(contact) if isinstance(contact, Stay) else self._visit(contact)
        for code, name in KEYS.items():
            out += self._course(code, name)
        return self._dice.shuffled(out)

    def _stay(self, stay: Stay) -> Iterator[Reading]:
        dice, clock, size = self._dice, self._clock, self._profile.size
        shifts = stay.acute.shifts
        for day in range(stay.first, stay.last - 1, -1):
            ill = 1.0 - (stay.first - day) / (stay.first - stay.last + 2)
            self._body.move()
            for turn in range(size.rounds):
                time = clock.at(day, 1 + turn * 22 // size.rounds, dice.between(0, 28))
                yield from self._panel(c.ROUND, time, ill, shifts)
            draw = clock.at(day, 5, dice.between(5, 55))
            liver = (*c.LIVER, "CRP", "INR") if (stay.first - day) % 3 == 0 else ()
            first = ("LACT", "BNP", "TSH", "WT") if day == stay.first else ()
            yield from self._panel((*c.BASIC, *c.COUNT, "MG", "PHOS", *liver, *first), draw, ill, shifts)
            for turn in range(size.glucose):
                time = clock.at(day, 7 + turn * 13 // size.glucose, dice.between(0, 40))
                yield from self._panel(("GLU",), time, ill, shifts)

    def _visit(self, time: int) -> Iterator[Reading]:
        self._body.move()
        yield from self._panel((*c.ROUND, "WT"), time, 0.0, {})
        magnesium = ("MG",) if self._dice.chance(0.3) else ()
        panel = (*c.BASIC, *c.COUNT, *c.LIVER, *c.LIPIDS, "TSH", "A1C", *magnesium)
        yield from self._panel(panel, time + DRAWN, 0.0, {})

    def _panel(self, codes: tuple[str, ...], time: int, ill: float, shifts: dict[str, float]) -> Iterator[Reading]:
        """One draw or round: not twice in a minute, not in the future, and nothing within a course."""
        if time >= -1 or (codes[0], time) in self._taken:
            return
        self._taken.add((codes[0], time))
        values = self._body.draw(codes, ill, shifts)
        systolic, diastolic = values.pop("SBP", None), values.pop("DBP", 0.0)
        if systolic is not None:
            text = f"{round(systolic)}/{round(min(diastolic, systolic - 20))} mmHg"
            code = self._profile.blood_pressure_code
            yield Reading(code, "final", time, 0, render.text_value(text))
        for code, value in values.items():
            if code in KEYS:
                yield from self._history(code, time, value)
            else:
                yield self._reading(code, time, value)

    def _reading(self, code: str, time: int, value: float) -> Reading:
        dice, test = self._dice, TESTS[code]
        delay = 0 if code in c.VITALS else dice.between(28, 110)
        luck = dice.unit()
        if delay and luck < HEMOLYZED:
            return Reading(code, "cancelled", time, delay, render.absent())
        corrected = delay and luck < HEMOLYZED + CORRECTED
        status = "corrected" if corrected else "preliminary" if delay and time > -UNREVIEWED else "final"
        text = f"{value:.{test.decimals}f}"
        if test.decimals == 1 and text.endswith(".0") and luck > 0.85:
            text = text[:-2]
        bound = "<" if value <= test.low else ">" if value >= test.high else ""
        return Reading(code, status, time, delay, render.quantity(text, test.unit, bound))

    def _history(self, code: str, time: int, value: float) -> Iterator[Reading]:
        """A reading of a key test that is older than its course, pulled towards it; none where there is no course."""
        test: KeyTest = self._tests[code][0]
        course: Course = self._tests[code][1]
        if not course.readings or -time <= course.readings[0].ago:
            return
        steps = test.steps(value)
        if code in ("MG", "K"):
            near = PULL - min(-time - course.readings[0].ago, PULL)
            steps += (course.readings[-1].steps - steps) * near // PULL
        yield self._key_reading(test, "final", time, steps)

    def _course(self, code: str, name: str) -> Iterator[Reading]:
        test: KeyTest = self._tests[code][0]
        course: Course = self._tests[code][1]
        for one in course.readings:
            yield self._key_reading(test, one.status, -one.ago, one.steps)
        if course.neighbour:
            form, unit, (low, high) = NEIGHBOURS[name]
            time = -self._dice.between(5, max(6, course.readings[-1].ago - 1))
            tenths = self._dice.between(low, high)
            value = render.quantity(f"{tenths // 10}.{tenths % 10}", unit)
            yield Reading(form.format(code=test.code), "final", time, 30, value)

    def _key_reading(self, test: KeyTest, status: str, time: int, steps: int) -> Reading:
        text, luck = test.text(max(steps, 1)), self._dice.unit()
        if text.endswith(".0") and luck > 0.85:
            text = text[:-2]
        elif not test.decimals and luck > 0.7:
            text += ".0"
        return Reading(test.code, status, time, self._dice.between(28, 110), render.quantity(text, test.unit))
