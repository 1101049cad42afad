"""All of a chart that is no observation: encounters, problems, orders, procedures, reports, notes, vaccines."""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.synthetic import problems as p
from fhir_server.synthetic import render
from fhir_server.synthetic import vocabulary as v
from fhir_server.synthetic.clock import DAY, Clock
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.profile import Profile
from fhir_server.synthetic.render import JsonObject
from fhir_server.synthetic.story import Stay, Story

_DRUGS = tuple(p.DRUGS.values())
_OLD_ORDERS = ("completed", "completed", "completed", "stopped", "stopped", "cancelled", "entered-in-error")
_DONE = ("completed",) * 12 + ("not-done", "entered-in-error")
AMBULATORY, EMERGENCY, INPATIENT = ("AMB", "ambulatory"), ("EMER", "emergency"), ("IMP", "inpatient encounter")


class Events:
    """Draws what happened to one patient; ids count on from `number`."""

    def __init__(self, dice: Dice, clock: Clock, profile: Profile, story: Story, number: int) -> None:
        self._dice, self._clock, self._profile, self._story = dice, clock, profile, story
        self._mrn = story.person.mrn
        self.number = number

    def resources(self) -> Iterator[JsonObject]:
        """All of them, grouped as they came."""
        yield from self._background()
        for visit in self._story.visits:
            yield from self._visit(visit)
        for stay in self._story.stays:
            yield from self._stay(stay)

    def _next(self) -> int:
        self.number += 1
        return self.number - 1

    def _times(self, time: int) -> tuple[str, str]:
        return self._clock.day_text(time), self._clock.text(time)

    def _long_ago(self, least: int, most: int) -> int:
        died = self._story.person.died or 0
        return self._clock.at(
            died + self._dice.between(least, most), self._dice.between(8, 16), self._dice.between(0, 59)
        )

    def _background(self) -> Iterator[JsonObject]:
        """The problem list and its standing orders, allergies and vaccines."""
        dice, clock, story = self._dice, self._clock, self._story
        oldest = max(60, min(4000, (story.person.age - 16) * 365))
        drugs: dict[str, int] = {}
        for problem in story.problems:
            onset = self._onset(problem, oldest)
            yield render.condition(
                self._next(),
                (problem.code, problem.text),
                self._mrn,
                self._times(onset),
                active=True,
                listed=True,
                error=False,
            )
            for name in problem.drugs:
                drugs.setdefault(name, max(onset, self._long_ago(15, 500)))
        status = "stopped" if story.person.died else "active"
        for name, start in drugs.items():
            yield render.medication_request(self._next(), p.DRUGS[name], status, self._mrn, clock.text(start))
        for allergen in dice.shuffled(v.ALLERGENS)[: max(0, dice.between(-2, 2))]:
            time = clock.text(self._long_ago(200, 3000))
            yield render.allergy(self._next(), allergen, dice.pick(v.REACTIONS), self._mrn, time)
        for vaccine in dice.shuffled(v.VACCINES)[: dice.between(1, 5)]:
            time = clock.text(self._long_ago(20, 1800))
            yield render.immunization(self._next(), vaccine, dice.pick(_DONE), self._mrn, time)

    def _onset(self, problem: p.Diagnosis, oldest: int) -> int:
        """Years ago; of a deficiency, when the level was found that shows it."""
        found = {
            p.LOW_MAGNESIUM.code: self._story.courses.magnesium,
            p.LOW_POTASSIUM.code: self._story.courses.potassium,
        }
        course = found.get(problem.code)
        if course and course.readings:
            return -course.readings[-1].ago
        return self._long_ago(min(40, oldest - 1), oldest)

    def _visit(self, visit: int) -> Iterator[JsonObject]:
        dice, clock = self._dice, self._clock
        kind = EMERGENCY if dice.chance(0.08) else AMBULATORY
        end = clock.text(visit + dice.between(15, 45))
        yield render.encounter(self._next(), kind, self._mrn, clock.text(visit), end, dice.pick(v.REASONS))
        yield from self._contact(visit, visit)
        if dice.chance(0.6):
            panel, ordered = dice.pick(v.PANELS), clock.text(visit)
            status = dice.pick(("completed", "completed", "completed", "revoked", "active"))
            yield render.service_request(self._next(), panel, status, self._mrn, ordered)
            if status == "completed":
                times = clock.text(visit + 20), clock.text(visit + dice.between(60, 160))
                conclusion = dice.pick(("No significant change.", "See results.", "Within expected limits."))
                yield render.diagnostic_report(self._next(), panel, self._mrn, times, conclusion)
        if dice.chance(0.5):
            yield self._note(visit + dice.between(30, 90))

    def _stay(self, stay: Stay) -> Iterator[JsonObject]:
        clock, dice = self._clock, self._dice
        arrived = clock.at(stay.first, 0, dice.between(1, 50))
        end = clock.text(clock.at(stay.last, 23, 30)) if stay.last else None
        yield render.encounter(self._next(), INPATIENT, self._mrn, clock.text(arrived), end, stay.acute.text)
        yield render.condition(
            self._next(),
            (stay.acute.code, stay.acute.text),
            self._mrn,
            self._times(arrived),
            active=not stay.last,
            listed=False,
            error=False,
        )
        for name in stay.acute.drugs:
            status = "completed" if stay.last else "active"
            yield render.medication_request(self._next(), p.DRUGS[name], status, self._mrn, clock.text(arrived + 55))
        for day in range(stay.first, max(stay.last, 1) - 1, -1):
            yield from self._contact(clock.at(day, 6, 0), clock.at(day, 22, 0))
        yield self._note(min(arrived + dice.between(90, 400), -5))

    def _contact(self, earliest: int, latest: int) -> Iterator[JsonObject]:
        """What is coded, ordered and billed at a visit or on a day of a stay."""
        dice, clock, size = self._dice, self._clock, self._profile.size
        known = [(problem.code, problem.text) for problem in self._story.problems]
        for _ in range(dice.between(*size.diagnoses)):
            code = dice.pick(known) if known and dice.chance(0.5) else dice.pick(v.SYMPTOMS)
            time = min(dice.between(earliest, latest), -3)
            yield render.condition(
                self._next(),
                code,
                self._mrn,
                self._times(time),
                active=False,
                listed=False,
                error=dice.chance(0.015),
            )
        for _ in range(dice.between(*size.services)):
            done = clock.text(min(dice.between(earliest, latest), -3))
            yield render.procedure(self._next(), dice.pick(v.SERVICES), dice.pick(_DONE), self._mrn, done)
        for _ in range(dice.between(*size.drugs)):
            time = min(dice.between(earliest, latest), -3)
            status = dice.pick(_OLD_ORDERS) if time < -3 * DAY else "completed"
            yield render.medication_request(self._next(), dice.pick(_DRUGS), status, self._mrn, clock.text(time))

    def _note(self, time: int) -> JsonObject:
        listed = ", ".join(problem.text for problem in self._story.problems[:4]) or "no chronic problems"
        words = f"{self._dice.pick(v.NOTE_OPENINGS)} Known: {listed}. {self._dice.pick(v.NOTE_PLANS)}"
        return render.document_reference(self._next(), self._mrn, self._clock.text(time), words)
