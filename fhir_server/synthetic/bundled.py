"""The bundled hospital: 100 patients, built on first use from one seed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime

from fhir_server.synthetic import BUNDLED, KeyTest, Profile, lines

SEED = 53727461934388065794296458687090248118224801527759988221886819864588209771727
"""The number that `medagent data new` draws its hospital from for the seed in `tasks/data/synthetic/seed.txt`."""
DIGEST = "324fa40054df21c96478757bc1f53a7c82332b47eb752a6832f4a9dcc2553268"
"""SHA-256 of the lines, each with its newline. Names the hospital in caches and in the settings of runs."""
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
    """The lines of the bundled hospital, or of one like it from another seed: compact JSON without line ends."""
    return lines(replace(PROFILE, seed=seed))
