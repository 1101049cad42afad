"""Codes, laboratory tests and drugs; the code systems; lengths of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

from refsol.json_values import is_number

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
NDC = "http://hl7.org/fhir/sid/ndc"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
CPT = "http://www.ama-assn.org/go/cpt"
CVX = "http://hl7.org/fhir/sid/cvx"
LABORATORY = "http://terminology.hl7.org/CodeSystem/observation-category|laboratory"
VITAL_SIGNS = "http://hl7.org/fhir/observation-category|vital-signs"
"""Categories of Observations, as system and code."""


@dataclass(frozen=True)
class Code:
    """A code in a code system, and its name for people."""

    code: str
    system: str = ""
    name: str = ""

    @property
    def label(self) -> str:
        """The name; the code if there is none."""
        return self.name or self.code


@dataclass(frozen=True)
class Lab(Code):
    """A laboratory test or vital sign: its code in the record, and the unit and decimals of its values.

    `category` is the category of all its Observations, if it is known: `LABORATORY`, `VITAL_SIGNS`. With `valence`,
    readings in mEq and mmol are converted (potassium 1, calcium 2), with `molar_mass` in g/mol those in mg and mmol.
    """

    unit: str = ""
    decimals: int = 1
    category: str = ""
    valence: int = 0
    molar_mass: float = 0.0

    def __post_init__(self) -> None:
        if type(self.valence) is not int or self.valence < 0:
            raise ValueError(f"c.Lab {self.label}: valence={self.valence!r} is not a whole number such as 2")
        if not is_number(self.molar_mass) or self.molar_mass < 0:
            raise ValueError(
                f"c.Lab {self.label}: molar_mass={self.molar_mass!r} is not a number of g/mol such as 180.2"
            )


@dataclass(frozen=True)
class Drug(Code):
    """A drug: the code for new orders, and the words that identify it in the text of an order in the chart, besides its
    name.
    """

    words: tuple[str, ...] = ()

    @property
    def named_by(self) -> tuple[str, ...]:
        """The words and the name, in lower case."""
        return tuple(dict.fromkeys(word.lower() for word in (*self.words, self.name) if word))


def days(number: float) -> timedelta:
    """A number of days."""
    return timedelta(days=number)


def hours(number: float) -> timedelta:
    """A number of hours."""
    return timedelta(hours=number)
