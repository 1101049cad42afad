"""A small made-up population as lines of JSON, and Synthea's way of packing one."""

from __future__ import annotations

import json
from typing import Any

Json = dict[str, Any]
NPI = "http://hl7.org/fhir/sid/us-npi"
SYNTHEA = "https://github.com/synthetichealth/synthea"


def patient(identity: str, **more: object) -> str:
    """A patient."""
    return json.dumps({"resourceType": "Patient", "id": identity, **more})


def observation(identity: str, patient_id: str, value: str = "4.10") -> str:
    """A reading; the value keeps its digits."""
    coded = '"status":"final","code":{"coding":[{"code":"K"}]}'
    subject = f'"subject":{{"reference":"Patient/{patient_id}"}}'
    quantity = f'"valueQuantity":{{"value":{value}}}'
    return f'{{"resourceType":"Observation","id":"{identity}",{coded},{subject},{quantity}}}'


def ward(patients: int, readings: int) -> list[str]:
    """Readings before their patients, so that only who looks at references can load them in order."""
    numbers = range(1, patients + 1)
    return [observation(f"o{p}-{n}", f"p{p}") for p in numbers for n in range(readings)] + [
        patient(f"p{p}") for p in numbers
    ]


def hospital_bundle() -> Json:
    """What Synthea writes as hospitalInformation…json, and as practitionerInformation…json."""
    organization = {
        "resourceType": "Organization",
        "id": "org-1",
        "identifier": [{"system": SYNTHEA, "value": "org-1"}],
        "name": "GENERAL HOSPITAL",
    }
    practitioner = {
        "resourceType": "Practitioner",
        "id": "doc-1",
        "identifier": [{"system": NPI, "value": "9999999999"}],
        "name": [{"family": "Who"}],
    }
    return bundle("batch", organization, practitioner)


def patient_bundle() -> Json:
    """What Synthea writes for a patient: entries refer to each other by urn:uuid, to the hospital by identifier."""
    person = {"resourceType": "Patient", "id": "pat-1", "name": [{"family": "Doe"}]}
    encounter = {
        "resourceType": "Encounter",
        "id": "enc-1",
        "status": "finished",
        "class": {"code": "AMB"},
        "subject": {"reference": "urn:uuid:pat-1"},
        "participant": [{"individual": {"reference": f"Practitioner?identifier={NPI}|9999999999"}}],
        "serviceProvider": {"reference": f"Organization?identifier={SYNTHEA}%7Corg-1"},
    }
    return bundle("transaction", person, encounter)


def bundle(kind: str, *resources: Json) -> Json:
    """A Bundle whose entries are POSTs."""
    entries = [
        {
            "fullUrl": f"urn:uuid:{resource.get('id', number)}",
            "resource": resource,
            "request": {"method": "POST", "url": resource["resourceType"]},
        }
        for number, resource in enumerate(resources)
    ]
    return {"resourceType": "Bundle", "type": kind, "entry": entries}
