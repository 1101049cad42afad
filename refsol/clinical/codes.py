"""Codes, laboratory tests and drugs; the code systems; lengths of time."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta

LOINC = "http://loinc.org"
SNOMED = "http://snomed.info/sct"
NDC = "http://hl7.org/fhir/sid/ndc"
RXNORM = "http://www.nlm.nih.gov/research/umls/rxnorm"
CPT = "http://www.ama-assn.org/go/cpt"
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

    `category` is the category of all its Observations, if it is known: `LABORATORY`, `VITAL_SIGNS`.
    """

    unit: str = ""
    decimals: int = 1
    category: str = ""


@dataclass(frozen=True)
class Drug(Code):
    """A drug: the code for new orders, and the words that identify it in the text of an order in the chart."""

    words: tuple[str, ...] = ()

    @property
    def named_by(self) -> tuple[str, ...]:
        """The words, in lower case; the drug's name if there is none."""
        return tuple(word.lower() for word in self.words or (self.name,))


def days(number: float) -> timedelta:
    """A number of days."""
    return timedelta(days=number)


def hours(number: float) -> timedelta:
    """A number of hours."""
    return timedelta(hours=number)
