"""Notes of doctors: on admission, each morning, at discharge, at visits, and on critical results.

A note repeats data of the chart: the reason of the stay, the active problems, the drugs, the last vital signs and the
results of the day. So it agrees with the chart, and no task depends on it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from fhir_server.synthetic._care import Visit
from fhir_server.synthetic._chart import Chart
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._contacts import Contact
from fhir_server.synthetic._orders import Order, operation
from fhir_server.synthetic._resources import LOINC, Code
from fhir_server.synthetic._stays import HOUR, WARDS, Stay
from fhir_server.synthetic._story import Story
from fhir_server.synthetic.seeded_random import SeededRandom

ADMISSION: Code = (LOINC, "34117-2", "History and physical note")
PROGRESS: Code = (LOINC, "11506-3", "Progress note")
DISCHARGE: Code = (LOINC, "18842-5", "Discharge summary")
TELEPHONE: Code = (LOINC, "34748-4", "Telephone encounter Note")
_WARD = ("Slept well.", "Walks in the hallway with help.", "Feels better than yesterday.", "Tired.")
_ICU = ("Under continuous monitoring.", "Nursed in bed, turned every two hours.", "Monitored, arouses to voice.")
_OFFICE = (
    "Feels about the same as last time.",
    "Without new complaints.",
    "Comes with a family member.",
    "Sleeps poorly, else without complaints.",
)
_PLANS = (
    "Continue present medication.",
    "Diet and activity discussed; return in three months.",
    "Results discussed, no change of therapy.",
    "Return sooner if symptoms get worse.",
)
Note = tuple[int, Code, str]
"""Time, type and text."""


class Notes:
    def __init__(
        self, rng: SeededRandom, clock: HospitalClock, story: Story, chart: Chart, orders: Sequence[Order]
    ) -> None:
        self._rng = rng
        self._clock = clock
        self._story = story
        self._orders = orders
        self._rounds = sorted(chart.rounds.items())
        self._draws = sorted(chart.draws, key=lambda draw: draw.time)

    def of_stay(self, contact: Contact, stay: Stay) -> Iterator[Note]:
        """The notes on admission, on each morning, and at discharge or death."""
        clock, person, reason = self._clock, self._story.person, stay.reason
        arrived = stay.start + self._rng.between(150, 230)
        if arrived < stay.until:
            who = "woman" if person.gender == "female" else "man"
            yield (
                arrived,
                ADMISSION,
                f"{self._age(arrived)}-year-old {who}, admitted for {reason.text} with {reason.complaint}. "
                f"{self._history(arrived)} {self._signs(arrived)} Examination: {reason.finding}. Plan: {reason.plan}.",
            )
        last = stay.until if stay.end is None else stay.until - 6 * HOUR
        for count, day in enumerate(range(clock.days_ago(stay.start) - 1, clock.days_ago(stay.until) - 1, -1), 2):
            time = clock.at(day, self._rng.between(8, 10), self._rng.between(0, 59))
            if arrived < time < last:
                yield time, PROGRESS, self._progress(contact, stay, time, count)
        if stay.end is not None:
            yield stay.end - (2 if stay.fatal else 50), DISCHARGE, self._discharge(stay)

    def of_visit(self, contact: Contact, visit: Visit) -> Note:
        """The note of a visit to the clinic."""
        time = min(visit.end - 1, visit.start + self._rng.between(25, 29))
        text = f"Office visit. {self._rng.pick(_OFFICE)} {self._history(time)} {self._signs(time)}"
        return time, PROGRESS, f"{text} {self._rng.pick(_PLANS)}"

    def of_critical(self, contact: Contact | None, drawn: int, panel: str, called: int) -> Note:
        """The note of a call about a critical result. It names the panel (`_catalog.CALLED`), and not the result."""
        minute = self._clock.minute_of_day(drawn)
        text = f"The laboratory called a critical result of the draw at {minute // 60:02d}:{minute % 60:02d} ({panel})."
        if contact and isinstance(contact.what, Stay):
            return called, PROGRESS, f"{contact.what.reason.text}. {text} Read back, seen at once."
        return called, TELEPHONE, f"{text} Reached by telephone, without complaints; knows when to come in at once."

    def _progress(self, contact: Contact, stay: Stay, time: int, day: int) -> str:
        part = next(segment for segment in stay.segments if segment.end is None or time < segment.end)
        here = WARDS[part.ward][1]
        feels = self._rng.pick(_ICU if part.kind == "ICU" else _WARD)
        draws = [draw for draw in self._draws if draw.contact is contact and time - 12 * HOUR < draw.time < time - 110]
        labs = [f"{code} {text}" for draw in draws for code, (text, mark) in draw.results.items() if mark != "N"][:5]
        drugs = self._active(time, home=False)
        operated = stay.reason.service == "Surgery" and operation(stay) < time
        plan = "pain relief, mobilize, watch the wound" if operated else stay.reason.course
        return (
            f"Hospital day {day}, {here}: {stay.reason.text}. {feels} {self._signs(time)} "
            f"{_sentence('Outside the reference range', ', '.join(labs))}"
            f"{_sentence('Receives', _listed(drugs))}Plan: {plan}."
        )

    def _discharge(self, stay: Stay) -> str:
        since, reason = self._clock.day_text(stay.start), stay.reason
        done = f" {reason.procedure[1]} was done." if reason.procedure else ""
        if stay.fatal:
            return self._death(stay)
        end = stay.until - 50
        problems = self._problems(end)
        return (
            f"In hospital since {since} for {reason.text}, with {reason.complaint}.{done} Improved. {self._signs(end)} "
            f"{_sentence('Problems', _listed(problems))}Home medication: "
            f"{_listed(self._active(end, home=True)) or 'none'}. Follow-up in the clinic."
        )

    def _death(self, stay: Stay) -> str:
        """The discharge summary of a patient who died in the hospital."""
        clock, reason, died = self._clock, stay.reason, stay.until
        care = next(segment for segment in stay.segments if segment.kind == "ICU")
        labs = self._outside(stay.start, died - 110)
        minute = clock.minute_of_day(died)
        return (
            f"In hospital since {clock.day_text(stay.start)} for {reason.text}, with {reason.complaint}. In intensive "
            f"care ({WARDS[care.ward][1]}) from {clock.day_text(care.start)}, ventilated. {self._signs(died - 2)} "
            f"{_sentence('Last outside the reference range', ', '.join(labs))}"
            f"{_sentence('Received', _listed(self._active(died - 2, home=False)))}"
            f"Got worse under treatment and died on {clock.day_text(died)} at {minute // 60:02d}:{minute % 60:02d}."
        )

    def _outside(self, first: int, last: int) -> list[str]:
        """Up to five results outside their reference ranges, from the last sample with any between the two times."""
        for draw in reversed(self._draws):
            if first < draw.time < last:
                labs = [f"{code} {text}" for code, (text, mark) in draw.results.items() if mark != "N"]
                if labs:
                    return labs[:5]
        return []

    def _history(self, time: int) -> str:
        story = self._story
        problems, drugs = self._problems(time), self._active(time, home=True)
        allergies = ", ".join(story.allergens) or "none known"
        return (
            f"Problems: {_listed(problems) or 'none'}. Home medication: {_listed(drugs) or 'none'}. "
            f"Allergies: {allergies}."
        )

    def _problems(self, time: int) -> list[str]:
        return [problem.diagnosis.text for problem in self._story.problems if problem.recorded <= time]

    def _active(self, time: int, *, home: bool) -> list[str]:
        """The names of the drugs ordered at that time: for home, or for the stay without drugs on demand."""
        return list(
            dict.fromkeys(
                order.drug.text
                for order in self._orders
                if order.home == home
                and order.status not in ("cancelled", "entered-in-error")
                and order.start <= time
                and (order.end is None or order.end > time)
                and order.drug.key not in ("flush", "covid")
                and not (order.drug.needed and not home)
            )
        )

    def _signs(self, time: int) -> str:
        """The last full round of vital signs."""
        rounds = [(at, signs) for at, signs in self._rounds if time - DAY < at <= time]
        if not rounds:
            return ""
        at, signs = rounds[-1]
        minute = self._clock.minute_of_day(at)
        return (
            f"Vital signs at {minute // 60:02d}:{minute % 60:02d}: HR {signs['HEARTRATE']}/min, BP {signs['BP']}, "
            f"T {signs['TEMP']} °C, RR {signs['RR']}/min, SpO2 {signs['SPO2']} %."
        )

    def _age(self, time: int) -> int:
        day, born = self._clock.date_of(-self._clock.days_ago(time)), self._story.person.birth
        return day.year - born.year - ((day.month, day.day) < (born.month, born.day))


def _listed(names: Sequence[str]) -> str:
    return "; ".join(names)


def _sentence(label: str, words: str) -> str:
    return f"{label}: {words}. " if words else ""
