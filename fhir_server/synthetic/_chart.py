"""The readings of a chart: hourly heart rates, rounds of vital signs, blood samples, and the courses of the key tests.

All readings of a key test that are not in its course (`_courses`) are older than the course. So only the course decides
tasks. A basic panel contains potassium. So it is measured only before the potassium course, and with each reading of
it. The older readings lead up to the level of the course (`ACUTE`), so the change to the deciding reading is as large
as any other change.

Values are correlated: the tests depend on a few hidden states, as in a body. The level of each state differs by patient
(bell-shaped, mean 0, standard deviation about 1). From one sample to the next, a state moves around its level and keeps
most of its deviation. The value of a test is the sum of its usual value, the weighted states, the shifts of the
patient's problems, and noise. So sodium is correlated with chloride, potassium and urea with creatinine, the liver
tests with each other, and the red cell tests with each other. benchmarks/measured/hospital.md shows the correlations.
Only the four basic operations are used, which give the same digits on every machine.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from fhir_server.synthetic import _catalog as c
from fhir_server.synthetic import _observations as o
from fhir_server.synthetic._care import DRAWN, Visit
from fhir_server.synthetic._catalog import LABS, TESTS, VITALS
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._contacts import Contact, Contacts
from fhir_server.synthetic._courses import Course
from fhir_server.synthetic._observations import Reading
from fhir_server.synthetic._profile import HospitalProfile, KeyTest
from fhir_server.synthetic._stays import HOUR, Stay
from fhir_server.synthetic._story import Story
from fhir_server.synthetic._vocabulary import NEIGHBOURS
from fhir_server.synthetic.seeded_random import SeededRandom

STATES = ("volume", "kidney", "acid", "marrow", "inflammation", "liver", "lipids", "heart", "stress")
REMAINING, MOVED = 0.8, 0.45
"""The share of a state's deviation that remains at the next sample, and the standard deviation of its random change."""
WEIGHTS: dict[str, tuple[tuple[str, float], ...]] = {
    "NA": (("volume", 2.4),),
    "CL": (("volume", 2.1), ("acid", 1.1)),
    "CO2": (("acid", -1.6),),
    "BUN": (("kidney", 3.4), ("volume", 1.2)),
    "CREA": (("kidney", 0.16),),
    "GLU": (("stress", 14.0),),
    "CA": (("liver", -0.12),),
    "PHOS": (("kidney", 0.3),),
    "WBC": (("inflammation", 1.3), ("stress", 0.5)),
    "HGB": (("marrow", 1.1), ("kidney", -0.2)),
    "PLT": (("inflammation", 24.0), ("marrow", -12.0)),
    "ALT": (("liver", 7.0),),
    "AST": (("liver", 6.5), ("inflammation", 1.0)),
    "ALP": (("liver", 10.0),),
    "TBIL": (("liver", 0.13),),
    "ALB": (("liver", -0.14), ("inflammation", -0.16)),
    "TP": (("liver", -0.15), ("inflammation", 0.1)),
    "LDL": (("lipids", 22.0),),
    "HDL": (("lipids", -6.0),),
    "TRIG": (("lipids", 34.0),),
    "TSH": (("stress", 0.1),),
    "INR": (("liver", 0.03),),
    "CRP": (("inflammation", 1.2),),
    "LACT": (("acid", 0.2), ("stress", 0.1)),
    "BNP": (("heart", 20.0), ("kidney", 6.0)),
    "HEARTRATE": (("stress", 4.5), ("inflammation", 2.0), ("heart", 2.0)),
    "RR": (("stress", 0.8), ("heart", 0.5)),
    "SPO2": (("heart", -0.6),),
    "TEMP": (("inflammation", 0.13),),
    "SBP": (("volume", 5.0), ("stress", 5.0)),
    "DBP": (("volume", 3.0), ("stress", 3.0)),
}
NOISE = 0.6
"""The share of a test's spread within one person (`Test.within`) that no state explains."""
HAEMATOCRIT, RED_CELLS = (2.95, 0.9), (0.335, 0.12)
"""Haematocrit in % and red cells in 10*6/uL, each per g/dL of haemoglobin, and the noise of each."""
RETAINED = 0.6
"""Potassium, mmol/L, added for each mg/dL of creatinine above its usual value."""
SWING = (0.6, 0.5)
"""What diabetes adds to glucose varies by this share of it, and by this share of the square."""
CONSUMED = 0.005
"""Albumin, g/dL, subtracted for each mg/L of C-reactive protein."""


class Body:
    """One patient's states, levels and samples. Call `move` and `draw` in the order of time."""

    def __init__(
        self, rng: SeededRandom, shifts: Iterable[Mapping[str, float]], gender: str, creatinine: float | None
    ) -> None:
        """`creatinine`: its mean in a chronic kidney disease."""
        self._rng = rng
        self._levels = {state: 0.8 * rng.bell() for state in STATES}
        self._now = dict(self._levels)
        self._own = {code: test.usual + 0.6 * test.between * rng.bell() for code, test in LABS.items()}
        self._own.update({code: test.usual + 0.6 * test.between * rng.bell() for code, test in VITALS.items()})
        for shift in shifts:
            for code, value in shift.items():
                self._own[code] += value
        if gender == "female":
            for code in ("HGB", "CREA", "WT", "HT"):
                self._own[code] *= 0.9 if code != "HT" else 0.94
        if creatinine:
            self._own["CREA"] = creatinine - 0.16 * self._levels["kidney"]
        self._moved = dict.fromkeys(STATES, MOVED)
        if creatinine:
            self._moved["kidney"] *= 0.5  # so that the disease stays in its stage

    def move(self) -> None:
        """Moves the states to the next blood sample."""
        bell = self._rng.bell
        for state, level in self._levels.items():
            self._now[state] = level + REMAINING * (self._now[state] - level) + self._moved[state] * bell()

    def draw(
        self, codes: Iterable[str], illness: float = 0.0, acute: Mapping[str, float] | None = None
    ) -> dict[str, float]:
        """The values of some tests and of the tests calculated from them. `illness`, 0 to 1, scales `acute` shifts."""
        bell, now = self._rng.bell, self._now
        values: dict[str, float] = {}
        for code in codes:
            test = TESTS[code]
            value = self._own[code] + NOISE * test.within * bell()
            for state, weight in WEIGHTS.get(code, ()):
                value += weight * now[state]
            if acute:
                value += illness * acute.get(code, 0.0)
            values[code] = min(max(value, test.low), test.high)
        if "K" in values:
            values["K"] += RETAINED * (values["CREA"] - TESTS["CREA"].usual)
        if "GLU" in values:
            test, luck = TESTS["GLU"], bell()
            swing = max(0.0, self._own["GLU"] - test.usual) * luck * (SWING[0] + SWING[1] * luck)
            values["GLU"] = min(max(values["GLU"] + swing, test.low), test.high)
        if "CRP" in values and "ALB" in values:
            values["ALB"] = max(TESTS["ALB"].low, values["ALB"] - CONSUMED * values["CRP"])
        if "HGB" in values:
            haemoglobin = values["HGB"]
            values["HCT"] = HAEMATOCRIT[0] * haemoglobin + HAEMATOCRIT[1] * bell()
            values["RBC"] = RED_CELLS[0] * haemoglobin + RED_CELLS[1] * bell()
        if "LDL" in values:
            values["CHOL"] = values["LDL"] + values["HDL"] + values["TRIG"] / 5
        if "CO2" in values:
            values["AGAP"] = max(0.0, values["NA"] - values["CL"] - values["CO2"])
        return values


ACUTE, CHRONIC = 4 * DAY, 300 * DAY
"""How long before a course, in minutes, magnesium and potassium are halfway between their usual level and the course's
level: of patients in hospital, and of others.
"""
THINNED, LASTS = 1.5, 6 * DAY
"""What warfarin adds to the INR, and how long its effect needs to build up or to be lost, in minutes."""
APART = 15
"""The minimum number of minutes between two samples of a stay, except those of the courses."""
HEMOLYZED, CORRECTED = 0.003, 0.006
UNREVIEWED = 6 * HOUR
"""Results of the last 6 hours are preliminary, except the key tests' results."""
KEYS = {"MG": "magnesium", "K": "potassium", "GLU": "glucose", "A1C": "a1c"}
"""The catalog's codes of the key tests, and their names in a profile."""
CALM = {"HEARTRATE": 96.0, "TEMP": 37.6}
"""The maximum values on the first two days of most planned stays."""


@dataclass(slots=True)
class Draw:
    """One blood sample. `results`: for each code the value as shown and its flag (`L`, `H` or `N`)."""

    time: int
    contact: Contact
    results: dict[str, tuple[str, str]] = field(default_factory=dict)


class Chart:
    """Samples one patient's readings. `readings` fills the attributes.

    `rounds`: vital signs by time. `critical`: the time and panel of critical results, and when the last was issued.
    """

    def __init__(
        self, rng: SeededRandom, clock: HospitalClock, profile: HospitalProfile, story: Story, contacts: Contacts
    ) -> None:
        self._rng = rng
        self._clock = clock
        self._profile = profile
        self._story = story
        self._contacts = contacts
        shifts = [problem.diagnosis.shifts for problem in story.problems]
        if a1c := story.courses.a1c.last:
            shifts.append({"GLU": 28.7 * profile.a1c.usual(a1c.steps) - 46.7 - LABS["GLU"].usual})  # ADAG study, 2008
        self._body = Body(rng, shifts, story.person.gender, _stage_3a(story) if story.renal else None)
        self._tests: dict[str, tuple[KeyTest, Course]] = {
            code: (getattr(profile, name), getattr(story.courses, name)) for code, name in KEYS.items()
        }
        self._leads = {code: self._lead(code) for code in KEYS}
        self.draws: list[Draw] = []
        self.rounds: dict[int, dict[str, str]] = {}
        self.critical: dict[tuple[int, str], int] = {}

    def readings(self) -> list[Reading]:
        """All readings in random order, as in a server that was loaded from many sources."""
        out: list[Reading] = []
        for contact in sorted([*self._contacts.stays, *self._contacts.visits], key=lambda contact: contact.start):
            if isinstance(contact.what, Stay):
                out += self._stay(contact, contact.what)
            elif isinstance(contact.what, Visit):
                out += self._visit(contact, contact.what)
        for code, name in KEYS.items():
            out += self._course(code, name)
        out += self._cared()
        return self._rng.shuffled(out)

    def _stay(self, contact: Contact, stay: Stay) -> Iterator[Reading]:
        """Vital signs and samples in the order of time."""
        times = [(time, "hour") for time in self._hours(stay)] + self._draw_times(stay)
        calm = stay.reason.planned and self._rng.chance(0.95)
        every = max(1, 24 // self._profile.size.rounds)
        for time, what in sorted(times):
            ill = _illness(stay, time)
            if what == "hour":
                full = (self._clock.minute_of_day(time) // HOUR) % every == 0 or time < stay.start + 30
                codes = c.ROUND if full else ("HEARTRATE",)
                yield from self._vitals(codes, time, ill, contact, calm=calm)
            elif what == "glucose":
                yield from self._drawn(("GLU",), time, contact, ill)
            else:
                self._body.move()
                yield from self._drawn(self._panel(what, time, stay), time, contact, ill)
        if stay.start < -60:
            weight = self._body.draw(("WT",), 1.0, stay.shifts)["WT"]
            yield self._vital("WT", stay.start + 25, weight, self._contacts.bedside(contact, stay.start + 25))

    def _hours(self, stay: Stay) -> list[int]:
        """The times of heart rates: on arrival and about every hour, while the monitor is on."""
        off = {"off": -7 * HOUR - 20, "long off": -14 * HOUR}.get(self._story.features.monitor, 0)
        until = min(stay.until, off) if stay.end is None else stay.until
        first = stay.start + 12
        start = first + HOUR - self._clock.minute_of_day(first) % HOUR
        ticks = (time + self._rng.between(0, 6) for time in range(start, until - 6, HOUR))
        return [time for time in (first, *ticks) if time <= until]

    def _draw_times(self, stay: Stay) -> list[tuple[int, str]]:
        """Times and kinds of samples: on arrival, each morning, some evenings (in intensive care each), and glucose."""
        rng, clock, size = self._rng, self._clock, self._profile.size
        out = [(stay.start + 35, "arrival")]
        intensive = [(segment.start, segment.end or -1) for segment in stay.segments if segment.kind == "ICU"]
        rounds = max(1, size.glucose) if self._has_sugar else 1
        for day in range(clock.days_ago(stay.start), clock.days_ago(stay.until) - 1, -1):
            out.append((clock.at(day, rng.between(4, 6), rng.between(0, 59)), "morning"))
            evening = clock.at(day, rng.between(15, 18), rng.between(0, 59))
            if any(start <= evening <= end for start, end in intensive) or rng.chance(0.3):
                out.append((evening, "evening"))
            for turn in range(rounds):
                minute = turn * 14 * HOUR // max(1, rounds - 1)  # from 7 to 21 o'clock
                out.append((clock.at(day, 7, minute + rng.between(0, 40)), "glucose"))
        deciding = {-reading.ago: "glucose" for reading in self._tests["GLU"][1].readings}
        deciding |= {-reading.ago: "evening" for reading in self._tests["K"][1].readings}  # its panel includes glucose
        chosen = sorted(deciding.items())
        for time, what in sorted(out):
            if all(abs(time - sibling) >= APART for sibling, _ in chosen):
                chosen.append((time, what))
        return [(time, what) for time, what in chosen if stay.start + 30 < time <= min(stay.until, -2)]

    @property
    def _has_sugar(self) -> bool:
        return any(problem.diagnosis.code.startswith("E11") for problem in self._story.problems)

    def _panel(self, what: str, time: int, stay: Stay) -> tuple[str, ...]:
        basic = c.BASIC if time in self._times("K") or self._is_older("K", time) else ()
        if what == "evening":
            return (*basic, *(("LACT",) if stay.reason.code == "A41.9" else ()), "HGB")
        more = (*c.LIVER, "CRP", "INR") if what == "arrival" or self._rng.chance(0.25) else ()
        first = ("LACT", "BNP") if what == "arrival" and not stay.reason.planned else ()
        minerals = ("MG", "PHOS") if self._rng.chance(0.9) else ()
        return (*basic, *c.COUNT, *minerals, *more, *first)

    def _thinned(self, time: int) -> float:
        """The effect of warfarin, 0 to 1: it builds up over days, and is lost over days while a stay interrupts it."""
        start = self._story.warfarin
        if start is None:
            return 0.0
        effect = min(1.0, max(0.0, (time - start) / LASTS))
        for stay in self._story.stays:
            if start < stay.start < time:
                left = max(0.0, 1.0 - (min(time, stay.until) - stay.start) / LASTS)
                effect = min(effect, left + max(0.0, (time - stay.until) / LASTS))
        return effect

    def _is_older(self, code: str, time: int) -> bool:
        """Whether a reading of this key test at this time is older than its course."""
        return time <= min(self._times(code), default=-math.inf) - APART

    def _times(self, code: str) -> list[int]:
        """The times of the course of a key test."""
        return [-reading.ago for reading in self._tests[code][1].readings]

    def _visit(self, contact: Contact, visit: Visit) -> Iterator[Reading]:
        if visit.kind == "imaging":
            return
        self._body.move()
        thinned = ("INR",) if self._story.warfarin is not None and visit.start >= self._story.warfarin - DAY else ()
        if visit.kind == "warfarin":
            yield from self._drawn(thinned, visit.start + 5, contact, 0.0)
            return
        if visit.kind == "clinic":
            yield from self._vitals(c.ROUND, visit.start + 5, 0.0, contact, calm=False)
            yield self._vital("WT", visit.start + 5, self._body.draw(("WT",))["WT"], contact.id)
            if self._rng.chance(0.25):
                yield self._vital("HT", visit.start + 5, self._body.draw(("HT",))["HT"], contact.id)
        times = [time for time in self._times("K") if visit.start <= time <= visit.end]
        time = times[0] if times else visit.start + DRAWN
        basic = c.BASIC if times or self._is_older("K", time) else ()
        sugar = ("A1C",) if self._has_sugar or self._rng.chance(0.2) else ()
        if visit.kind == "draw":
            yield from self._drawn(basic, time, contact, 0.0)
        elif self._rng.chance(0.75):
            codes = [*basic, *c.COUNT, *sugar, *thinned]
            for panel in (c.LIVER, c.LIPIDS, ("MG",)):
                if self._rng.chance(0.4):
                    codes += panel
            yield from self._drawn(codes, time, contact, 0.0)

    def _vitals(
        self, codes: tuple[str, ...], time: int, ill: float, contact: Contact, *, calm: bool
    ) -> Iterator[Reading]:
        """One round of vital signs, or only the heart rate."""
        stay = contact.what if isinstance(contact.what, Stay) else None
        values = self._body.draw(codes, ill, stay.shifts if stay else None)
        if calm and stay and time < stay.start + 2 * DAY:
            values = {code: min(value, CALM.get(code, value)) for code, value in values.items()}
        shown: dict[str, str] = {}
        systolic, diastolic = values.pop("SBP", None), values.pop("DBP", 0.0)
        where = self._contacts.bedside(contact, time)
        if systolic is not None:
            shown["BP"] = f"{round(systolic)}/{round(min(diastolic, systolic - 20))} mmHg"
            yield Reading(self._profile.blood_pressure_code, "final", time, o.text_value(shown["BP"]), where, "vital")
        for code, value in values.items():
            reading = self._vital(code, time, value, where)
            shown[code] = o.shown(value, c.TESTS[code].decimals)
            yield reading
        if systolic is not None:
            self.rounds[time] = shown

    @staticmethod
    def _vital(code: str, time: int, value: float, where: str) -> Reading:
        test = c.TESTS[code]
        text = o.quantity(o.shown(value, test.decimals), test.unit)
        return Reading(code, "final", time, text, where, "vital")

    def _drawn(self, codes: Sequence[str], time: int, contact: Contact, ill: float) -> Iterator[Reading]:
        """The results of one sample; of a key test only if older than its course, or if the body gives its level."""
        acute = contact.what.shifts if isinstance(contact.what, Stay) else None
        draw = Draw(time, contact)
        values = self._body.draw(codes, ill, acute)
        if "INR" in values:
            values["INR"] += THINNED * self._thinned(time)
        for code, value in values.items():
            if code not in KEYS:
                yield self._result(draw, code, value)
            elif self._is_older(code, time):
                yield self._history(draw, code, value)
            elif code == "GLU" and time in self._times(code):
                for _ in range(self._times(code).count(time)):  # a result may be sent twice
                    yield self._key_reading(code, "final", time, self._tests[code][0].steps(value), None)
        if draw.results:
            self.draws.append(draw)

    def _result(self, draw: Draw, code: str, value: float) -> Reading:
        rng, test = self._rng, c.TESTS[code]
        delay, luck = rng.between(28, 110), rng.unit()
        if luck < HEMOLYZED:
            return Reading(code, "cancelled", draw.time, o.absent(), draw.contact.id, "lab", delay)
        old = "corrected" if luck < HEMOLYZED + CORRECTED else "final"
        status = "preliminary" if draw.time > -UNREVIEWED else old
        text = o.shown(value, test.decimals)
        if test.decimals == 1 and text.endswith(".0") and luck > 0.85:
            text = text[:-2]
        bound = ""
        if value <= test.low:
            bound = "<"
        elif value >= test.high:
            bound = ">"
        limits = o.limits(code, self._story.person.gender)
        rendered = o.result(text, test.unit, limits, bound)
        draw.results[code] = (text, o.flag(text, limits))
        self._call(code, float(text), draw.time, delay)
        return Reading(code, status, draw.time, rendered, draw.contact.id, "lab", delay)

    def _call(self, code: str, value: float, time: int, delay: int) -> None:
        if c.TESTS[code].is_critical(value):
            place = time, c.CALLED.get(code, c.CHEMISTRY)
            self.critical[place] = max(time + delay, self.critical.get(place, time))

    def _lead(self, code: str) -> float:
        """How far the level of a course is from what the body gives at its time; 0 if the body gives the level."""
        test, course = self._tests[code]
        if not course.last or not course.last.steps:
            return 0.0
        contact = self._contacts.at(-course.last.ago)
        stay = contact.what if contact and isinstance(contact.what, Stay) else None
        ill = _illness(stay, -course.last.ago) if stay else 0.0
        drawn = self._body.draw((code, "CREA"), ill, stay.shifts if stay else None)
        return test.usual(course.last.steps) - drawn[code]

    def _history(self, draw: Draw, code: str, value: float) -> Reading:
        """A reading of a key test that is older than its course and leads up to its level."""
        lead = self._leads[code]
        if code != "A1C":
            scale = ACUTE if self._story.courses.setting == "admitted" else CHRONIC
            lead *= scale / (scale + min(self._times(code)) - draw.time)
        return self._key_reading(code, "final", draw.time, self._tests[code][0].steps(value + lead), draw)

    def _course(self, code: str, name: str) -> Iterator[Reading]:
        test, course = self._tests[code]
        for reading in course.readings:
            if reading.steps:
                yield self._key_reading(code, reading.status, -reading.ago, reading.steps, None)
        if course.neighbour:
            form, unit, (low, high), normal = NEIGHBOURS[name]
            time = -self._rng.between(5, max(6, course.readings[-1].ago - 1))
            if not self._contacts.encounter(time):
                time = -course.readings[-1].ago
            tenths = self._rng.between(low, high)
            value = o.result(f"{tenths // 10}.{tenths % 10}", unit, normal)
            yield Reading(form.format(code=test.code), "final", time, value, self._contacts.encounter(time), "lab", 30)

    def _key_reading(self, code: str, status: str, time: int, steps: int, draw: Draw | None) -> Reading:
        test = self._tests[code][0]
        text, luck, delay = test.text(max(steps, 1)), self._rng.unit(), self._rng.between(28, 110)
        low, high = c.LABS[code].normal
        limits = tuple(None if steps is None else test.text(test.steps(steps)) for steps in (low, high))
        if draw is not None:
            draw.results[code] = (text, o.flag(text, limits))
        if text.endswith(".0") and luck > 0.85:
            text = text[:-2]
        elif not test.decimals and luck > 0.7:
            text += ".0"
        self._call(code, test.usual(steps), time, delay)
        value = o.result(text, test.unit, limits)
        return Reading(test.code, status, time, value, self._contacts.encounter(time), "lab", delay)

    def _cared(self) -> Iterator[Reading]:
        """Thyroid tests and electrocardiograms of `Story.care`."""
        for thyroid in self._story.care.thyroid:
            where, delay = self._contacts.encounter(thyroid.time), self._rng.between(60, 400)
            for code, text in (
                ("TSH", f"{thyroid.tsh // 100}.{thyroid.tsh % 100:02d}"),
                ("FT4", f"{thyroid.ft4 // 10}.{thyroid.ft4 % 10}"),
            ):
                value = o.result(text, c.LABS[code].unit, o.limits(code, self._story.person.gender))
                yield Reading(code, "final", thyroid.time, value, where, "lab", delay)
        for ecg in self._story.care.ecgs:
            value = o.quantity(str(ecg.qtc), c.VITALS["QTCINTERVAL"].unit)
            where = self._contacts.encounter(ecg.time)
            yield Reading("QTCINTERVAL", "final", ecg.time, value, where, "procedure", stored=ecg.stored)


def _illness(stay: Stay, time: int) -> float:
    """How ill the patient still is: the severity on arrival, and less each day."""
    return stay.severity * (1.0 - (time - stay.start) / (stay.until - stay.start + 36 * HOUR))


def _stage_3a(story: Story) -> float:
    """The creatinine of a filtration rate of 53 mL/min per 1.73 m2 (CKD-EPI 2021, linear in the age)."""
    over = story.person.age - 55
    return 1.21 - 0.0057 * over if story.person.gender == "female" else 1.54 - 0.0074 * over
