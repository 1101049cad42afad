"""Units of UCUM as a factor and base units, so that amounts in different units can be compared.

The units of lengths, masses, times and amounts of substance are known, with what is derived from them. A unit that is
not known (`[iU]`, `Cel`) is a base unit of its own: it is comparable only with itself.
"""

from __future__ import annotations

import re
from collections import Counter
from fractions import Fraction
from functools import lru_cache
from typing import NamedTuple


class Unit(NamedTuple):
    """How many of the product of its base units it is. Each base unit has an exponent."""

    factor: Fraction
    bases: frozenset[tuple[str, int]]


_PREFIXES = {"": 0, "da": 1, "h": 2, "k": 3, "M": 6, "G": 9, "T": 12}
_PREFIXES |= {"d": -1, "c": -2, "m": -3, "u": -6, "n": -9, "p": -12, "f": -15}
_METRIC: dict[str, tuple[int | Fraction, str]] = {
    "m": (1, "m"),
    "s": (1, "s"),
    "g": (1, "g"),
    "K": (1, "K"),
    "A": (1, "A"),
    "cd": (1, "cd"),
    "mol": (1, "mol"),
    "L": (1, "dm3"),
    "l": (1, "dm3"),
    "Hz": (1, "/s"),
    "N": (1, "kg.m/s2"),
    "Pa": (1, "N/m2"),
    "bar": (100_000, "Pa"),
    "J": (1, "N.m"),
    "W": (1, "J/s"),
    "C": (1, "A.s"),
    "V": (1, "J/C"),
    "kat": (1, "mol/s"),
    "U": (Fraction(1, 60), "umol/s"),
    "eq": (1, "mol"),
    "cal": (Fraction("4.184"), "J"),
    "m[Hg]": (Fraction("133322"), "Pa"),
    "t": (1000, "kg"),
}
"""Units that take a prefix, each with how many of which unit it is."""
_OTHER: dict[str, tuple[int | Fraction, str]] = {
    "min": (60, "s"),
    "h": (60, "min"),
    "d": (24, "h"),
    "wk": (7, "d"),
    "a": (Fraction("365.25"), "d"),
    "mo": (Fraction(1, 12), "a"),
    "%": (Fraction(1, 100), "1"),
    "10*": (10, "1"),
    "10^": (10, "1"),
    "[ppth]": (Fraction(1, 1000), "1"),
    "[ppm]": (Fraction(1, 1_000_000), "1"),
    "[in_i]": (Fraction("2.54"), "cm"),
    "[ft_i]": (12, "[in_i]"),
    "[yd_i]": (3, "[ft_i]"),
    "[mi_i]": (5280, "[ft_i]"),
    "[lb_av]": (Fraction("453.59237"), "g"),
    "[oz_av]": (Fraction(1, 16), "[lb_av]"),
    "[gr]": (Fraction(1, 7000), "[lb_av]"),
    "[gal_us]": (231, "[in_i]3"),
    "[qt_us]": (Fraction(1, 4), "[gal_us]"),
    "[pt_us]": (Fraction(1, 2), "[qt_us]"),
    "[cup_us]": (Fraction(1, 2), "[pt_us]"),
    "[foz_us]": (Fraction(1, 8), "[cup_us]"),
    "[tbs_us]": (Fraction(1, 2), "[foz_us]"),
    "[tsp_us]": (Fraction(1, 3), "[tbs_us]"),
}
_TOKEN = re.compile(r"\{[^{}]*\}|[./()]|(?:\[[^\]]*\]|10[*^]|[^./(){}\[\]])+")
_POWER = re.compile(r"(.*?[^\d+-])([+-]?\d{1,2})")
_LONGEST = 100
"""Longer texts are units of their own."""


@lru_cache(maxsize=1024)
def unit(text: str) -> Unit:
    """A unit by its text in UCUM. If the text is not UCUM, it is a base unit of its own."""
    if len(text) <= _LONGEST:
        tokens = _TOKEN.findall(text)
        if "".join(tokens) == text:
            try:
                return _product(tokens)
            except ValueError:
                pass
    return Unit(Fraction(1), frozenset(((text, 1),)))


def comparable(left: str, right: str) -> bool:
    """Whether amounts in the two units can be compared."""
    return unit(left).bases == unit(right).bases


def _product(tokens: list[str]) -> Unit:
    factor = Fraction(1)
    bases: Counter[str] = Counter()
    sign = 1
    stack: list[int] = []
    outer = 1
    for token in tokens:
        match token:
            case ".":
                sign = outer
            case "/":
                sign = -outer
            case "(":
                stack.append(outer)
                outer = sign
            case ")":
                if not stack:
                    raise ValueError(token)
                outer = stack.pop()
            case _ if token[0] != "{":
                part, power = _powered(token)
                factor *= part.factor ** (sign * power)
                for base, exponent in part.bases:
                    bases[base] += exponent * sign * power
    return Unit(factor, frozenset((base, exponent) for base, exponent in bases.items() if exponent))


def _powered(token: str) -> tuple[Unit, int]:
    if token.isdecimal():
        return Unit(Fraction(int(token)), frozenset()), 1
    match = _POWER.fullmatch(token)
    return (_atom(match[1]), int(match[2])) if match else (_atom(token), 1)


def _atom(name: str) -> Unit:
    if name in _OTHER:
        return _scaled(*_OTHER[name])
    for prefix, exponent in _PREFIXES.items():
        metric = name.removeprefix(prefix)
        if metric in _METRIC and name == prefix + metric:
            factor, expression = _METRIC[metric]
            scale = Fraction(10) ** exponent
            if metric == expression:
                return Unit(scale, frozenset(((metric, 1),)))
            return _scaled(factor * scale, expression)
    return Unit(Fraction(1), frozenset(((name, 1),)))


def _scaled(factor: int | Fraction, expression: str) -> Unit:
    if expression == "1":
        return Unit(Fraction(factor), frozenset())
    base = unit(expression)
    return Unit(base.factor * factor, base.bases)
