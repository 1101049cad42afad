"""Courses: the last magnesium, potassium, glucose and HbA1c readings of each chart. These readings decide tasks.

All times, and the levels of magnesium, potassium and HbA1c, are random. The level of glucose comes from the body
(`_chart`). Each course is of one kind. Kinds are assigned by share, so that every hospital contains patients for each
branch of each task. Within a kind, levels and times are uniform between its limits. The first patients of a kind get
the edges: a level exactly at a threshold or one step from it, and a time exactly at the end of the window or one minute
before or after it. In some courses the last result is amended, is repeated in the same minute, or is followed by a
similar test that decides nothing.

Features that decide tasks about orders, so that every hospital contains patients for each branch of these tasks.

Renal tumours, CTs of the abdomen, thyroid tests, QT intervals, opioids, anticoagulants, urinary catheters, heart rate
monitors, vaccines. The kinds of each feature are assigned by share to the patients for whom it is possible,
independently of the other features.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from fhir_server.synthetic._clock import DAY
from fhir_server.synthetic._profile import HospitalProfile
from fhir_server.synthetic.seeded_random import SeededRandom

SETTINGS = (("admitted", 0.48), ("followed", 0.36), ("new", 0.16))
MAGNESIUM = (("severe", 0.17), ("moderate", 0.19), ("mild", 0.19), ("normal", 0.29), ("stale", 0.1), ("never", 0.06))
"""Shares of admitted patients. The level of all others is old or missing."""
POTASSIUM = (("low", 0.31), ("normal", 0.69))
UNMEASURED = 0.26
"""The share of patients at home without a potassium result and without any other result of the basic panel."""
GLUCOSE = (("recent", 0.88), ("stale", 0.12))
"""Shares of admitted patients. Other patients' glucose is never recent."""
A1C = (("recent", 0.3), ("old", 0.45), ("never", 0.25))
REPEATED, AMENDED, NEIGHBOUR = 0.06, 0.08, 0.25
"""The shares of courses with a repeated result in the same minute, an amended result, and a later similar test."""
DIABETIC = 6.5
"""The HbA1c, in %, from which a patient counts as diabetic (ADA)."""


@dataclass(frozen=True, slots=True)
class KeyReading:
    """A reading: its age in minutes, its level in steps (`KeyTest`; 0: as the body gives it), its status."""

    ago: int
    steps: int = 0
    status: str = "final"


@dataclass(frozen=True, slots=True)
class Course:
    """The last readings of a test, oldest first. Empty if the test was never done.

    `neighbour`: the chart contains a newer result of a similar test, with another code and unit
    (`_vocabulary.NEIGHBOURS`).
    """

    readings: tuple[KeyReading, ...] = ()
    neighbour: bool = False

    @property
    def last(self) -> KeyReading | None:
        return self.readings[-1] if self.readings else None


@dataclass(frozen=True, slots=True)
class Courses:
    """A patient's setting, and the course of each key test."""

    setting: str
    magnesium: Course = field(default_factory=Course)
    potassium: Course = field(default_factory=Course)
    glucose: Course = field(default_factory=Course)
    a1c: Course = field(default_factory=Course)


def all_courses(rng: SeededRandom, profile: HospitalProfile, count: int) -> list[Courses]:
    """The courses of `count` patients."""
    settings = _dealt(rng, SETTINGS, count)
    inside = [n for n, setting in enumerate(settings) if setting == "admitted"]
    outside = [n for n, setting in enumerate(settings) if setting != "admitted"]
    a1c = _a1c(rng, profile, count)
    magnesium = {
        **dict(zip(inside, _magnesium(rng, profile, len(inside)), strict=True)),
        **dict(zip(outside, _old(rng, profile, len(outside), 0.55), strict=True)),
    }
    potassium = _potassium(rng, profile, settings)
    glucose = {
        **dict(zip(inside, _glucose(rng, profile, len(inside)), strict=True)),
        **{n: Course(tuple(KeyReading(reading.ago) for reading in potassium[n].readings)) for n in outside},
    }
    return [
        Courses(
            setting,
            magnesium=_marked(rng, magnesium[n]),
            potassium=_marked(rng, potassium[n]),
            glucose=glucose[n],
            a1c=_marked(rng, a1c[n]),
        )
        for n, setting in enumerate(settings)
    ]


def _dealt(rng: SeededRandom, shares: Sequence[tuple[str, float]], count: int) -> list[str]:
    """`count` kinds in random order, in these shares. Patients left over by rounding get the first kind."""
    kinds = [kind for kind, share in shares for _ in range(int(share * count))]
    return rng.shuffled([shares[0][0]] * (count - len(kinds)) + kinds)


def _with_edges(rng: SeededRandom, edges: Sequence[int], low: int, high: int, count: int) -> list[int]:
    """`count` integers from `low` to `high` in random order. They include `edges`, if these are between the limits."""
    inside = [edge for edge in edges if low <= edge <= high][:count]
    return rng.shuffled(inside + [rng.between(low, high) for _ in range(count - len(inside))])


def _magnesium(rng: SeededRandom, profile: HospitalProfile, count: int) -> list[Course]:
    first, second, third = profile.magnesium_levels
    bounds = {
        "severe": (first * 6 // 10, first - 1),
        "moderate": (first, second - 1),
        "mild": (second, third),
        "normal": (third + 1, third * 3 // 2),
    }
    kinds = _dealt(rng, MAGNESIUM, count)
    times = iter(_with_edges(rng, (profile.window, profile.window - 1, profile.window), 30, profile.window, count))
    stale = iter(_stale(rng, profile.window, kinds.count("stale")))
    levels = {
        kind: iter(_with_edges(rng, (high, low, high), low, high, kinds.count(kind)))
        for kind, (low, high) in bounds.items()
    }
    out = []
    for kind in kinds:
        if kind == "never":
            out.append(Course())
        elif kind == "stale":  # mostly low, so an agent that ignores its age orders wrongly
            out.append(Course((KeyReading(next(stale), rng.between(bounds["severe"][0], third + third // 10)),)))
        else:
            out.append(Course((KeyReading(next(times), next(levels[kind])),)))
    return out


def _stale(rng: SeededRandom, window: int, count: int) -> list[int]:
    """Ages up to two days longer than the window, some by only one minute."""
    return _with_edges(rng, (window + 1, window + 1, window + 20), window + 1, window + 2 * DAY, count)


def _old(rng: SeededRandom, profile: HospitalProfile, count: int, share: float) -> list[Course]:
    """Magnesium of patients at home: a level 9 to 600 days old for `share` of them, none for the others."""
    usual = profile.magnesium.steps(2.0)
    measured = int(share * count)
    drawn = [
        Course((KeyReading(_daytime(rng, profile, 9, 600), usual + usual * rng.between(-25, 30) // 100),))
        for _ in range(measured)
    ]
    return rng.shuffled(drawn + [Course()] * (count - measured))


def _daytime(rng: SeededRandom, profile: HospitalProfile, first: int, last: int) -> int:
    """The age in minutes of a time in the clinic's hours, `first` to `last` days ago (up to 2 more at weekends)."""
    minute = profile.now.hour * 60 + profile.now.minute
    day = rng.between(first, last)
    day += {5: 1, 6: 2}.get((profile.now.weekday() - day) % 7, 0)  # the clinic is closed at weekends
    return day * DAY + minute - rng.between(8 * 60 + 30, 16 * 60)


def _potassium(rng: SeededRandom, profile: HospitalProfile, settings: Sequence[str]) -> list[Course]:
    """Levels of the last 30 hours for admitted patients, older levels for most others."""
    low = profile.potassium_low
    outside = [n for n, setting in enumerate(settings) if setting != "admitted"]
    never = set(rng.shuffled(outside)[: int(UNMEASURED * len(outside))])
    kinds = iter(_dealt(rng, POTASSIUM, len(settings) - len(never)))
    sampled = [None if n in never else next(kinds) for n in range(len(settings))]
    levels = range(low - 1, low * 8 // 10 - 1, -1)  # each as often, so that no dose is right for many patients
    short = iter(rng.shuffled([levels[n % len(levels)] for n in range(sampled.count("low"))]))
    fine = iter(_with_edges(rng, (low, low, low + 1), low, low * 4 // 3, sampled.count("normal")))
    out = []
    for kind, setting in zip(sampled, settings, strict=True):
        if kind is None:
            out.append(Course())
            continue
        ago = rng.between(40, 30 * 60) if setting == "admitted" else _daytime(rng, profile, 5, 400)
        out.append(Course((KeyReading(ago, next(short if kind == "low" else fine)),)))
    return out


def _glucose(rng: SeededRandom, profile: HospitalProfile, count: int) -> list[Course]:
    """Two to six readings in the window for most patients. For some, one is exactly at its end or a minute older, or
    two are in the same minute.
    """
    kinds = _dealt(rng, GLUCOSE, count)
    stale = iter(_stale(rng, profile.window, kinds.count("stale")))
    out = []
    for place, kind in enumerate(kinds):
        if kind == "stale":
            out.append(Course((KeyReading(next(stale)),)))
            continue
        times = {rng.between(15, profile.window - 1) for _ in range(rng.between(1, 5))}
        times |= ({profile.window}, {profile.window + 1}, {profile.window, profile.window + 1}, set())[place % 4]
        readings = [KeyReading(ago) for ago in sorted(times, reverse=True)]
        if place % 5 == 0 and len(readings) > 1:  # two results of the same minute; both count
            readings.insert(0, readings[0])
        out.append(Course(tuple(readings), rng.chance(NEIGHBOUR)))
    return out


def _a1c(rng: SeededRandom, profile: HospitalProfile, count: int) -> list[Course]:
    interval = profile.a1c_interval
    kinds = _dealt(rng, A1C, count)
    days = interval // DAY
    edges = {"recent": [interval, interval - 1, interval], "old": [interval + 1, interval + 1, interval + 20]}
    out = []
    for kind in kinds:
        if kind == "never":
            out.append(Course())
            continue
        percent = 6.3 + 3.4 * rng.unit() * rng.unit() if rng.chance(0.48) else 4.8 + 1.4 * rng.unit()
        first, last = (4, days - 4) if kind == "recent" else (days + 2, max(1000, 2 * days))
        ago = edges[kind].pop() if edges[kind] else _daytime(rng, profile, first, last)
        out.append(Course((KeyReading(ago, profile.a1c.steps(percent)),)))
    return out


def _marked(rng: SeededRandom, course: Course) -> Course:
    """The course. At random, its last result becomes amended, is repeated, or is followed by a similar test."""
    last = course.last
    if last is None:
        return course
    readings = course.readings
    if rng.chance(AMENDED):
        readings = (*readings[:-1], KeyReading(last.ago, last.steps, rng.pick(("amended", "corrected"))))
    if rng.chance(REPEATED):
        readings = (*readings, readings[-1])
    return Course(readings, rng.chance(NEIGHBOUR))


_SHARES: dict[str, tuple[tuple[str, float], ...]] = {
    "tumour": (("yes", 0.27), ("no", 0.73)),
    "ct": (("recent", 0.34), ("old", 0.36), ("none", 0.3)),
    "thyroid": (
        *(("overt", 0.17), ("subclinical", 0.17), ("once high", 0.05), ("low hormone", 0.05)),
        *(("normal", 0.44), ("none", 0.12)),
    ),
    "qt": (
        *(("long", 0.2), ("stored last", 0.03), ("stored first", 0.03), ("late long", 0.06)),
        *(("late normal", 0.06), ("normal", 0.42), ("none", 0.2)),
    ),
    "opioid": (("alone", 0.22), ("with naloxone", 0.16), ("none", 0.62)),
    "anticoagulant": (("heparin", 0.34), ("two", 0.26), ("other", 0.14), ("none", 0.26)),
    "catheter": (("long", 0.34), ("ordered", 0.14), ("short", 0.24), ("none", 0.28)),
    "monitor": (("on", 0.76), ("off", 0.16), ("long off", 0.08)),
    "influenza": (("recent", 0.48), ("old", 0.36), ("none", 0.16)),
    "covid": (("recent", 0.48), ("old", 0.36), ("none", 0.16)),
}
_CONCERNS = {
    "tumour": ("admitted", "followed"),
    **dict.fromkeys(("anticoagulant", "catheter", "monitor"), ("admitted",)),
}
"""The settings in which a feature is possible. A feature that is not listed can occur in all settings."""
_STAGING = (("recent", 0.25), ("old", 0.5), ("none", 0.25))
"""The CTs of patients with a tumour."""


@dataclass(frozen=True, slots=True)
class Features:
    """A patient's kind of each feature. The kinds are listed in `_SHARES`."""

    tumour: str = "no"
    ct: str = "none"
    """The last CT of the abdomen: `recent` is within a year (with a tumour: within 90 days)."""
    thyroid: str = "normal"
    """`overt`: TSH above 10 twice. `subclinical`: TSH 4.5 to 10 with a normal free T4. `once high`: TSH above 10 once.
    `low hormone`: TSH 4.5 to 10 with a low free T4."""
    qt: str = "none"
    """The QTc of two electrocardiograms. `long`: the last one is above 500 ms. In the kinds `stored …` and `late …` the
    earlier one is stored last. `stored last`: only the one stored last is above 500 ms. `stored first`: only the one
    stored first is. `late long`: both are. `late normal`: neither is."""
    opioid: str = "none"
    anticoagulant: str = "none"
    catheter: str = "none"
    """`long`: for more than two days, without an order to remove it. `ordered`: for more than two days, with this
    order. `short`: for less than two days.
    """
    monitor: str = "on"
    """`off`: no reading in the last 7 hours. `long off`: none in the last 14 hours."""
    influenza: str = "none"
    covid: str = "none"

    @property
    def long_qt(self) -> bool:
        """Whether a QTc is above 500 ms."""
        return self.qt in ("long", "stored last", "stored first", "late long")

    @property
    def late_ecg(self) -> bool:
        """Whether the earlier of two electrocardiograms is stored last."""
        return self.qt in ("stored last", "stored first", "late long", "late normal")


def sample_features(rng: SeededRandom, settings: Sequence[str]) -> list[Features]:
    """The features of one patient for each setting (`_courses.SETTINGS`)."""
    sampled: list[dict[str, str]] = [{} for _ in settings]
    for name, shares in _SHARES.items():
        places = [n for n, setting in enumerate(settings) if setting in _CONCERNS.get(name, (setting,))]
        _spread(rng, sampled, places, name, shares)
    _spread(rng, sampled, [n for n, features in enumerate(sampled) if features.get("tumour") == "yes"], "ct", _STAGING)
    return [Features(**features) for features in sampled]


def _spread(
    rng: SeededRandom, sampled: list[dict[str, str]], places: list[int], name: str, shares: Sequence[tuple[str, float]]
) -> None:
    """Assign the kinds of one feature to the patients at `places`. Patients left over by rounding get the last kind."""
    kinds = [kind for kind, share in shares for _ in range(round(share * len(places)))]
    kinds = (kinds + [shares[-1][0]] * len(places))[: len(places)]
    for place, kind in zip(places, rng.shuffled(kinds), strict=True):
        sampled[place][name] = kind
