"""MedicationRequest and MedicationAdministration resources."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from fhir_server.synthetic import _resources as r
from fhir_server.synthetic._clock import Clock
from fhir_server.synthetic._contacts import Contacts, Ids
from fhir_server.synthetic._drugs import Drug
from fhir_server.synthetic._orders import Order
from fhir_server.synthetic._resources import JsonObject

_UNITS = "http://unitsofmeasure.org"
_CATEGORY = "http://terminology.hl7.org/CodeSystem/medicationrequest-category"


def events(
    clock: Clock, mrn: str, order: Order, doses: list[int], contacts: Contacts, ids: Ids
) -> Iterator[tuple[JsonObject, int]]:
    """The order and each administered dose, with their times.

    An administration of a mixed drug, and a stopped order of one, refer to the Medication of the mix.
    """
    period = {"start": clock.text(order.start)}
    if order.end is not None:
        period["end"] = clock.text(order.end)
    mixed = bool(order.drug.bag)
    kind = ("community", "Community") if order.home else ("inpatient", "Inpatient")
    yield (
        {
            "resourceType": "MedicationRequest",
            "id": order.id,
            "status": order.status,
            "intent": "order",
            "category": [r.coding(_CATEGORY, *kind)],
            **(_mix(order.drug) if mixed and order.status == "stopped" else _drug(order.drug)),
            "subject": r.reference("Patient", mrn),
            **({"encounter": r.reference("Encounter", order.encounter)} if order.encounter else {}),
            "authoredOn": period["start"],
            "dosageInstruction": [_dosage(order.drug)],
            "dispenseRequest": {"validityPeriod": period},
        },
        order.start,
    )
    contact = contacts.at(order.start)
    for time in doses if contact else ():
        yield (
            {
                "resourceType": "MedicationAdministration",
                "id": ids.next("g"),
                "status": "completed",
                **(_mix(order.drug) if mixed else _drug(order.drug)),
                "subject": r.reference("Patient", mrn),
                "context": r.reference("Encounter", order.encounter),
                "effectiveDateTime": clock.text(time),
                "request": r.reference("MedicationRequest", order.id),
                "dosage": {"dose": _dose(order.drug), **_rate(order.drug)},
            },
            time,
        )


def _mix(drug: Drug) -> JsonObject:
    return {"medicationReference": r.reference("Medication", f"mix-{r.slug(drug)}")}


@cache
def _drug(drug: Drug) -> JsonObject:
    return {"medicationCodeableConcept": r.concept((r.RXNORM, drug.rxnorm, drug.text))}


@cache
def _dose(drug: Drug) -> JsonObject:
    return {"value": drug.dose, "unit": drug.unit, "system": _UNITS, "code": drug.unit}


@cache
def _dosage(drug: Drug) -> JsonObject:
    repeat = {"frequency": drug.daily, "period": 1, "periodUnit": "d"} if drug.daily else {"count": 1}
    return {
        "timing": {"repeat": repeat},
        **({"asNeededBoolean": True} if drug.needed else {}),
        "route": {"text": drug.route},
        "doseAndRate": [{"doseQuantity": _dose(drug), **_rate(drug)}],
    }


@cache
def _rate(drug: Drug) -> JsonObject:
    return {"rateQuantity": {"value": drug.rate, "unit": "mL/h", "system": _UNITS, "code": "mL/h"}} if drug.rate else {}
