"""Values for requests: from the recorded data, so that most searches match something, and unusual ones."""

from __future__ import annotations

import random
from typing import Any
from urllib.parse import quote

Json = dict[str, Any]
TYPES = ("Observation", "Condition", "MedicationRequest", "Procedure", "Patient", "ServiceRequest", "Encounter")
CODES = ("MG", "K", "GLU", "A1C", "NA", "BP")
DATES = (
    "2023-11-12",
    "2023-11-13",
    "2023-10",
    "2023",
    "2022-08-01",
    "2023-11-12T10:00:00Z",
    "2023-11-01T00:00:00+00:00",
)
NAMES = ("smith", "S", "Bones", "a", "mar", "Jones", "O'Brien", "Ångström")
SYSTEMS = ("http://loinc.org", "http://terminology.hl7.org/CodeSystem/observation-category", "urn:obs", "http://nope")
ODD = (
    "",
    " ",
    "%",
    "_",
    "\\",
    "\\,",
    "\\|",
    "$",
    "|",
    "||",
    "a|b|c|d",
    "'",
    '"',
    "<b>",
    "&",
    "é",
    "null",
    "-1",
    "1e400",
    "0x1F",
    "2023-13-45",
    "../..",
    "a" * 300,
)


class Values:
    """Random values of requests; `resources` are those that both servers hold."""

    def __init__(self, seed: int, resources: list[Json]) -> None:
        self.random = random.Random(seed)
        self.by_type: dict[str, list[Json]] = {}
        for resource in resources:
            self.by_type.setdefault(resource["resourceType"], []).append(resource)

    def pick(self, *items: Any) -> Any:
        """One of the items."""
        return self.random.choice(items)

    def resource_of(self, kind: str) -> Json:
        """A resource of a type that is there."""
        return self.random.choice(self.by_type[kind])

    def patient(self) -> str:
        """The id of a patient, now and then of none."""
        return "S0000000" if self.random.random() < 0.03 else str(self.resource_of("Patient")["id"])

    def date(self) -> str:
        """A date with a prefix, as in searches."""
        prefix = self.random.choices(("", "ge", "le", "gt", "lt", "eq"), (4, 5, 4, 2, 2, 1))[0]
        return prefix + self.pick(*DATES)

    def query(self, pairs: list[tuple[str, str]]) -> str:
        """The query string, its values escaped as clients do."""
        return "&".join(f"{name}={quote(value, safe='/:,')}" for name, value in pairs)


def likely_pairs(g: Values, kind: str) -> list[tuple[str, str]]:
    """One to three parameters that fit a type."""
    patient = ("patient", g.pick("", "Patient/") + g.patient())
    known: dict[str, list[tuple[str, str]]] = {
        "Observation": [
            patient,
            ("subject", f"Patient/{g.patient()}"),
            ("code", g.pick(*CODES)),
            ("code", f"http://loinc.org|{g.pick(*CODES)}"),
            ("code", ",".join(g.random.sample(CODES, 2))),
            ("date", g.date()),
            ("category", g.pick("laboratory", "vital-signs")),
            ("status", "final"),
            ("value-quantity", g.pick("gt", "lt", "ge", "le", "") + g.pick("2", "4.5", "100")),
        ],
        "Condition": [
            patient,
            ("code", g.pick("E11", "I10", "X")),
            ("clinical-status", "active"),
            ("category", "problem-list-item"),
            ("recorded-date", g.date()),
            ("onset-date", g.date()),
        ],
        "MedicationRequest": [
            patient,
            ("status", g.pick("active", "completed")),
            ("authoredon", g.date()),
            ("intent", "order"),
            ("code", "x"),
        ],
        "Procedure": [patient, ("date", g.date()), ("status", "completed"), ("code", "x")],
        "Patient": [
            ("name", g.pick(*NAMES)),
            ("family", g.pick(*NAMES)),
            ("given", g.pick(*NAMES)),
            ("birthdate", g.date()),
            ("birthdate", g.resource_of("Patient").get("birthDate", "1950-01-01")),
            ("gender", g.pick("male", "female")),
            ("identifier", g.patient()),
            ("_id", g.patient()),
        ],
        "ServiceRequest": [patient, ("status", "active"), ("authored", g.date()), ("category", "x"), ("code", "x")],
        "Encounter": [patient, ("date", g.date()), ("status", "finished"), ("class", "AMB")],
    }
    count = g.random.choices((1, 2, 3), (4, 5, 2))[0]
    return list(dict(g.random.sample(known[kind], min(count, len(known[kind])))).items())


def observation(g: Values) -> Json:
    """An observation as agents post them."""
    return {
        "resourceType": "Observation",
        "status": "final",
        "category": [{"coding": [{"system": SYSTEMS[1], "code": "vital-signs", "display": "Vital Signs"}]}],
        "code": {"text": "BP"},
        "effectiveDateTime": "2023-11-13T10:15:00+00:00",
        "valueString": "118/77 mmHg",
        "subject": {"reference": f"Patient/{g.patient()}"},
    }


def medication_request(g: Values) -> Json:
    """An order of a drug."""
    return {
        "resourceType": "MedicationRequest",
        "medicationCodeableConcept": {
            "coding": [{"system": "http://hl7.org/fhir/sid/ndc", "code": "0338-1715-40", "display": "Magnesium"}]
        },
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "dosageInstruction": [
            {"route": "IV", "doseAndRate": [{"doseQuantity": {"value": g.pick(1, 2, 2.50), "unit": "g"}}]}
        ],
        "status": "active",
        "intent": "order",
        "subject": {"reference": f"Patient/{g.patient()}"},
    }


def service_request(g: Values) -> Json:
    """An order of a test."""
    return {
        "resourceType": "ServiceRequest",
        "code": {"coding": [{"system": "http://loinc.org", "code": "2823-3"}]},
        "authoredOn": "2023-11-13T10:15:00+00:00",
        "status": "active",
        "intent": "order",
        "priority": "stat",
        "subject": {"reference": f"Patient/{g.patient()}"},
        "occurrenceDateTime": "2023-11-14T08:00:00+00:00",
        "note": g.pick({"text": "as is"}, [{"text": "list"}], {"text": 'quote " and \\ slash'}),
    }
