"""fhirclient (SMART): arguments are the address of a server and a word of letters that no earlier run has used."""

from __future__ import annotations

import sys
from itertools import islice
from typing import Any

from calls import call, refused
from fhirclient import client
from fhirclient.models.bundle import Bundle, BundleEntry, BundleEntryRequest
from fhirclient.models.codeableconcept import CodeableConcept
from fhirclient.models.coding import Coding
from fhirclient.models.encounter import Encounter
from fhirclient.models.fhirdate import FHIRDate
from fhirclient.models.fhirdatetime import FHIRDateTime
from fhirclient.models.fhirreference import FHIRReference
from fhirclient.models.humanname import HumanName
from fhirclient.models.identifier import Identifier
from fhirclient.models.observation import Observation
from fhirclient.models.patient import Patient
from fhirclient.models.quantity import Quantity

BASE, RUN = sys.argv[1:]
SYSTEM = "http://example.org/fhirclient"
SMART = client.FHIRClient(settings={"app_id": "calls", "api_base": BASE})
SERVER = SMART.server


def patient(name: str) -> Any:
    made = Patient()
    made.name = [HumanName({"family": RUN + name, "given": ["Anna"]})]
    made.identifier = [Identifier({"system": SYSTEM, "value": RUN + name})]
    made.birthDate = FHIRDate("1980-02-03")
    return made


def observation(subject: Any, number: int) -> Any:
    made = Observation()
    made.status = "final"
    made.code = CodeableConcept()
    made.code.coding = [Coding({"system": "http://loinc.org", "code": f"{RUN}g"})]
    made.subject = FHIRReference({"reference": f"Patient/{subject.id}"})
    made.effectiveDateTime = FHIRDateTime(f"2023-01-{number + 1:02}T08:00:00Z")
    made.valueQuantity = Quantity({"value": number, "unit": "mg"})
    return made


def created(resource: Any) -> Any:
    """What the server made of a resource, with its id."""
    answer = resource.create(SERVER)
    made = type(resource)(answer)
    resource.id = made.id
    return made


def version(resource: Any) -> str:
    return f"{resource.resource_type} {resource.meta.versionId}"


def search(**struct: Any) -> Any:
    return Observation.where(struct={"code": f"{RUN}g", **struct})


def writes(person: Any) -> None:
    call("prepare", lambda: SMART.prepare())
    call("ready", lambda: SMART.ready)
    call("capabilities", lambda: SERVER.capabilityStatement.fhirVersion)
    call("create", lambda: version(created(person)))
    call("read", lambda: version(Patient.read(person.id, SERVER)))
    call("human name", lambda: SMART.human_name(Patient.read(person.id, SERVER).name[0]))

    def update() -> Any:
        found = Patient.read(person.id, SERVER)
        found.active = True
        return sorted(found.update(SERVER))

    call("update", update)
    call("update again", update)
    call("read from", lambda: version(Patient.read_from(f"Patient/{person.id}/_history/1", SERVER)))

    def delete() -> Any:
        found = Patient.read(created(patient("gone")).id, SERVER)
        return found.delete()["resourceType"]

    call("delete", delete)


def reads(person: Any) -> None:
    for number in range(25):
        observation(person, number).create(SERVER)
    call("search", lambda: len(search().perform(SERVER).entry))
    call("resources", lambda: len(search(_count="50").perform_resources(SERVER)))
    call("all pages", lambda: [len(page.entry) for page in search(_count="10").perform_iter(SERVER)])
    call("resources of all pages", lambda: sum(1 for _ in search(_count="10").perform_resources_iter(SERVER)))
    call("some of them", lambda: len(list(islice(search(_count="5").perform_resources_iter(SERVER), 7))))
    call("by dates", lambda: search(date={"$and": ["ge2023-01-05", "lt2023-01-08"]}).perform(SERVER).total)
    call("by a chain", lambda: search(subject={"$type": "Patient", "family": RUN}).perform(SERVER).total)
    call("by a missing value", lambda: search(encounter={"$missing": "true"}).perform(SERVER).total)
    call("by several", lambda: search(status={"$or": ["final", "amended"]}).perform(SERVER).total)
    call("by the exact text", lambda: Patient.where(struct={"family": {"$exact": f"{RUN}one"}}).perform(SERVER).total)
    call("a reference", lambda: version(search().perform_resources(SERVER)[0].subject.resolved(Patient)))
    included = Observation.where(struct={"code": f"{RUN}g"}).include("subject", Observation)
    call("include", lambda: sorted({item.resource_type for item in included.perform_resources(SERVER)}))

    def encounter() -> str:
        made = Encounter()
        made.status = "finished"
        made.class_fhir = Coding({"system": "http://terminology.hl7.org/CodeSystem/v3-ActCode", "code": "AMB"})
        made.subject = FHIRReference({"reference": f"Patient/{person.id}"})
        return version(Encounter.read(created(made).id, SERVER))

    call("encounter", encounter)


def bundles(person: Any) -> None:
    def transaction() -> Any:
        bundle = Bundle()
        bundle.type = "transaction"
        bundle.entry = []
        for method, url, resource in (("POST", "Patient", patient("tx")), ("GET", f"Patient/{person.id}", None)):
            entry = BundleEntry()
            entry.resource = resource
            entry.request = BundleEntryRequest({"method": method, "url": url})
            bundle.entry.append(entry)
        answer = Bundle(SERVER.post_json("", bundle.as_json()).json())
        return [entry.response.status for entry in answer.entry]

    call("transaction", transaction)
    call("request", lambda: SERVER.request_json(f"Patient/{person.id}")["resourceType"])
    call("everything", lambda: Bundle(SERVER.request_json(f"Patient/{person.id}/$everything")).type)
    call("history", lambda: Bundle(SERVER.request_json(f"Patient/{person.id}/_history")).total)
    refused("an unknown id", lambda: Patient.read(f"none-{RUN}", SERVER))
    refused("an unknown parameter", lambda: Patient.where(struct={"nosuch": "1"}).perform(SERVER))
    refused("delete what others refer to", lambda: Patient.read(person.id, SERVER).delete())


if __name__ == "__main__":
    mine = patient("one")
    writes(mine)
    reads(mine)
    bundles(mine)
