"""From a seed to the hospital's NDJSON lines, patient by patient: each line refers only to patients before it."""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.synthetic import problems as p
from fhir_server.synthetic import render
from fhir_server.synthetic.chart import PatientChart
from fhir_server.synthetic.dice import Dice
from fhir_server.synthetic.plan import PatientPlan, plans
from fhir_server.synthetic.times import at

SEED = 20231113
FIRST_NUMBER = 100_001


def generate(seed: int = SEED) -> Iterator[str]:
    """The hospital as lines of compact JSON, without line ends; about 60,000 of them, 100 Patients among them."""
    number = FIRST_NUMBER
    for place, plan in enumerate(plans(Dice(seed))):
        yield render.patient(plan.person)
        for text in _chart(Dice(seed * 1_000 + place), plan, number):
            yield text
            number += 1


def _chart(dice: Dice, plan: PatientPlan, number: int) -> Iterator[str]:
    """What stands in one patient's chart, its ids counting from `number`."""
    mrn = plan.person.mrn
    chart = PatientChart(dice, plan)
    current = [*plan.problems, *([plan.acute] if plan.acute else [])]
    starts: dict[str, int] = {}
    for problem in current:
        onset = _onset(dice, plan, problem)
        yield render.condition(problem, onset, number, mrn)
        number += 1
        for name in problem.drugs:
            renewed = at(dice.between(15, 500), dice.between(8, 16), dice.between(0, 59))
            starts.setdefault(name, onset + 300 if problem is plan.acute else max(onset, renewed))
    for name, start in starts.items():
        yield render.medication_request(p.DRUGS[name], start, number, mrn)
        number += 1
    fitting = [entry for entry in p.PROCEDURES if plan.person.age >= entry[2] + 4]
    for code, text, _ in dice.shuffled(fitting)[: dice.between(0, 4)]:
        done = at(dice.between(12, 1500), dice.between(8, 16), dice.between(0, 59))
        yield render.procedure(code, text, done, number, mrn)
        number += 1
    subject = render.line(render.subject(mrn))
    for reading in chart.readings():
        yield render.observation(reading, number, subject)
        number += 1


def _onset(dice: Dice, plan: PatientPlan, problem: p.Diagnosis) -> int:
    """When a problem began: with the stay, with the low level that shows it, or years ago."""
    if problem is plan.acute:
        return at(plan.days_in, 3, 20)
    course = plan.courses[p.DEFICIENCIES[problem.code]] if problem.code in p.DEFICIENCIES else None
    if course:
        return -course.ago
    oldest = min(4000, (plan.person.age - 16) * 365)
    return at(dice.between(min(1010, oldest), oldest), dice.between(8, 16), dice.between(0, 59))
