"""The input of a hospital: its size, its clock, the format of its MRNs, and the four tests that decide tasks.

The caller sets the thresholds and windows of its tasks here, and the hospital then contains patients for each branch of
them. A level of a `KeyTest` is an integer number of steps. One step is the last decimal that is shown, so comparing a
level with a threshold is exact.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class KeyTest:
    """A test that decides tasks. A value in the unit of `_catalog` is shown as value × `factor` + `offset`."""

    code: str
    unit: str
    decimals: int
    factor: float = 1.0
    offset: float = 0.0

    @property
    def scale(self) -> int:
        """The number of steps in one unit."""
        return int(10**self.decimals)

    def steps(self, usual: float) -> int:
        """Converts a value in the catalog's unit to steps of this test."""
        return round((usual * self.factor + self.offset) * self.scale)

    def usual(self, steps: int) -> float:
        """Converts steps of this test to a value in the catalog's unit."""
        return (steps / self.scale - self.offset) / self.factor

    def text(self, steps: int) -> str:
        """A level as shown in the chart."""
        whole, rest = divmod(steps, self.scale)
        return f"{whole}.{rest:0{self.decimals}d}" if self.decimals else str(whole)


@dataclass(frozen=True, slots=True)
class Size:
    """How much a chart contains. A pair is the minimum and the maximum.

    `span`: the length of the chart in days. `stays`: past stays, by setting. `between_visits`: days from one visit to
    the next. `rounds`, `glucose`: rounds of vital signs and glucose measurements on one day of a stay. `diagnoses`,
    `services`: codes and bills of one visit or of one day of a stay. `drugs`: drugs ordered on one day of a stay, in
    addition to the admission's drugs.
    """

    span: int
    stays: dict[str, tuple[int, int]]
    between_visits: tuple[int, int]
    rounds: int
    glucose: int
    diagnoses: tuple[int, int]
    services: tuple[int, int]
    drugs: tuple[int, int]


BUNDLED = Size(
    span=1170,
    stays={"admitted": (0, 1), "followed": (0, 2), "new": (0, 0)},
    between_visits=(120, 260),
    rounds=3,
    glucose=4,
    diagnoses=(0, 1),
    services=(0, 2),
    drugs=(4, 6),
)
"""About 68,000 resources of 100 patients."""
FULL = Size(
    span=1826,
    stays={"admitted": (6, 10), "followed": (7, 10), "new": (4, 7)},
    between_visits=(18, 50),
    rounds=11,
    glucose=7,
    diagnoses=(5, 13),
    services=(10, 20),
    drugs=(2, 5),
)
"""The size of MedAgentBench's own data: about 785,000 resources of 100 patients."""
BLOCK = 100
"""The number of patients that get their courses and features together. A larger hospital is made block by block, so
that memory does not grow with the number of patients."""


@dataclass(frozen=True, slots=True)
class HospitalProfile:
    """A hospital. `now` is in UTC, `window` and `a1c_interval` are in minutes, levels are in steps of their tests."""

    seed: int
    now: datetime
    patients: int
    size: Size
    mrn_form: str
    blood_pressure_code: str
    magnesium: KeyTest
    potassium: KeyTest
    glucose: KeyTest
    a1c: KeyTest
    magnesium_levels: tuple[int, int, int]
    """Severe is below the first level, moderate below the second, mild up to the third (included)."""
    potassium_low: int
    """A potassium below this level is low."""
    window: int
    """The maximum age of a recent magnesium or glucose."""
    a1c_interval: int
    """The age at which an HbA1c is due again."""
