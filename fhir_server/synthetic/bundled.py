"""The bundled hospital: 100 patients, built on first use from one seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from fhir_server.synthetic import BUNDLED, KeyTest, Profile, lines

SEED = 5229653422040951029558958551417478762731606118467204599330156390397532173808
"""The hospital's seed that `medagent data new` derives from the seed in `tasks/data/synthetic/seed.txt`."""
DIGEST = "70a6eb75dc668e2bbf130d2a6aa5c666899b7e91fb32afc8c48b0514c53a0336"
"""SHA-256 of the lines, each with its newline. Caches and the settings of runs identify the hospital by it."""
PROFILE = Profile(
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
