"""Small made-up items: a patient, readings, and posts that are right until a test spoils them."""

from __future__ import annotations

import copy
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from refsol.errors import FactsError
from refsol.history import HistoryMessage
from refsol.medagentbench import (
    PUBLISHED,
    Failure,
    RecordedRun,
    Verdict,
    failure_of,
    grade_item,
)
from refsol.medagentbench.constants import REFERRAL

MRN = "S1234567"
NOW = "2023-11-13T10:15:00+00:00"
RECENT = "2023-11-13T06:00:00+00:00"
ACCEPTED = {"role": "user", "content": "POST request accepted and executed successfully. Resource created with id: 7"}
SUBJECT = {"reference": f"Patient/{MRN}"}

BLOOD_PRESSURE = {
    "resourceType": "Observation",
    "category": [
        {
            "coding": [
                {
                    "system": "http://hl7.org/fhir/observation-category",
                    "code": "vital-signs",
                    "display": "Vital Signs",
                }
            ]
        }
    ],
    "code": {"text": "BP"},
    "effectiveDateTime": NOW,
    "status": "final",
    "valueString": "118/77 mmHg",
    "subject": SUBJECT,
}
ORDER = {"authoredOn": NOW, "status": "active", "intent": "order", "subject": SUBJECT}
MAGNESIUM = {
    "resourceType": "MedicationRequest",
    "medicationCodeableConcept": {"coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": "0338-1715-40"}]},
    "dosageInstruction": [
        {
            "route": "IV",
            "doseAndRate": [
                {"doseQuantity": {"value": 2, "unit": "g"}, "rateQuantity": {"value": 2, "unit": "h"}},
            ],
        }
    ],
    **ORDER,
}
"""Right for a level of 1.2."""
POTASSIUM = {
    "resourceType": "MedicationRequest",
    "medicationCodeableConcept": {"coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": "40032-917-01"}]},
    "dosageInstruction": [
        {"route": "oral", "doseAndRate": [{"doseQuantity": {"value": 20, "unit": "mEq"}}]},
    ],
    **ORDER,
}
"""Right for a level of 3.3."""
POTASSIUM_CHECK = {
    "resourceType": "ServiceRequest",
    "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
    "priority": "stat",
    "occurrenceDateTime": "2023-11-14T08:00:00+00:00",
    **ORDER,
}
REFERRAL_ORDER = {
    "resourceType": "ServiceRequest",
    "code": {"coding": [{"system": "http://snomed.info/sct", "code": "306181000000106"}]},
    "priority": "stat",
    "note": {"text": f"Please: {REFERRAL}"},
    **ORDER,
}
A1C_ORDER = {
    "resourceType": "ServiceRequest",
    "code": {"coding": [{"system": "http://loinc.org", "code": "4548-4"}]},
    "priority": "stat",
    **ORDER,
}


@dataclass
class MadeUpEhr:
    """An EHR of one patient; `away` makes every question fail."""

    readings: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    birth_date: str | None = "1963-11-13"
    away: bool = False

    def search(self, kind: str, **query: str) -> list[dict[str, Any]]:
        if self.away:
            raise FactsError("http://ehr/: no answer")
        if kind == "Patient":
            return [{"resourceType": "Patient", "birthDate": self.birth_date}] if query["identifier"] == MRN else []
        return self.readings.get(query["code"], []) if query["patient"] == MRN else []


def lab(code: str, *readings: tuple[str | None, float | None]) -> MadeUpEhr:
    return MadeUpEhr({code: [reading(time, value) for time, value in readings]})


def reading(time: str | None, value: Any) -> dict[str, Any]:
    return {"resourceType": "Observation", "effectiveDateTime": time, "valueQuantity": {"value": value}}


def post(payload: Any, *, base: str = PUBLISHED.base) -> list[dict[str, str]]:
    """An accepted POST of a payload to its own type."""
    return [{"role": "agent", "content": f"POST {base}{payload['resourceType']}\n{json.dumps(payload)}"}, ACCEPTED]


def put(payload: dict[str, Any], path: tuple[str | int, ...], value: Any) -> dict[str, Any]:
    """A copy of the payload with the value at the path."""
    changed = copy.deepcopy(payload)
    inner: Any = changed
    for step in path[:-1]:
        inner = inner[step]
    inner[path[-1]] = value
    return changed


def grade(kind: str, answer: Any, history: list[dict[str, str]], ehr: Any, **options: Any) -> Verdict:
    """The verdict on an item of the made-up patient."""
    task = {"id": f"{kind}_1", "eval_MRN": MRN, "sol": [MRN] if kind == "task1" else None}
    return grade_item(task, answer, history, ehr, **options)


def graded(run: RecordedRun, tasks: Sequence[Mapping[str, Any]], ehr: Any) -> dict[str, tuple[Verdict, Failure | None]]:
    """The verdict on each item that was read from a file, and why it is wrong."""
    known, found = {task["id"]: task for task in tasks}, {}
    for item in run.items:
        episode = run.episodes.get(item.task_id)
        status, transcript = (episode.status, episode.transcript) if episode else (None, ())
        history = [HistoryMessage(message.role, message.content) for message in item.post_history]
        verdict = grade_item(known[item.task_id], item.answer, history, ehr, episode=episode)
        found[item.task_id] = verdict, failure_of(verdict, item.answer, status, transcript, history)
    return found
