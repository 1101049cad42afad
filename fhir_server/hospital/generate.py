"""From a seed to the hospital's NDJSON lines, patient by patient: each line refers only to patients before it."""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.hospital import problems as p
from fhir_server.hospital import render
from fhir_server.hospital.chart import Chart
from fhir_server.hospital.dice import Dice
from fhir_server.hospital.plan import Plan, plans
from fhir_server.hospital.times import DAY, at

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


def _chart(dice: Dice, plan: Plan, number: int) -> Iterator[str]:
    """What stands in one patient's chart, its ids counting from `number`."""
    mrn = plan.person.mrn
    chart = Chart(dice, plan)
    current = [*plan.problems, *([plan.acute] if plan.acute else [])]
    for problem in current:
        onset = at(plan.days_in, 3, 20) if problem is plan.acute else at(dice.between(120, 2600), 14, 5)
        yield render.condition(problem, onset, number, mrn)
        number += 1
    names = dict.fromkeys(name for problem in current for name in problem.drugs)
    for name in names:
        start = at(dice.between(max(plan.days_in, 12), 700), dice.between(8, 17), dice.between(0, 59))
        yield render.medication_request(p.DRUGS[name], start, number, mrn)
        number += 1
    fitting = [done for done in p.PROCEDURES if plan.person.age >= done[2]]
    for code, text, _ in dice.shuffled(fitting)[: dice.between(0, 4)]:
        yield render.procedure(code, text, -dice.between(DAY, 1500 * DAY), number, mrn)
        number += 1
    subject = render.line(render.subject(mrn))
    for reading in chart.readings():
        yield render.observation(reading, number, subject)
        number += 1
