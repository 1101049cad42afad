"""FHIR R4 resources as lines of compact JSON, in the shapes that the benchmark's server sends.

An observation's line is assembled from parts rendered once per test and once per patient: sixty thousand lines are
joined text, not sixty thousand trees.
"""

from __future__ import annotations

import json
from functools import cache
from typing import Any

from fhir_server.synthetic import catalog as c
from fhir_server.synthetic import problems as p
from fhir_server.synthetic import times
from fhir_server.synthetic.chart import Measurement
from fhir_server.synthetic.people import Person

_V2_0203 = "http://terminology.hl7.org/CodeSystem/v2-0203"
_US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
_LAB = (
    '"system":"http://terminology.hl7.org/CodeSystem/observation-category","code":"laboratory","display":"Laboratory"'
)
_VITAL = '"system":"http://hl7.org/fhir/observation-category","code":"vital-signs","display":"Vital Signs"'
_CLINICAL = "http://terminology.hl7.org/CodeSystem/condition-"


def line(resource: dict[str, Any]) -> str:
    """A resource as one line of compact JSON."""
    return json.dumps(resource, ensure_ascii=False, separators=(",", ":"))


def patient(person: Person) -> str:
    """The Patient resource."""
    return line(
        {
            "resourceType": "Patient",
            "id": person.mrn,
            "extension": [
                _us_core("race", "http://hl7.org/fhir/v3/Race", person.race),
                _us_core("ethnicity", "http://hl7.org/fhir/v3/Ethnicity", person.ethnicity),
            ],
            "identifier": [
                {
                    "use": "usual",
                    "type": {"coding": [{"system": _V2_0203, "code": "MR", "display": "Medical Record Number"}]},
                    "value": person.mrn,
                }
            ],
            "name": [{"use": "official", "family": person.family, "given": [person.given]}],
            "telecom": [{"system": "phone", "value": person.phone, "use": "home"}],
            "gender": person.gender,
            "birthDate": person.birth.isoformat(),
            "address": [
                {"line": [person.street], "city": person.town[0], "state": person.town[1], "postalCode": person.zip}
            ],
        }
    )


def _us_core(name: str, system: str, code: tuple[str, str]) -> dict[str, Any]:
    coding = {"system": system, "code": code[0], "display": code[1]}
    return {"url": _US_CORE + name, "valueCodeableConcept": {"coding": [coding]}}


def subject(mrn: str) -> dict[str, Any]:
    """A reference to the patient, with the identifier beside it, as the recordings have it."""
    return {"reference": f"Patient/{mrn}", "identifier": {"system": _V2_0203, "value": mrn}}


@cache
def _head(code: str) -> str:
    category = _VITAL if code == "BP" or code in c.VITALS else _LAB
    coding = f'{{"system":"http://loinc.org","code":"{code}","display":"{code}"}}'
    return (
        f'","status":"final","category":[{{"coding":[{{{category}}}]}}],'
        f'"code":{{"coding":[{coding}],"text":"{code}"}},"subject":'
    )


@cache
def _unit(code: str) -> str:
    test = c.LABS.get(code) or c.VITALS.get(code) or c.DERIVED[code]
    return f',"unit":"{test.unit}","system":"http://unitsofmeasure.org","code":"{test.unit}"}}}}'


def observation(reading: Measurement, number: int, subject_text: str) -> str:
    """The Observation resource of a reading; `subject_text` is the rendered reference to its patient."""
    taken = times.text(reading.time)
    start = f'{{"resourceType":"Observation","id":"o{number}{_head(reading.code)}{subject_text},"effectiveDateTime":"'
    issued = times.text(min(reading.time + reading.delay, -1)) if reading.delay else taken
    start += f'{taken}","issued":"{issued}"'
    if reading.code == "BP":
        return f'{start},"valueString":"{reading.value}"}}'
    return f'{start},"valueQuantity":{{"value":{reading.value}{_unit(reading.code)}'


def condition(problem: p.Diagnosis, onset: int, number: int, mrn: str) -> str:
    """The Condition resource of a problem on the problem list."""
    return line(
        {
            "resourceType": "Condition",
            "id": f"c{number}",
            "clinicalStatus": {"coding": [{"system": _CLINICAL + "clinical", "code": "active", "display": "Active"}]},
            "verificationStatus": {
                "coding": [{"system": _CLINICAL + "ver-status", "code": "confirmed", "display": "Confirmed"}]
            },
            "category": [
                {
                    "coding": [
                        {
                            "system": _CLINICAL + "category",
                            "code": "problem-list-item",
                            "display": "Problem List Item",
                        }
                    ]
                }
            ],
            "code": {
                "coding": [
                    {"system": "http://hl7.org/fhir/sid/icd-10-cm", "code": problem.code, "display": problem.text}
                ],
                "text": problem.text,
            },
            "subject": subject(mrn),
            "onsetDateTime": times.day_text(onset),
            "recordedDate": times.text(onset),
        }
    )


def medication_request(drug: p.Drug, start: int, number: int, mrn: str) -> str:
    """The MedicationRequest resource of a standing order."""
    coding = {"system": "http://www.nlm.nih.gov/research/umls/rxnorm", "code": drug.rxnorm, "display": drug.name}
    quantity = {"value": drug.dose, "unit": drug.unit, "system": "http://unitsofmeasure.org", "code": drug.unit}
    return line(
        {
            "resourceType": "MedicationRequest",
            "id": f"m{number}",
            "status": "active",
            "intent": "order",
            "medicationCodeableConcept": {"coding": [coding], "text": drug.name},
            "subject": subject(mrn),
            "authoredOn": times.text(start),
            "dosageInstruction": [
                {
                    "timing": {"repeat": {"frequency": drug.daily, "period": 1, "periodUnit": "d"}},
                    "route": {"text": drug.route},
                    "doseAndRate": [{"doseQuantity": quantity}],
                }
            ],
        }
    )


def procedure(code: str, text: str, time: int, number: int, mrn: str) -> str:
    """The Procedure resource of something done."""
    coding = {"system": "http://www.ama-assn.org/go/cpt", "code": code, "display": text}
    return line(
        {
            "resourceType": "Procedure",
            "id": f"p{number}",
            "status": "completed",
            "code": {"coding": [coding], "text": text},
            "subject": subject(mrn),
            "performedDateTime": times.text(time),
        }
    )
