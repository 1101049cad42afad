"""Small charts, posts and histories for the tests of psb-300, and the packed vectors."""

from __future__ import annotations

import json
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Any

from refsol.psb300 import Resources, RuleName, Verdict, grade_item
from tests.shared_data import DATA, read_xz

VECTORS = DATA / "psb300"
MRN = "S1234567"
NOW = datetime(2023, 11, 7, 22, 47, tzinfo=UTC)
CLOCK = datetime(2026, 1, 1, tzinfo=UTC)
FINISH = {"role": "agent", "content": "FINISH([])"}

Json = dict[str, Any]


@cache
def rows(name: str) -> tuple[Json, ...]:
    """The lines of a packed file of vectors."""
    return tuple(json.loads(line) for line in read_xz(VECTORS / f"{name}.jsonl.xz").splitlines())


def verdict_of(row: Json, rules: RuleName = "official") -> Verdict:
    """The verdict on a vector."""
    clock = datetime.fromisoformat(row["clock"])
    return grade_item(row["task"], row["history"], row["result"], Resources(row["ehr"]), clock=clock, rules=rules)


def task(kind: int, **more: Any) -> Json:
    """A task of a type."""
    context = f"It's {NOW.isoformat()} now."
    return {"id": f"task{kind}_1", "instruction": "Made up.", "context": context, "eval_MRN": MRN, **more}


def resource(kind: str, id: str = "1", **fields: Any) -> Json:
    """A resource of the patient that was loaded in time."""
    subject, meta = {"reference": f"Patient/{MRN}"}, {"lastUpdated": "2024-12-30T20:00:00+00:00"}
    return {"resourceType": kind, "id": id, "subject": subject, "meta": meta, **fields}


def procedure(code: str, days: float, id: str = "1") -> Json:
    """A procedure done some days before now."""
    time = (NOW - timedelta(days=days)).isoformat()
    return resource("Procedure", id, code={"coding": [{"code": code}]}, performedDateTime=time)


def reading(code: str, value: Any, days: float, id: str = "1") -> Json:
    """An observation taken some days before now."""
    time = (NOW - timedelta(days=days)).isoformat()
    quantity = {"value": value, "unit": "u"}
    return resource(
        "Observation", id, code={"coding": [{"code": code}]}, effectiveDateTime=time, valueQuantity=quantity
    )


def medication(text: str, id: str = "1", status: str = "active") -> Json:
    """A MedicationRequest."""
    return resource("MedicationRequest", id, status=status, medicationCodeableConcept={"text": text})


def order(kind: str = "ServiceRequest", **fields: Any) -> Json:
    """The payload of an active order for the patient."""
    subject = {"reference": f"Patient/{MRN}"}
    return {"resourceType": kind, "status": "active", "intent": "order", "subject": subject, **fields}


def posts(*payloads: Json) -> list[Json]:
    """A history in which each payload was accepted."""
    messages = []
    for payload in payloads:
        messages.append({"role": "agent", "content": f"POST http://x/fhir/ServiceRequest\n{json.dumps(payload)}"})
        messages.append({"role": "user", "content": "POST request accepted"})
    return [*messages, FINISH]


def grade(kind: int, ehr: list[Json], history: list[Json], result: Any = "[]", **options: Any) -> Verdict:
    """The verdict on a small item."""
    return grade_item(task(kind), history, result, Resources(ehr), **{"clock": CLOCK, **options})
