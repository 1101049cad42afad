"""A small ward and questions about it, in the forms of MIMIC and of FHIR-AgentBench. All of it is made up."""

from __future__ import annotations

import csv
import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from tests.refsol.fhiragentbench.test_files import TWELVE

Json = dict[str, Any]
MIMIC = "http://mimic.mit.edu/fhir/mimic/identifier"
HAS_ICU = "Has_verb patient {patient_id} been to an emergency room [time_filter_global1]?"
COUNT_DRUGS = "Count the number of drugs patient {patient_id} were prescribed [time_filter_global1]."
GENDER = "What is the gender of patient {patient_id}?"
CAREUNIT = "What was the [time_filter_exact1] careunit of patient {patient_id} [time_filter_global1]?"
LAB = "What was the [agg_function] {lab_name} value of patient {patient_id} [time_filter_global1]?"
VITAL = "What was the [time_filter_exact1] measured {vital_name} of patient {patient_id} [time_filter_global1]?"


def to(kind: str, name: str) -> Json:
    return {"reference": f"{kind}/{name}"}


def resources(patients: Sequence[str] = ("p1", "p2", "p3")) -> list[Json]:
    """Each patient has a stay, a diagnosis, two prescriptions and three laboratory results."""
    found: list[Json] = [
        {"resourceType": "Location", "id": name, "name": name.title(), "status": "active"}
        for name in ("medicine", "icu")
    ]
    found += [
        {
            "resourceType": "Medication",
            "id": f"drug{n}",
            "code": {"coding": [{"code": f"d{n}", "display": f"Drug {n}"}]},
        }
        for n in (1, 2, 3)
    ]
    for place, patient in enumerate(patients):
        identifier = [{"system": f"{MIMIC}/patient", "value": f"1000{place}"}]
        gender = "female" if place % 2 else "male"
        found.append({"resourceType": "Patient", "id": patient, "gender": gender, "identifier": identifier})
        period = {"start": "2150-01-01T10:00:00-05:00", "end": "2150-01-05T10:00:00-05:00"}
        found.append(
            {
                "resourceType": "Encounter",
                "id": f"{patient}-e1",
                "status": "finished",
                "class": {"code": "EMER"},
                "subject": to("Patient", patient),
                "period": period,
                "location": [{"location": to("Location", "icu")}],
                "text": {"status": "generated", "div": '<div xmlns="http://www.w3.org/1999/xhtml">stay</div>'},
            }
        )
        found.append(
            {
                "resourceType": "Condition",
                "id": f"{patient}-c1",
                "subject": to("Patient", patient),
                "code": {"coding": [{"code": "I10"}]},
            }
        )
        found += [
            {
                "resourceType": "MedicationRequest",
                "id": f"{patient}-m{n}",
                "status": "completed",
                "intent": "order",
                "subject": to("Patient", patient),
                "medicationReference": to("Medication", f"drug{n}"),
            }
            for n in (1, 2)
        ]
        found += [
            {
                "resourceType": "Observation",
                "id": f"{patient}-o{n}",
                "status": "final",
                "code": {"coding": [{"code": "K"}]},
                "subject": to("Patient", patient),
                "effectiveDateTime": f"2150-01-0{n}T08:00:00-05:00",
                "valueQuantity": {"value": 3.5 + n},
            }
            for n in (1, 2, 3)
        ]
    return found


def question(
    number: int, patient: str, template: str, answer: str, ids: dict[str, list[str]], split: str = "test"
) -> Json:
    return {
        "question_id": f"q{number}",
        "question": template.replace("{patient_id}", patient).replace("Has_verb", "Has").split("[")[0].strip() + "?",
        "assumption": "Assume the current time is 2150-12-31 23:59:00." if number % 2 else "",
        "patient_fhir_id": patient,
        "true_answer": answer,
        "true_fhir_ids": str(ids) if ids else "",
        "task_type": "fhiragentbench",
        "expected_actions": "[]",
        "template": template,
        "split": split,
        "sql_query": "select 1",
        "val_dict": "{}",
    }


QUESTIONS = [
    question(1, "p1", GENDER, "[['M']]", {"Patient": ["p1"]}),
    question(2, "p2", HAS_ICU, "[[1]]", {"Encounter": ["p2-e1"]}),
    question(3, "p3", HAS_ICU, "[[0]]", {}, "train"),
    question(
        4,
        "p1",
        COUNT_DRUGS,
        "[[2]]",
        {"MedicationRequest": ["p1-m1", "p1-m2"], "Medication": ["drug1", "drug2"]},
        "train",
    ),
    question(5, "p2", LAB, "[[4.5]]", {"Observation": ["p2-o1"]}, "valid"),
    question(6, "p3", CAREUNIT, "[['Icu']]", {"Location": ["icu"]}, "valid"),
    question(7, "p3", VITAL, "[[80.]]", {"Observation": ["chart-event"]}, "valid"),
]
"""The last one needs a chart event that the ward does not have."""


def write_ward(folder: Path, patients: Sequence[str] = ("p1", "p2", "p3")) -> Path:
    """The ward as NDJSON."""
    path = folder / "ward.ndjson"
    path.write_text("".join(json.dumps(resource) + "\n" for resource in resources(patients)), encoding="utf-8")
    return path


def write_questions(folder: Path, columns: Sequence[str] = TWELVE, rows: Sequence[Json] = QUESTIONS) -> Path:
    """The questions as a file of twelve columns, or nine."""
    path = folder / "questions.csv"
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, columns, extrasaction="ignore")
        writer.writeheader()
        writer.writerows(rows)
    return path
