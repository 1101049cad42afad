"""fhirpy: arguments are the address of a server and a word of letters that no earlier run has used."""

from __future__ import annotations

import sys
from typing import Any

from calls import call, refused
from fhirpy import SyncFHIRClient

BASE, RUN = sys.argv[1:]
SYSTEM = "http://example.org/fhirpy"
CLIENT = SyncFHIRClient(BASE)


def patient(name: str, **members: Any) -> Any:
    identifier = [{"system": SYSTEM, "value": RUN + name}]
    return CLIENT.resource("Patient", identifier=identifier, name=[{"family": RUN + name}], **members)


def saved(resource: Any) -> Any:
    resource.save()
    return resource


def version(resource: Any) -> str:
    return f"{resource.resource_type} {resource['meta']['versionId']}"


def observations() -> Any:
    return CLIENT.resources("Observation").search(code=f"{RUN}g")


def writes(person: Any) -> None:
    call("create", lambda: version(saved(person)))
    call("read", lambda: version(CLIENT.reference("Patient", person.id).to_resource()))
    call("get by id", lambda: version(CLIENT.resources("Patient").search(_id=person.id).get()))
    person["active"] = True
    call("save again", lambda: version(saved(person)))
    call("save some fields", lambda: person.save(fields=["active"]))
    call("patch", lambda: version(person.patch(gender="female")))
    call("refresh", lambda: person.refresh()["gender"])
    call("validate", lambda: person.is_valid())
    call("client.patch", lambda: CLIENT.patch("Patient", person.id, birthDate="1980-01-01")["birthDate"])
    found = CLIENT.resources("Patient").search(identifier=f"{SYSTEM}|{RUN}cond")
    call("get or create", lambda: found.get_or_create(patient("cond"))[1])
    call("get or create, again", lambda: found.get_or_create(patient("cond"))[1])
    call("conditional update", lambda: found.update(patient("cond", active=True))[1])
    call("conditional patch", lambda: found.patch(active=False)["active"])
    call("conditional delete", lambda: found.delete()[1])
    call("delete", lambda: saved(patient("gone")).delete() and None)


def reads(person: Any) -> None:
    for number in range(25):
        code = {"coding": [{"system": "http://loinc.org", "code": f"{RUN}g"}]}
        date = f"2023-01-{number + 1:02}"
        CLIENT.resource(
            "Observation", status="final", code=code, subject=person.to_reference(), effectiveDateTime=date
        ).save()
    patients = CLIENT.resources("Patient")
    call("fetch", lambda: len(patients.search(family=RUN).fetch()))
    call("fetch all", lambda: len(observations().limit(10).fetch_all()))
    call("iterate", lambda: sum(1 for _ in observations().limit(10)))
    call("first", lambda: version(patients.search(identifier=f"{SYSTEM}|{RUN}one").first()))
    call("get", lambda: version(patients.search(identifier=f"{SYSTEM}|{RUN}one").get()))
    call("count", lambda: observations().count())
    call("sort", lambda: observations().sort("-date").first()["effectiveDateTime"])
    call("lookups", lambda: observations().search(date__ge="2023-01-20").count())
    call("not", lambda: observations().search(status__not="preliminary").count())
    call("chain", lambda: observations().search(subject__Patient__identifier=f"{SYSTEM}|{RUN}one").count())
    call("has", lambda: patients.has("Observation", "subject", code=f"{RUN}g").count())
    call("include", lambda: len(observations().limit(3).include("Observation", "subject").fetch_raw()["entry"]))
    call(
        "revinclude",
        lambda: len(patients.search(_id=person.id).revinclude("Observation", "subject").fetch_raw()["entry"]),
    )
    call("elements", lambda: sorted(observations().elements("status").first()))
    call("elements left out", lambda: "status" in patients.elements("name", exclude=True).first())
    call("a reference", lambda: version(observations().first()["subject"].to_resource()))
    call("everything", lambda: person.execute("$everything", method="get")["type"])
    call("history", lambda: person.execute("_history", method="get")["type"])


def bundles(person: Any) -> None:
    entry = {"request": {"method": "GET", "url": f"Patient/{person.id}"}}
    for kind in ("batch", "transaction"):
        call(kind, lambda kind=kind: saved(CLIENT.resource("Bundle", type=kind, entry=[entry]))["type"])
    call(
        "execute",
        lambda: CLIENT.execute("/", method="post", data={"resourceType": "Bundle", "type": kind, "entry": []}),
    )
    refused("an unknown id", lambda: CLIENT.reference("Patient", f"none-{RUN}").to_resource())
    refused("an unknown parameter", lambda: CLIENT.resources("Patient").search(nosuch="1").fetch())
    refused("a bad code", lambda: saved(patient("bad", gender="x")))
    refused(
        "a lost reference", lambda: saved(patient("lost", managingOrganization={"reference": f"Organization/x{RUN}"}))
    )
    refused("delete what others refer to", lambda: person.delete())


if __name__ == "__main__":
    mine = patient("one")
    writes(mine)
    reads(mine)
    bundles(mine)
