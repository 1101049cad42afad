"""A task file of the published form and its patients, made up: 30 patients, each asked about in all ten types."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

Json = dict[str, Any]

SCENARIO = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
NOWS = {
    "task4": datetime(2023, 11, 11, 9, tzinfo=UTC),
    "task9": datetime(2024, 1, 9, tzinfo=UTC),
    "task10": datetime(2023, 11, 7, 12, tzinfo=UTC),
}
STORED = datetime(2024, 12, 30, 20, tzinfo=UTC)
CLOCK = SCENARIO.isoformat()
PATIENTS = 30
DAMAGED = 7
"""The number of the task3 whose context has no readable time."""
DUE = {
    "task1": 15,
    "task2": 20,
    "task4": 8,
    "task5": 8,
    "task6": 16,
    "task7": 10,
    "task8": 10,
    "task9": 15,
    "task10": 20,
}
"""How many tasks of each type ask for something to be done."""


def mrn(number: int) -> str:
    return f"S{1_000_000 + number}"


def tasks() -> list[Json]:
    """300 tasks, 30 of each type."""
    return [_task(kind, number) for kind in range(1, 11) for number in range(PATIENTS)]


def _task(kind: int, number: int) -> Json:
    name = f"task{kind}"
    now = SCENARIO + timedelta(minutes=number) if name == "task3" else NOWS.get(name)
    context = "Codes are those of the hospital."
    if now is not None:
        context = f"It's {now.isoformat()} now. {context}"
    if (name, number) == ("task3", DAMAGED):
        context = "It's 2023-08-15:00:00+00:00 now."
    words = f"Do what type {kind} asks for the patient {mrn(number)}."
    return {"id": f"{name}_{number + 1}", "instruction": words, "context": context, "eval_MRN": mrn(number)}


def resources(stored: datetime = STORED) -> list[Json]:
    """All charts, each resource with the time at which it was stored."""
    charts = [resource for number in range(PATIENTS) for resource in _chart(number)]
    for place, resource in enumerate(charts):
        resource["meta"] = {"lastUpdated": (stored + timedelta(seconds=place)).isoformat()}
        if resource["resourceType"] != "Patient":
            resource["id"] = f"r{place}"
    return charts


def write(folder: Path, stored: datetime = STORED) -> tuple[Path, Path]:
    """A checkout with the task file, and the patients' file."""
    data = folder / "checkout" / "data"
    data.mkdir(parents=True)
    (data / "new_patient_tasks.json").write_text(json.dumps(tasks(), indent=1), encoding="utf-8")
    patients = folder / "patients.ndjson"
    patients.write_text("".join(json.dumps(resource) + "\n" for resource in resources(stored)), encoding="utf-8")
    return folder / "checkout", patients


def _chart(number: int) -> Iterator[Json]:
    yield {"resourceType": "Patient", "id": mrn(number), "identifier": [{"value": mrn(number)}], "gender": "female"}
    yield _done(number, "IMGCT0491", SCENARIO - timedelta(days=400 if number % 2 == 0 else 60))
    if number % 4 == 0:
        yield {"resourceType": "Condition", **_about(number, "C64.2")}
    yield from _anticoagulants(number)
    yield from _readings(number)
    yield from _catheter(number)
    if number % 3 == 0:
        yield _order(number, "ondansetron 4 mg tablet")
    if number % 3 < 2:
        yield _order(number, "Morphine 15 mg tablet")
    if number % 3 == 1:
        yield _order(number, "naloxone 4 mg nasal spray")
        yield _order(number, "COVID-19 VAC, mRNA", status="completed", days=100)
    if number % 3 == 0:
        yield _done(number, "COVIDVACCINE", SCENARIO - timedelta(days=500))
    yield _done(number, "90686", NOWS["task9"] - timedelta(days=400 if number % 2 == 0 else 100))


def _anticoagulants(number: int) -> Iterator[Json]:
    if number % 3:
        yield _order(number, "heparin 5,000 units injection", days=3)
    if number % 3 == 2:
        yield _order(number, "enoxaparin 40 mg syringe", days=1)


def _catheter(number: int) -> Iterator[Json]:
    if number % 4:
        hours = 10 if number % 4 == 3 else 60
        yield _done(number, "NUR1373", NOWS["task4"] - timedelta(hours=hours))
    if number % 4 == 2:
        subject = _about(number, "NUR1373")
        yield {"resourceType": "ServiceRequest", "status": "active", "intent": "order", **subject}


def _readings(number: int) -> Iterator[Json]:
    if number % 5:
        for hours in (1, 4, 9):
            yield _reading(number, "HEARTRATE", 70 + number + hours, hours / 24)
    kinds = ([(12, 70), (15, 5)], [(7, 5)], [(2, 5)], [(6.5, 5)])
    for value, days in kinds[number % 4]:
        yield _reading(number, "TSH", value, days)
    yield _reading(number, "FT4", 1.2 if number % 4 == 1 else 3, 5)
    if number % 3 < 2:
        yield _reading(number, "QTCINTERVAL", 530 if number % 3 == 0 else 430, 2)


def _about(number: int, code: str) -> Json:
    coding = {"system": "http://hospital.example/codes", "code": code}
    return {"subject": {"reference": f"Patient/{mrn(number)}"}, "code": {"coding": [coding]}}


def _done(number: int, code: str, at: datetime) -> Json:
    return {
        "resourceType": "Procedure",
        "status": "completed",
        **_about(number, code),
        "performedDateTime": at.isoformat(),
    }


def _reading(number: int, code: str, value: float, days: float) -> Json:
    taken = (SCENARIO - timedelta(days=days)).isoformat()
    quantity = {"value": value, "unit": "1"}
    about = _about(number, code)
    return {
        "resourceType": "Observation",
        "status": "final",
        **about,
        "effectiveDateTime": taken,
        "valueQuantity": quantity,
    }


def _order(number: int, text: str, *, status: str = "active", days: float = 2) -> Json:
    subject = {"reference": f"Patient/{mrn(number)}"}
    written = (SCENARIO - timedelta(days=days)).isoformat()
    return {
        "resourceType": "MedicationRequest",
        "status": status,
        "intent": "order",
        "subject": subject,
        "authoredOn": written,
        "medicationCodeableConcept": {"text": text},
    }
