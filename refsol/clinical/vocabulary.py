"""The table of drugs, tests and services by which an order is read: which names and codes mean the same, and which mean
something else. Its rows are in `vocabulary.toml`, with their sources. What it does not know contradicts nothing.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from importlib.resources import files
from typing import Literal

from refsol.clinical.codes import CPT, CVX, LOINC, NDC, RXNORM, SNOMED

Kind = Literal["drug", "test", "service"]
_KINDS: dict[str, Kind] = {"drugs": "drug", "tests": "test", "services": "service"}
_SYSTEMS = {"rxnorm": RXNORM, "ndc": NDC, "loinc": LOINC, "snomed": SNOMED, "cpt": CPT, "cvx": CVX, "local": ""}
_OIDS = {
    "2.16.840.1.113883.6.1": LOINC,
    "2.16.840.1.113883.6.12": CPT,
    "2.16.840.1.113883.6.69": NDC,
    "2.16.840.1.113883.6.88": RXNORM,
    "2.16.840.1.113883.6.96": SNOMED,
    "2.16.840.1.113883.12.292": CVX,
}
_TERMINOLOGY = "http://terminology.hl7.org/CodeSystem/"
_BARCODE = re.compile(r"(\d{4,5})-(\d{3,4})-(\d{1,2})")
"""An NDC with hyphens: labeler, product, package."""


@dataclass(frozen=True, slots=True)
class Entry:
    """A row of the table: its name, all names in lower case, its codes by system (empty: a local code), and the
    allergens that forbid it.
    """

    name: str
    kind: Kind
    names: frozenset[str]
    codes: frozenset[tuple[str, str]]
    family: frozenset[str] = frozenset()
    valence: int = 0
    """The equivalents in a mol of an electrolyte, by which mmol and mEq convert."""

    def __str__(self) -> str:
        return self.name


def spaced(text: str) -> str:
    """A text with single spaces, without line breaks."""
    return " ".join(text.split())


def system_of(system: object) -> str:
    """A code system by its current URL. Former URLs of HL7, OIDs, `https` and a slash at the end mean the same."""
    url = system.strip().rstrip("/") if isinstance(system, str) else ""
    url = url.replace("https://", "http://", 1)
    if url.startswith("urn:oid:"):
        return _OIDS.get(url.removeprefix("urn:oid:"), url)
    for former, prefix in (("http://hl7.org/fhir/v3/", "v3-"), ("http://hl7.org/fhir/v2/", "v2-")):
        if url.startswith(former):
            return f"{_TERMINOLOGY}{prefix}{url.removeprefix(former)}"
    if url in (NDC, CVX) or not url.startswith("http://hl7.org/fhir/") or "/sid/" in url:
        return url
    return f"{_TERMINOLOGY}{url.removeprefix('http://hl7.org/fhir/')}"


def code_of(system: str, code: object) -> str:
    """A code in the spelling in which it is compared: an NDC in 11 digits if its hyphens are known, else as written."""
    text = str(code).strip() if isinstance(code, str | int) and not isinstance(code, bool) else ""
    if system == NDC and (parts := _BARCODE.fullmatch(text)):
        return f"{parts[1]:0>5}{parts[2]:0>4}{parts[3]:0>2}"
    return text


def is_same_code(system: str, code: object, expected: str) -> bool:
    """Whether a code is the expected one, in any case. An NDC may have hyphens or not, and 11 digits."""
    text, expected = code_of(system, code).upper(), expected.upper()
    return text in (expected, code_of(system, expected)) or (system == NDC and text == expected.replace("-", ""))


@cache
def entries() -> tuple[Entry, ...]:
    """The rows of the table."""
    table = tomllib.loads(files(__package__).joinpath("vocabulary.toml").read_text(encoding="utf-8"))
    return tuple(
        Entry(
            name,
            kind,
            frozenset((name, *row["names"])),
            frozenset((_SYSTEMS[short], code) for short in _SYSTEMS for code in row.get(short, ())),
            frozenset(row.get("family", ())),
            row.get("valence", 0),
        )
        for section, kind in _KINDS.items()
        for name, row in table[section].items()
    )


@cache
def _by_code() -> dict[tuple[str, str], Entry]:
    return {(system, code_of(system, code)): entry for entry in entries() for system, code in entry.codes}


@cache
def _by_name() -> dict[str, tuple[Entry, ...]]:
    names: dict[str, tuple[Entry, ...]] = {}
    for entry in entries():
        for name in entry.names:
            names[name] = (*names.get(name, ()), entry)
    return names


@cache
def _any_name() -> re.Pattern[str]:
    longest_first = sorted(_by_name(), key=lambda name: (-len(name), name))
    return re.compile(rf"(?<![^\W_])(?:{'|'.join(map(re.escape, longest_first))})(?![^\W_])")


def entry_of(system: object, code: object) -> Entry | None:
    """The entry with a code; None if the table does not know it."""
    url = system_of(system)
    entry = _by_code().get((url, code_of(url, code)))
    if entry is None and url == NDC:
        return next((drug for drug in entries() if _has_barcode(drug, code)), None)
    return entry


def _has_barcode(entry: Entry, code: object) -> bool:
    return any(system == NDC and is_same_code(NDC, code, expected) for system, expected in entry.codes)


def named_in(text: object) -> frozenset[Entry]:
    """The entries of which a text contains a name, as a whole word in any case."""
    return frozenset(_named(text)) if isinstance(text, str) else frozenset()


def _named(text: str) -> Iterator[Entry]:
    for match in _any_name().finditer(spaced(text).lower()):
        yield from _by_name()[match[0]]
