"""Fluid outputs, and microbiology with specimens and susceptibilities."""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.synthetic import _resources as r
from fhir_server.synthetic import _vocabulary as v
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._contacts import Contact, Contacts, Ids
from fhir_server.synthetic._observations import Reading, quantity
from fhir_server.synthetic._resources import JsonObject
from fhir_server.synthetic._stays import HOUR, Stay
from fhir_server.synthetic.seeded_random import SeededRandom

_DRAIN = ("27447", "50543", "44970")
"""CPT codes of operations that leave a drain in the patient."""
_CULTURED = 2 * DAY
"""Minutes until a culture is final."""
_LABORATORY = [r.coding("http://terminology.hl7.org/CodeSystem/observation-category", "laboratory", "Laboratory")]


def outputs(rng: SeededRandom, contact: Contact, stay: Stay) -> Iterator[Reading]:
    """Fluid outputs: urine (in intensive care every three hours), drains after operations, stool and emesis."""
    for part in stay.segments:
        if part.kind != "ICU":
            continue
        until = -1 if part.end is None else part.end
        for time in range(part.start + 100, until - 5, 3 * HOUR):
            yield _volume("URINE FOLEY", time, 5 * rng.between(12, 60), contact)
            if stay.reason.code == "K92.2" and rng.chance(0.15):
                yield _volume("STOOL", time + 4, 10 * rng.between(5, 40), contact)
    if stay.reason.procedure and stay.reason.procedure[0] in _DRAIN:
        for time in range(stay.start + 10 * HOUR, min(stay.until, stay.start + 3 * DAY), 8 * HOUR):
            yield _volume("DRAIN JP", time, 5 * rng.between(2, 24), contact)
    if stay.reason.code == "K85.90":
        for time in range(stay.start + 2 * HOUR, min(stay.until, stay.start + DAY), 7 * HOUR):
            yield _volume("EMESIS", time, 10 * rng.between(5, 40), contact)
    if not any(part.kind == "ICU" for part in stay.segments):
        for time in range(stay.start + 5 * HOUR, min(stay.until, stay.start + 3 * DAY), 6 * HOUR):
            yield _volume("URINE VOID", time, 10 * rng.between(12, 50), contact)


def _volume(code: str, time: int, volume: int, contact: Contact) -> Reading:
    return Reading(code, "final", time, quantity(str(volume), "mL"), Contacts.bedside(contact, time), "output")


def cultures(
    rng: SeededRandom, clock: HospitalClock, mrn: str, contact: Contact, ids: Ids
) -> Iterator[tuple[JsonObject, int]]:
    """The cultures of a stay, each resource with its time: specimen, susceptibilities, organism, test."""
    stay = contact.what
    if not isinstance(stay, Stay):
        return
    specimens = [(kind, stay.start + 40 + 4 * place) for place, kind in enumerate(stay.reason.specimens)]
    specimens += [
        ("MRSA SCREEN", segment.start + 30) for segment in stay.segments if segment.kind == "ICU" and rng.chance(0.6)
    ]
    for kind, time in specimens:
        if time < stay.until - HOUR:
            yield from _Culture(rng, clock, mrn, contact.id, ids).resources(kind, time, stay)


class _Culture:
    def __init__(self, rng: SeededRandom, clock: HospitalClock, mrn: str, encounter: str, ids: Ids) -> None:
        self._rng = rng
        self._clock = clock
        self._ids = ids
        self._common: JsonObject = {"subject": r.reference("Patient", mrn)}
        self._encounter: JsonObject = {"encounter": r.reference("Encounter", encounter)}

    def resources(self, kind: str, time: int, stay: Stay) -> Iterator[tuple[JsonObject, int]]:
        """One specimen, the test on it and its result."""
        rng, done = self._rng, time + _CULTURED
        specimen = self._ids.next("x")
        yield (
            {
                "resourceType": "Specimen",
                "id": specimen,
                "status": "available",
                "type": r.concept((r.SNOMED, *v.SPECIMENS[kind])),
                **self._common,
                "collection": {"collectedDateTime": self._clock.text(time)},
            },
            time,
        )
        odds = {"BLOOD CULTURE": 0.4 if stay.reason.code == "A41.9" else 0.12, "MRSA SCREEN": 0.1}.get(kind, 0.6)
        members: list[str] = []
        if done < -1 and rng.chance(odds):
            isolate, resources = self._isolate(kind, time, done)
            members = [isolate]
            yield from resources
        final = done < -1
        test = self._observation((r.LOCAL + "microbiology", kind, kind), time, min(done, -1), final=final)
        test["specimen"] = r.reference("Specimen", specimen)
        if members:
            test["valueString"] = "POSITIVE"
            test["hasMember"] = [r.reference("Observation", member) for member in members]
        else:
            test["valueString"] = "NO GROWTH" if final else "PENDING"
        yield test, min(done, -1)

    def _isolate(self, kind: str, time: int, done: int) -> tuple[str, list[tuple[JsonObject, int]]]:
        """The id of the organism's observation, and the observations of the organism and its susceptibilities."""
        rng, out = self._rng, list[tuple[JsonObject, int]]()
        grown = rng.pick(v.ORGANISMS[kind])
        for antibiotic, between, resistant in v.ANTIBIOTICS[grown[1]]:
            luck = rng.unit()
            mark, text = "S", "Susceptible"
            if luck < resistant:
                mark, text = "R", "Resistant"
            elif luck < resistant + between:
                mark, text = "I", "Intermediate"
            test = self._observation((r.LOCAL + "antibiotic", antibiotic, antibiotic), time, done)
            system = "http://terminology.hl7.org/CodeSystem/v3-ObservationInterpretation"
            test["valueCodeableConcept"] = r.coding(system, mark, text)
            out.append((test, done))
        organism = self._observation((r.SNOMED, *grown), time, done)
        organism["hasMember"] = [r.reference("Observation", test["id"]) for test, _ in out]
        return organism["id"], [*out, (organism, done)]

    def _observation(self, code: r.Code, time: int, done: int, *, final: bool = True) -> JsonObject:
        return {
            "resourceType": "Observation",
            "id": self._ids.next("o"),
            "status": "final" if final else "preliminary",
            "category": _LABORATORY,
            "code": r.concept(code),
            **self._common,
            **self._encounter,
            "effectiveDateTime": self._clock.text(time),
            "issued": self._clock.text(done),
        }
