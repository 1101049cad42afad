"""FHIR R4 resources as lines of compact JSON, in the shapes that the benchmark's server sends.

An observation's line is assembled from parts rendered once per test and once per patient: most of a hospital is
observations.
"""

from __future__ import annotations

import base64
import json
from functools import cache
from typing import Any

from fhir_server.synthetic import problems as p
from fhir_server.synthetic.catalog import VITALS
from fhir_server.synthetic.people import Person

_V2_0203 = "http://terminology.hl7.org/CodeSystem/v2-0203"
_TERMS = "http://terminology.hl7.org/CodeSystem/"
_US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
_RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
_SNOMED = "http://snomed.info/sct"
_CPT = "http://www.ama-assn.org/go/cpt"
_UNITS = "http://unitsofmeasure.org"
_LAB = f'"system":"{_TERMS}observation-category","code":"laboratory","display":"Laboratory"'
_VITAL = '"system":"http://hl7.org/fhir/observation-category","code":"vital-signs","display":"Vital Signs"'
JsonObject = dict[str, Any]


def line(resource: JsonObject) -> str:
    """A resource as one line of compact JSON."""
    return json.dumps(resource, ensure_ascii=False, separators=(",", ":"))


def coding(system: str, code: str, display: str) -> JsonObject:
    """A CodeableConcept of one coding, without text."""
    return {"coding": [{"system": system, "code": code, "display": display}]}


def subject(mrn: str) -> JsonObject:
    """A reference to the patient, with the identifier beside it, as the recordings have it."""
    return {"reference": f"Patient/{mrn}", "identifier": {"system": _V2_0203, "value": mrn}}


def patient(person: Person, died: str | None) -> JsonObject:
    """The Patient resource."""
    resource: JsonObject = {
        "resourceType": "Patient",
        "id": person.mrn,
        "extension": [
            _us_core("race", "http://hl7.org/fhir/v3/Race", person.race),
            _us_core("ethnicity", "http://hl7.org/fhir/v3/Ethnicity", person.ethnicity),
        ],
        "identifier": [
            {
                "use": "usual",
                "type": coding(_V2_0203, "MR", "Medical Record Number"),
                "value": person.mrn,
            }
        ],
        "name": [{"use": "official", "family": person.family, "given": [person.given]}],
        "telecom": [{"system": "phone", "value": person.phone, "use": "home"}],
        "gender": person.gender,
        "birthDate": person.birth.isoformat(),
    }
    if died:
        resource["deceasedDateTime"] = died
    resource["address"] = [
        {"line": [person.street], "city": person.town[0], "state": person.town[1], "postalCode": person.zip}
    ]
    return resource


def _us_core(name: str, system: str, code: tuple[str, str]) -> JsonObject:
    return {"url": _US_CORE + name, "valueCodeableConcept": coding(system, *code)}


@cache
def _head(code: str, status: str, vital: bool) -> str:
    about = f'{{"system":"http://loinc.org","code":"{code}","display":"{code}"}}'
    return (
        f'","status":"{status}","category":[{{"coding":[{{{_VITAL if vital else _LAB}}}]}}],'
        f'"code":{{"coding":[{about}],"text":"{code}"}},"subject":'
    )


@cache
def _quantity(unit: str) -> str:
    return f',"unit":"{unit}","system":"{_UNITS}","code":"{unit}"}}'


def observation(number: int, code: str, status: str, subject_text: str, times: tuple[str, str], value: str) -> str:
    """An Observation; `value` is what `quantity`, `text_value` or `absent` gives, `times` when taken and issued."""
    head = _head(code, status, code in VITALS or value.startswith('"valueString"'))
    return (
        f'{{"resourceType":"Observation","id":"o{number}{head}{subject_text},'
        f'"effectiveDateTime":"{times[0]}","issued":"{times[1]}",{value}}}'
    )


def quantity(text: str, unit: str, comparator: str = "") -> str:
    """`valueQuantity` with a number as it is to be written."""
    bound = f',"comparator":"{comparator}"' if comparator else ""
    return f'"valueQuantity":{{"value":{text}{bound}{_quantity(unit)}'


def text_value(text: str) -> str:
    """`valueString`."""
    return f'"valueString":"{text}"'


def absent() -> str:
    """Why there is no value: the specimen could not be used."""
    reason = coding(_TERMS + "data-absent-reason", "error", "Error")
    return '"dataAbsentReason":' + line({**reason, "text": "Specimen hemolyzed"})


def condition(
    number: int, code: tuple[str, str], mrn: str, times: tuple[str, str], *, active: bool, listed: bool, error: bool
) -> JsonObject:
    """A Condition: of the problem list or of one encounter, active or resolved, or entered in error."""
    status = ("active", "Active") if active else ("resolved", "Resolved")
    category = ("problem-list-item", "Problem List Item") if listed else ("encounter-diagnosis", "Encounter Diagnosis")
    verified = ("entered-in-error", "Entered in Error") if error else ("confirmed", "Confirmed")
    resource: JsonObject = {"resourceType": "Condition", "id": f"c{number}"}
    if not error:  # an erroneous one must not have a clinical status (con-5)
        resource["clinicalStatus"] = coding(_TERMS + "condition-clinical", *status)
    return resource | {
        "verificationStatus": coding(_TERMS + "condition-ver-status", *verified),
        "category": [coding(_TERMS + "condition-category", *category)],
        "code": {**coding("http://hl7.org/fhir/sid/icd-10-cm", *code), "text": code[1]},
        "subject": subject(mrn),
        "onsetDateTime": times[0],
        "recordedDate": times[1],
    }


def medication_request(number: int, drug: p.Drug, status: str, mrn: str, authored: str) -> JsonObject:
    """A MedicationRequest."""
    dose = {"value": drug.dose, "unit": drug.unit, "system": _UNITS, "code": drug.unit}
    return {
        "resourceType": "MedicationRequest",
        "id": f"m{number}",
        "status": status,
        "intent": "order",
        "medicationCodeableConcept": {**coding(_RXNORM, drug.rxnorm, drug.name), "text": drug.name},
        "subject": subject(mrn),
        "authoredOn": authored,
        "dosageInstruction": [
            {
                "timing": {"repeat": {"frequency": drug.daily, "period": 1, "periodUnit": "d"}},
                "route": {"text": drug.route},
                "doseAndRate": [{"doseQuantity": dose}],
            }
        ],
    }


def procedure(number: int, code: tuple[str, str], status: str, mrn: str, time: str) -> JsonObject:
    """A Procedure."""
    return {
        "resourceType": "Procedure",
        "id": f"p{number}",
        "status": status,
        "code": {**coding(_CPT, *code), "text": code[1]},
        "subject": subject(mrn),
        "performedDateTime": time,
    }


def encounter(number: int, kind: tuple[str, str], mrn: str, start: str, end: str | None, reason: str) -> JsonObject:
    """An Encounter: `kind` is a code of v3 ActCode and its text; without an end it is going on."""
    return {
        "resourceType": "Encounter",
        "id": f"e{number}",
        "status": "finished" if end else "in-progress",
        "class": {"system": _TERMS + "v3-ActCode", "code": kind[0], "display": kind[1]},
        "subject": subject(mrn),
        "period": {"start": start, **({"end": end} if end else {})},
        "reasonCode": [{"text": reason}],
    }


def service_request(number: int, code: tuple[str, str], status: str, mrn: str, authored: str) -> JsonObject:
    """A ServiceRequest for a laboratory panel."""
    return {
        "resourceType": "ServiceRequest",
        "id": f"s{number}",
        "status": status,
        "intent": "order",
        "priority": "routine",
        "code": {**coding("http://loinc.org", *code), "text": code[1]},
        "subject": subject(mrn),
        "authoredOn": authored,
    }


def diagnostic_report(
    number: int, code: tuple[str, str], mrn: str, times: tuple[str, str], conclusion: str
) -> JsonObject:
    """A DiagnosticReport of a laboratory panel."""
    return {
        "resourceType": "DiagnosticReport",
        "id": f"d{number}",
        "status": "final",
        "category": [coding(_TERMS + "v2-0074", "LAB", "Laboratory")],
        "code": {**coding("http://loinc.org", *code), "text": code[1]},
        "subject": subject(mrn),
        "effectiveDateTime": times[0],
        "issued": times[1],
        "conclusion": conclusion,
    }


def document_reference(number: int, mrn: str, time: str, text: str) -> JsonObject:
    """A DocumentReference with a progress note in it."""
    data = base64.b64encode(text.encode()).decode("ascii")
    return {
        "resourceType": "DocumentReference",
        "id": f"n{number}",
        "status": "current",
        "type": {**coding("http://loinc.org", "11506-3", "Progress note"), "text": "Progress note"},
        "subject": subject(mrn),
        "date": time,
        "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
    }


def immunization(number: int, vaccine: tuple[str, str], status: str, mrn: str, time: str) -> JsonObject:
    """An Immunization."""
    return {
        "resourceType": "Immunization",
        "id": f"i{number}",
        "status": status,
        "vaccineCode": {**coding("http://hl7.org/fhir/sid/cvx", *vaccine), "text": vaccine[1]},
        "patient": subject(mrn),
        "occurrenceDateTime": time,
        "primarySource": True,
    }


def allergy(number: int, allergen: tuple[str, str, str], reaction: tuple[str, str], mrn: str, time: str) -> JsonObject:
    """An AllergyIntolerance."""
    return {
        "resourceType": "AllergyIntolerance",
        "id": f"a{number}",
        "clinicalStatus": coding(_TERMS + "allergyintolerance-clinical", "active", "Active"),
        "verificationStatus": coding(_TERMS + "allergyintolerance-verification", "confirmed", "Confirmed"),
        "type": "allergy",
        "category": [allergen[2]],
        "code": {**coding(_RXNORM, *allergen[:2]), "text": allergen[1]},
        "patient": subject(mrn),
        "recordedDate": time,
        "reaction": [{"manifestation": [{**coding(_SNOMED, *reaction), "text": reaction[1]}]}],
    }
