"""A patient's chart over time: stays with morning draws and rounds of vital signs, visits with panels.

Values move around the patient's own level (usual value, own offset, marks of the problems), are pulled towards the
planned end of their course as it comes near, and in a stay recover from the acute problem day by day.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from fhir_server.synthetic import catalog as c
from fhir_server.synthetic import problems as p
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.plan import DRAWN, KEY_TESTS, PatientPlan, usual_glucose
from fhir_server.synthetic.times import DAY, at

PULL = 5 * DAY
PULLED = ("MG", "K")
"""For so long before its end a course of these is pulled towards its last value."""
MEALS = 3.2
"""How much wider glucose swings in diabetics."""


@dataclass(frozen=True, slots=True)
class Stay:
    """A hospital stay: first and last day, in days before the clock's day; the last is 0 for those still in."""

    first: int
    last: int
    acute: p.Diagnosis


@dataclass(frozen=True, slots=True)
class Measurement:
    """A measurement: test code, time, the value as text, and minutes until it was issued."""

    code: str
    time: int
    value: str
    delay: int


class PatientChart:
    """Draws one patient's readings."""

    def __init__(self, dice: Dice, plan: PatientPlan) -> None:
        self._dice = dice
        self._plan = plan
        self._taken: set[tuple[str, int]] = set()
        self._levels = {test.code: self._own_level(test) for test in (*c.LABS.values(), *c.VITALS.values())}
        self.stays = _stays(dice, plan)

    def _own_level(self, test: c.Test) -> float:
        level = test.usual + test.between * self._dice.bell()
        if self._plan.person.gender == "female" and test.code in {"HGB", "CREA", "WT"}:
            level *= 0.9
        a1c = self._plan.courses["A1C"]
        if self._plan.diabetic and a1c and test.code in {"A1C", "GLU"}:
            level = a1c.value if test.code == "A1C" else usual_glucose(a1c.value)
        return level + sum(problem.shifts.get(test.code, 0.0) for problem in self._plan.problems)

    def readings(self) -> list[Measurement]:
        """All readings, in no order of time, as charts come from a server that was loaded from many sources."""
        out = [reading for stay in self.stays for reading in self._stay(stay)]
        for time in _visits(self._dice, self._plan, self.stays):
            out += self._visit(time)
        for code in KEY_TESTS:
            course = self._plan.courses[code]
            if course:
                out.append(self._reading(c.LABS[code], -course.ago, course.value))
        return self._dice.shuffled(out)

    def _stay(self, stay: Stay) -> Iterator[Measurement]:
        dice = self._dice
        for day in range(stay.first, stay.last - 1, -1):
            ill = 1.0 - (stay.first - day) / (stay.first - stay.last + 2)
            for hour in (5, 13, 21) if stay.last else (1, 5, 9, 13, 17, 21):
                yield from self._panel(c.ROUND, at(day, hour, dice.between(0, 28)), ill, stay.acute)
            draw = at(day, 5, dice.between(5, 55))
            yield from self._panel((*c.BASIC, *c.COUNT, "MG", "PHOS"), draw, ill, stay.acute)
            if (stay.first - day) % 3 == 0:
                yield from self._panel((*c.LIVER, "CRP", "INR"), draw, ill, stay.acute)
            if day == stay.first:
                yield from self._panel(("LACT", "BNP", "TSH", "WT"), draw, ill, stay.acute)
            for hour in (7, 11, 16, 20) if self._plan.diabetic else (12,):
                yield from self._panel(("GLU",), at(day, hour, dice.between(0, 40)), ill, stay.acute)

    def _visit(self, time: int) -> Iterator[Measurement]:
        yield from self._panel((*c.ROUND, "WT"), time, 0.0, None)
        if self._plan.setting == "new":
            yield from self._panel(("GLU", "CREA"), time + DRAWN, 0.0, None)
            return
        yield from self._panel((*c.BASIC, *c.COUNT, *c.LIVER, *c.LIPIDS, "TSH"), time + DRAWN, 0.0, None)
        yield from self._panel(("A1C",), time + DRAWN, 0.0, None)
        if self._dice.chance(0.3):
            yield from self._panel(("MG",), time + DRAWN, 0.0, None)

    def _panel(self, codes: tuple[str, ...], time: int, ill: float, acute: p.Diagnosis | None) -> Iterator[Measurement]:
        """One draw or round: the tests that are not past the end of their course and not in the future."""
        values: dict[str, float] = {}
        for code in codes:
            if not self._open(code, time):
                continue
            test = c.LABS.get(code) or c.VITALS[code]
            shift = ill * acute.shifts.get(code, 0.0) if acute else 0.0
            swing = test.within * (MEALS if code == "GLU" and self._plan.diabetic else 1.0)
            value = self._pulled(code, time, self._levels[code] + shift + swing * self._dice.bell())
            values[code] = min(max(value, test.low), test.high)
        if "SBP" in values:
            systolic, diastolic = values.pop("SBP"), values.pop("DBP")
            yield Measurement("BP", time, f"{round(systolic)}/{round(min(diastolic, systolic - 20))} mmHg", 0)
        if "LDL" in values:
            values["CHOL"] = values["LDL"] + values["HDL"] + values["TRIG"] / 5
        if "HGB" in values:
            values["HCT"] = values["HGB"] * 2.95
        for code, value in values.items():
            yield self._reading(c.LABS.get(code) or c.VITALS.get(code) or c.DERIVED[code], time, value)

    def _open(self, code: str, time: int) -> bool:
        """Whether the test may be taken then: not twice in a minute, not in the future, not past its course."""
        end = 0
        if code in KEY_TESTS:
            course = self._plan.courses[code]
            if course is None:
                return False
            end = -course.ago
        if time >= end or (code, time) in self._taken:
            return False
        self._taken.add((code, time))
        return True

    def _pulled(self, code: str, time: int, value: float) -> float:
        course = self._plan.courses.get(code) if code in PULLED else None
        if course is None:
            return value
        near = 1.0 - min(-course.ago - time, PULL) / PULL
        return value + (course.value - value) * near

    def _reading(self, test: c.Test, time: int, value: float) -> Measurement:
        dice = self._dice
        text = f"{value:.{test.decimals}f}"
        if test.decimals == 1 and text.endswith(".0") and dice.chance(0.15):
            text = text[:-2]
        elif test.code == "GLU" and dice.chance(0.3):
            text += ".0"
        return Measurement(test.code, time, text, 0 if test.code in c.VITALS else dice.between(28, 110))


def _stays(dice: Dice, plan: PatientPlan) -> list[Stay]:
    """The present stay of the admitted, and earlier ones of those who come often."""
    out = [Stay(plan.days_in, 0, plan.acute)] if plan.acute else []
    earlier = {"admitted": (0, 3), "followed": (0, 2), "new": (0, 0)}[plan.setting]
    start = plan.days_in + 30
    for _ in range(dice.between(*earlier)):
        last = start + dice.between(10, 240)
        first = last + dice.between(3, 8)
        out.append(Stay(first, last, dice.pick([a for a in p.ACUTE if plan.person.age >= a.age + 3])))
        start = first + 20
    return out


def _visits(dice: Dice, plan: PatientPlan, stays: list[Stay]) -> list[int]:
    """Times of the visits, the last one first; none within a stay."""
    if plan.setting == "new":
        return [plan.seen]
    out = [plan.seen]
    day = -plan.seen // DAY + dice.between(60, 150)
    while day < 1000:
        if not any(stay.last <= day <= stay.first for stay in stays):
            out.append(at(day, dice.between(8, 15), dice.between(0, 38)))
        day += dice.between(100, 230)
    return out
