"""FHIR R4 resources other than readings, as JSON objects in the formats that hospital servers return."""

from __future__ import annotations

import base64
import json
from typing import Any

from fhir_server.synthetic._drugs import Drug
from fhir_server.synthetic._stays import WARDS
from fhir_server.synthetic.people import Person

_V2_0203 = "http://terminology.hl7.org/CodeSystem/v2-0203"
_TERMS = "http://terminology.hl7.org/CodeSystem/"
_US_CORE = "http://hl7.org/fhir/us/core/StructureDefinition/us-core-"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
SNOMED = "http://snomed.info/sct"
CPT = "http://www.ama-assn.org/go/cpt"
LOINC = "http://loinc.org"
ICD10 = "http://hl7.org/fhir/sid/icd-10-cm"
CVX = "http://hl7.org/fhir/sid/cvx"
LOCAL = "https://fhir.example.org/codes/"
"""The hospital's own code systems."""
_encode = json.JSONEncoder(ensure_ascii=False, check_circular=False, separators=(",", ":")).encode
JsonObject = dict[str, Any]
Code = tuple[str, str, str]
"""System, code and text."""


def line(resource: JsonObject, stamp: str) -> str:
    """A resource as one line of compact JSON; `stamp` is its `meta.lastUpdated`."""
    text = _encode(resource)
    head = f'{{"resourceType":"{resource["resourceType"]}","id":"{resource["id"]}"'
    return f'{head},"meta":{{"lastUpdated":"{stamp}"}}{text[len(head) :]}'


def compact(value: JsonObject) -> str:
    return _encode(value)


def coding(system: str, code: str, display: str) -> JsonObject:
    """A CodeableConcept of one coding, without text."""
    return {"coding": [{"system": system, "code": code, "display": display}]}


def concept(code: Code) -> JsonObject:
    """A CodeableConcept of one coding, with text."""
    return {"coding": [{"system": code[0], "code": code[1], "display": code[2]}], "text": code[2]}


def subject(mrn: str) -> JsonObject:
    """A reference to the patient with an identifier, as in the recordings of the benchmark's server."""
    return {"reference": f"Patient/{mrn}", "identifier": {"system": _V2_0203, "value": mrn}}


def reference(kind: str, id: str) -> JsonObject:
    """A reference to another resource."""
    return {"reference": f"{kind}/{id}"}


def _within(encounter: str) -> JsonObject:
    return {"encounter": {"reference": f"Encounter/{encounter}"}} if encounter else {}


def patient(person: Person, died: str | None) -> JsonObject:
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
    resource["maritalStatus"] = coding(_TERMS + "v3-MaritalStatus", *person.marital)
    return resource


def _us_core(name: str, system: str, code: tuple[str, str]) -> JsonObject:
    return {"url": _US_CORE + name, "valueCodeableConcept": coding(system, *code)}


def coverage(id: str, person: Person) -> JsonObject:
    """The patient's insurance, as a Coverage."""
    return {
        "resourceType": "Coverage",
        "id": id,
        "status": "active",
        "type": {"text": person.insurance},
        "beneficiary": reference("Patient", person.mrn),
        "payor": [{"display": person.insurance}],
    }


def location(key: str) -> JsonObject:
    """A Location: a unit of the hospital, by a key of `WARDS`."""
    kind, name = WARDS[key]
    return {
        "resourceType": "Location",
        "id": f"unit-{key.lower()}",
        "status": "active",
        "name": name,
        "type": [{"text": {"ED": "Emergency department", "WARD": "Ward", "ICU": "Intensive care unit"}[kind]}],
        "physicalType": coding(_TERMS + "location-physical-type", "wa", "Ward"),
    }


def fluid() -> JsonObject:
    """The Medication of the sodium chloride that drugs are mixed into."""
    code = (RXNORM, "9863", "sodium chloride 0.9 %")
    return {"resourceType": "Medication", "id": "med-saline", "code": concept(code), "status": "active"}


def ingredient(drug: Drug) -> JsonObject:
    """The Medication of a drug that is an ingredient of a mix."""
    code = concept((RXNORM, drug.rxnorm, drug.text))
    return {"resourceType": "Medication", "id": f"med-{slug(drug)}", "code": code, "status": "active"}


def mix(drug: Drug) -> JsonObject:
    """The Medication of a drug in its bag of sodium chloride."""
    return {
        "resourceType": "Medication",
        "id": f"mix-{slug(drug)}",
        "code": {"text": f"{drug.text} in sodium chloride 0.9 % {drug.bag} mL"},
        "status": "active",
        "ingredient": [
            {"itemReference": reference("Medication", f"med-{slug(drug)}")},
            {"itemReference": reference("Medication", "med-saline")},
        ],
    }


def slug(drug: Drug) -> str:
    """A drug's key as part of an id."""
    return drug.key.replace(" ", "-")


def condition(
    id: str, code: tuple[str, str], mrn: str, times: tuple[str, str], encounter: str, state: str, *, listed: bool
) -> JsonObject:
    """A Condition of the problem list or of an encounter. `state`: `active`, `resolved`, `remission` or `error`."""
    category = ("problem-list-item", "Problem List Item") if listed else ("encounter-diagnosis", "Encounter Diagnosis")
    verified = ("entered-in-error", "Entered in Error") if state == "error" else ("confirmed", "Confirmed")
    resource: JsonObject = {"resourceType": "Condition", "id": id}
    if state != "error":  # con-5 forbids a clinical status here
        resource["clinicalStatus"] = coding(_TERMS + "condition-clinical", state, state.capitalize())
    return resource | {
        "verificationStatus": coding(_TERMS + "condition-ver-status", *verified),
        "category": [coding(_TERMS + "condition-category", *category)],
        "code": concept((ICD10, *code)),
        "subject": reference("Patient", mrn),
        **_within(encounter),
        "onsetDateTime": times[0],
        "recordedDate": times[1],
    }


def procedure(id: str, code: Code, status: str, mrn: str, encounter: str, performed: str | JsonObject) -> JsonObject:
    """A Procedure. `performed` is a dateTime or a Period."""
    when = "performedDateTime" if isinstance(performed, str) else "performedPeriod"
    return {
        "resourceType": "Procedure",
        "id": id,
        "status": status,
        "code": concept(code),
        "subject": reference("Patient", mrn),
        **_within(encounter),
        when: performed,
    }


def service_request(id: str, code: Code, status: str, mrn: str, encounter: str, authored: str) -> JsonObject:
    return {
        "resourceType": "ServiceRequest",
        "id": id,
        "status": status,
        "intent": "order",
        "code": concept(code),
        "subject": reference("Patient", mrn),
        **_within(encounter),
        "authoredOn": authored,
    }


def diagnostic_report(
    id: str, code: Code, mrn: str, encounter: str, times: tuple[str, str], conclusion: str
) -> JsonObject:
    """A DiagnosticReport of a laboratory panel."""
    return {
        "resourceType": "DiagnosticReport",
        "id": id,
        "status": "final",
        "category": [coding(_TERMS + "v2-0074", "LAB", "Laboratory")],
        "code": concept(code),
        "subject": reference("Patient", mrn),
        **_within(encounter),
        "effectiveDateTime": times[0],
        "issued": times[1],
        "conclusion": conclusion,
    }


def document_reference(id: str, kind: Code, mrn: str, encounter: str, time: str, text: str) -> JsonObject:
    """A DocumentReference that contains a note."""
    data = base64.b64encode(text.encode()).decode("ascii")
    return {
        "resourceType": "DocumentReference",
        "id": id,
        "status": "current",
        "type": concept(kind),
        "subject": reference("Patient", mrn),
        "date": time,
        "content": [{"attachment": {"contentType": "text/plain", "data": data}}],
        **({"context": {"encounter": [reference("Encounter", encounter)]}} if encounter else {}),
    }


def immunization(id: str, vaccine: tuple[str, str], status: str, mrn: str, time: str) -> JsonObject:
    return {
        "resourceType": "Immunization",
        "id": id,
        "status": status,
        "vaccineCode": concept((CVX, *vaccine)),
        "patient": reference("Patient", mrn),
        "occurrenceDateTime": time,
        "primarySource": True,
    }


def allergy(id: str, allergen: tuple[str, str, str], reaction: tuple[str, str], mrn: str, time: str) -> JsonObject:
    system = RXNORM if allergen[2] == "medication" else SNOMED
    return {
        "resourceType": "AllergyIntolerance",
        "id": id,
        "clinicalStatus": coding(_TERMS + "allergyintolerance-clinical", "active", "Active"),
        "verificationStatus": coding(_TERMS + "allergyintolerance-verification", "confirmed", "Confirmed"),
        "type": "allergy",
        "category": [allergen[2]],
        "code": concept((system, *allergen[:2])),
        "patient": reference("Patient", mrn),
        "recordedDate": time,
        "reaction": [{"manifestation": [concept((SNOMED, *reaction))]}],
    }
