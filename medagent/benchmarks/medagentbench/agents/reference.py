"""The reference agent: solves all ten task types by rule, through the same session as any other agent.

It takes the patient and the question from the task's text, and the facts from the record. A solver is a generator: it
yields an action, receives the reply, and returns the answers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Generator
from dataclasses import dataclass
from datetime import date, datetime
from typing import Any

from medagent.benchmarks.medagentbench.agents.stated import stated, stated_mrn
from medagent.fhir_episodes.own_agents import Solver, SolverAgent, bundle_in
from medagent.fhir_episodes.task import FhirTask

Answers = list[Any]
_DATES = (
    (re.compile(r"\b\d{4}-\d{2}-\d{2}\b"), "%Y-%m-%d"),
    (re.compile(r"\b\d{1,2} [A-Z][a-z]+ \d{4}\b"), "%d %B %Y"),
    (re.compile(r"\b[A-Z][a-z]+ \d{1,2}, \d{4}\b"), "%B %d, %Y"),
    (re.compile(r"\b\d{2}-[A-Z][a-z]{2}-\d{4}\b"), "%d-%b-%Y"),
)
"""The forms in which instructions write a birth date."""
PRESSURE = re.compile(r"\d+/\d+ mmHg")
REFERRAL = re.compile(r"Situation:.*recommendations\.", re.DOTALL)


@dataclass(frozen=True, slots=True)
class Lab:
    """One result: its value, its time, and the time as the record writes it."""

    value: float
    time: datetime
    text: str


class ReferenceAgent(SolverAgent):
    """Acts by requests. It knows the FHIR base; the task states all else that it needs."""

    def solver(self, task: FhirTask) -> Solver:
        """See `SolverAgent.solver`."""
        return SOLVERS[task.type](RecordReader(self.context.base.rstrip("/"), task))


class RecordReader:
    """Reads one task's text and, with GETs, the patient's record; builds the POSTs."""

    def __init__(self, base: str, task: FhirTask) -> None:
        self._base = base
        self.constants = stated(task)
        self.instruction = task.instruction
        self.mrn = stated_mrn(task.instruction)

    def search(self, resource_type: str, query: str) -> Generator[str, str, list[dict[str, Any]]]:
        """The resources that a search finds (the first page, 5,000 resources)."""
        reply = yield f"GET {self._base}/{resource_type}?{query}&_count=5000"
        return [entry["resource"] for entry in bundle_in(reply).get("entry", [])]

    def labs(self, code: str) -> Generator[str, str, list[Lab]]:
        """All results of a test, in the server's order."""
        resources = yield from self.search("Observation", f"patient={self.mrn}&code={code}")
        return [
            Lab(r["valueQuantity"]["value"], datetime.fromisoformat(r["effectiveDateTime"]), r["effectiveDateTime"])
            for r in resources
        ]

    def recent(self, code: str) -> Generator[str, str, list[Lab]]:
        """The results since the start of the window, in the server's order."""
        labs = yield from self.labs(code)
        return [lab for lab in labs if lab.time >= self.constants.window_start]

    def order(self, resource_type: str, **fields: Any) -> str:
        """The POST of an order for this patient, with the task's now as its time."""
        resource = {
            "resourceType": resource_type,
            "status": "active",
            "intent": "order",
            "subject": {"reference": f"Patient/{self.mrn}"},
            "authoredOn": self.constants.now_text,
            **fields,
        }
        return f"POST {self._base}/{resource_type}\n{json.dumps(resource)}"

    def test_order(self, loinc: str, display: str, **fields: Any) -> str:
        """The POST of a laboratory order."""
        code = {"coding": [{"system": "http://loinc.org", "code": loinc, "display": display}]}
        return self.order("ServiceRequest", priority="stat", code=code, **fields)

    def drug_order(self, ndc: str, name: str, dosage: dict[str, Any]) -> str:
        """The POST of a medication order."""
        drug = {"coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": ndc, "display": name}], "text": name}
        return self.order("MedicationRequest", medicationCodeableConcept=drug, dosageInstruction=[dosage])

    def vital(self, code: str, value: str) -> str:
        """The POST of a vital sign, with the task's now as its time."""
        category = {
            "system": "http://hl7.org/fhir/observation-category",
            "code": "vital-signs",
            "display": "Vital Signs",
        }
        resource = {
            "resourceType": "Observation",
            "status": "final",
            "category": [{"coding": [category]}],
            "code": {"text": code},
            "subject": {"reference": f"Patient/{self.mrn}"},
            "effectiveDateTime": self.constants.now_text,
            "valueString": value,
        }
        return f"POST {self._base}/Observation\n{json.dumps(resource)}"


def _latest(labs: list[Lab]) -> Lab | None:
    """The latest result; of equal times, the first in the server's order, as `max` returns it."""
    return max(labs, key=lambda lab: lab.time, default=None)


def _value(lab: Lab | None) -> Answers:
    return [-1] if lab is None else [lab.value]


def _find_patient(chart: RecordReader) -> Solver:
    patients = yield from chart.search("Patient", f"birthdate={birth_date(chart.instruction)}")
    for patient in patients:
        if any(_names(name, chart.instruction) for name in patient.get("name", [])):
            return [patient["id"]]
    return ["Patient not found"]


def _names(name: dict[str, Any], words: str) -> bool:
    """Whether the text has this name, as `Given Family` or `Family, Given`."""
    first, family = re.escape(" ".join(name.get("given", []))), re.escape(name.get("family", ""))
    return re.search(rf"(?<![\w'-])({first} {family}|{family}, {first})(?![\w'-])", words) is not None


def birth_date(words: str) -> str:
    """The first date in the text, as FHIR writes it. Empty if there is none."""
    for form, pattern in _DATES:
        if match := form.search(words):
            return datetime.strptime(match[0], pattern).date().isoformat()
    return ""


def _age(chart: RecordReader) -> Solver:
    patients = yield from chart.search("Patient", f"identifier={chart.mrn}")
    born, today = date.fromisoformat(patients[0]["birthDate"]), chart.constants.now.date()
    return [today.year - born.year - ((today.month, today.day) < (born.month, born.day))]


def _record_pressure(chart: RecordReader) -> Solver:
    pressure = PRESSURE.search(chart.instruction)
    yield chart.vital(chart.constants.blood_pressure_code, pressure[0] if pressure else "")
    return []


def _magnesium(chart: RecordReader) -> Solver:
    labs = yield from chart.recent(chart.constants.magnesium.code)
    return _value(_latest(labs))


def _replace_magnesium(chart: RecordReader) -> Solver:
    labs = yield from chart.recent(chart.constants.magnesium.code)
    last = _latest(labs)
    rule = chart.constants
    if last is not None and last.value <= rule.magnesium_low:
        grams = rule.magnesium_dose(last.value)
        hours = grams * rule.magnesium_hours_per_gram
        dose = {"doseQuantity": {"value": grams, "unit": "g"}, "rateQuantity": {"value": hours, "unit": "h"}}
        yield chart.drug_order(rule.magnesium_drug, "Magnesium sulfate IV", {"route": "IV", "doseAndRate": [dose]})
    return [] if last is None else [last.value]


def _mean_glucose(chart: RecordReader) -> Solver:
    labs = yield from chart.recent(chart.constants.glucose.code)
    return [sum(lab.value for lab in labs) / len(labs)] if labs else [-1]


def _last_glucose(chart: RecordReader) -> Solver:
    labs = yield from chart.labs(chart.constants.glucose.code)
    return _value(_latest(labs))


def _refer(chart: RecordReader) -> Solver:
    text = REFERRAL.search(chart.instruction)
    coding = {
        "system": "http://snomed.info/sct",
        "code": chart.constants.referral_code,
        "display": "Orthopedic surgery referral",
    }
    note = {"text": text[0] if text else ""}
    yield chart.order("ServiceRequest", priority="stat", code={"coding": [coding]}, note=note)
    return []


def _replace_potassium(chart: RecordReader) -> Solver:
    labs = yield from chart.labs(chart.constants.potassium.code)
    last = _latest(labs)
    rule = chart.constants
    if last is not None and last.value < rule.potassium_low:
        amount = round((rule.potassium_low - last.value) / 0.1 * rule.potassium_dose, 2)
        dosage = {"route": "oral", "doseAndRate": [{"doseQuantity": {"value": amount, "unit": "mEq"}}]}
        yield chart.drug_order(rule.potassium_drug, "Potassium chloride oral", dosage)
        when = f"{rule.follow_up_text}00:00+00:00"
        yield chart.test_order(rule.potassium_test, "Potassium in serum", occurrenceDateTime=when)
    return _value(last)


def _hba1c(chart: RecordReader) -> Solver:
    labs = yield from chart.labs(chart.constants.a1c.code)
    last = _latest(labs)
    if last is None or last.time < chart.constants.a1c_start:
        yield chart.test_order(chart.constants.a1c_test, "Hemoglobin A1c")
    return [-1] if last is None else [last.value, last.text]


SOLVERS: dict[str, Callable[[RecordReader], Solver]] = {
    "task1": _find_patient,
    "task2": _age,
    "task3": _record_pressure,
    "task4": _magnesium,
    "task5": _replace_magnesium,
    "task6": _mean_glucose,
    "task7": _last_glucose,
    "task8": _refer,
    "task9": _replace_potassium,
    "task10": _hba1c,
}
