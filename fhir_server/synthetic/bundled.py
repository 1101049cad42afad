"""The bundled hospital: 100 patients, built on first use from one seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from fhir_server.synthetic import BUNDLED, HospitalProfile, KeyTest, lines

SEED = 11956429353076906703452897135186050048720988978780680462554556199209789416460
"""The hospital's seed that `medagent data new` derives from the seed in `tasks/data/synthetic/seed.txt`."""
DIGEST = "d2bd75474dadf1a0c220d4cbf5aef7cbc0de62a18a64a051ce9ed38f615759f0"
"""SHA-256 of the lines, each with its newline. Caches and the settings of runs identify the hospital by it."""
PROFILE = HospitalProfile(
    seed=SEED,
    now=datetime(2023, 11, 13, 10, 15, tzinfo=UTC),
    patients=100,
    size=BUNDLED,
    mrn_form="S#######",
    blood_pressure_code="BP",
    magnesium=KeyTest("MG", "mg/dL", 1),
    potassium=KeyTest("K", "mmol/L", 1),
    glucose=KeyTest("GLU", "mg/dL", 0),
    a1c=KeyTest("A1C", "%", 1),
    magnesium_levels=(10, 15, 19),
    potassium_low=35,
    window=24 * 60,
    a1c_interval=365 * 24 * 60,
)


def hospital(seed: int = SEED) -> Iterator[str]:
    """The bundled hospital, or one with the same profile from another seed: lines of compact JSON without line ends."""
    return lines(replace(PROFILE, seed=seed))
