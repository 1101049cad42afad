"""A synthetic hospital for each seed, as FHIR R4 resources. A seed gives the same bytes on every machine.

    profile  the input: number of patients, size of a chart, clock, the key tests and their levels
      → courses: the last results of the key tests and what else decides tasks, assigned by share
      → story: the person, problems, stays, visits and care with a date
      → contacts (encounters) → chart (readings), orders, notes, events (everything else)
      → observations, resources (lines of JSON)

All random numbers come from `fhir_server.synthetic.seeded_random`. `tools/clinical_rules.py` checks the rules that
every hospital must follow.
"""

from __future__ import annotations

from collections.abc import Iterator

from fhir_server.synthetic import _resources as r
from fhir_server.synthetic._bedside import outputs
from fhir_server.synthetic._chart import Chart
from fhir_server.synthetic._clock import DAY, HospitalClock
from fhir_server.synthetic._contacts import Contacts, Ids
from fhir_server.synthetic._drugs import MIXED
from fhir_server.synthetic._events import Events
from fhir_server.synthetic._observations import observation
from fhir_server.synthetic._profile import BLOCK, BUNDLED, FULL, HospitalProfile, KeyTest, Size
from fhir_server.synthetic._stays import WARDS, Stay
from fhir_server.synthetic._story import Story, stories
from fhir_server.synthetic.people import Mrns
from fhir_server.synthetic.seeded_random import SeededRandom

__all__ = ["BUNDLED", "FULL", "HospitalProfile", "KeyTest", "Size", "lines"]

_FOUNDED = -3000 * DAY
"""When the hospital's units and formulary were recorded, in minutes before now (negative)."""


def lines(profile: HospitalProfile) -> Iterator[str]:
    """The hospital as lines of compact JSON, without line ends.

    A resource refers only to resources before it, except that the members of an observation may follow it.
    """
    clock = HospitalClock(profile.now)
    rng = SeededRandom(profile.seed)
    mrns = Mrns(rng, profile.mrn_form)
    ids = Ids(rng.between(100_000, 900_000))
    stamp = clock.stored(_FOUNDED)
    for resource in _shared():
        yield r.line(resource, stamp)
    blocks = max(1, profile.patients // BLOCK)
    for block in range(blocks):
        first, after = profile.patients * block // blocks, profile.patients * (block + 1) // blocks
        block_rng = SeededRandom(profile.seed * 7919 + block)
        sampled = stories(block_rng, clock, profile, [mrns[place] for place in range(first, after)])
        for place, story in enumerate(block_rng.shuffled(sampled), first):
            yield from _patient(SeededRandom(profile.seed * 100_003 + place), clock, profile, story, ids)


def _shared() -> Iterator[r.JsonObject]:
    """Units, and the Medications of drugs that are mixed into a bag."""
    yield from (r.location(key) for key in WARDS)
    yield r.fluid()
    for drug in MIXED:
        yield r.ingredient(drug)
        yield r.mix(drug)


def _patient(
    rng: SeededRandom, clock: HospitalClock, profile: HospitalProfile, story: Story, ids: Ids
) -> Iterator[str]:
    person = story.person
    died = None if person.died is None else clock.text(person.died)
    yield r.line(r.patient(person, died), clock.stored(story.until))
    contacts = Contacts(story, ids)
    chart = Chart(rng, clock, profile, story, contacts)
    readings = chart.readings()
    for contact in contacts.stays:
        if isinstance(contact.what, Stay):
            readings += outputs(rng, contact, contact.what)
    yield from Events(rng, clock, profile, story, contacts, ids).lines(chart)
    subjects = r.compact(r.subject(person.mrn)), r.compact(r.reference("Patient", person.mrn))
    for reading in readings:
        yield observation(clock, ids.next("o"), subjects[reading.category != "lab"], reading)
