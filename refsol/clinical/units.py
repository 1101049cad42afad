"""Units of amounts: UCUM's grammar with the units of medicine, the spellings that charts use, and exact conversion.

A small table of factors stands here instead of a UCUM library. Those for Python compute in floating point, so that
0.29 g/L is below 29 mg/dL, and refuse what charts write (mEq/L, mcg/mL, mmHg).

Four rules go beyond UCUM, because numbers of one dimension can have two meanings:

* `eq` is not `mol`: 2 mEq/L of calcium is 1 mmol/L, so that the conversion needs the valence of the ion.
* `mol/mol` is no share: 48 mmol/mol of HbA1c is not 4.8 %.
* Annotations that differ are different units: `ng/mL{FEU}` and `ng/mL{DDU}`.
* A rate per 1.73 m2 of body surface is not the rate of the patient.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cache, lru_cache
from typing import Any, Literal, NamedTuple

from refsol.clinical.codes import Lab
from refsol.json_values import is_number

UCUM = "http://unitsofmeasure.org"
ONE = Fraction(1)
_LONGEST = 40
"""The longest text that is read as a unit."""


class UnitFault(ValueError):
    """An amount is not in a unit that can be converted. `detail` shows nothing of the chart but a known unit."""

    def __init__(self, kind: Literal["another unit", "no unit"], detail: str = "") -> None:
        super().__init__(f"{kind} ({detail})" if detail else kind)
        self.kind = kind
        self.detail = detail


class Unit(NamedTuple):
    """A unit: an amount is `value * factor + offset` in base units.

    `dimension` lists base units with their exponents, sorted; `notes` are UCUM's annotations.
    """

    factor: Fraction
    dimension: tuple[tuple[str, int], ...] = ()
    notes: frozenset[str] = frozenset()
    offset: Fraction = Fraction(0)

    def __mul__(self, other: Unit) -> Unit:  # type: ignore[override]  # a unit is no sequence
        dimension = dict(self.dimension)
        for base, exponent in other.dimension:
            dimension[base] = dimension.get(base, 0) + exponent
        bases = tuple(sorted((base, exponent) for base, exponent in dimension.items() if exponent))
        return Unit(self.factor * other.factor, bases, self.notes | other.notes)

    @property
    def inverse(self) -> Unit:
        """1 divided by the unit. `mol` becomes `1/mol`, which does not cancel it."""
        dimension = [(_RECIPROCAL.get(base, base), exponent) for base, exponent in self.dimension]
        signed = [(base, exponent if base in _RECIPROCAL else -exponent) for base, exponent in dimension]
        return Unit(1 / self.factor, tuple(sorted(signed)), self.notes)

    def __pow__(self, exponent: int) -> Unit:
        base, power = (self.inverse if exponent < 0 else self), Unit(ONE)
        for _ in range(abs(exponent)):
            power *= base
        return power


_RECIPROCAL = {"mol": "1/mol", "1/mol": "mol"}


@dataclass(frozen=True, slots=True)
class Conversion:
    """Converts amounts from one unit to another, exactly: `value * factor + offset`."""

    factor: Fraction = ONE
    offset: Fraction = Fraction(0)

    @property
    def is_same(self) -> bool:
        """Whether no number changes."""
        return self.factor == 1 and not self.offset

    def of(self, value: float) -> Fraction:
        """A number in the other unit."""
        return exact(value) * self.factor + self.offset

    def back(self, value: float) -> Fraction:
        """A number of the other unit in the first one."""
        return (exact(value) - self.offset) / self.factor


def exact(value: float) -> Fraction:
    """A number as its decimals say: 0.29 is 29/100."""
    return Fraction(Decimal(repr(value)))


def as_float(amount: Fraction) -> float:
    """The float next to an amount; infinite if it is too large for one."""
    try:
        return float(amount)
    except OverflowError:
        return math.inf


# Units by their symbols

_PREFIXES = {"k": 3, "d": -1, "c": -2, "m": -3, "u": -6, "mc": -6, "n": -9, "p": -12, "f": -15}
"""The exponents of prefixes. Without M: `MG` means mg in charts, and `MU` may be milli or mega."""
_METRIC = tuple(_PREFIXES)


class _Row(NamedTuple):
    """A unit in the table: its names, of which the first is UCUM's, its factor, base units, and prefixes."""

    names: str
    factor: str
    dimension: tuple[tuple[str, int], ...]
    prefixes: tuple[str, ...] = ()


_TABLE = (
    _Row("1", "1", ()),
    _Row("% percent pct", "1/100", ()),
    _Row("g gm gms gram grams", "1", (("g", 1),), _METRIC),
    _Row("[lb_av] lb lbs pound pounds", "453.59237", (("g", 1),)),
    _Row("[oz_av] oz ounce ounces", "28.349523125", (("g", 1),)),
    _Row("m", "1", (("m", 1),), _METRIC),
    _Row("[in_i] in inch inches", "0.0254", (("m", 1),)),
    _Row("[ft_i] ft foot feet", "0.3048", (("m", 1),)),
    _Row("L l liter liters litre litres", "1/1000", (("m", 3),), _METRIC),
    _Row("cc cmm cumm", "1/1000000", (("m", 3),)),
    _Row("s sec secs second seconds", "1", (("s", 1),), ("m", "u", "n")),
    _Row("min mins minute minutes", "60", (("s", 1),)),
    _Row("h hr hrs hour hours", "3600", (("s", 1),)),
    _Row("d day days", "86400", (("s", 1),)),
    _Row("wk week weeks", "604800", (("s", 1),)),
    _Row("mo month months", "2629800", (("s", 1),)),
    _Row("a yr yrs year years", "31557600", (("s", 1),)),
    _Row("mol mole moles", "1", (("mol", 1),), _METRIC),
    _Row("eq equivalent equivalents", "1", (("eq", 1),), _METRIC),
    _Row("osm", "1", (("osm", 1),), _METRIC),
    _Row("U u unit units", "1/60000000", (("mol", 1), ("s", -1)), ("k", "m", "u", "mc", "n")),
    _Row("kat", "1", (("mol", 1), ("s", -1)), ("m", "u", "mc", "n")),
    _Row("[IU] [iU] IU iu", "1", (("[IU]", 1),), ("k", "m", "u", "mc", "n")),
    _Row("Pa", "1", (("Pa", 1),), ("k", "m")),
    _Row("bar", "100000", (("Pa", 1),), ("m",)),
    _Row("m[Hg] mHg", "133322", (("Pa", 1),), ("c", "m")),
    _Row("m[H2O]", "9806.65", (("Pa", 1),), ("c", "m")),
    _Row("J", "1", (("J", 1),), ("k", "m")),
    _Row("cal", "4.184", (("J", 1),), ("k",)),
    *(_Row(name, "1", ((name.split()[0], 1),)) for name in ("[1.73_m2]", "[pH] pH", "[drp]", "[HPF] HPF", "[LPF] LPF")),
    *(_Row(name, "1", ((name.split()[0], 1),)) for name in ("[CFU] CFU", "[arb'U]", "[GPL'U]", "[MPL'U]")),
)
"""`U` is an enzyme's activity, of which 1 is 1 umol/min. Charts write it for units of a drug, too."""
_SCALES = {"Cel": (ONE, Fraction("273.15")), "[degF]": (Fraction(5, 9), Fraction(45967, 180))}
"""Temperatures have an offset, and cannot be part of another unit."""
_WHOLE = {
    **dict.fromkeys(("cel", "c", "°c", "degc", "celsius"), "Cel"),
    **dict.fromkeys(("[degf]", "f", "°f", "degf", "fahrenheit"), "[degF]"),
    "bpm": "/min",
    "cmh2o": "cm[H2O]",
    "mg%": "mg/dL",
    "inr": "{INR}",
    "ratio": "{ratio}",
    "score": "{score}",
}
"""Spellings of whole units, in lower case, and what they mean in UCUM."""
_COUNTED = ("beats", "breaths", "cells", "copies")
"""Words of charts that UCUM writes as annotations: `{cells}`."""
_NOTES = {"{FEU}", "{DDU}", "{creat}", "{INR}", *(f"{{{word}}}" for word in (*_COUNTED, "ratio", "score"))}
"""The annotations that a message may show."""


@cache
def _symbols() -> dict[str, Unit]:
    """The units by their symbols, with each prefix."""
    symbols = {}
    for row in _TABLE:
        unit = Unit(Fraction(row.factor), row.dimension)
        for name in row.names.split():
            symbols[name] = unit
            for prefix in row.prefixes:
                symbols[prefix + name] = unit._replace(factor=unit.factor * Fraction(10) ** _PREFIXES[prefix])
    return symbols


@cache
def _in_capitals() -> dict[str, Unit]:
    """The units by their symbols in lower case, for charts in capitals: `MG/DL`. Where M may be milli or mega, the
    symbol is left out: `MU`, `MIU`.
    """
    return {name.lower(): unit for name, unit in _symbols().items() if name.lower() not in ("mu", "miu", "m[iu]")}


# From a text to a unit

_THOUSANDS = re.compile(r"^(?P<word>k|thou(?:sands?)?|m|mil(?:lions?)?)/(?=(?:u|mc)l$|mm3$|cu?mm$)", re.IGNORECASE)
"""`K/uL` is thousands per microlitre, no kelvin."""
_POWER = re.compile(r"(?<![\w.])[x×]?10(?:(?:\*\*|[*^e])\(?(-?\d+)\)?|\((\d+)\)|([⁰¹²³⁴⁵⁶⁷⁸⁹]+))", re.I)
_SURFACE = re.compile(r"/(?:\{1\.73_m2\}|\(?1\.73[_.*]?(?:m\^?2|m²|sqm)\)?)", re.IGNORECASE)
_WORDS = re.compile(r"(?i)(?<![a-z])(milli|micro|kilo|deci|nano)(?=gram|lit|mole|equi|sec)")
_DIGITS = str.maketrans("⁰¹²³⁴⁵⁶⁷⁸⁹", "0123456789")
_TOKEN = re.compile(
    r"10\*-?\d{1,2}(?!\d)|\d+|[/.()]|\{[^{}]*\}|(?P<symbol>(?:[A-Za-z%]|\[[^\[\]]+\])+)(?P<exponent>-?[1-9])?"
)
_NUMBERS = {str(10**exponent) for exponent in range(7)} | {str(number) for number in range(2, 100)}
"""The numbers in units, as in `mg/24.h`. A longer one may be anything, even a patient's number."""


def _plain(text: str) -> str:
    """A unit in UCUM's letters: without spaces, with `u` for micro, `/` for per, and powers as `10*3`."""
    text = re.sub(r"\bper\b", "/", text)
    text = re.sub(r"\s+", "", text).replace("µ", "u").replace("μ", "u")
    text = _WORDS.sub(lambda match: {"milli": "m", "micro": "u"}.get(match[1].lower(), match[1][0].lower()), text)
    text = _THOUSANDS.sub(lambda match: "10*3/" if match["word"][0] in "kKtT" else "10*6/", text)
    text = _POWER.sub(lambda match: f"10*{(match[1] or match[2] or match[3]).translate(_DIGITS)}", text)
    text = _SURFACE.sub("/[1.73_m2]", text)
    return re.sub(r"(?<=[a-z])\^(?=\d)", "", text.replace("²", "2").replace("³", "3"))


@lru_cache(maxsize=1024)
def unit_of(text: str) -> Unit | None:
    """The unit that a text states, in UCUM or in a spelling of charts. None if it is unknown."""
    if len(text) > _LONGEST:
        return None
    plain = _plain(text)
    plain = _WHOLE.get(plain.lower(), plain)
    if plain in _SCALES:
        factor, offset = _SCALES[plain]
        return Unit(factor, (("K", 1),), offset=offset)
    with suppress(_UnknownUnit):
        return _read(list(_tokens(plain)))
    return None


class _UnknownUnit(Exception):
    """A text is not a unit of the tables."""


_Token = str | Unit


def _tokens(text: str) -> Iterator[_Token]:
    """The operators and units of a text, from the left. Raises _UnknownUnit."""
    place = 0
    while match := _TOKEN.match(text, place):
        place = match.end()
        token = match[0]
        if token in "/.()":
            yield token
        elif token.startswith("{"):
            yield Unit(ONE, notes=frozenset({token}))
        elif token.startswith("10*"):
            yield Unit(Fraction(10) ** int(token[3:]))
        elif token in _NUMBERS:
            yield Unit(Fraction(token))
        else:
            yield _symbol(match["symbol"] or "") ** int(match["exponent"] or 1)
    if place < len(text):
        raise _UnknownUnit


def _symbol(name: str) -> Unit:
    """Raises _UnknownUnit."""
    if name.lower() in _COUNTED:
        return Unit(ONE, notes=frozenset({f"{{{name.lower()}}}"}))
    unit = _symbols().get(name) or _in_capitals().get(name.lower())
    if unit is None:
        raise _UnknownUnit
    return unit


def _read(tokens: list[_Token]) -> Unit:
    """The unit that all tokens make. Raises _UnknownUnit."""
    unit = _term(tokens)
    if tokens:
        raise _UnknownUnit
    return unit


def _term(tokens: list[_Token]) -> Unit:
    """Factors with `.` and `/`, which apply from the left, as in UCUM."""
    unit = Unit(ONE) if tokens[:1] == ["/"] else _factor(tokens)
    while tokens and tokens[0] in ("/", "."):
        operator = tokens.pop(0)
        factor = _factor(tokens)
        unit *= factor.inverse if operator == "/" else factor
    return unit


def _factor(tokens: list[_Token]) -> Unit:
    """Units without an operator between them, which belong together: `mg/24h` is `mg/(24.h)`."""
    factors = []
    while tokens and tokens[0] not in ("/", ".", ")"):
        token = tokens.pop(0)
        if isinstance(token, Unit):
            factors.append(token)
        else:
            factors.append(_term(tokens))
            if not tokens or tokens.pop(0) != ")":
                raise _UnknownUnit
    if not factors:
        raise _UnknownUnit
    unit = Unit(ONE)
    for factor in factors:
        unit *= factor
    return unit


# From one unit to another


@lru_cache(maxsize=1024)
def conversion(unit: str, to: str, valence: int = 0, molar_mass: float = 0.0) -> Conversion | None:
    """The conversion from a unit to another, of an ion with this valence and a substance with this molar mass in g/mol
    (0: not known). None if there is none.
    """
    start, end = unit_of(unit), unit_of(to)
    if start is None or end is None:
        is_same_text = start is None and end is None and unit.lower() == to.lower()
        return Conversion() if is_same_text else None
    if start.notes and end.notes and start.notes != end.notes:
        return None
    for step in _steps(valence, molar_mass):
        if (start * step).dimension == end.dimension:
            factor = start.factor * step.factor / end.factor
            return Conversion(factor, (start.offset - end.offset) / end.factor)
    return None


def _steps(valence: int, molar_mass: float) -> Iterator[Unit]:
    """What an amount may be multiplied with to get the same amount in another dimension."""
    per_mol = {"mol": ONE}
    if valence:
        per_mol["eq"] = Fraction(valence)
    if molar_mass:
        per_mol["g"] = exact(molar_mass)
    yield Unit(ONE)
    for base, number in per_mol.items():
        for dimension, other_number in per_mol.items():
            if base != dimension:
                yield Unit(other_number / number, ((base, -1), (dimension, 1)))


def stated_unit(quantity: Mapping[str, Any]) -> str:
    """The unit that a Quantity states: its code in UCUM, otherwise its text; empty if there is none.

    Raises UnitFault if both are known units, and not the same one.
    """
    text, code, system = (
        value.strip() if isinstance(value, str) else "" for value in map(quantity.get, ("unit", "code", "system"))
    )
    if not code or system not in ("", UCUM):
        return text
    if unit_of(text) is not None and unit_of(code) is not None:
        same = conversion(code, text)
        if same is None or not same.is_same:
            raise UnitFault("another unit", f"the code says {_shown(code)}, the text {_shown(text)}")
    return code if system == UCUM or not text else text


def converted(quantity: Mapping[str, Any], lab: Lab) -> Conversion:
    """The conversion of a Quantity into the unit of a laboratory test. A test without a unit takes every number.

    Raises UnitFault.
    """
    if not lab.unit:
        return Conversion()
    unit = stated_unit(quantity)
    if not unit:
        unit_of_lab = unit_of(lab.unit)
        if unit_of_lab is not None and unit_of_lab[:2] == (ONE, ()):  # an INR or a ratio has none
            return Conversion()
        raise UnitFault("no unit")
    there = conversion(unit, lab.unit, lab.valence, lab.molar_mass)
    if there is not None:
        return there
    if conversion(unit, lab.unit, valence=1) is not None:
        hint = ": state valence= in c.Lab"
    elif conversion(unit, lab.unit, lab.valence or 1, molar_mass=1.0) is not None:
        hint = ": state molar_mass= in c.Lab"
    else:
        hint = f", wanted {lab.unit}"
    raise UnitFault("another unit", f"{_shown(unit)}{hint}")


def amount_in(quantity: Mapping[str, Any], unit: str, valence: int = 0) -> Fraction | None:
    """The amount of a Quantity in a unit. None if it is not a number in a unit that can be converted."""
    value = quantity.get("value")
    if not is_number(value):
        return None
    try:
        there = conversion(stated_unit(quantity), unit, valence)
    except UnitFault:
        return None
    return None if there is None else there.of(value)


def _shown(text: str) -> str:
    """A unit in a message: as the chart writes it, if it is known and has no words of the chart."""
    unit = unit_of(text)
    return text if unit is not None and unit.notes <= _NOTES else "unknown"
