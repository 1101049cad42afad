"""The deciding readings: how magnesium, potassium, glucose and HbA1c end in each chart.

Every level and time is drawn. Kinds of endings are dealt by share, so that each branch of each task has patients in
every hospital; within a kind levels and times are uniform between its bounds, and its first patients get the edges:
a level exactly at a threshold or one step beside it, a time exactly at the end of the window or a minute beyond.
Some endings are followed by a second result of the same minute, or by one of a neighbouring test that is not meant, or
are amended results.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fhir_server.synthetic._clock import DAY
from fhir_server.synthetic._profile import Profile
from fhir_server.synthetic.dice import Dice

SETTINGS = (("admitted", 0.48), ("followed", 0.36), ("new", 0.16))
MAGNESIUM = (("severe", 0.17), ("moderate", 0.19), ("mild", 0.19), ("normal", 0.29), ("stale", 0.1), ("never", 0.06))
"""Of the admitted; all others have an old level or none."""
POTASSIUM = (("low", 0.31), ("normal", 0.69))
UNMEASURED = 0.26
"""Share of those at home who never had potassium measured, nor anything else of the basic panel."""
GLUCOSE = (("recent", 0.88), ("stale", 0.12))
"""Of the admitted; of the others none is recent."""
A1C = (("recent", 0.3), ("old", 0.45), ("never", 0.25))
REPEATED, AMENDED, NEIGHBOUR = 0.06, 0.08, 0.25
"""Shares of endings with a second result of the same minute, an amended one, and a neighbouring test after them."""
DIABETIC = 6.5
"""From this HbA1c on, in %, a patient counts as diabetic (ADA)."""


@dataclass(frozen=True, slots=True)
class KeyReading:
    """A reading: minutes before now, its level in steps, its status."""

    ago: int
    steps: int
    status: str = "final"


@dataclass(frozen=True, slots=True)
class Course:
    """The last readings of a test, the oldest first; none where the test was never done.

    `neighbour`: a newer result of a related test lies beside them, under another code and in another unit.
    """

    readings: tuple[KeyReading, ...] = ()
    neighbour: bool = False

    @property
    def last(self) -> KeyReading | None:
        """The latest reading."""
        return self.readings[-1] if self.readings else None


@dataclass(frozen=True, slots=True)
class Courses:
    """Where a patient is treated, and how the key tests end."""

    setting: str
    magnesium: Course = field(default_factory=Course)
    potassium: Course = field(default_factory=Course)
    glucose: Course = field(default_factory=Course)
    a1c: Course = field(default_factory=Course)


def all_courses(dice: Dice, profile: Profile, count: int) -> list[Courses]:
    """The endings of so many patients."""
    settings = _dealt(dice, SETTINGS, count)
    inside = [n for n, setting in enumerate(settings) if setting == "admitted"]
    outside = [n for n, setting in enumerate(settings) if setting != "admitted"]
    a1c = _a1c(dice, profile, count)
    magnesium = {
        **dict(zip(inside, _magnesium(dice, profile, len(inside)), strict=True)),
        **dict(zip(outside, _old(dice, profile, len(outside), 0.55), strict=True)),
    }
    potassium = _potassium(dice, profile, settings)
    glucose = {
        **dict(zip(inside, _glucose(dice, profile, [a1c[n] for n in inside]), strict=True)),
        **{n: _with_panel(dice, profile, a1c[n], potassium[n]) for n in outside},
    }
    return [
        Courses(
            setting,
            magnesium=_marked(dice, magnesium[n]),
            potassium=_marked(dice, potassium[n]),
            glucose=glucose[n],
            a1c=_marked(dice, a1c[n]),
        )
        for n, setting in enumerate(settings)
    ]


def usual_glucose(profile: Profile, a1c: KeyReading | None) -> float:
    """Mean glucose, mg/dL, that goes with an HbA1c (the ADAG study: Nathan, Diabetes Care 2008); 98 without one."""
    return 28.7 * a1c_percent(profile, a1c) - 46.7 if a1c else 98.0


def a1c_percent(profile: Profile, a1c: KeyReading) -> float:
    """An HbA1c in %."""
    return (a1c.steps / profile.a1c.scale - profile.a1c.offset) / profile.a1c.factor


def _dealt(dice: Dice, shares: Sequence[tuple[str, float]], count: int) -> list[str]:
    """So many kinds in these shares, in any order; what rounding leaves goes to the first."""
    kinds = [kind for kind, share in shares for _ in range(int(share * count))]
    return dice.shuffled([shares[0][0]] * (count - len(kinds)) + kinds)


def _with_edges(dice: Dice, edges: Sequence[int], low: int, high: int, count: int) -> list[int]:
    """So many whole numbers from `low` to `high`, the edges first among them, in any order."""
    inside = [edge for edge in edges if low <= edge <= high][:count]
    return dice.shuffled(inside + [dice.between(low, high) for _ in range(count - len(inside))])


def _magnesium(dice: Dice, profile: Profile, count: int) -> list[Course]:
    first, second, third = profile.magnesium_levels
    bounds = {
        "severe": (first * 45 // 100, first - 1),
        "moderate": (first, second - 1),
        "mild": (second, third),
        "normal": (third + 1, third * 3 // 2),
    }
    kinds = _dealt(dice, MAGNESIUM, count)
    times = iter(_with_edges(dice, (profile.window, profile.window - 1, profile.window), 30, profile.window, count))
    stale = iter(_stale(dice, profile.window, kinds.count("stale")))
    levels = {
        kind: iter(_with_edges(dice, (high, low, high), low, high, kinds.count(kind)))
        for kind, (low, high) in bounds.items()
    }
    out = []
    for kind in kinds:
        if kind == "never":
            out.append(Course())
        elif kind == "stale":  # mostly low: whoever overlooks how old it is, orders
            out.append(Course((KeyReading(next(stale), dice.between(bounds["severe"][0], third + third // 10)),)))
        else:
            last = KeyReading(next(times), next(levels[kind]))
            out.append(Course((*_decoys(dice, profile, last, bounds["severe"][0], bounds["normal"][1]), last)))
    return out


def _decoys(dice: Dice, profile: Profile, last: KeyReading, low: int, high: int) -> tuple[KeyReading, ...]:
    """An earlier reading within the window, of any branch, before one in three."""
    if last.ago > profile.window - 60 or not dice.chance(0.33):
        return ()
    return (KeyReading(dice.between(last.ago + 30, profile.window), dice.between(low, high)),)


def _stale(dice: Dice, window: int, count: int) -> list[int]:
    """Ages just beyond a window, some by a minute."""
    return _with_edges(dice, (window + 1, window + 1, window + 20), window + 1, window + 2 * DAY, count)


def _old(dice: Dice, profile: Profile, count: int, share: float) -> list[Course]:
    """Magnesium of patients at home: a level of weeks or years ago, or none."""
    usual = profile.magnesium.steps(2.0)
    measured = int(share * count)
    drawn = [
        Course((KeyReading(_daytime(dice, profile, 9, 600), usual + usual * dice.between(-25, 30) // 100),))
        for _ in range(measured)
    ]
    return dice.shuffled(drawn + [Course()] * (count - measured))


def _daytime(dice: Dice, profile: Profile, first: int, last: int) -> int:
    """Minutes from a time in the clinic's hours, so many days ago, to now."""
    minute = profile.now.hour * 60 + profile.now.minute
    day = dice.between(first, last)
    day += {5: 1, 6: 2}.get((profile.now.weekday() - day) % 7, 0)  # the clinic is closed at weekends
    return day * DAY + minute - dice.between(8 * 60 + 30, 16 * 60)


def _potassium(dice: Dice, profile: Profile, settings: Sequence[str]) -> list[Course]:
    """Levels of the last day of the admitted, older ones of most others."""
    low = profile.potassium_low
    outside = [n for n, setting in enumerate(settings) if setting != "admitted"]
    never = set(dice.shuffled(outside)[: int(UNMEASURED * len(outside))])
    kinds = iter(_dealt(dice, POTASSIUM, len(settings) - len(never)))
    dealt = [None if n in never else next(kinds) for n in range(len(settings))]
    short = iter(_with_edges(dice, (low - 1, low - 1, low - 2), low * 65 // 100, low - 1, dealt.count("low")))
    fine = iter(_with_edges(dice, (low, low, low + 1), low, low * 3 // 2, dealt.count("normal")))
    out = []
    for kind, setting in zip(dealt, settings, strict=True):
        if kind is None:
            out.append(Course())
            continue
        level = next(short if kind == "low" else fine)
        if setting != "admitted":
            out.append(Course((KeyReading(_daytime(dice, profile, 5, 400), level),)))
            continue
        last = KeyReading(dice.between(40, 30 * 60), level)
        earlier = KeyReading(last.ago + dice.between(200, 2 * DAY), dice.between(low * 8 // 10, low * 14 // 10))
        out.append(Course((earlier, last) if dice.chance(0.4) else (last,)))
    return out


def _with_panel(dice: Dice, profile: Profile, a1c: Course, potassium: Course) -> Course:
    """Glucose of the draw in which potassium was measured last, or never measured."""
    if potassium.last is None:
        return Course()
    return Course((KeyReading(potassium.last.ago, _level(dice, profile, usual_glucose(profile, a1c.last))),))


def _glucose(dice: Dice, profile: Profile, a1c: Sequence[Course]) -> list[Course]:
    """Two to six readings in the window of most; of some one exactly at its end, one a minute beyond, or a tie."""
    kinds = _dealt(dice, GLUCOSE, len(a1c))
    stale = iter(_stale(dice, profile.window, kinds.count("stale")))
    out = []
    for place, (kind, course) in enumerate(zip(kinds, a1c, strict=True)):
        middle = usual_glucose(profile, course.last)
        if kind == "stale":
            out.append(Course((KeyReading(next(stale), _level(dice, profile, middle)),)))
            continue
        times = {dice.between(15, profile.window - 1) for _ in range(dice.between(1, 5))}
        times |= ({profile.window}, {profile.window + 1}, {profile.window, profile.window + 1}, set())[place % 4]
        readings = [KeyReading(ago, _level(dice, profile, middle)) for ago in sorted(times, reverse=True)]
        if place % 5 == 0 and len(readings) > 1:  # two results of the same minute; both count
            readings.insert(0, KeyReading(readings[0].ago, _level(dice, profile, middle)))
        out.append(Course(tuple(readings), dice.chance(NEIGHBOUR)))
    return out


def _level(dice: Dice, profile: Profile, middle: float) -> int:
    return profile.glucose.steps(max(52.0, middle * (0.7 + 0.6 * dice.unit())))


def _a1c(dice: Dice, profile: Profile, count: int) -> list[Course]:
    interval = profile.a1c_interval
    kinds = _dealt(dice, A1C, count)
    days = interval // DAY
    edges = {"recent": [interval, interval - 1, interval], "old": [interval + 1, interval + 1, interval + 20]}
    out = []
    for kind in kinds:
        if kind == "never":
            out.append(Course())
            continue
        percent = 6.3 + 4.2 * dice.unit() * dice.unit() if dice.chance(0.45) else 4.8 + 1.4 * dice.unit()
        first, last = (4, days - 4) if kind == "recent" else (days + 2, max(1000, 2 * days))
        ago = edges[kind].pop() if edges[kind] else _daytime(dice, profile, first, last)
        out.append(Course((KeyReading(ago, profile.a1c.steps(percent)),)))
    return out


def _marked(dice: Dice, course: Course) -> Course:
    """A course with, here and there, an amended last result, one sent twice, or a neighbouring test after it."""
    last = course.last
    if last is None:
        return course
    readings = course.readings
    if dice.chance(AMENDED):
        readings = (*readings[:-1], KeyReading(last.ago, last.steps, dice.pick(("amended", "corrected"))))
    if dice.chance(REPEATED):
        readings = (*readings, readings[-1])
    return Course(readings, dice.chance(NEIGHBOUR))
