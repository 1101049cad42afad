"""Task types of one rule, and the resources of a patient."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from typing import Any

from refsol.changes import Change
from refsol.clinical.chart import Chart
from refsol.clinical.checking import Checked, check
from refsol.clinical.codes import LOINC, Lab
from refsol.clinical.meanings import CLINICAL
from refsol.clinical.rulings import Reply, Ruling
from refsol.clinical.sources import Resources
from refsol.clinical.task_type import TaskType
from refsol.verdict import Verdict

Rule = Callable[[Chart], Ruling]
Json = dict[str, Any]
NOW = datetime(2024, 3, 5, 14, 0, tzinfo=UTC)
BASE = "http://localhost:8080/fhir/"
POTASSIUM = Lab("2823-3", LOINC, "potassium", unit="mmol/L")


def kind_of(rule: Rule) -> type[TaskType]:
    """A task type with this rule."""

    class Own(TaskType):
        name, text = "own", "Patient {mrn}: …"

        def rule(self, chart: Chart) -> Ruling:
            return rule(chart)

    return Own


def checked(rule: Rule, *resources: Json) -> Checked:
    """What `check` says of a rule. A warning is an error."""
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        return check(kind_of(rule), resources, patient="P1", now=NOW)


def graded(
    rule: Rule,
    *orders: Json,
    resources: Sequence[Json] = (),
    answer: str = "[]",
    changes: Sequence[Change] = (),
) -> Verdict:
    """The verdict on a reply with these orders, and these further changes of the chart."""
    reply = Reply.with_orders(answer, orders, BASE)
    if changes:
        reply = Reply(answer, reply.posts, bool(reply.posts), changes=(*(reply.changes or ()), *changes))
    return kind_of(rule)().judge(Chart(Resources(resources), "P1", NOW, CLINICAL, base=BASE), reply)


def resource(kind: str, number: int = 1, **elements: Any) -> Json:
    """A resource of the patient."""
    return {"resourceType": kind, "id": str(number), "subject": {"reference": "Patient/P1"}, **elements}


def concept(code: str, system: str = "") -> Json:
    """A concept with one coding; without a system, if it is empty."""
    return {"coding": [{"system": system, "code": code} if system else {"code": code}]}


def reading(value: float, time: str = "2024-03-05T08:00:00+00:00", number: int = 1, **elements: Any) -> Json:
    """A potassium."""
    usual = {
        "code": concept("2823-3", LOINC),
        "effectiveDateTime": time,
        "valueQuantity": {"value": value, "unit": "mmol/L"},
    }
    return resource("Observation", number, **{**usual, **elements})


def ordered(text: str, number: int = 1, **elements: Any) -> Json:
    """An active order of a drug."""
    return resource("MedicationRequest", number, **{"status": "active", **_drug(text), **elements})


def _drug(text: str) -> Json:
    return {"medicationCodeableConcept": {"text": text}} if text else {}
