"""The reference agent of the code protocol: solves all ten task types with programs that run in every sandbox.

The patient and the values that the task states are parsed here. The programs do the rest: the first one reads the
record, the second one decides and acts. Some types need only one program.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any

from medagent.agents.base import Agent
from medagent.benchmarks.medagentbench.agents.reference import (
    PRESSURE,
    REFERRAL,
    birth_date,
)
from medagent.benchmarks.medagentbench.agents.stated import stated
from medagent.fhir_episodes.code_session import fenced
from medagent.fhir_episodes.task import FhirTask
from refsol.medagentbench.constants import Constants, Lab

_LABS = """
import datetime
labs = []
for one in search("Observation", patient=mrn, code=code, _count=5000):
    taken = datetime.datetime.fromisoformat(one["effectiveDateTime"])
    if since is None or taken >= datetime.datetime.fromisoformat(since):
        labs.append([taken, one["valueQuantity"]["value"], one["effectiveDateTime"]])
last = max(labs, key=lambda lab: lab[0]) if labs else None
last
"""
"""Reads the results of a test. `last` is the latest one; of equal times, the first in the server's order."""
_ORDERS = """
def order(resource_type, fields):
    resource = {"resourceType": resource_type, "status": "active", "intent": "order",
                "subject": {"reference": f"Patient/{mrn}"}, "authoredOn": now}
    post(resource_type, resource | fields)


def test_order(system, code, name, fields):
    coding = {"system": system, "code": code, "display": name}
    order("ServiceRequest", {"priority": "stat", "code": {"coding": [coding]}} | fields)


def drug_order(ndc, name, dosage):
    drug = {"coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": ndc, "display": name}], "text": name}
    order("MedicationRequest", {"medicationCodeableConcept": drug, "dosageInstruction": [dosage]})

"""
_PATIENT = """
import re
answer = "Patient not found"
for patient in search("Patient", birthdate=born, _count=5000):
    for name in patient.get("name", []):
        given, family = re.escape(" ".join(name.get("given", []))), re.escape(name.get("family", ""))
        if re.search(f"(?<![\\w'-])({given} {family}|{family}, {given})(?![\\w'-])", words):
            answer = patient["id"]
answer
"""
_AGE = """
import datetime
born = datetime.date.fromisoformat(search("Patient", identifier=mrn)[0]["birthDate"])
today = datetime.date.today()
finish([today.year - born.year - ((today.month, today.day) < (born.month, born.day))])
"""
_VITAL = """
category = {"system": "http://hl7.org/fhir/observation-category", "code": "vital-signs", "display": "Vital Signs"}
post("Observation", {"resourceType": "Observation", "status": "final", "category": [{"coding": [category]}],
                     "code": {"text": code}, "subject": {"reference": f"Patient/{mrn}"},
                     "effectiveDateTime": now, "valueString": pressure})
finish([])
"""
_VALUE = "finish([-1] if last is None else [last[1]])\n"
_MEAN = "finish([sum([lab[1] for lab in labs]) / len(labs)] if labs else [-1])\n"
_MAGNESIUM = """
if last is not None and last[1] <= low:
    grams = [dose for below, dose in doses if last[1] < below] or [doses[-1][1]]
    hours = grams[0] * hours_per_gram
    rate = {"doseQuantity": {"value": grams[0], "unit": "g"}, "rateQuantity": {"value": hours, "unit": "h"}}
    drug_order(drug, "Magnesium sulfate IV", {"route": "IV", "doseAndRate": [rate]})
finish([] if last is None else [last[1]])
"""
_POTASSIUM = """
if last is not None and last[1] < low:
    amount = round((low - last[1]) / 0.1 * dose, 2)
    rate = {"doseQuantity": {"value": amount, "unit": "mEq"}}
    drug_order(drug, "Potassium chloride oral", {"route": "oral", "doseAndRate": [rate]})
    test_order("http://loinc.org", test, "Potassium in serum", {"occurrenceDateTime": when})
finish([-1] if last is None else [last[1]])
"""
_HBA1C = """
if last is None or last[0] < datetime.datetime.fromisoformat(since_test):
    test_order("http://loinc.org", test, "Hemoglobin A1c", {})
finish([-1] if last is None else [last[1], last[2]])
"""
_REFER = """
test_order("http://snomed.info/sct", code, "Orthopedic surgery referral", {"note": {"text": text}})
finish([])
"""


class CodeReferenceAgent(Agent):
    """Sends the programs of the task's type."""

    def play(self, task: FhirTask, prompt: str) -> Iterator[str]:
        """See `Agent.play`. The first program begins with the values that the task states."""
        values, programs = PROGRAMS[task.type](task, stated(task))
        head = "".join(f"{name} = {_literal(value)}\n" for name, value in values.items())
        for place, program in enumerate(programs):
            yield fenced(head + program if place == 0 else program)


def _literal(value: Any) -> str:
    return "None" if value is None else json.dumps(value)


Written = tuple[Mapping[str, Any], tuple[str, ...]]
"""The values that a task states, by variable name, and the programs."""


def _basic(task: FhirTask, rule: Constants) -> dict[str, Any]:
    return {"mrn": task.mrn, "now": rule.now_text}


def _lab(task: FhirTask, rule: Constants, lab: Lab, since: Any = None) -> dict[str, Any]:
    return {**_basic(task, rule), "code": lab.code, "since": since.isoformat() if since else None}


def _find_patient(task: FhirTask, rule: Constants) -> Written:
    return {"born": birth_date(task.instruction), "words": task.instruction}, (_PATIENT, "finish([answer])\n")


def _pressure(task: FhirTask, rule: Constants) -> Written:
    match = PRESSURE.search(task.instruction)
    values = {**_basic(task, rule), "code": rule.blood_pressure_code, "pressure": match[0] if match else ""}
    return values, (_VITAL,)


def _magnesium(task: FhirTask, rule: Constants) -> Written:
    return _lab(task, rule, rule.magnesium, rule.window_start), (_LABS, _VALUE)


def _replace_magnesium(task: FhirTask, rule: Constants) -> Written:
    own = {
        "low": rule.magnesium_low,
        "doses": rule.magnesium_doses,
        "hours_per_gram": rule.magnesium_hours_per_gram,
        "drug": rule.magnesium_drug,
    }
    return _lab(task, rule, rule.magnesium, rule.window_start) | own, (_LABS, _ORDERS + _MAGNESIUM)


def _replace_potassium(task: FhirTask, rule: Constants) -> Written:
    own = {
        "low": rule.potassium_low,
        "dose": rule.potassium_dose,
        "drug": rule.potassium_drug,
        "test": rule.potassium_test,
        "when": f"{rule.follow_up_text}00:00+00:00",
    }
    return _lab(task, rule, rule.potassium) | own, (_LABS, _ORDERS + _POTASSIUM)


def _refer(task: FhirTask, rule: Constants) -> Written:
    match = REFERRAL.search(task.instruction)
    values = {**_basic(task, rule), "code": rule.referral_code, "text": match[0] if match else ""}
    return values, (_ORDERS + _REFER,)


def _hba1c(task: FhirTask, rule: Constants) -> Written:
    own = {"test": rule.a1c_test, "since_test": rule.a1c_start.isoformat()}
    return _lab(task, rule, rule.a1c) | own, (_LABS, _ORDERS + _HBA1C)


PROGRAMS: dict[str, Callable[[FhirTask, Constants], Written]] = {
    "task1": _find_patient,
    "task2": lambda task, rule: (_basic(task, rule), (_AGE,)),
    "task3": _pressure,
    "task4": _magnesium,
    "task5": _replace_magnesium,
    "task6": lambda task, rule: (_lab(task, rule, rule.glucose, rule.window_start), (_LABS, _MEAN)),
    "task7": lambda task, rule: (_lab(task, rule, rule.glucose), (_LABS, _VALUE)),
    "task8": _refer,
    "task9": _replace_potassium,
    "task10": _hba1c,
}
