"""Iterates over a hospital's charts, for the rules and numbers: a patient's resources by type."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

Resource = dict[str, Any]
NOT_ORDERED = ("entered-in-error", "cancelled")
TIMES = {
    "Observation": "effectiveDateTime",
    "MedicationRequest": "authoredOn",
    "ServiceRequest": "authoredOn",
    "Procedure": "performedDateTime",
    "Condition": "recordedDate",
    "DiagnosticReport": "effectiveDateTime",
    "DocumentReference": "date",
    "MedicationAdministration": "effectiveDateTime",
    "Immunization": "occurrenceDateTime",
}
"""The element that says when something happened."""


def moment(text: str) -> datetime:
    """A FHIR dateTime with a zone."""
    return datetime.fromisoformat(text)


@dataclass(slots=True)
class Tally:
    """How often a rule was checked, and where it does not hold."""

    checked: int = 0
    violations: list[str] = field(default_factory=list)

    def check(self, holds: bool, *words: object) -> None:
        """Count a check; `words` describe a violation."""
        self.checked += 1
        if not holds:
            self.violations.append(" ".join(map(str, words)))


class Chart:
    """A patient's resources by type, and what rules ask of them."""

    def __init__(self, patient: Resource) -> None:
        self.patient = patient
        self.by_type: dict[str, list[Resource]] = {}

    def of(self, kind: str) -> list[Resource]:
        """The resources of a type."""
        return self.by_type.get(kind, [])

    def prepare(self) -> None:
        """Index what several rules read."""
        self.encounters = {encounter["id"]: encounter for encounter in self.of("Encounter")}
        self.stays = sorted(
            (encounter for encounter in self.of("Encounter") if encounter["class"]["code"] == "IMP"),
            key=lambda stay: stay["period"]["start"],
        )
        self.parts = [encounter for encounter in self.of("Encounter") if "partOf" in encounter]
        self.creatinine = sorted(
            (moment(observation["effectiveDateTime"]), observation["valueQuantity"]["value"])
            for observation in self.of("Observation")
            if observation["code"].get("text") == "CREA" and "valueQuantity" in observation
        )
        self.orders = [order for order in self.of("MedicationRequest") if order["status"] not in NOT_ORDERED]

    def age(self, time: datetime) -> int:
        """Completed years at a time."""
        year, month, day = map(int, self.patient["birthDate"].split("-"))
        return time.year - year - ((time.month, time.day) < (month, day))

    def active(self, condition: Resource, time: datetime) -> bool:
        """Whether a problem was active at that time: from its onset on, if resolved only during its encounter."""
        if "clinicalStatus" not in condition or condition["onsetDateTime"] > time.date().isoformat():
            return False
        if condition["clinicalStatus"]["coding"][0]["code"] == "active":
            return True
        encounter = self.encounters.get(where(condition) or "")
        return encounter is not None and within(encounter, time)

    def filtration(self, time: datetime) -> float | None:
        """The estimated filtration rate by the last creatinine of a year (CKD-EPI 2021), mL/min per 1.73 m2."""
        values = [value for taken, value in self.creatinine if time - timedelta(days=365) <= taken <= time]
        if not values:
            return None
        female = self.patient["gender"] == "female"
        kappa, alpha = (0.7, -0.241) if female else (0.9, -0.302)
        ratio = values[-1] / kappa
        rate = 142 * min(ratio, 1) ** alpha * max(ratio, 1) ** -1.2 * 0.9938 ** self.age(time)
        return rate * 1.012 if female else rate


def where(resource: Resource) -> str | None:
    """The id of the encounter that a resource belongs to."""
    reference = resource.get("encounter") or resource.get("context") or {}
    if "encounter" in reference:
        reference = reference["encounter"][0]
    return str(reference["reference"]).partition("/")[2] if "reference" in reference else None


def within(encounter: Resource, time: datetime) -> bool:
    """Whether a time lies in an encounter."""
    period = encounter["period"]
    return moment(period["start"]) <= time and ("end" not in period or time <= moment(period["end"]))


def charts(lines: Iterable[str]) -> Iterator[Chart]:
    """The charts of a hospital whose patients' resources follow each other; resources before the first patient are left
    out.
    """
    medications: dict[str, Resource] = {}
    current: Chart | None = None
    for text in lines:
        resource = json.loads(text)
        if resource["resourceType"] == "Medication":
            medications[f"Medication/{resource['id']}"] = resource
        elif resource["resourceType"] == "Patient":
            if current:
                yield current
            current = Chart(resource)
        elif current is not None:
            if "medicationReference" in resource:
                resource["medicationCodeableConcept"] = medications[resource["medicationReference"]["reference"]][
                    "code"
                ]
            current.by_type.setdefault(resource["resourceType"], []).append(resource)
    if current:
        yield current


def drug_text(resource: Resource) -> str:
    """A drug's text in lower case."""
    return str(resource["medicationCodeableConcept"]["text"]).lower()


def named(table: Iterable[str], text: str) -> str | None:
    """The entry of a table whose name begins the drug's text."""
    return next((name for name in table if text.startswith(name)), None)
