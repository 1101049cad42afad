"""Encounter resources: visits, stays with their units, and the parts of stays."""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.synthetic import _resources as r
from fhir_server.synthetic._care import Visit
from fhir_server.synthetic._clock import Clock
from fhir_server.synthetic._contacts import Contact, Contacts
from fhir_server.synthetic._resources import JsonObject
from fhir_server.synthetic._stays import Segment, Stay
from fhir_server.synthetic._story import Story
from fhir_server.synthetic.dice import Dice

_TERMS = "http://terminology.hl7.org/CodeSystem/"
_CLASSES = {
    "AMB": "ambulatory",
    "EMER": "emergency",
    "IMP": "inpatient encounter",
    "ACUTE": "inpatient acute",
}
_VISITS = {"clinic": "Office visit", "draw": "Laboratory draw", "imaging": "CT of the abdomen"}
_URGENT, _ELECTIVE = ("EM", "emergency"), ("EL", "elective")


def encounters(clock: Clock, dice: Dice, story: Story, contacts: Contacts) -> Iterator[tuple[JsonObject, int]]:
    """The encounters of a patient, each with the time of its last change."""
    for contact in contacts.stays:
        if isinstance(contact.what, Stay):
            whole = _base(clock, contact, "IMP", story.person.mrn)
            yield whole | _stay(clock, dice, contact.what, story.person.age), contact.until
            for part in contact.parts:
                if isinstance(part.what, Segment):
                    kind = "EMER" if part.what.kind == "ED" else "ACUTE"
                    one = _base(clock, part, kind, story.person.mrn)
                    one["location"] = [_place(clock, part.what)]
                    yield one | {"partOf": r.reference("Encounter", contact.id)}, part.until
    for contact in contacts.visits:
        if isinstance(contact.what, Visit):
            yield (
                _base(clock, contact, "AMB", story.person.mrn) | {"reasonCode": [{"text": _VISITS[contact.what.kind]}]},
                contact.until,
            )


def _base(clock: Clock, contact: Contact, kind: str, mrn: str) -> JsonObject:
    period = {"start": clock.text(contact.start)}
    if contact.end is not None:
        period["end"] = clock.text(contact.end)
    return {
        "resourceType": "Encounter",
        "id": contact.id,
        "status": "finished" if contact.end is not None else "in-progress",
        "class": {"system": _TERMS + "v3-ActCode", "code": kind, "display": _CLASSES[kind]},
        "subject": r.reference("Patient", mrn),
        "period": period,
    }


def _stay(clock: Clock, dice: Dice, stay: Stay, age: int) -> JsonObject:
    """Admission type, reason, admission source, discharge disposition and units of a stay."""
    urgency = _ELECTIVE if stay.reason.planned else _URGENT
    source = (
        ("outp", "From outpatient department") if stay.reason.planned else ("emd", "From accident/emergency department")
    )
    hospitalization: JsonObject = {"admitSource": r.coding(_TERMS + "admit-source", *source)}
    if stay.end is not None:
        home = ("snf", "Skilled nursing facility") if age >= 60 and dice.chance(0.35) else ("home", "Home")
        leaves = ("exp", "Expired") if stay.fatal else home
        hospitalization["dischargeDisposition"] = r.coding(_TERMS + "discharge-disposition", *leaves)
    return {
        "priority": r.coding(_TERMS + "v3-ActPriority", *urgency),
        "reasonCode": [{"text": stay.reason.text}],
        "hospitalization": hospitalization,
        "location": [_place(clock, part) for part in stay.segments],
    }


def _place(clock: Clock, part: Segment) -> JsonObject:
    period = {"start": clock.text(part.start)}
    if part.end is not None:
        period["end"] = clock.text(part.end)
    return {"location": r.reference("Location", f"unit-{part.ward.lower()}"), "period": period}
