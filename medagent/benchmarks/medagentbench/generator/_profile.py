"""The constants of a `shift` set, and the profile of the hospital that a data set's tasks need, from its constants.

A shift set uses other thresholds, doses, codes, intervals, clock, ids and units than the published ones. Each value is
chosen at random from a short list of clinically plausible values. The task's context states it. Drug codes look like
NDC codes and are made up.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import NamedTuple

from fhir_server.synthetic import BUNDLED, FULL, HospitalProfile, KeyTest
from fhir_server.synthetic.seeded_random import SeededRandom
from refsol.medagentbench.constants import Constants, LabTest


class UnitConversion(NamedTuple):
    """How to convert a test's value to a unit: `value * factor + offset`, rounded to `decimals`."""

    decimals: int
    factor: float = 1.0
    offset: float = 0.0


_UNITS: dict[str, dict[str, UnitConversion]] = {
    "magnesium": {"mg/dL": UnitConversion(1), "mmol/L": UnitConversion(2, 0.4114), "mEq/L": UnitConversion(2, 0.8229)},
    "potassium": {"mmol/L": UnitConversion(1), "mEq/L": UnitConversion(1)},
    "glucose": {"mg/dL": UnitConversion(0), "mmol/L": UnitConversion(1, 0.0555)},
    "a1c": {"%": UnitConversion(1), "mmol/mol": UnitConversion(0, 10.929, -23.5)},
}
"""The units that laboratories use. HbA1c in mmol/mol is the IFCC unit."""


def profile(constants: Constants, like: str, *, seed: int, patients: int) -> HospitalProfile:
    """The profile of a hospital for these constants."""
    labs: dict[str, LabTest] = {name: getattr(constants, name) for name in _UNITS}
    tests = {name: KeyTest(lab.code, lab.unit, *_UNITS[name][lab.unit]) for name, lab in labs.items()}
    levels = [_steps(tests["magnesium"], level) for level, _ in constants.magnesium_doses]
    return HospitalProfile(
        seed=seed,
        now=constants.now,
        patients=patients,
        size=FULL if like == "full" else BUNDLED,
        mrn_form=constants.mrn_form,
        blood_pressure_code=constants.blood_pressure_code,
        **tests,
        magnesium_levels=(levels[0], levels[1], levels[2]),
        potassium_low=_steps(tests["potassium"], constants.potassium_low),
        window=constants.look_back_hours * 60,
        a1c_interval=int((constants.now - constants.a1c_start).total_seconds()) // 60,
    )


def _steps(test: KeyTest, level: float) -> int:
    return round(level * test.scale)


_MRN_FORMS = ("MR######", "@@######", "P-#######", "####-@##", "H########")
_CODES = {
    "magnesium": ("MGS", "MAG", "SMG", "MGN"),
    "potassium": ("POT", "KS", "KPL", "SK"),
    "glucose": ("CBG", "POCGLU", "BGL", "GLUC"),
    "a1c": ("HBA1C", "GHB", "HA1C", "GLYHB"),
}
_MAGNESIUM_LEVELS = ((0.8, 1.2, 1.7), (0.9, 1.3, 1.8), (1.1, 1.4, 1.7), (1.2, 1.6, 2.0), (0.9, 1.4, 1.8))
"""In mg/dL. A deficiency is severe below the first level, moderate below the second, mild up to the third."""
_MAGNESIUM_GRAMS = ((6, 4, 2), (6, 3, 2), (5, 3, 2), (8, 6, 3))
_REFERRALS = ("183545006", "306206005", "3457005")
_JOINTS = ("right knee", "left shoulder", "right hip", "left ankle", "right wrist")
_FINDINGS = ("a meniscal tear", "a rotator cuff tear", "a stress fracture", "a ligament rupture", "a loose body")


def shifted(rng: SeededRandom) -> Constants:
    """Sample the constants of a set."""
    labs = {name: LabTest(rng.pick(codes), rng.pick(tuple(_UNITS[name]))) for name, codes in _CODES.items()}
    levels = [_shown("magnesium", labs["magnesium"], level) for level in rng.pick(_MAGNESIUM_LEVELS)]
    grams = rng.pick(_MAGNESIUM_GRAMS)
    return Constants(
        now=_moment(rng),
        mrn_form=rng.pick(_MRN_FORMS),
        magnesium=labs["magnesium"],
        potassium=labs["potassium"],
        glucose=labs["glucose"],
        a1c=labs["a1c"],
        look_back_hours=rng.pick((12, 18, 36, 48)),
        blood_pressure=f"{rng.between(99, 158)}/{rng.between(51, 92)} mmHg",
        blood_pressure_code=rng.pick(("NIBP", "BPC", "BPSD")),
        referral=_referral(rng),
        referral_code=rng.pick(_REFERRALS),
        magnesium_doses=tuple(zip(levels, grams, strict=True)),
        magnesium_hours_per_gram=rng.pick((1, 2)),
        magnesium_drug=_drug_code(rng),
        potassium_low=rng.pick((3.3, 3.4, 3.6, 3.7, 3.8)),
        potassium_dose=rng.pick((5, 8, 12)),
        potassium_drug=_drug_code(rng),
        potassium_test=rng.pick(("6298-4", "39789-3", "77142-8")),
        follow_up_hour=rng.pick((5, 6, 7, 10, 11)),
        a1c_months=rng.pick((3, 6, 9, 18)),
        a1c_test=rng.pick(("17856-6", "59261-8", "41995-2")),
    )


def _shown(name: str, lab: LabTest, usual: float) -> float:
    """Convert a level from the usual unit to the lab's unit, rounded to the decimals shown."""
    unit = _UNITS[name][lab.unit]
    return round(usual * unit.factor + unit.offset, unit.decimals)


def _moment(rng: SeededRandom) -> datetime:
    """A time between 10 February and 17 November, so that birthdays of the year are before and after it."""
    day = datetime(rng.between(2014, 2030), 2, 10, tzinfo=UTC) + timedelta(days=rng.between(0, 280))
    return day + timedelta(hours=rng.between(7, 20), minutes=rng.between(0, 59))


def _drug_code(rng: SeededRandom) -> str:
    return f"{rng.between(10000, 99999)}-{rng.between(100, 999)}-{rng.between(10, 99)}"


def _referral(rng: SeededRandom) -> str:
    return (
        f"Situation: injury of the {rng.pick(_JOINTS)} {rng.between(2, 12)} days ago, Background: imaging shows "
        f"{rng.pick(_FINDINGS)}. Assessment: grade {rng.pick(('I', 'II', 'III'))}. Recommendation: request for "
        "specialist evaluation and management recommendations."
    )
