"""The bundled hospitals, the newest first: each is named by the SHA-256 of its lines in caches and run settings."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from datetime import UTC, datetime

from fhir_server.synthetic import DIGEST, generate
from fhir_server.synthetic.hospital import BUNDLED, KeyTest, Profile, lines

PATIENTS = 100
SEED = 53727461934388065794296458687090248118224801527759988221886819864588209771727
"""What `medagent data new --seed synthetic@2` draws its hospital from."""


@dataclass(frozen=True, slots=True)
class Edition:
    """A bundled hospital; `lines` makes it, `digest` is the SHA-256 of the lines, each with its newline."""

    name: str
    digest: str
    lines: Callable[[], Iterator[str]]


PROFILE = Profile(
    seed=SEED,
    now=datetime(2023, 11, 13, 10, 15, tzinfo=UTC),
    patients=PATIENTS,
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
"""The second edition's hospital."""


def hospital(seed: int = SEED) -> Iterator[str]:
    """The hospital of a seed, of the second edition's kind, as lines of compact JSON without line ends."""
    return lines(replace(PROFILE, seed=seed))


EDITIONS = (
    Edition("synthetic@2", "324fa40054df21c96478757bc1f53a7c82332b47eb752a6832f4a9dcc2553268", hospital),
    Edition("synthetic@1", DIGEST, generate),
)
PRESENT = EDITIONS[0]
