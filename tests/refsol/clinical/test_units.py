"""Amounts in other units. The expected values are written by hand, from the definitions of the units."""

from __future__ import annotations

from fractions import Fraction
from typing import Any, NamedTuple

import pytest

from refsol.clinical.codes import LOINC, Lab
from refsol.clinical.units import UCUM, UnitFault, amount_in, converted, unit_of


class Pair(NamedTuple):
    """A number in a unit, another unit, and the number in that unit. None: it cannot be converted.

    `valence` and `molar_mass` are the Lab's.
    """

    value: float
    unit: str
    to: str
    expected: str | None
    valence: int = 0
    molar_mass: float = 0.0


PAIRS = [
    # charge
    Pair(3.1, "mEq/L", "mmol/L", "3.1", valence=1),
    Pair(3.1, "mEq/L", "mmol/L", None),
    Pair(2, "mEq/L", "mmol/L", "1", valence=2),
    Pair(2, "mEq/L", "mmol/L", None),
    Pair(1.2, "mmol/L", "mEq/L", "2.4", valence=2),
    Pair(9, "mg/dL", "mEq/L", "4.5", valence=2, molar_mass=40.0),
    # mass by volume
    Pair(0.29, "g/L", "mg/dL", "29"),
    Pair(15, "mg/L", "ug/mL", "15"),
    Pair(15, "mcg/mL", "ug/mL", "15"),
    Pair(15, "mcg/mL", "mg/L", "15"),
    Pair(7.1, "g/dL", "g/L", "71"),
    Pair(1.1, "mg", "ug", "1100"),
    Pair(2, "g", "mg", "2000"),
    Pair(500, "MG", "g", "0.5"),
    Pair(250, "MG/DL", "mg/dL", "250"),
    Pair(0.8, "mg/100 mL", "mg/L", "8"),
    # counts
    Pair(7.2, "K/uL", "10*3/uL", "7.2"),
    Pair(7.2, "K/uL", "10*9/L", "7.2"),
    Pair(7.2, "K/uL", "K", None),
    Pair(4.5, "M/uL", "10*12/L", "4.5"),
    Pair(7.2, "x10^3/µL", "10*3/uL", "7.2"),
    Pair(7.2, "10³/μL", "10*3/uL", "7.2"),
    Pair(7200, "{cells}/uL", "10*3/uL", "7.2"),
    Pair(900, "cells/mm3", "/uL", "900"),
    # arbitrary units
    Pair(40, "IU/L", "[IU]/L", "40"),
    Pair(40, "IU/L", "U/L", None),
    Pair(40, "IU/L", "mg/L", None),
    Pair(2.5, "mIU/L", "u[IU]/mL", "2.5"),
    Pair(2, "MIU", "[IU]", None),
    Pair(1, "ukat/L", "U/L", "60"),
    # time, weight, pressure, temperature
    Pair(90, "min", "h", "1.5"),
    Pair(2, "hr", "min", "120"),
    Pair(72.5, "kg", "g", "72500"),
    Pair(100, "lbs", "kg", "45.359237"),
    Pair(120, "mmHg", "mm[Hg]", "120"),
    Pair(10, "kPa", "mmHg", "10000000/133322"),
    Pair(98.6, "°F", "Cel", "37"),
    Pair(40, "Cel", "[degF]", "104"),
    # amount of substance
    Pair(90, "mg/dL", "mmol/L", "4.5", molar_mass=200),
    Pair(90, "mg/dL", "mmol/L", None),
    Pair(5.5, "mmol/L", "mg/dL", "99.0858", molar_mass=180.156),
    Pair(1.2, "mg/dL", "umol/L", "12000/113.12", molar_mass=113.12),
    Pair(48, "mmol/mol", "%", None),
    Pair(290, "mOsm/kg", "mosm/kg", "290"),
    Pair(290, "mOsm/kg", "mmol/kg", None),
    # shares, and what only looks alike
    Pair(0.42, "L/L", "%", "42"),
    Pair(2, "g/24 h", "mg/d", "2000"),
    Pair(60, "mL/min/1.73m2", "mL/min/{1.73_m2}", "60"),
    Pair(60, "mL/min/1.73 m²", "mL/min", None),
    Pair(0.5, "ug/mL{FEU}", "ng/mL{FEU}", "500"),
    Pair(0.5, "ug/mL{FEU}", "ng/mL{DDU}", None),
    Pair(5, "mg", "mL", None),
    Pair(5, "mg/kg", "mg", None),
    Pair(5, "wide", "wide", "5"),
    Pair(5, "Wide", "wide", "5"),
    Pair(5, "wide", "broad", None),
]


def _number(text: str) -> Fraction:
    top, _, bottom = text.partition("/")
    return Fraction(top) / Fraction(bottom or "1")


@pytest.mark.parametrize("pair", PAIRS, ids=lambda pair: f"{pair.value} {pair.unit} in {pair.to}, {pair.valence}")
def test_converted_amounts_are_exact(pair: Pair) -> None:
    lab = Lab("1-1", LOINC, "test", unit=pair.to, valence=pair.valence, molar_mass=pair.molar_mass)
    quantity = {"value": pair.value, "unit": pair.unit}
    if pair.expected is None:
        with pytest.raises(UnitFault, match="another unit"):
            converted(quantity, lab)
    else:
        assert converted(quantity, lab).of(pair.value) == _number(pair.expected)


def ucum(code: str, unit: str | None = None, value: float = 3.1) -> dict[str, Any]:
    coded = {"value": value, "system": UCUM, "code": code}
    return coded if unit is None else {**coded, "unit": unit}


@pytest.mark.parametrize(
    ("quantity", "to", "expected"),
    [
        (ucum("mmol/L"), "mmol/L", "3.1"),
        (ucum("mmol/L", "mmol/L"), "mmol/L", "3.1"),
        (ucum("mmol/L", "a text that nobody knows"), "mmol/L", "3.1"),
        (ucum("mmol/L", "umol/mL"), "mmol/L", "3.1"),
        (ucum("10*3/uL", "K/uL"), "10*9/L", "3.1"),
        (ucum("Cel", "C"), "Cel", "3.1"),
        (ucum("mmol/L", "mg/dL"), "mmol/L", None),
        (ucum("mg/dL", "mmol/L"), "mmol/L", None),
        (ucum("mmol/L", "mEq/L"), "mmol/L", None),
        (ucum("mmol/L", "umol/L"), "mmol/L", None),
        ({"value": 3.1, "system": "http://snomed.info/sct", "code": "258813002", "unit": "mmol/L"}, "mmol/L", "3.1"),
        ({"value": 3.1, "code": "mmol/L"}, "umol/L", "3100"),
        ({"value": 3.1, "unit": " mmol / L "}, "mmol/L", "3.1"),
    ],
    ids=str,
)
def test_the_code_of_ucum_decides_and_a_text_may_not_contradict_it(
    quantity: dict[str, Any], to: str, expected: str | None
) -> None:
    amount = amount_in(quantity, to)
    assert amount == (None if expected is None else _number(expected))


@pytest.mark.parametrize("quantity", [{"value": 3.1}, {"value": 3.1, "unit": " "}, {"value": 3.1, "unit": 7}])
def test_a_reading_without_a_unit_is_no_reading_in_a_unit(quantity: dict[str, Any]) -> None:
    with pytest.raises(UnitFault, match="no unit"):
        converted(quantity, Lab("1-1", LOINC, "potassium", unit="mmol/L"))
    assert converted(quantity, Lab("1-1", LOINC, "INR", unit="{INR}")).of(3.1) == Fraction("3.1")
    assert converted(quantity, Lab("1-1", LOINC, "INR")).of(3.1) == Fraction("3.1")


def test_a_fault_shows_only_units_that_are_known() -> None:
    potassium = Lab("2823-3", LOINC, "potassium", unit="mmol/L")
    with pytest.raises(UnitFault) as known:
        converted({"value": 3.1, "unit": "mEq/L"}, potassium)
    assert str(known.value) == "another unit (mEq/L: state valence= in c.Lab)"
    with pytest.raises(UnitFault) as mass:
        converted({"value": 3.1, "unit": "mg/dL"}, potassium)
    assert str(mass.value) == "another unit (mg/dL: state molar_mass= in c.Lab)"
    with pytest.raises(UnitFault) as per_kilogram:
        converted({"value": 3.1, "unit": "mEq/kg"}, potassium)
    assert str(per_kilogram.value) == "another unit (mEq/kg, wanted mmol/L)"
    with pytest.raises(UnitFault) as text:
        converted({"value": 3.1, "unit": "Anna Smith"}, potassium)
    assert str(text.value) == "another unit (unknown, wanted mmol/L)"
    with pytest.raises(UnitFault) as both:
        converted(ucum("mmol/L", "mg/dL"), potassium)
    assert str(both.value) == "another unit (the code says mmol/L, the text mg/dL)"


def test_a_value_goes_back_into_the_unit_of_the_chart() -> None:
    there = converted({"value": 98.6, "unit": "[degF]"}, Lab("1-1", LOINC, "temperature", unit="Cel"))
    assert there.of(98.6) == 37
    assert there.back(38.5) == Fraction("101.3")
    assert not there.is_same
    assert converted({"value": 1, "unit": "mcg/mL"}, Lab("1-1", LOINC, "trough", unit="mg/L")).is_same


@pytest.mark.parametrize(
    "text", ["", "{", "}", "(", "mg//L", "mg/", "10*", "mg)", "/", "((", "mg{a", "9" * 5000, "m" * 5000]
)
def test_no_text_breaks_the_reader(text: str) -> None:
    assert unit_of(text) is None
    assert amount_in({"value": 1, "unit": text}, "mg") is None


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"valence": -1}, "valence"),
        ({"valence": 1.5}, "valence"),
        ({"valence": True}, "valence"),
        ({"molar_mass": 0.0 - 1}, "molar_mass"),
        ({"molar_mass": float("nan")}, "molar_mass"),
        ({"molar_mass": "40"}, "molar_mass"),
    ],
)
def test_a_lab_says_what_is_wrong_with_its_valence_or_mass(options: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        Lab("2823-3", LOINC, "potassium", unit="mmol/L", **options)
