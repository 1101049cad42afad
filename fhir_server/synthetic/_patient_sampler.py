"""What everything that is sampled for one patient needs."""

from __future__ import annotations

from fhir_server.synthetic._clock import HospitalClock
from fhir_server.synthetic._contacts import Contacts, Ids
from fhir_server.synthetic._profile import HospitalProfile
from fhir_server.synthetic._story import Story
from fhir_server.synthetic.seeded_random import SeededRandom


class PatientSampler:
    """Samples resources of one patient: their story and encounters, in a hospital with a clock and a profile."""

    def __init__(
        self,
        rng: SeededRandom,
        clock: HospitalClock,
        profile: HospitalProfile,
        story: Story,
        contacts: Contacts,
        ids: Ids,
    ) -> None:
        self._rng = rng
        self._clock = clock
        self._profile = profile
        self._story = story
        self._contacts = contacts
        self._ids = ids
        self._mrn = story.person.mrn
