"""All resources of a chart except readings: encounters, problems, orders, procedures, reports, notes, vaccines."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import cache

from fhir_server.synthetic import _catalog as c
from fhir_server.synthetic import _resources as r
from fhir_server.synthetic import _vocabulary as v
from fhir_server.synthetic._bedside import cultures
from fhir_server.synthetic._care import Visit
from fhir_server.synthetic._chart import Chart, Draw
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._contacts import Contact, Contacts, Ids
from fhir_server.synthetic._drugs import Drug
from fhir_server.synthetic._notes import Notes
from fhir_server.synthetic._orders import Order, Pharmacy, operation
from fhir_server.synthetic._patient_sampler import PatientSampler
from fhir_server.synthetic._problems import TUMOUR
from fhir_server.synthetic._resources import CPT, LOCAL, LOINC, JsonObject
from fhir_server.synthetic._stays import HOUR, Segment, Stay
from fhir_server.synthetic._story import Story
from fhir_server.synthetic.seeded_random import SeededRandom

_DONE = ("completed",) * 14 + ("not-done", "entered-in-error")
_ECG = (CPT, "93000", "Electrocardiogram, routine, with interpretation and report")
_CATHETER = (LOCAL + "procedures", "NUR1373", "Urinary catheter")
_REMOVAL = (LOCAL + "procedures", "NUR1373", "Remove urinary catheter")
_CT = {
    "IMGCT0491": (LOCAL + "procedures", "IMGCT0491", "CT abdomen pelvis with contrast"),
    "IMGIL0001": (LOCAL + "procedures", "IMGIL0001", "CT abdomen, images from outside"),
    "74177": (CPT, "74177", "CT of abdomen and pelvis with contrast material"),
}
_LINES = (
    (CPT, "36556", "Insertion of central venous catheter"),
    (CPT, "36620", "Arterial catheterization for monitoring"),
)
_VENTILATION = (CPT, "94002", "Ventilation assist and management")
_DIET = (LOCAL + "orders", "DIET01", "Diet as tolerated")
_OXYGEN = (LOCAL + "orders", "RT0100", "Oxygen, titrate to a saturation of 92 to 96 %")
_NURSING = (
    (LOCAL + "orders", "NUR100", "Vital signs every shift"),
    (LOCAL + "orders", "NUR210", "Up in chair three times a day"),
    _DIET,
    (LOCAL + "orders", "CON010", "Physical therapy, evaluate and treat"),
)
Event = tuple[JsonObject, int]
"""A resource and the time of its event."""


class Events(PatientSampler):
    """Samples the resources of one patient, except readings."""

    def lines(self, chart: Chart) -> Iterator[str]:
        """The resources as lines of JSON, encounters before the resources that refer to them."""
        for resource, time in self._events(chart):
            yield r.line(resource, self._clock.stored(min(time, -1)))

    def _events(self, chart: Chart) -> Iterator[Event]:
        yield r.coverage(self._ids.next("v"), self._story.person), -400 * DAY
        yield from encounters(self._clock, self._rng, self._story, self._contacts)
        yield from self._background()
        orders = Pharmacy(self._rng, self._clock, self._profile, self._story, self._contacts, self._ids)
        drugs = orders.orders(chart.draws)
        for drug in drugs:
            yield from _doses(self._clock, self._mrn, drug, orders.doses(drug), self._contacts, self._ids)
        notes = Notes(self._rng, self._clock, self._story, chart, drugs)
        for contact in self._contacts.stays:
            if isinstance(contact.what, Stay):
                yield from self._stay(contact, contact.what)
                for time, kind, text in notes.of_stay(contact, contact.what):
                    yield self._note(contact, time, kind, text)
        for contact in self._contacts.visits:
            if isinstance(contact.what, Visit) and contact.what.kind == "clinic":
                yield from self._coded(contact.start + 5, contact.what.end - 2, v.VISIT_SERVICES, v.SYMPTOMS)
                if self._rng.chance(0.8):
                    yield self._note(contact, *notes.of_visit(contact, contact.what))
        for (drawn, panel), issued in sorted(chart.critical.items()):
            called = min(issued + self._rng.between(2, 9), self._story.until)
            at = self._contacts.at(called)
            yield self._note(at, *notes.of_critical(at, drawn, panel, called))
        yield from self._care()
        for draw in chart.draws:
            yield from self._panels(draw)

    def _note(self, contact: Contact | None, time: int, kind: r.Code, text: str) -> Event:
        when, where = self._clock.text(time), contact.id if contact else ""
        return r.document_reference(self._ids.next("n"), kind, self._mrn, where, when, text), time

    def _times(self, onset: int, recorded: int) -> tuple[str, str]:
        return self._clock.day_text(onset), self._clock.text(recorded)

    def _condition(
        self, code: tuple[str, str], onset: int, recorded: int, state: str, *, listed: bool = False
    ) -> Event:
        where = self._contacts.encounter(recorded)
        times = self._times(onset, recorded)
        if code[0] == TUMOUR.code and self._story.resected:
            state = "remission"
        return r.condition(self._ids.next("c"), code, self._mrn, times, where, state, listed=listed), recorded

    def _procedure(self, code: r.Code, time: int, status: str = "completed", end: int | None = None) -> Event:
        when: str | JsonObject = self._clock.text(time)
        if end is not None:
            when = {"start": when, "end": self._clock.text(end)}
        where = self._contacts.encounter(time)
        return r.procedure(self._ids.next("p"), code, status, self._mrn, where, when), time if end is None else end

    def _request(self, code: r.Code, time: int, status: str) -> Event:
        when, where = self._clock.text(time), self._contacts.encounter(time)
        return r.service_request(self._ids.next("s"), code, status, self._mrn, where, when), time

    def _background(self) -> Iterator[Event]:
        """The problem list, allergies and vaccines."""
        rng, clock, story = self._rng, self._clock, self._story
        for problem in story.problems:
            code = (problem.diagnosis.code, problem.diagnosis.text)
            yield self._condition(code, problem.onset, problem.recorded, "active", listed=True)
        for allergen in story.allergies:
            time = self._before()
            reaction = rng.pick(v.REACTIONS)
            yield r.allergy(self._ids.next("a"), allergen, reaction, self._mrn, clock.text(time)), time
        vaccinations = [(vaccine, self._before()) for vaccine in rng.shuffled(v.VACCINES)[: rng.between(0, 3)]]
        for vaccine, time in vaccinations:
            yield self._immunization(vaccine, rng.pick(_DONE), time)

    def _immunization(self, vaccine: tuple[str, str], status: str, time: int) -> Event:
        return r.immunization(self._ids.next("i"), vaccine, status, self._mrn, self._clock.text(time)), time

    def _before(self) -> int:
        """A time in office hours, before the first contact."""
        starts = [contact.start for contact in (*self._contacts.stays, *self._contacts.visits)]
        first = self._clock.days_ago(min(starts, default=self._story.until))
        return self._clock.at(first + self._rng.between(10, 2500), self._rng.between(8, 16), self._rng.between(0, 59))

    def _stay(self, contact: Contact, stay: Stay) -> Iterator[Event]:
        rng, reason = self._rng, stay.reason
        state = "active" if stay.end is None else "resolved"
        arrived = stay.start + rng.between(20, 90)
        yield self._condition((reason.code, reason.text), stay.start, arrived, state)
        cut = operation(stay)
        if reason.procedure and cut < stay.until - 2 * HOUR:
            yield self._procedure((CPT, *reason.procedure), cut)
        if "SPO2" in reason.shifts:
            yield self._procedure((CPT, "71046", "Radiologic examination, chest; 2 views"), stay.start + 75)
        yield from self._intensive(stay)
        yield from self._catheter(stay)
        yield from cultures(rng, self._clock, self._mrn, contact, self._ids)
        nursing = [code for code in _NURSING if code is not _DIET or reason.code != "K85.90"]  # nothing by mouth
        for place, code in enumerate(rng.shuffled(nursing)[: rng.between(2, 4)]):
            status = "active" if stay.end is None else "completed"
            yield self._request(code, min(stay.start + 160 + 3 * place, stay.until), status)
        if "SPO2" in stay.shifts:
            yield self._request(_OXYGEN, stay.start + 20, "active" if stay.end is None else "completed")
        services = (*v.STAY_SERVICES, *2 * v.SERVICES[reason.code])
        symptoms = (*v.STAY_SYMPTOMS, *2 * v.SYMPTOMS_OF[reason.code])
        for day in range(self._clock.days_ago(stay.start), self._clock.days_ago(stay.until) - 1, -1):
            first, last = self._clock.at(day, 7, 30), self._clock.at(day, 18, 0)
            first, last = max(first, stay.start + 2 * HOUR), min(last, stay.until - 5)
            if first < last:
                yield from self._coded(first, last, services, symptoms)

    def _intensive(self, stay: Stay) -> Iterator[Event]:
        """Central and arterial lines during intensive care, and ventilation of some patients."""
        for part in stay.segments:
            if part.kind == "ICU" and part.start < -3 * HOUR:
                ongoing = part.end is None
                end = None if ongoing else (part.end or 0) - 30
                for code in _LINES if stay.reason.code == "A41.9" else _LINES[1:]:
                    yield self._procedure(code, part.start + 25, "in-progress" if ongoing else "completed", end)
                if stay.fatal or (stay.reason.code in ("A41.9", "J18.9") and self._rng.chance(0.35)):
                    yield self._procedure(_VENTILATION, part.start + 40, "in-progress" if ongoing else "completed", end)

    def _catheter(self, stay: Stay) -> Iterator[Event]:
        """The urinary catheter of a current stay, by `Features.catheter`."""
        kind = self._story.features.catheter
        if stay.end is not None or kind == "none":
            return
        longest = -stay.start - 90
        ago = self._rng.between(3 * HOUR, 46 * HOUR) if kind == "short" else self._rng.between(50 * HOUR, longest)
        yield self._procedure(_CATHETER, -ago)
        if kind == "ordered":
            yield self._request(_REMOVAL, -self._rng.between(20, 300), "active")

    def _coded(
        self, earliest: int, latest: int, services: Sequence[tuple[str, str]], symptoms: Sequence[tuple[str, str]]
    ) -> Iterator[Event]:
        """Diagnoses and billed services of a visit or of one day of a stay."""
        rng, size = self._rng, self._profile.size
        known = [problem for problem in self._story.problems if problem.recorded < earliest]
        for _ in range(rng.between(*size.diagnoses)):
            time = rng.between(earliest, latest)
            if known and rng.chance(0.55):
                problem = rng.pick(known)
                code = (problem.diagnosis.code, problem.diagnosis.text)
                yield self._condition(code, problem.onset, time, "active")
            else:
                state = "error" if rng.chance(0.03) else "resolved"
                yield self._condition(rng.pick(symptoms), time, time, state)
        for _ in range(rng.between(*size.services)):
            service = (CPT, *rng.pick(services))
            yield self._procedure(service, rng.between(earliest, latest), rng.pick(_DONE))

    def _care(self) -> Iterator[Event]:
        """Images, electrocardiograms and vaccines of `Story.care`."""
        care = self._story.care
        for time, kind in care.images:
            yield self._procedure(_CT[kind], time)
        for ecg in care.ecgs:
            yield self._procedure(_ECG, ecg.time)
        if care.influenza is not None:
            code = (CPT, "90686", "Influenza vaccine, quadrivalent, preservative free")
            yield self._procedure(code, care.influenza)
            yield self._immunization(v.INFLUENZA, "completed", care.influenza)
        if care.covid is not None:
            if not self._clock.minute_of_day(care.covid) % 2:
                yield self._procedure((LOCAL + "procedures", "COVIDVACCINE", "COVID-19 vaccination"), care.covid)
            yield self._immunization(v.COVID, "completed", care.covid)

    def _panels(self, draw: Draw) -> Iterator[Event]:
        """The request for one panel of a blood sample, and its report."""
        panels = {"basic": c.BASIC, "count": c.COUNT, "liver": c.LIVER, "lipids": c.LIPIDS}
        drawn = [name for name, codes in panels.items() if codes[-1] in draw.results]
        if not drawn:
            return
        name = drawn[0] if len(drawn) == 1 or self._rng.chance(0.5) else drawn[1]
        code, rng, clock = (LOINC, *v.PANELS[name]), self._rng, self._clock
        earlier = max(draw.contact.start, draw.time - rng.between(15, 400))
        yield self._request(code, earlier, "completed" if draw.time < -2 * HOUR else "active")
        issued = draw.time + rng.between(112, 160)
        if issued > -1 or rng.chance(0.3):
            return
        marked = []
        for result_code in panels[name]:
            text, mark = draw.results.get(result_code, ("", "N"))
            if mark != "N":
                marked.append(f"{result_code} {text} ({mark})")
        conclusion = f"Outside the reference range: {', '.join(marked)}." if marked else "Within the reference ranges."
        times = clock.text(draw.time), clock.text(issued)
        where = draw.contact.id
        yield r.diagnostic_report(self._ids.next("d"), code, self._mrn, where, times, conclusion), issued


_TERMS = "http://terminology.hl7.org/CodeSystem/"
_CLASSES = {
    "AMB": "ambulatory",
    "EMER": "emergency",
    "IMP": "inpatient encounter",
    "ACUTE": "inpatient acute",
}
_VISITS = {
    "clinic": "Office visit",
    "draw": "Laboratory draw",
    "imaging": "CT of the abdomen",
    "warfarin": "Anticoagulation clinic",
}
_URGENT, _ELECTIVE = ("EM", "emergency"), ("EL", "elective")


def encounters(
    clock: HospitalClock, rng: SeededRandom, story: Story, contacts: Contacts
) -> Iterator[tuple[JsonObject, int]]:
    """The encounters of a patient, each with the time of its last change."""
    for contact in contacts.stays:
        if isinstance(contact.what, Stay):
            whole = _base(clock, contact, "IMP", story.person.mrn)
            yield whole | _stay(clock, rng, contact.what, story.person.age), contact.until
            for part in contact.parts:
                if isinstance(part.what, Segment):
                    kind = "EMER" if part.what.kind == "ED" else "ACUTE"
                    encounter = _base(clock, part, kind, story.person.mrn)
                    encounter["location"] = [_place(clock, part.what)]
                    yield encounter | {"partOf": r.reference("Encounter", contact.id)}, part.until
    for contact in contacts.visits:
        if isinstance(contact.what, Visit):
            yield (
                _base(clock, contact, "AMB", story.person.mrn) | {"reasonCode": [{"text": _VISITS[contact.what.kind]}]},
                contact.until,
            )


def _base(clock: HospitalClock, contact: Contact, kind: str, mrn: str) -> JsonObject:
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


def _stay(clock: HospitalClock, rng: SeededRandom, stay: Stay, age: int) -> JsonObject:
    """Admission type, reason, admission source, discharge disposition and units of a stay."""
    urgency = _ELECTIVE if stay.reason.planned else _URGENT
    source = (
        ("outp", "From outpatient department") if stay.reason.planned else ("emd", "From accident/emergency department")
    )
    hospitalization: JsonObject = {"admitSource": r.coding(_TERMS + "admit-source", *source)}
    if stay.end is not None:
        home = ("snf", "Skilled nursing facility") if age >= 60 and rng.chance(0.35) else ("home", "Home")
        leaves = ("exp", "Expired") if stay.fatal else home
        hospitalization["dischargeDisposition"] = r.coding(_TERMS + "discharge-disposition", *leaves)
    return {
        "priority": r.coding(_TERMS + "v3-ActPriority", *urgency),
        "reasonCode": [{"text": stay.reason.text}],
        "hospitalization": hospitalization,
        "location": [_place(clock, part) for part in stay.segments],
    }


def _place(clock: HospitalClock, part: Segment) -> JsonObject:
    period = {"start": clock.text(part.start)}
    if part.end is not None:
        period["end"] = clock.text(part.end)
    return {"location": r.reference("Location", f"unit-{part.ward.lower()}"), "period": period}


_UNITS = "http://unitsofmeasure.org"
_CATEGORY = "http://terminology.hl7.org/CodeSystem/medicationrequest-category"


def _doses(
    clock: HospitalClock, mrn: str, order: Order, doses: list[int], contacts: Contacts, ids: Ids
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
