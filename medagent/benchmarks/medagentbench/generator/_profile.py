"""The profile of the hospital that a data set's tasks need, from its constants."""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple

from fhir_server.synthetic import KeyTest, Profile, Size
from refsol.medagentbench.constants import Constants, Lab


class Unit(NamedTuple):
    """How to convert a test's value to a unit: `value * factor + offset`, rounded to `decimals`."""

    decimals: int
    factor: float = 1.0
    offset: float = 0.0


_UNITS: dict[str, dict[str, Unit]] = {
    "magnesium": {"mg/dL": Unit(1), "mmol/L": Unit(2, 0.4114), "mEq/L": Unit(2, 0.8229)},
    "potassium": {"mmol/L": Unit(1), "mEq/L": Unit(1)},
    "glucose": {"mg/dL": Unit(0), "mmol/L": Unit(1, 0.0555)},
    "a1c": {"%": Unit(1), "mmol/mol": Unit(0, 10.929, -23.5)},
}
"""The units that laboratories use. HbA1c in mmol/mol is the IFCC unit."""


def unit_of(test: str) -> Mapping[str, Unit]:
    """The units of a test (`magnesium`, `potassium`, `glucose`, `a1c`), the published one first."""
    return _UNITS[test]


def profile(constants: Constants, *, seed: int, patients: int, size: Size) -> Profile:
    """The profile of a hospital for these constants."""
    tests = {name: _key_test(name, getattr(constants, name)) for name in _UNITS}
    levels = [_steps(tests["magnesium"], level) for level, _ in constants.magnesium_doses]
    return Profile(
        seed=seed,
        now=constants.now,
        patients=patients,
        size=size,
        mrn_form=constants.mrn_form,
        blood_pressure_code=constants.blood_pressure_code,
        **tests,
        magnesium_levels=(levels[0], levels[1], levels[2]),
        potassium_low=_steps(tests["potassium"], constants.potassium_low),
        window=constants.look_back_hours * 60,
        a1c_interval=int((constants.now - constants.a1c_start).total_seconds()) // 60,
    )


def _key_test(name: str, lab: Lab) -> KeyTest:
    return KeyTest(lab.code, lab.unit, *_UNITS[name][lab.unit])


def _steps(test: KeyTest, level: float) -> int:
    return round(level * test.scale)
